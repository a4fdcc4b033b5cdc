//! The rule of any of the five algorithms.

use crate::algorithm::change::Unit;
use crate::algorithm::first_hit::FirstHitRule;
use crate::algorithm::fixed_window::FixedRule;
use crate::algorithm::gcra::Gcra;
use crate::algorithm::sliding_log::LogRule;
use crate::algorithm::sliding_window::SlidingRule;
use crate::algorithm::{
    Booking, Carry, Moment, Numbers, Payload, Ranged, Refund, RefundOrder, Resolution, Ringed, Rule, Stored,
    Taken, Verdict, Visit,
};
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// The rule of any algorithm.
// With a tag of its own: one in an unused value of a rule's field takes five instructions to read.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum AnyRule {
    /// Both buckets.
    Gcra(Gcra),
    /// The fixed window.
    Fixed(FixedRule),
    /// The sliding window counter.
    Sliding(SlidingRule),
    /// The sliding window log.
    Log(LogRule),
    /// The window from a key's first hit.
    FirstHit(FirstHitRule),
}

/// A rule of one of the five algorithms.
pub trait ToAny: Copy {
    /// The rule as one of the five.
    fn any(self) -> AnyRule;
}

impl ToAny for Gcra {
    fn any(self) -> AnyRule {
        AnyRule::Gcra(self)
    }
}

impl ToAny for FixedRule {
    fn any(self) -> AnyRule {
        AnyRule::Fixed(self)
    }
}

impl ToAny for SlidingRule {
    fn any(self) -> AnyRule {
        AnyRule::Sliding(self)
    }
}

impl ToAny for LogRule {
    fn any(self) -> AnyRule {
        AnyRule::Log(self)
    }
}

impl ToAny for FirstHitRule {
    fn any(self) -> AnyRule {
        AnyRule::FirstHit(self)
    }
}

impl ToAny for AnyRule {
    fn any(self) -> AnyRule {
        self
    }
}

macro_rules! for_rule {
    ($rule:expr, $one:ident => $call:expr) => {
        match $rule {
            $crate::algorithm::AnyRule::Gcra($one) => $call,
            $crate::algorithm::AnyRule::Fixed($one) => $call,
            $crate::algorithm::AnyRule::Sliding($one) => $call,
            $crate::algorithm::AnyRule::Log($one) => $call,
            $crate::algorithm::AnyRule::FirstHit($one) => $call,
        }
    };
}

impl AnyRule {
    /// Whether units come back at the ends of intervals, so that a turn may come when more has come
    /// back than the debt was.
    pub(crate) fn refills_by_steps(&self) -> bool {
        matches!(self, Self::Gcra(rule) if rule.refill.steps())
    }

    /// Whether it is seen at which Unix time its windows begin, or its units come back.
    pub(crate) fn is_aligned(&self) -> bool {
        matches!(self, Self::Fixed(_)) || self.refills_by_steps()
    }

    /// Whether each admitted request waits for its own departure.
    pub(crate) fn is_queue(&self) -> bool {
        matches!(self, Self::Gcra(rule) if rule.queue)
    }

    /// How finely the rule counts.
    pub(crate) fn resolution(&self) -> Resolution {
        let (grains, ceiling, granule) = match self {
            Self::Gcra(rule) => (rule.refill.is_grained().then_some(rule.price), rule.burst, 1),
            Self::Fixed(rule) => (None, rule.ceiling(), 1),
            Self::Sliding(rule) => (None, rule.packing().ceiling, rule.packing().granule),
            Self::Log(rule) => (None, rule.limit(), 1),
            Self::FirstHit(rule) => (None, rule.ceiling(), 1),
        };
        let tick = if let Self::FirstHit(rule) = self { rule.tick() } else { 1 };
        Resolution { grains, ceiling, granule, tick }
    }
}

impl Ranged for AnyRule {
    const RANGED: bool = true;

    #[inline]
    fn is_ranged(&self) -> bool {
        for_rule!(self, rule => rule.is_ranged())
    }

    fn is_early(&self) -> bool {
        for_rule!(self, rule => rule.is_early())
    }

    fn early(&self, now: Timestamp) -> Moment {
        for_rule!(self, rule => rule.early(now))
    }

    // Inlined, because a call returns its `Option` through memory, and every check waits for that.
    #[inline(always)]
    fn quick_moment(
        &self,
        now: Timestamp,
        is_early: impl Fn() -> bool,
        elapsed: impl Fn() -> Option<u64>,
    ) -> Option<Moment> {
        for_rule!(self, rule => rule.quick_moment(now, is_early, elapsed))
    }

