//! What one limit says of a request.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{AnyRule, Booking, Numbers, Payload, Rule};
use crate::outcome::Outcome;
use crate::ring::Ring;
use crate::table::basis::Basis;
use crate::table::{DecidedOn, Fingerprint, Table};
use crate::time::Timestamp;

/// What one limit says of a request: see [`Decision::parts`](crate::Decision::parts).
#[derive(Clone, Copy)]
pub struct Part<'d> {
    pub(super) number: usize,
    pub(super) rule: &'d AnyRule,
    pub(super) payload: Payload,
    pub(super) ring: Ring<'d>,
    pub(super) basis: Basis,
    pub(super) cost: u64,
    pub(super) now: Timestamp,
    pub(super) refuses: bool,
    /// What becomes of the request, by this limit and others.
    pub(super) outcome: Outcome,
}

/// The key's ring at this place, as a request of this cost shows it, and on what the limit decided.
#[inline(always)]
pub(super) fn read_at(table: &Table, key: Fingerprint, place: DecidedOn, cost: u64) -> (Ring<'_>, Basis) {
    let (ring, basis) = (table.ring_at(key, place), place.basis());
    (if basis == Basis::Foreseen { ring.foreseeing(cost) } else { ring }, basis)
}

impl Part<'_> {
    /// The number of the limit, as given to the builder, from 0.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Whether this limit refuses the request. When the request can
    /// [never](crate::Decision::is_never) be admitted: whether it is above this limit.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.refuses
    }

    /// Whether this limit refuses the request only because its [table is full](crate::WhenFull):
    /// the key has no slot there, and waits for one, or shares the debt of other keys. A refusal
    /// that [is counted](crate::CountPolicy::All) has taken a slot by then, and is none of these.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(5));
    /// let full = Limiter::builder(quota).per::<u64>().max_keys(1).build()?;
    /// let is_refused_full = |key: u64| full.check(key).parts().any(|limit| limit.refuses_full());
    /// assert!((0..2_000).any(is_refused_full));
    ///
    /// let limiter = Limiter::builder(quota).per::<u64>().build()?;
    /// assert!(limiter.check_n(1, 5).is_allowed());
    /// let refused = limiter.check(1);
    /// assert!(!refused.is_allowed() && !refused.parts().any(|limit| limit.refuses_full()));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn refuses_full(&self) -> bool {
        self.refuses && self.outcome == Outcome::Denied && self.basis.refuses_full()
    }

    /// Whether the key has no slot and may inherit none, so that it waits until one is vacant.
    pub(super) fn waits_for_slot(&self) -> bool {
        self.basis == Basis::Full
    }

    /// Nanoseconds until the first slot of a full bucket is vacant.
    fn until_vacant(&self) -> u64 {
        self.rule.vacant_after(self.payload, self.ring, self.now).max(1)
    }

    /// Nanoseconds until the turn of a refused request would come.
    pub(super) fn wait_for_turn(&self) -> u64 {
        // The turn of a key whose bucket is full begins when a slot is vacant.
        if self.waits_for_slot() {
            self.until_vacant()
        } else {
            self.rule.wait(self.payload, self.now, self.cost)
        }
    }

    /// The most that this limit can admit at once.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.rule.limit()
    }

    /// What this limit could still admit now: after the request if it was admitted, without it if
    /// not.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        if self.waits_for_slot() { 0 } else { self.rule.remaining(self.payload, self.ring, self.now) }
    }

    /// How long until this limit would admit the request. `None` when it does not refuse it, or
    /// always will.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let wait = || match self.waits_for_slot() {
            true => self.until_vacant(),
            false => self.rule.retry_after(self.payload, self.ring, self.now, self.cost).max(1),
        };
        (self.refuses && self.outcome == Outcome::Denied).then(|| Duration::from_nanos(wait()))
    }

    /// How long an admitted request is to wait for this limit: see
    /// [`Decision::delay`](crate::Decision::delay).
    #[must_use]
    pub fn delay(&self) -> Duration {
        let wait = || self.rule.delay(self.payload, self.now, self.cost);
        Duration::from_nanos(if self.outcome == Outcome::Allowed { wait() } else { 0 })
    }

    /// How long until this limit can admit more than [`remaining`](Self::remaining), if no request
    /// comes: see [`Decision::more_after`](crate::Decision::more_after).
    #[must_use]
    pub fn more_after(&self) -> Duration {
        let nanos = match self.waits_for_slot() {
            true => self.until_vacant(),
            false => self.rule.more_after(self.payload, self.ring, self.now),
        };
        Duration::from_nanos(nanos)
    }

    /// How long until the key has its whole limit again here, if no request comes.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.rule.reset_after(self.payload, self.ring, self.now))
    }
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part")
            .field("number", &self.number())
            .field("refuses", &self.refuses())
            .field("limit", &self.limit())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("reset_after", &self.reset_after())
            .finish()
    }
}
