//! The limit of units in flight, which may change while guards are out.
//!
//! ```text
//!   63                          20   19           0
//!  +------------------------------+----------------+
//!  |           changes            |     limit      |
//!  +------------------------------+----------------+
//! ```
//!
//! A thread that acquires reads it before the key's word, and looks again once it is decided. If
//! nothing has changed in between, not even to another limit and back, that limit was current when
//! the word was charged, or read for a refusal. If it has, the charge goes back and the request is
//! decided anew. So no request is decided by an old limit after another was by a new one.
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | I1 | `put` | `read` | what had come back before the change |
//!
//! By I1 the new limit refuses nothing on a word from before the change. The second look is
//! Relaxed: the word was read by an Acquire, from the thread that had charged it by a newer limit
//! (S1, S5).

use crate::algorithm::{InFlightRule, Rule};
use crate::bits::Field;
use crate::sync::{AtomicU64, Ordering};
use Ordering::{Acquire, Relaxed, Release};

const LIMIT: Field = Field::lowest(20);
const CHANGES: Field = LIMIT.above(44);
const _: () = assert!(CHANGES.end() == u64::BITS, "the fields must fill the word");
const _: () = assert!(LIMIT.max() == InFlightRule::LARGEST, "every limit must fit its field");

/// The current limit.
pub(super) struct CurrentLimit(AtomicU64);

/// The limit that was current at one instant.
#[derive(Clone, Copy)]
pub(super) struct LimitAt(u64);

impl LimitAt {
    fn of(rule: InFlightRule, changes: u64) -> Self {
        Self(LIMIT.of(rule.limit()) | CHANGES.of(changes & CHANGES.max()))
    }

    /// The limit, as the rule that decides by it.
    #[inline]
    pub(super) fn rule(self) -> InFlightRule {
        InFlightRule::judged(LIMIT.get(self.0))
    }
}

impl CurrentLimit {
    /// The first.
    pub(super) fn new(rule: InFlightRule) -> Self {
        Self(AtomicU64::new(LimitAt::of(rule, 0).0))
    }

    /// The current limit. Read it before the key's word.
    #[inline]
    pub(super) fn read(&self) -> LimitAt {
        LimitAt(self.0.load(Acquire)) // I1
    }

    /// Whether there has been no change since. Ask when the request is decided.
    #[inline]
    pub(super) fn is_still(&self, seen: LimitAt) -> bool {
        self.0.load(Relaxed) == seen.0
    }

    /// Makes another limit current.
    pub(super) fn put(&self, rule: InFlightRule) {
        let next = |word| Some(LimitAt::of(rule, CHANGES.get(word) + 1).0);
        let _ = self.0.fetch_update(Release, Relaxed, next); // I1
    }
}
