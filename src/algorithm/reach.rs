//! How late a version of a limiter's quota may be used: its *reach*.
//!
//! A later version is told from this one by its payloads, which must be larger than any that this one writes, even by a
//! thread that was stopped in the middle of a check and goes on long after the change. So a version's clock stands still
//! at its reach, and whoever needs it to go on raises the reach first. A change *seals* the reach at the very value that
//! the new version was built on: from then on it cannot be raised, and whoever has to goes to the new version.
//!
//! ```text
//!             raise                 seal
//!   open(t) ---------> open(later) ------> sealed(later): the next version's payloads are larger
//! ```
//!
//! The hot path compares the time with its rule's own copy of the reach, which may lag behind it, and writes to neither.
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | E1 | `seal` | `is_sealed` | the number of the next version, and that it is in its place; when it began |
//!
//! All else is Relaxed. That somebody *had* raised the reach to what it or a copy says, before the seal, is a fact about
//! values and not about who has seen what; and who reads a payload beyond the reach that it knows has it, by an edge of the
//! payload's word, from one who had raised the reach before.

use std::sync::Arc;

use crate::bits::Field;
use crate::sync::{AtomicU64, Ordering};
use Ordering::{Acquire, Relaxed, Release};

/// Nanoseconds by which the reach goes ahead of those who raise it: so often somebody has to, and so much of the clock's
/// ten years each change takes.
pub(crate) const STEP: u64 = 1 << 30;

const UNTIL: Field = Field::lowest(63);
const SEALED: Field = UNTIL.above(1);
const _: () = assert!(SEALED.end() == u64::BITS, "the fields must fill the word");

/// The reach of one version, shared by the rules of its tiers, and of several limits that are decided together.
#[derive(Debug)]
pub(crate) struct Reach {
    word: AtomicU64,
    /// Once sealed: the number of the version that follows.
    next: AtomicU64,
    /// Once sealed: when the version that follows began, on the limiter's clock.
    end: AtomicU64,
}

impl Reach {
    fn new() -> Self {
        Self { word: AtomicU64::new(0), next: AtomicU64::new(0), end: AtomicU64::new(0) }
    }

    /// How far it goes, in nanoseconds since the version began: from the seal on, for good.
    pub(crate) fn until(&self) -> u64 {
        UNTIL.get(self.word.load(Relaxed))
    }

    /// open -> open: sees to it that it goes to `needed`, unless it is sealed, and says how far it goes.
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

    /// open -> sealed, at `until`: version `next`, which is in its place and begins at `end`, follows. `false` when it was
    /// raised meanwhile.
    pub(crate) fn seal(&self, until: u64, next: u64, end: u64) -> bool {
        self.next.store(next, Relaxed);
        self.end.store(end, Relaxed);
        let sealed = UNTIL.of(until) | SEALED.of(1);
        self.word.compare_exchange(UNTIL.of(until), sealed, Release, Relaxed).is_ok() // E1
    }

    fn is_sealed(&self) -> bool {
        SEALED.get(self.word.load(Acquire)) == 1 // E1
    }

    /// The number of the version that follows, once this one is sealed.
    pub(crate) fn next(&self) -> Option<u64> {
        self.is_sealed().then(|| self.next.load(Relaxed))
    }

    /// When the version that follows began, once this one is sealed.
    pub(crate) fn end(&self) -> Option<u64> {
        self.is_sealed().then(|| self.end.load(Relaxed))
    }
}

/// One rule's copy of how far a reach goes.
#[derive(Debug)]
pub(crate) struct Near(AtomicU64);

impl Near {
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

impl Clone for Near {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

/// The time for which a version is in force, as one of its rules sees it.
#[derive(Clone, Debug)]
pub struct Term {
    /// When it began, on the limiter's clock.
    since: u64,
    near: Near,
    /// The last nanosecond after `since` that its payloads have room for.
    last: u64,
    reach: Arc<Reach>,
}

impl Term {
    /// A version that begins at `since` and has room for `last` nanoseconds.
    pub(crate) fn new(since: u64, last: u64) -> Self {
        let (last, reach) = (last.min(UNTIL.max()), Reach::new());
        Self { since, near: Near::new(reach.raise(0, last)), last, reach: Arc::new(reach) }
    }

    /// Has these, which begin together, end together: by one reach, and where the first of them has no room left. Nobody
    /// has looked at them yet.
    pub(crate) fn join<'t>(terms: impl Iterator<Item = &'t mut Self>) {
        let terms: Vec<&mut Self> = terms.collect();
        let first = terms.iter().min_by_key(|term| term.last);
        let Some(joint) = first.map(|term| (**term).clone()) else { return };
        for term in terms {
            *term = joint.clone();
        }
    }

    /// `now`, or the time at which the version ended, if that was before.
    pub(crate) fn before_its_end(&self, now: u64) -> u64 {
        self.reach.end().map_or(now, |end| now.min(end))
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    #[inline]
    pub(crate) fn near_until(&self) -> u64 {
        self.near.get()
    }

    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// The nanoseconds of the version that have passed at `now`, if that is known to be within its reach.
    #[inline]
    pub(crate) fn near(&self, now: u64) -> Option<u64> {
        let time = now.wrapping_sub(self.since);
        (time <= self.near.get()).then_some(time)
    }

    /// The same anywhere: none before it began, and from its reach on no more.
    #[cold]
    #[inline(never)]
    pub(crate) fn far(&self, now: u64) -> u64 {
        let time = now.saturating_sub(self.since).min(self.last);
        time.min(self.stretch(time))
    }

    /// Sees to it that the reach goes to `time`, if it still can: how far it goes.
    pub(crate) fn stretch(&self, time: u64) -> u64 {
        let until = self.reach.raise(time, self.last);
        self.near.set(until);
        until
    }
}
