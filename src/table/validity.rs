//! The *horizon* of a version: the instant up to which that version of a quota may be used.
//!
//! A later version is recognized by its payloads: they must be larger than every payload that this
//! version writes. That includes a thread that was stopped inside a check and resumes long
//! after the change. So the clock of a version stands still at its horizon, and a thread that needs
//! later times raises the horizon first. A change *seals* the horizon at the value on which it
//! built the new version. A sealed horizon cannot be raised: a thread that needs later times uses
//! the new version.
//!
//! ```text
//!             raise                 seal
//!   open(t) ---------> open(later) ------> sealed(later): the next version's payloads are larger
//! ```
//!
//! The hot path compares the time with a copy of the horizon beside its rule. The copy may lag
//! behind. A check whose time is beyond the copy raises the horizon, about once a second: so the
//! checks after it are fast again, also where all of them are refusals. What only reads the words
//! (a peek, a save, a refund's look at the time) does without: see
//! [`elapsed_unraised`](Validity::elapsed_unraised).
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | E1 | `seal` | `is_sealed` | the number of the next version, installed before; its start |
//!
//! All else is Relaxed. That some thread raised the horizon to a value before the seal is a fact
//! about the value, and does not depend on which thread has seen it. A thread that reads a payload
//! beyond its known horizon reads it through an edge of the word, from a thread that raised the
//! horizon first.

use std::sync::Arc;

use crate::algorithm::{Past, Rule, WithPast};
use crate::bits::Field;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;
use Ordering::{Acquire, Relaxed, Release};

/// A thread raises the horizon this many nanoseconds beyond the time that it needs. So a thread
/// raises it about once in this time, and each change takes this much of the ten years of the
/// clock.
pub(crate) const STEP: u64 = 1 << 30;

const UNTIL: Field = Field::lowest(63);
const SEALED: Field = UNTIL.above(1);
const _: () = assert!(SEALED.end() == u64::BITS, "the fields must fill the word");

/// The horizon of one version. The rules of its tiers share it, and so do several limits that are
/// decided together.
#[derive(Debug)]
pub(crate) struct Horizon {
    word: AtomicU64,
    /// Once sealed: the number of the next version.
    next: AtomicU64,
    /// Once sealed: the start of the next version on the clock of the limiter.
    end: AtomicU64,
}

impl Horizon {
    /// No horizon is further from the start of its version.
    pub(crate) const MOST: u64 = UNTIL.max();

    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), next: AtomicU64::new(0), end: AtomicU64::new(0) }
    }

    /// Nanoseconds from the start of the version to the horizon. Final once sealed.
    pub(crate) fn until(&self) -> u64 {
        UNTIL.get(self.word.load(Relaxed))
    }

    /// open -> open: raises the horizon to at least `needed`, unless it is sealed. Returns the
    /// horizon.
    fn raise(&self, needed: u64, last: u64) -> u64 {
        let raised = |seen| {
            let stays = SEALED.get(seen) == 1 || UNTIL.get(seen) >= needed;
            (!stays).then(|| UNTIL.of(needed.saturating_add(STEP).min(last)))
        };
        match self.word.fetch_update(Relaxed, Relaxed, raised) {
            // Raised.
            Ok(_) => needed.saturating_add(STEP).min(last),
            // Another thread has raised it far enough, or sealed it.
            Err(seen) => UNTIL.get(seen),
        }
    }

    /// open -> sealed, at `until`. The caller has installed version `next`, which begins at `end`.
    /// `false`: another thread raised the horizon meanwhile.
    pub(crate) fn seal(&self, until: u64, next: u64, end: u64) -> bool {
        self.next.store(next, Relaxed);
        self.end.store(end, Relaxed);
        let sealed = UNTIL.of(until) | SEALED.of(1);
        self.word.compare_exchange(UNTIL.of(until), sealed, Release, Relaxed).is_ok() // E1
    }

    fn is_sealed(&self) -> bool {
        SEALED.get(self.word.load(Acquire)) == 1 // E1
    }

    /// The earlier of `time` and the horizon, if that is sealed.
    fn clamp(&self, time: u64) -> u64 {
        let word = self.word.load(Relaxed);
        if SEALED.get(word) == 1 { time.min(UNTIL.get(word)) } else { time }
    }

    /// The number of the next version, once this one is sealed.
    pub(crate) fn next(&self) -> Option<u64> {
        self.is_sealed().then(|| self.next.load(Relaxed))
    }

    /// The start of the next version, once this one is sealed.
    pub(crate) fn end(&self) -> Option<u64> {
        self.is_sealed().then(|| self.end.load(Relaxed))
    }
}

/// The time for which one rule of a version is current, and the versions before it.
#[derive(Debug)]
pub(crate) struct Validity {
    /// Start of the version, on the clock of the limiter.
    since: u64,
    /// The last nanosecond after `since` that the payloads of all rules of the version have room
    /// for.
    last: u64,
    /// A copy of the horizon.
    cached: AtomicU64,
    /// Before this instant the rule's [`early`](crate::algorithm::Ranged::early) reads the time: 0,
    /// or one more than the copy of the horizon.
    early: AtomicU64,
    is_early: bool,
    /// `None`: payloads mean the same under every quota that this one can change to, so a thread
    /// that still uses this version does no harm.
    horizon: Option<Arc<Horizon>>,
    past: Option<Arc<Past>>,
}