    fn after(&self, elapsed: u64) -> Moment {
        for_rule!(self, rule => rule.after(elapsed))
    }

    fn last(&self) -> u64 {
        for_rule!(self, rule => rule.last())
    }

    #[inline]
    fn floor(&self) -> u64 {
        for_rule!(self, rule => rule.floor())
    }

    fn top(&self, until: u64) -> u64 {
        for_rule!(self, rule => rule.top(until))
    }

    fn needs(&self, payload: Payload, at: Moment) -> u64 {
        for_rule!(self, rule => rule.needs(payload, at))
    }

    #[inline]
    fn own(&self, stored: Stored, at: Moment) -> Option<Payload> {
        for_rule!(self, rule => rule.own(stored, at))
    }

    fn beyond(&self, stored: Stored) -> Option<Payload> {
        for_rule!(self, rule => rule.beyond(stored))
    }

    fn is_least(&self, payload: Payload) -> bool {
        for_rule!(self, rule => rule.is_least(payload))
    }

    fn unit(&self) -> Unit {
        for_rule!(self, rule => rule.unit())
    }

    fn debt(&self, payload: Payload, at: Moment) -> u64 {
        for_rule!(self, rule => rule.debt(payload, at))
    }

    fn owing(&self, debt: u64) -> Payload {
        for_rule!(self, rule => rule.owing(debt))
    }

    fn starting(self, debt: u64, least: u64) -> Self {
        for_rule!(self, rule => rule.starting(debt, least).any())
    }
}

impl Rule for AnyRule {
    #[inline(always)]
    fn by_algorithm<V: Visit>(&self, visit: V) -> V::Output {
        for_rule!(self, rule => visit.visit(rule))
    }

    #[inline(always)]
    fn by_quick_algorithm<V: Visit>(&self, visit: V) -> Option<V::Output> {
        match self {
            Self::Gcra(rule) => Some(visit.visit(rule)),
            Self::Fixed(rule) => Some(visit.visit(rule)),
            Self::Sliding(_) | Self::Log(_) | Self::FirstHit(_) => None,
        }
    }

    #[inline]
    fn limit(&self) -> u64 {
        for_rule!(self, rule => rule.limit())
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        for_rule!(self, rule => rule.moment(now))
    }

    #[inline]
    fn decide(&self, payload: Payload, ring: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        for_rule!(self, rule => rule.decide(payload, ring, at, cost))
    }

    #[inline]
    fn decide_own(&self, stored: Stored, ring: Ring<'_>, at: Moment, cost: u64) -> Option<Verdict> {
        for_rule!(self, rule => rule.decide_own(stored, ring, at, cost))
    }

    fn expired(&self, payload: Payload, at: Moment) -> bool {
        for_rule!(self, rule => rule.expired(payload, at))
    }

    fn forgive(&self, payload: Payload, at: Moment) -> Payload {
        for_rule!(self, rule => rule.forgive(payload, at))
    }

    fn refund(&self, payload: Payload, taken: Taken, at: Moment, order: RefundOrder) -> Option<Refund> {
        for_rule!(self, rule => rule.refund(payload, taken, at, order))
    }

    fn credit(&self, payload: Payload, ring: Ring<'_>, at: Moment, units: u64) -> Option<Refund> {
        for_rule!(self, rule => rule.credit(payload, ring, at, units))
    }

    fn is_in_debt(&self, payload: Payload, at: Moment) -> bool {
        for_rule!(self, rule => rule.is_in_debt(payload, at))
    }

    fn inheritable(&self, at: Moment) -> Option<Payload> {
        for_rule!(self, rule => rule.inheritable(at))
    }

    fn bump(&self, payload: Payload) -> Payload {
        for_rule!(self, rule => rule.bump(payload))
    }

    fn less(&self, charged: Payload, units: u64) -> Payload {
        for_rule!(self, rule => rule.less(charged, units))
    }

    fn needs_order(&self) -> bool {
        for_rule!(self, rule => rule.needs_order())
    }
}

impl Ringed for AnyRule {
    const RINGED: bool = true;

    fn ring_len(&self) -> u64 {
        for_rule!(self, rule => rule.ring_len())
    }

