//! The *horizon* of a version: the instant up to which that version of a quota may be used.
//!
//! A rule recognizes a later version by its payloads: they must be larger than every payload that
//! this version writes. That includes a thread that was stopped inside a check and resumes long
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
//! The hot path compares the time with a copy of the horizon in its rule. The copy may lag behind.
//! The hot path writes to neither.
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

use crate::bits::Field;
use crate::sync::{AtomicU64, Ordering};
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
    fn new() -> Self {
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
            Ok(_) => needed.saturating_add(STEP).min(last),
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

    /// The number of the next version, once this one is sealed.
    pub(crate) fn next(&self) -> Option<u64> {
        self.is_sealed().then(|| self.next.load(Relaxed))
    }

    /// The start of the next version, once this one is sealed.
    pub(crate) fn end(&self) -> Option<u64> {
        self.is_sealed().then(|| self.end.load(Relaxed))
    }
}

/// A rule's copy of its horizon. It may lag behind the shared one.
#[derive(Debug)]
pub(crate) struct CachedHorizon(AtomicU64);

impl CachedHorizon {
    pub(crate) fn new(until: u64) -> Self {
        Self(AtomicU64::new(until))
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, until: u64) {
        self.0.store(until, Relaxed);
    }
}

impl Clone for CachedHorizon {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

/// The time for which a version is current, as one of its rules sees it.
#[derive(Clone, Debug)]
pub struct Term {
    /// Start of the version, on the clock of the limiter.
    since: u64,
    cached: CachedHorizon,
    /// The last nanosecond after `since` that payloads have room for.
    last: u64,
    horizon: Arc<Horizon>,
}

impl Term {
    /// A version that begins at `since` and has room for `last` nanoseconds.
    pub(crate) fn new(since: u64, last: u64) -> Self {
        let (last, horizon) = (last.min(UNTIL.max()), Horizon::new());
        Self { since, cached: CachedHorizon::new(horizon.raise(0, last)), last, horizon: Arc::new(horizon) }
    }

    /// Makes all `terms`, which begin together, also end together: they share one horizon and the
    /// earliest `last`. No other thread can use the terms yet.
    pub(crate) fn join<'t>(terms: impl Iterator<Item = &'t mut Self>) {
        let terms: Vec<&mut Self> = terms.collect();
        let first = terms.iter().min_by_key(|term| term.last);
        let Some(joint) = first.map(|term| (**term).clone()) else { return };
        for term in terms {
            *term = joint.clone();
        }
    }

    /// The earlier of `now` and the end of the version.
    pub(crate) fn before_its_end(&self, now: u64) -> u64 {
        self.horizon.end().map_or(now, |end| now.min(end))
    }

    pub(crate) fn horizon(&self) -> &Horizon {
        &self.horizon
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    #[inline]
    pub(crate) fn cached_horizon(&self) -> u64 {
        self.cached.get()
    }

    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Nanoseconds from the start of the version to `now`, if that is within the cached horizon.
    #[inline]
    pub(crate) fn quick_elapsed(&self, now: u64) -> Option<u64> {
        let time = now.wrapping_sub(self.since);
        (time <= self.cached.get()).then_some(time)
    }

    /// The same for any `now`: 0 before the start of the version, and at most the horizon, which
    /// this raises where it can.
    #[cold]
    #[inline(never)]
    pub(crate) fn elapsed(&self, now: u64) -> u64 {
        let time = now.saturating_sub(self.since).min(self.last);
        time.min(self.extend(time))
    }

    /// Raises the horizon to at least `time`, unless it is sealed. Returns the horizon.
    pub(crate) fn extend(&self, time: u64) -> u64 {
        let until = self.horizon.raise(time, self.last);
        self.cached.set(until);
        until
    }
}
