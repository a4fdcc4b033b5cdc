//! governor 0.10.4: GCRA in a `DashMap`, with the default clock (quanta), and the default hasher or
//! ahash.

use std::hash::BuildHasher;
use std::num::NonZeroU32;

use ahash::RandomState;
use governor::clock::DefaultClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::contest::{Contestant, TestedLimiter};
use crate::limit::Limit;
use crate::peers::{AnyKey, Task};

/// As in its first example.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("governor", move || Checks {
        limiter: RateLimiter::dashmap(quota(task.limit)),
        cost: number(task.cost),
    })
}

/// With the hasher of Tollgate's `trusted_keys`.
pub(crate) fn keyed_by_ahash<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("governor (ahash)", move || {
        let limiter = RateLimiter::dashmap_with_hasher(quota(task.limit), RandomState::new());
        Checks { limiter, cost: number(task.cost) }
    })
}

/// One limit without a key.
pub(crate) fn unkeyed(limit: Limit) -> Contestant<()> {
    Contestant::new("governor", move || {
        let limiter = RateLimiter::direct(quota(limit));
        move |_: &()| limiter.check().is_ok()
    })
}

type Keyed<K, S> = RateLimiter<K, DashMapStateStore<K, S>, DefaultClock, NoOpMiddleware>;

/// RateNetKey for as many units as a check costs.
struct Checks<K: AnyKey, S: BuildHasher + Clone> {
    limiter: Keyed<K, S>,
    cost: NonZeroU32,
}

impl<K: AnyKey, S: BuildHasher + Clone + Send + Sync> TestedLimiter<K> for Checks<K, S> {
    fn admit(&self, key: &K) -> bool {
        if self.cost.get() == 1 {
            return self.limiter.check_key(key).is_ok();
        }
        self.limiter.check_key_n(key, self.cost).is_ok_and(|answer| answer.is_ok())
    }

    fn admit_all(&self, keys: &[K]) -> usize {
        let (limiter, cost) = (&self.limiter, self.cost);
        if cost.get() == 1 {
            return keys.iter().filter(|key| limiter.check_key(key).is_ok()).count();
        }
        keys.iter().filter(|key| limiter.check_key_n(key, cost).is_ok_and(|answer| answer.is_ok())).count()
    }
}

fn quota(limit: Limit) -> Quota {
    Quota::with_period(limit.every).expect("not zero").allow_burst(number(limit.burst))
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}