    // Inlined: every check calls it, though only the log does anything there.
    #[inline(always)]
    fn stage(
        &self,
        payload: Stored,
        ring: Ring<'_>,
        at: Moment,
        cost: u64,
        unmoved: impl Fn() -> bool,
    ) -> bool {
        for_rule!(self, rule => rule.stage(payload, ring, at, cost, unmoved))
    }

    fn erase(&self, payload: Stored, ring: Ring<'_>, unmoved: impl Fn() -> bool) -> bool {
        for_rule!(self, rule => rule.erase(payload, ring, unmoved))
    }

    fn times(&self, payload: Stored, ring: Ring<'_>, at: Moment, into: &mut Vec<u64>) {
        for_rule!(self, rule => rule.times(payload, ring, at, into));
    }

    fn log(&self, payload: Payload, ring: Ring<'_>, times: &[u64]) -> Payload {
        for_rule!(self, rule => rule.log(payload, ring, times))
    }
}

impl Booking for AnyRule {
    fn ahead(&self) -> Option<Self> {
        for_rule!(self, rule => rule.ahead().map(ToAny::any))
    }

    fn patient(&self, now: Timestamp, max_wait: u64, cost: u64) -> Option<Self> {
        for_rule!(self, rule => rule.patient(now, max_wait, cost).map(ToAny::any))
    }

    fn departing(&self, now: Timestamp, wait: u64) -> Option<Self> {
        for_rule!(self, rule => rule.departing(now, wait).map(ToAny::any))
    }

    fn debit(&self, payload: Payload, at: Moment, cost: u64, last: u64) -> Option<(u64, Payload)> {
        for_rule!(self, rule => rule.debit(payload, at, cost, last))
    }

    fn wait(&self, payload: Payload, now: Timestamp, cost: u64) -> u64 {
        for_rule!(self, rule => rule.wait(payload, now, cost))
    }

    fn delay(&self, payload: Payload, now: Timestamp, cost: u64) -> u64 {
        for_rule!(self, rule => rule.delay(payload, now, cost))
    }
}

impl Numbers for AnyRule {
    fn remaining_at(&self, payload: Payload, ring: Ring<'_>, at: Moment) -> u64 {
        for_rule!(self, rule => rule.remaining_at(payload, ring, at))
    }

    fn retry_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        for_rule!(self, rule => rule.retry_after(payload, ring, now, cost))
    }

    fn more_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64 {
        for_rule!(self, rule => rule.more_after(payload, ring, now))
    }

    fn reset_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64 {
        for_rule!(self, rule => rule.reset_after(payload, ring, now))
    }

    fn vacant_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64 {
        for_rule!(self, rule => rule.vacant_after(payload, ring, now))
    }
}

macro_rules! for_same {
    ($rule:expr, $saved:expr, ($one:ident, $other:ident) => $call:expr) => {
        match ($rule, $saved) {
            (AnyRule::Gcra($one), AnyRule::Gcra($other)) => $call,
            (AnyRule::Fixed($one), AnyRule::Fixed($other)) => $call,
            (AnyRule::Sliding($one), AnyRule::Sliding($other)) => $call,
            (AnyRule::Log($one), AnyRule::Log($other)) => $call,
            (AnyRule::FirstHit($one), AnyRule::FirstHit($other)) => $call,
            _ => unreachable!("a rule is carried on by one of the same settings"),
        }
    };
}

impl Carry for AnyRule {
    fn room(&self) -> u64 {
        for_rule!(self, rule => rule.room())
    }

    fn with_room(self, room: u64) -> Option<Self> {
        for_rule!(self, rule => rule.with_room(room).map(ToAny::any))
    }

    fn with_origin(self, origin: u64) -> Self {
        for_rule!(self, rule => rule.with_origin(origin).any())
    }

    fn resuming(self, saved: &Self, shift: Shift) -> Self {
        for_same!(self, saved, (rule, saved) => rule.resuming(saved, shift).any())
    }

    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> Payload {
        for_same!(self, saved, (rule, saved) => rule.carry(payload, saved, shift))
    }

    fn origin(&self, fresh: &Self, now: Timestamp) -> u64 {
        for_same!(self, fresh, (rule, fresh) => rule.origin(fresh, now))
    }

    fn anew(&self, payload: Payload, fresh: &Self, now: Timestamp) -> Payload {
        for_same!(self, fresh, (rule, fresh) => rule.anew(payload, fresh, now))
    }

    fn carry_time(&self, when: u64, saved: &Self, shift: Shift) -> Option<u64> {
        for_same!(self, saved, (rule, saved) => rule.carry_time(when, saved, shift))
    }
}
