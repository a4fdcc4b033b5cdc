//! Tollgate: the defaults, and its other ways to check.

use std::time::Duration;

use tollgate::{
    Algorithm, Clock, CoarseClock, Decision, FixedWindow, LeakyBucket, Limiter, Quota, Rate, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};

use crate::contest::{Contestant, TestedLimiter};
use crate::limit::Limit;
use crate::peers::{AnyKey, Task, given};

/// Tables of ten million keys exceed the default memory budget.
const BUDGET: usize = 8 << 30;

fn quota(limit: Limit) -> TokenBucket {
    TokenBucket::new(Rate::new(1, limit.every)).burst(limit.burst.into())
}

fn limiter<K: AnyKey>(task: Task) -> Limiter<K> {
    let builder = Limiter::builder(quota(task.limit)).per().max_keys(task.keys).memory_budget(BUDGET);
    builder.build().expect("the quota is valid")
}

/// With the default clock and hash.
pub(crate) fn tollgate<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("tollgate", move || Checks { limiter: limiter(task), cost: task.cost.into() })
}

/// With ahash, as governor (ahash).
pub(crate) fn trusted<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("tollgate (ahash)", move || {
        let builder = Limiter::builder(quota(task.limit)).per().max_keys(task.keys).memory_budget(BUDGET);
        let limiter = builder.trusted_keys().build().expect("the quota is valid");
        Checks { limiter, cost: task.cost.into() }
    })
}

/// With a clock that a thread updates.
pub(crate) fn coarse<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("tollgate (coarse clock)", move || {
        let clock = CoarseClock::new(Duration::from_millis(1)).expect("a thread can be had");
        let builder = Limiter::builder(quota(task.limit)).per().max_keys(task.keys).memory_budget(BUDGET);
        let limiter = builder.clock(clock).build().expect("the quota is valid");
        Checks { limiter, cost: task.cost.into() }
    })
}

/// RateNetKey one by one.
struct Checks<K, A: Algorithm, C> {
    limiter: Limiter<K, A, 1, C>,
    cost: u64,
}

impl<K: AnyKey, A: Algorithm, C: Clock + Send + Sync> TestedLimiter<K> for Checks<K, A, C> {
    fn admit(&self, key: &K) -> bool {
        if self.cost == 1 {
            return self.limiter.check(key).is_allowed();
        }
        self.limiter.check_n(key, self.cost).is_allowed()
    }

    fn admit_all(&self, keys: &[K]) -> usize {
        let (limiter, cost) = (&self.limiter, self.cost);
        if cost == 1 {
            return keys.iter().filter(|key| limiter.check(key).is_allowed()).count();
        }
        keys.iter().filter(|key| limiter.check_n(key, cost).is_allowed()).count()
    }
}

/// With the time given.
pub(crate) fn time_given<K: AnyKey>(task: Task) -> Contestant<K> {
    given("tollgate (time given)", move || {
        let limiter = limiter(task);
        move |key: &K, now: u64| limiter.account(key).at(Timestamp::from_nanos(now)).check().is_allowed()
    })
}

/// With many keys in each call.
pub(crate) fn batches<K: AnyKey>(task: Task, size: usize) -> Contestant<K> {
    Contestant::new(&format!("tollgate (batches of {size})"), move || Batches {
        limiter: limiter(task),
        size,
    })
}

struct Batches<K> {
    limiter: Limiter<K>,
    size: usize,
}

impl<K: AnyKey> TestedLimiter<K> for Batches<K> {
    fn admit(&self, key: &K) -> bool {
        self.admit_all(std::slice::from_ref(key)) == 1
    }

    fn admit_all(&self, keys: &[K]) -> usize {
        let allowed = |keys: &[K]| self.limiter.check_many(keys).filter(Decision::is_allowed).count();
        keys.chunks(self.size).map(allowed).sum()
    }
}