impl Validity {
    /// Without a horizon, from the clock's zero on. `last`: the last nanosecond that payloads have
    /// room for.
    #[inline]
    pub(crate) fn endless(last: u64) -> Self {
        let (cached, early) = (AtomicU64::new(last), AtomicU64::new(last.saturating_add(1)));
        Self { since: 0, last, cached, early, is_early: true, horizon: None, past: None }
    }

    /// The validities of the rules of a version that begins at `since`. They also end together:
    /// they share one horizon, so that one compare-exchange seals it, and the earliest last
    /// nanosecond.
    pub(crate) fn all<R: Rule>(rules: Vec<WithPast<R>>, since: u64) -> Vec<(R, Self)> {
        let last = rules.iter().filter(|(rule, _)| rule.is_ranged()).map(|(rule, _)| rule.last()).min();
        let Some(last) = last else {
            return rules.into_iter().map(|(rule, _)| (rule, Self::endless(rule.last()))).collect();
        };
        let (last, horizon) = (last.min(UNTIL.max()), Arc::new(Horizon::new()));
        let until = horizon.raise(0, last);
        let validity = |(rule, past): WithPast<R>| {
            if !rule.is_ranged() {
                return (rule, Self::endless(rule.last()));
            }
            let (cached, early) = (AtomicU64::new(until), AtomicU64::new(0));
            let (is_early, horizon) = (rule.is_early(), Some(horizon.clone()));
            let validity = Self { since, last, cached, early, is_early, horizon, past };
            validity.cache(until);
            (rule, validity)
        };
        rules.into_iter().map(validity).collect()
    }

    /// The validity of a first version's only rule.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn of_first(rule: &impl Rule) -> Self {
        let validity = Self::all(vec![(*rule, None)], 0).remove(0).1;
        validity.extend(1);
        validity
    }

    pub(crate) fn horizon(&self) -> Option<&Horizon> {
        self.horizon.as_deref()
    }

    /// The version before.
    pub(crate) fn past(&self) -> Option<&Arc<Past>> {
        self.past.as_ref()
    }

    /// Nanoseconds from the start of the version to its horizon. Final once sealed.
    pub(crate) fn until(&self) -> u64 {
        self.horizon().map_or(u64::MAX, Horizon::until)
    }

    /// The last nanosecond after the start of the version that payloads have room for.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The earlier of `now` and the end of the version.
    pub(crate) fn before_its_end(&self, now: u64) -> u64 {
        self.horizon().and_then(Horizon::end).map_or(now, |end| now.min(end))
    }

    /// The first nanosecond after the horizon, on the clock of the limiter.
    pub(crate) fn beyond_its_horizon(&self) -> u64 {
        self.since.saturating_add(self.until()).saturating_add(1)
    }

    /// Whether the rule's `early` reads this time.
    #[inline]
    pub(super) fn is_early(&self, now: u64) -> bool {
        now < self.early.load(Relaxed)
    }

    /// Nanoseconds from the start of the version to `now`, if that is within the cached horizon.
    #[inline]
    pub(super) fn quick_elapsed(&self, now: u64) -> Option<u64> {
        let time = now.wrapping_sub(self.since);
        (time <= self.cached.load(Relaxed)).then_some(time)
    }

    /// The same for any `now`: 0 before the start of the version, and at most the horizon, which
    /// this raises where it can.
    pub(super) fn elapsed(&self, now: u64) -> u64 {
        let time = self.time(now);
        time.min(self.extend(time))
    }

    /// The same for a reader of words, and nothing is raised: a horizon that is not sealed could
    /// be. The reader looks afterwards whether the version is still current.
    pub(super) fn elapsed_unraised(&self, now: u64) -> u64 {
        let time = self.time(now);
        self.horizon().map_or(time, |horizon| horizon.clamp(time))
    }

    /// The time at which the version decides at `now`: `now`, unless the version has ended.
    pub(crate) fn within(&self, now: Timestamp) -> Timestamp {
        match self.quick_elapsed(now.as_nanos()) {
            Some(_) => now,
            // A time before the version began stays: waits are counted from it.
            None => now.min(Timestamp::from_nanos(self.since + self.elapsed_unraised(now.as_nanos()))),
        }
    }

    fn time(&self, now: u64) -> u64 {
        now.saturating_sub(self.since).min(self.last)
    }

    /// Raises the horizon to at least `time`, unless it is sealed. Returns the horizon.
    pub(crate) fn extend(&self, time: u64) -> u64 {
        let Some(horizon) = self.horizon() else { return u64::MAX };
        let until = horizon.raise(time, self.last);
        self.cache(until);
        until
    }

    /// Raises the horizon so that the version lasts for `needed` nanoseconds. `false`: it ends
    /// before that.
    pub(super) fn lasts(&self, needed: u64) -> bool {
        let lasts = || needed <= self.last && needed <= self.extend(needed);
        needed <= self.cached.load(Relaxed) || self.horizon.is_none() || lasts()
    }

    fn cache(&self, until: u64) {
        // A late thread does not lower it again.
        self.cached.fetch_max(until, Relaxed);
        if self.is_early {
            self.early.fetch_max(until.saturating_add(1), Relaxed);
        }
    }
}
