//! A rule with its validity: what the table is handed.
//!
//! This is where a word becomes a payload of the rule's version, and where the time of a version
//! ends. The rule itself knows neither.

use crate::algorithm::{Moment, Past, Payload, Refund, RefundOrder, Rule, Stored, Taken, Verdict};
use crate::ring::Ring;
use crate::table::validity::Validity;
use crate::time::Timestamp;

/// A rule of a version, or of a quota that comes with a call, and its validity.
#[derive(Debug)]
pub(crate) struct Versioned<R> {
    pub(crate) pure: R,
    pub(crate) validity: Validity,
}

impl<R> Versioned<R> {
    #[inline]
    pub(crate) fn by_ref(&self) -> VersionedRef<'_, R> {
        VersionedRef { pure: &self.pure, validity: &self.validity }
    }
}

impl<R: Rule> Versioned<R> {
    /// A rule whose payloads mean the same in every version.
    #[inline]
    pub(crate) fn endless(rule: R) -> Self {
        Self { validity: Validity::endless(rule.last()), pure: rule }
    }
}

/// A rule for as long as its version is current: the version's own, or what a verb makes of it.
pub(crate) struct VersionedRef<'v, R> {
    pub(crate) pure: &'v R,
    pub(crate) validity: &'v Validity,
}

impl<R> Clone for VersionedRef<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for VersionedRef<'_, R> {}

/// The rule that charged a request, and the current one of its key.
pub(crate) struct ThenAndNow<'v, R> {
    pub(crate) then: VersionedRef<'v, R>,
    pub(crate) now: VersionedRef<'v, R>,
}

impl<R: Rule> ThenAndNow<'_, R> {
    /// Gives back `taken`, which was charged by the rule of then: see [`VersionedRef::refund`].
    /// What the new quota has refilled since comes back no more: that is not among the units.
    pub(crate) fn refund(
        &self,
        stored: Stored,
        taken: Taken,
        now: Timestamp,
        order: RefundOrder,
    ) -> Option<Refund> {
        let mut refund = self.then.refund(stored, taken, self.then.moment_to_read(now), order)?;
        if self.then.pure.floor() != self.now.pure.floor() {
            let at = self.now.moment_to_read(now);
            let debt = |stored| self.now.pure.debt(self.now.read(stored), at);
            let less = debt(stored).saturating_sub(debt(refund.payload.stored()));
            refund.units = refund.units.min(less.div_ceil(self.now.pure.unit().price));
        }
        Some(refund)
    }
}

impl<'v, R: Rule> VersionedRef<'v, R> {
    /// The instant of `now`, where a few instructions suffice.
    #[inline(always)]
    pub(crate) fn quick_moment(self, now: Timestamp) -> Option<Moment> {
        let (validity, nanos) = (self.validity, now.as_nanos());
        self.pure.quick_moment(now, || validity.is_early(nanos), || validity.quick_elapsed(nanos))
    }

    /// The instant of `now` for a charge. The clock of a version stands still where it ends.
    pub(crate) fn moment(self, now: Timestamp) -> Moment {
        self.quick_moment(now).unwrap_or_else(|| self.pure.after(self.validity.elapsed(now.as_nanos())))
    }

    /// The same for what only reads the words: nothing is written.
    pub(crate) fn moment_to_read(self, now: Timestamp) -> Moment {
        let late = || self.pure.after(self.validity.elapsed_unraised(now.as_nanos()));
        self.quick_moment(now).unwrap_or_else(late)
    }

    /// Whether this version still reads `now` exactly. After its end it reads an earlier time.
    #[inline]
    pub(crate) fn is_timely(self, now: Timestamp) -> bool {
        let now = now.as_nanos();
        !R::RANGED || self.validity.is_early(now) || self.validity.quick_elapsed(now).is_some()
    }

    /// The time at which this version decides at `now`: `now`, unless the version has ended.
    pub(crate) fn within(self, now: Timestamp) -> Timestamp {
        self.validity.within(now)
    }

    /// The earlier of `now` and the end of this version. A thread judges the debt of another key by
    /// this version only up to that end: from then on the debt follows the next version.
    pub(crate) fn before_its_end(self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(self.validity.before_its_end(now.as_nanos()))
    }

    /// The first instant that this version decides nothing at, once it has ended.
    pub(crate) fn beyond_its_horizon(self) -> Timestamp {
        Timestamp::from_nanos(self.validity.beyond_its_horizon())
    }

    /// The decision, if a few instructions show that the payload is the rule's own. Not for a rule
    /// that books ahead.
    #[inline(always)]
    pub(crate) fn decide_own(self, stored: Stored, ring: Ring<'_>, at: Moment, cost: u64) -> Option<Verdict> {
        self.pure.decide_own(stored, ring, at, cost)
    }

    /// The payload of this version for one of any version.
    pub(crate) fn read(self, stored: Stored) -> Payload {
        self.beyond(stored).unwrap_or_else(|| Past::read(self.past(), self.pure, stored))
    }

    /// The same with at least the debt that any tier would make of it.
    pub(crate) fn current(self, stored: Stored) -> Payload {
        self.beyond(stored).unwrap_or_else(|| self.converted(stored))
    }

