//! leaky-bucket 1.1.2: one token bucket without keys, by `try_acquire`, because `acquire` waits.

use leaky_bucket::RateLimiter;

use crate::contest::Contestant;
use crate::limit::Limit;

/// One limit without a key, full at first.
pub(crate) fn unkeyed(limit: Limit) -> Contestant<()> {
    Contestant::new("leaky-bucket", move || {
        let burst = limit.burst as usize;
        let limiter =
            RateLimiter::builder().max(burst).initial(burst).interval(limit.every).refill(1).build();
        move |_: &()| limiter.try_acquire(1)
    })
}
