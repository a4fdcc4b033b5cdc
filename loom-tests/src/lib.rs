//! What the loom models share: a table of four buckets with two slots each, keys whose names are
//! chosen, and a clock that a thread of the model moves.
//!
//! The engine is the production code. Under `--cfg loom` its atomics are loom's, a bucket has two
//! slots in place of fifteen, and nothing else changes.
#![cfg(loom)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate::{Algorithm, Key, KeyHasher, Limiter, ManualClock, Timestamp, WhenFull};

/// A key that names itself: all of a model's keys share the first bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named(u64);

impl Named {
    /// The `n`th key.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        // The lowest two bits pick the bucket, so names differ above them.
        Self((n + 1) << 2)
    }
}

impl Key for Named {
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        self.0
    }
}

/// Three keys.
pub const X: Named = Named::new(0);
/// Another.
pub const Y: Named = Named::new(1);
/// And a third.
pub const Z: Named = Named::new(2);

/// A limiter that threads of a model share.
pub type Shared<A> = Arc<Limiter<Named, A, 1, ManualClock>>;

/// A limiter of two slots a bucket.
pub fn limiter<A: Algorithm>(quota: A, when_full: WhenFull) -> (Shared<A>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).per().max_keys(1).when_full(when_full).clock(clock.clone());
    (Arc::new(builder.build().expect("the model's quota is valid")), clock)
}

/// The same, with memory for as many buckets again. A third key in a bucket splits it: [`X`] and
/// [`Z`] move, [`Y`] stays.
pub fn growing<A: Algorithm>(quota: A) -> (Shared<A>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).per().max_keys(6).when_full(WhenFull::Deny).clock(clock.clone());
    (Arc::new(builder.build().expect("the model's quota is valid")), clock)
}

/// A thread of a model.
pub type Run = Box<dyn FnOnce() -> u64 + Send>;

/// Asks for each of `asks` in turn, and adds up what `counted` was admitted.
pub fn take<A: Algorithm>(limiter: &Shared<A>, asks: &'static [(Named, u64)], counted: Named) -> Run {
    let limiter = limiter.clone();
    let admitted = move |&(key, cost): &(Named, u64)| {
        let allowed = limiter.check_n(&key, cost).is_allowed();
        if allowed && key == counted { cost } else { 0 }
    };
    Box::new(move || asks.iter().map(admitted).sum())
}

/// Asks for `cost`, gives it back when it was admitted, and says how much of it stays taken.
pub fn take_and_return<A: Algorithm>(limiter: &Shared<A>, key: Named, cost: u64) -> Run {
    let limiter = limiter.clone();
    Box::new(move || {
        let decision = limiter.check_n(&key, cost);
        if decision.is_allowed() { cost - limiter.refund(decision) } else { 0 }
    })
}

/// Moves the clock to each of `seconds` in turn.
pub fn tick(clock: &ManualClock, seconds: &'static [u64]) -> Run {
    let clock = clock.clone();
    Box::new(move || {
        seconds.iter().for_each(|&second| clock.set(at(second)));
        0
    })
}

/// The time `seconds` after the clock's zero.
#[must_use]
pub fn at(seconds: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_secs(seconds)
}

/// Explores the model with at most `preemptions` involuntary switches on a path; all of them when
/// `None`.
///
/// `LOOM_MORE_PREEMPTIONS` is added to that bound. What that asks for can take days: such a run of
/// a model ends after `LOOM_MAX_SECONDS`, and says so.
pub fn explore(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let number = |name| std::env::var(name).ok().map(|number| number.parse().expect("a whole number"));
    let bound = preemptions.map(|bound| bound + number("LOOM_MORE_PREEMPTIONS").unwrap_or(0));
    let longest = number("LOOM_MAX_SECONDS").map(|seconds| Duration::from_secs(seconds as u64));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_branches = 3_000;
    builder.max_duration = longest;
    let begun = Instant::now();
    builder.check(model);
    if longest.is_some_and(|longest| begun.elapsed() >= longest) {
        let most = bound.map_or("any number of".to_owned(), |bound| format!("at most {bound}"));
        println!("stopped after {:?}, with paths of {most} preemptions left", begun.elapsed());
    }
}

/// Runs `each` of the threads to its end and adds up what they admitted.
pub fn admitted<const N: usize>(each: [Run; N]) -> u64 {
    let mut each = each.map(Some);
    let first = each[0].take().expect("a model has a thread");
    let others: Vec<_> =
        each.iter_mut().filter_map(Option::take).map(|run| loom::thread::spawn(run)).collect();
    first()
        + others.into_iter().map(|thread| thread.join().expect("no thread of a model panics")).sum::<u64>()
}
