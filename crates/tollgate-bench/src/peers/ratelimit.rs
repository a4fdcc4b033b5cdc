//! ratelimit 2.0.0: one token bucket without keys, by `try_wait`.

use ratelimit::Ratelimiter;

use crate::contest::Contestant;
use crate::limit::Limit;

/// One limit without a key, full at first.
pub(crate) fn unkeyed(limit: Limit) -> Contestant<()> {
    Contestant::new("ratelimit", move || {
        let burst = limit.burst.into();
        let builder = Ratelimiter::builder(1).period(limit.every).max_tokens(burst).initial_available(burst);
        let limiter = builder.build().expect("the burst is not zero");
        move |_: &()| limiter.try_wait().is_ok()
    })
}