/// With the first key prepared once a pass, which is checked in place of all others.
pub(crate) fn prepared<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("tollgate (prepared)", move || Prepared(limiter(task)))
}

struct Prepared<K>(Limiter<K>);

impl<K: AnyKey> TestedLimiter<K> for Prepared<K> {
    fn admit(&self, key: &K) -> bool {
        self.0.account(key).check().is_allowed()
    }

    fn admit_all(&self, keys: &[K]) -> usize {
        let Some(first) = keys.first() else { return 0 };
        let key = self.0.account(first);
        keys.iter().filter(|_| key.check().is_allowed()).count()
    }
}

/// With a lease of the first key for each thread and pass, which is used in place of all other
/// keys.
pub(crate) fn leased<K: AnyKey>(task: Task) -> Contestant<K> {
    Contestant::new("tollgate (lease)", move || Leased(limiter(task)))
}

struct Leased<K>(Limiter<K>);

impl<K: AnyKey> TestedLimiter<K> for Leased<K> {
    fn admit(&self, key: &K) -> bool {
        self.0.account(key).lease().check().is_allowed()
    }

    fn admit_all(&self, keys: &[K]) -> usize {
        let Some(first) = keys.first() else { return 0 };
        let mut lease = self.0.account(first).lease();
        keys.iter().filter(|_| lease.check().is_allowed()).count()
    }
}

/// One limit without a key.
pub(crate) fn unkeyed(limit: Limit) -> Contestant<()> {
    Contestant::new("tollgate", move || {
        let limiter = Limiter::builder(quota(limit)).build().expect("the quota is valid");
        move |_: &()| limiter.check(()).is_allowed()
    })
}

/// A billion an hour, which every algorithm supports and no run reaches.
const RATE: Rate = Rate::new(1_000_000_000, Duration::from_secs(3_600));

/// One hot key under each algorithm.
pub(crate) fn of_algorithms() -> Vec<Contestant<u64>> {
    let log = SlidingLog::new(Rate::new(100, Duration::from_nanos(500)));
    vec![
        of("token bucket", TokenBucket::new(RATE)),
        of("leaky bucket", LeakyBucket::queue(RATE).capacity(1_000_000_000)),
        of("fixed window", FixedWindow::new(RATE)),
        of("sliding window", SlidingWindow::new(RATE)),
        of("sliding log of 100", log),
    ]
}

fn of<A: Algorithm + Copy + Send + Sync + 'static>(name: &str, quota: A) -> Contestant<u64> {
    Contestant::new(&format!("tollgate: {name}"), move || {
        let limiter =
            Limiter::builder(quota).per::<u64>().max_keys(1_000).build().expect("the quota is valid");
        Checks { limiter, cost: 1 }
    })
}

/// Several limits of one hot key, and one limit: with its algorithm chosen at run time, as in
/// several limits, and at compile time.
pub(crate) fn of_several_limits() -> Vec<Contestant<u64>> {
    let (bucket, window) = (Quota::from(TokenBucket::new(RATE)), Quota::from(FixedWindow::new(RATE)));
    let alone = Contestant::new("tollgate: one limit", move || {
        let limiter = Limiter::builder(bucket).per::<u64>().max_keys(1_000).build();
        Checks { limiter: limiter.expect("the quota is valid"), cost: 1 }
    });
    vec![
        several_limits("two limits", vec![bucket; 2]),
        alone,
        of("token bucket", TokenBucket::new(RATE)),
        several_limits("two limits, bucket and window", vec![bucket, window]),
        several_limits("three limits", vec![bucket; 3]),
    ]
}

fn several_limits(name: &str, quotas: Vec<Quota>) -> Contestant<u64> {
    Contestant::new(&format!("tollgate: {name}"), move || {
        let limiter = Limiter::builder(quotas.clone()).per::<u64>().max_keys(1_000).build();
        let limiter = limiter.expect("the quotas are valid");
        move |key: &u64| limiter.check(key).is_allowed()
    })
}
