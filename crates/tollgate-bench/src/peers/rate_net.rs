//! rate-net 2.1.0: a sharded, bounded store, with a capacity of the number of keys, as its
//! documentation requires. Strings are checked by `check_bytes`, which it advises for hot paths.

use std::time::Duration;

use rate_net::{Algorithm, CoarseClock, Eviction, RateLimiter};

use crate::contest::Contestant;
use crate::limit::Limit;
use crate::peers::{AnyKey, Task};

/// The default algorithm and clock.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("rate-net", move || {
        let limiter = builder(task.limit).eviction(Eviction::capacity(task.keys)).try_build();
        let limiter = limiter.expect("the quota is valid");
        move |key: &K| key.check(&limiter, task.cost).is_allow()
    })
}

/// With a clock that a thread updates.
pub(crate) fn coarse(task: Task) -> Contestant<u64> {
    Contestant::new("rate-net (coarse clock)", move || {
        let clock = CoarseClock::spawn(Duration::from_millis(1)).expect("a thread can be had");
        let limiter = builder(task.limit).clock(clock).eviction(Eviction::capacity(task.keys)).try_build();
        let limiter = limiter.expect("the quota is valid");
        move |key: &u64| limiter.check(*key).is_allow()
    })
}

/// One limit without a key.
pub(crate) fn unkeyed(limit: Limit) -> Contestant<()> {
    Contestant::new("rate-net", move || {
        let limiter = builder(limit).try_build_direct().expect("the quota is valid");
        move |_: &()| limiter.check().is_allow()
    })
}

/// Its five algorithms under the same limits as Tollgate's.
pub(crate) fn of_algorithms() -> Vec<Contestant<u64>> {
    let of = |name: &str, algorithm: Algorithm, limit: u32, period: Duration| {
        Contestant::new(&format!("rate-net: {name}"), move || {
            let builder = RateLimiter::builder().algorithm(algorithm).quota(limit, period).burst(limit);
            let limiter = builder.try_build().expect("the quota is valid");
            move |key: &u64| limiter.check(*key).is_allow()
        })
    };
    let (count, hour) = (1_000_000_000, Duration::from_secs(3_600));
    vec![
        of("token bucket", Algorithm::TokenBucket, count, hour),
        of("leaky bucket", Algorithm::LeakyBucket, count, hour),
        of("fixed window", Algorithm::FixedWindow, count, hour),
        of("sliding window", Algorithm::SlidingWindowCounter, count, hour),
        of("sliding log of 100", Algorithm::SlidingWindowLog, 100, Duration::from_nanos(500)),
    ]
}

fn builder(limit: Limit) -> rate_net::Builder {
    RateLimiter::builder().quota(1, limit.every).burst(limit.burst)
}
