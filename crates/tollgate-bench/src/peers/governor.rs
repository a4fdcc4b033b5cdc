//! governor 0.10.4: GCRA in a `DashMap`, with the default clock (quanta) or the time given, and the
//! default hasher or ahash. ahash is its fastest form, with which targets and charts compare.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ahash::RandomState;
use governor::clock::{Clock, DefaultClock, QuantaUpkeepClock};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::contest::{Contestant, TestedLimiter};
use crate::limit::Limit;
use crate::peers::{AnyKey, Task, given};

/// The name of the fastest form in tables.
pub(crate) const FASTEST: &str = "governor (ahash)";

/// As in its first example.
pub(crate) fn keyed<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("governor", move || Checks {
        limiter: RateLimiter::dashmap(quota(task.limit)),
        cost: number(task.cost),
    })
}

/// With the hasher of Tollgate's `trusted_keys`.
pub(crate) fn keyed_by_ahash<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new(FASTEST, move || {
        let limiter = RateLimiter::dashmap_with_hasher(quota(task.limit), RandomState::new());
        Checks { limiter, cost: number(task.cost) }
    })
}

/// With a clock that a thread updates, and ahash.
pub(crate) fn coarse<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("governor (ahash, coarse clock)", move || {
        let clock = QuantaUpkeepClock::from_interval(Duration::from_millis(1)).expect("a thread can be had");
        let limiter =
            RateLimiter::dashmap_with_clock_and_hasher(quota(task.limit), clock, RandomState::new());
        move |key: &K| limiter.check_key(key).is_ok()
    })
}

/// With the time given, and the default hasher.
pub(crate) fn time_given<K: AnyKey>(task: Task) -> Contestant<K> {
    given("governor (time given)", move || at_given_time(task, std::hash::RandomState::new()))
}

/// With the time given, and ahash.
pub(crate) fn time_given_by_ahash<K: AnyKey>(task: Task) -> Contestant<K> {
    given("governor (ahash, time given)", move || at_given_time(task, RandomState::new()))
}

/// governor asks its clock for the time, so the clock is set before each check.
fn at_given_time<K: AnyKey, S>(task: Task, hasher: S) -> impl Fn(&K, u64) -> bool + Send + Sync
where
    S: BuildHasher + Default + Clone + Send + Sync,
{
    let clock = GivenClock::default();
    let limiter = RateLimiter::dashmap_with_clock_and_hasher(quota(task.limit), clock.clone(), hasher);
    let cost = number(task.cost);
    move |key: &K, now: u64| {
        clock.0.store(now, Relaxed);
        if cost.get() == 1 {
            return limiter.check_key(key).is_ok();
        }
        limiter.check_key_n(key, cost).is_ok_and(|answer| answer.is_ok())
    }
}

/// A clock that is set by a plain store. `FakeRelativeClock` takes a compare-exchange.
#[derive(Clone, Default)]
struct GivenClock(Arc<AtomicU64>);

impl Clock for GivenClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.load(Relaxed).into()
    }
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