    /// A number by which payloads of all versions compare as their debts do.
    #[inline]
    pub(crate) fn rank(self, stored: Stored) -> u64 {
        self.converted(stored).bits()
    }

    #[inline]
    fn converted(self, stored: Stored) -> Payload {
        Past::newest(self.pure, stored).unwrap_or_else(|| Past::read_by_any(self.past(), self.pure, stored))
    }

    #[inline]
    fn past(self) -> Option<&'v Past> {
        self.validity.past().map(AsRef::as_ref)
    }

    /// What a later version's payload reads as.
    fn beyond(self, stored: Stored) -> Option<Payload> {
        self.pure.beyond(stored).filter(|_| self.is_later(stored))
    }

    /// Whether an older version wrote the payload.
    fn is_older(self, stored: Stored) -> bool {
        stored.bits() < self.pure.floor()
    }

    /// Whether a later version wrote the payload, or may have. Such a key can be charged nothing by
    /// this version.
    pub(crate) fn is_later(self, stored: Stored) -> bool {
        R::RANGED && self.pure.is_ranged() && stored.bits() > self.pure.top(self.validity.until())
    }

    /// Decides one request, which may book ahead. A booking that this version does not last for is
    /// refused.
    #[inline(always)]
    pub(crate) fn decide(self, payload: Payload, ring: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        match self.pure.decide(payload, ring, at, cost) {
            Verdict::Allow(booked) if !self.lasts_for(booked, at) => Verdict::Deny(payload),
            verdict => verdict,
        }
    }

    /// Raises the horizon so that this version may write `payload` at `at`. `false`: it ends before
    /// that.
    pub(crate) fn lasts_for(self, payload: Payload, at: Moment) -> bool {
        self.validity.lasts(self.pure.needs(payload, at))
    }

    /// Whether the key has as much available as one that was never seen: see
    /// [`Rule::expired`].
    pub(crate) fn expired(self, stored: Stored, at: Moment) -> bool {
        let payload = self.converted(stored);
        let is_least = || stored == Payload::UNSEEN.stored() || self.pure.is_least(payload);
        self.pure.expired(payload, at) || self.is_older(stored) && is_least()
    }

    /// The same where a few instructions say so: of a payload that this version wrote.
    #[inline]
    pub(crate) fn quick_expired(self, stored: Stored, at: Moment) -> bool {
        Past::newest(self.pure, stored).is_some_and(|payload| self.pure.expired(payload, at))
    }

    /// Whether the key is in debt.
    pub(crate) fn is_in_debt(self, stored: Stored, at: Moment) -> bool {
        self.pure.is_in_debt(self.converted(stored), at)
    }

    /// Gives back `taken`: see [`Rule::refund`]. Nothing comes back from a word of another version.
    pub(crate) fn refund(
        self,
        stored: Stored,
        taken: Taken,
        at: Moment,
        order: RefundOrder,
    ) -> Option<Refund> {
        let is_own = !self.is_older(stored) && !self.is_later(stored);
        is_own.then(|| self.pure.refund(self.converted(stored), taken, at, order)).flatten()
    }

    /// Gives back up to `units` of any requests: see [`Rule::credit`]. A word of an older version
    /// becomes one of this version, as by a charge; from a word of a later one nothing comes back.
    pub(crate) fn credit(self, stored: Stored, ring: Ring<'_>, at: Moment, units: u64) -> Option<Refund> {
        let credit = || self.pure.credit(self.read(stored), ring, at, units);
        let given = if self.is_later(stored) { None } else { credit() };
        given.filter(|given| self.lasts_for(given.payload, at))
    }

    /// The largest payload of a key that may be evicted: see [`Rule::inheritable`].
    pub(crate) fn inheritable(self, at: Moment) -> Option<Payload> {
        self.pure.inheritable(at)
    }

    /// The payload without its debt.
    pub(crate) fn forgive(self, stored: Stored, at: Moment) -> Payload {
        self.pure.forgive(self.converted(stored), at)
    }

    /// A larger payload that grants the same: see [`Rule::bump`].
    pub(crate) fn bump(self, stored: Stored) -> Payload {
        self.pure.bump(self.converted(stored))
    }

    /// Clears the ring of a key that has this payload.
    pub(crate) fn erase(self, stored: Stored, ring: Ring<'_>, unmoved: impl Fn() -> bool) -> bool {
        self.pure.erase(stored, ring, unmoved)
    }

    /// The times behind the head that have not left the window at `at`, newest first.
    pub(crate) fn times(self, stored: Stored, ring: Ring<'_>, at: Moment, into: &mut Vec<u64>) {
        self.pure.times(stored, ring, at, into);
    }

    /// Writes the time of the request into the ring ahead of the head: see
    /// [`Ringed::stage`](crate::algorithm::Ringed::stage).
    #[inline(always)]
    pub(crate) fn stage(
        self,
        stored: Stored,
        ring: Ring<'_>,
        at: Moment,
        cost: u64,
        unmoved: impl Fn() -> bool,
    ) -> bool {
        self.pure.stage(stored, ring, at, cost, unmoved)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
