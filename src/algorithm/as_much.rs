//! The rule of a verb that charges as much of a request as there is room for.
//!
//! How much that is depends on the word, so it is decided where the word is: in the table's loop,
//! each time anew. The rule notes the units of its latest decision, and that is the decision which
//! the table returns.

use std::cell::Cell;

use crate::algorithm::{
    Moment, Numbers, Payload, Ranged, Refund, RefundOrder, Ringed, Rule, Stored, Taken, Verdict,
};
use crate::ring::Ring;
use crate::time::Timestamp;

/// A rule by which a request takes as many units as there are, at most its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsMuch<'u, R> {
    rule: &'u R,
    /// `Some`: over the limit too, as far as a word has room in a version that can last so many
    /// nanoseconds.
    over: Option<u64>,
    /// The units of the latest decision.
    units: &'u Cell<u64>,
}

impl<'u, R: Numbers> AsMuch<'u, R> {
    /// Takes what the rule admits. Where it admits nothing, the request is a refused one of cost 1.
    pub(crate) fn within(rule: &'u R, units: &'u Cell<u64>) -> Self {
        Self { rule, over: None, units }
    }

    /// Takes over the limit: see [`Booking::debit`](crate::algorithm::Booking::debit).
    pub(crate) fn over(rule: &'u R, last: u64, units: &'u Cell<u64>) -> Self {
        Self { rule, over: Some(last), units }
    }

    fn decide_within(&self, payload: Payload, ring: Ring<'_>, at: Moment, most: u64) -> Verdict {
        let left = || self.rule.remaining_at(payload, ring, at);
        let mut units = left().clamp(1, most);
        loop {
            let verdict = self.rule.decide(payload, ring, at, units);
            if units == 1 || matches!(verdict, Verdict::Allow(_)) {
                self.units.set(units);
                return verdict;
            }
            // Another thread wrote to the log's ring between the two readings.
            units = left().clamp(1, units - 1);
        }
    }

    fn decide_over(&self, payload: Payload, at: Moment, cost: u64, last: u64) -> Verdict {
        let (units, charged) = self.rule.debit(payload, at, cost, last).unwrap_or((0, payload));
        let fits = units > 0 && self.rule.needs(charged, at) <= last;
        self.units.set(if fits { units } else { 0 });
        if fits { Verdict::Allow(charged) } else { Verdict::Deny(payload) }
    }
}

/// Methods that ask the same of the rule beneath.
macro_rules! as_beneath {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> $result {
            self.rule.$name($($argument),*)
        })*
    };
}

impl<R: Numbers> Ranged for AsMuch<'_, R> {
    const RANGED: bool = R::RANGED;

    as_beneath! {
        fn is_ranged() -> bool;
        fn is_early() -> bool;
        fn early(now: Timestamp) -> Moment;
        fn after(elapsed: u64) -> Moment;
        fn last() -> u64;
        fn floor() -> u64;
        fn top(until: u64) -> u64;
        fn needs(payload: Payload, at: Moment) -> u64;
        fn own(stored: Stored, at: Moment) -> Option<Payload>;
        fn beyond(stored: Stored) -> Option<Payload>;
        fn is_least(payload: Payload) -> bool;
        fn owing(debt: u64) -> Payload;
    }

    fn quick_moment(
        &self,
        now: Timestamp,
        is_early: impl Fn() -> bool,
        elapsed: impl Fn() -> Option<u64>,
    ) -> Option<Moment> {
        self.rule.quick_moment(now, is_early, elapsed)
    }
}

impl<R: Numbers> Ringed for AsMuch<'_, R> {
    const RINGED: bool = R::RINGED;

    as_beneath! {
        fn ring_len() -> u64;
        fn erase(payload: Stored, ring: Ring<'_>, unmoved: impl Fn() -> bool) -> bool;
        fn times(payload: Stored, ring: Ring<'_>, at: Moment, into: &mut Vec<u64>) -> ();
        fn log(payload: Payload, ring: Ring<'_>, times: &[u64]) -> Payload;
    }

    /// The decided units are staged, not the requested ones.
    fn stage(&self, payload: Stored, ring: Ring<'_>, at: Moment, _: u64, unmoved: impl Fn() -> bool) -> bool {
        self.rule.stage(payload, ring, at, self.units.get(), unmoved)
    }
}

impl<R: Numbers> Rule for AsMuch<'_, R> {
    as_beneath! {
        fn limit() -> u64;
        fn moment(now: Timestamp) -> Moment;
        fn expired(payload: Payload, at: Moment) -> bool;
        fn forgive(payload: Payload, at: Moment) -> Payload;
        fn refund(payload: Payload, taken: Taken, at: Moment, order: RefundOrder) -> Option<Refund>;
        fn is_in_debt(payload: Payload, at: Moment) -> bool;
        fn inheritable(at: Moment) -> Option<Payload>;
        fn bump(payload: Payload) -> Payload;
        fn less(charged: Payload, units: u64) -> Payload;
        fn needs_order() -> bool;
    }

    /// What was used already is charged, or it is an error.
    fn may_go_uncounted(&self) -> bool {
        self.over.is_none()
    }

    fn decide(&self, payload: Payload, ring: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        match self.over {
            Some(last) => self.decide_over(payload, at, cost, last),
            None => self.decide_within(payload, ring, at, cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Compile, TokenBucket};
    use crate::rate::Rate;

    /// A table decides again when another thread has changed the word.
    #[test]
    fn the_units_are_those_of_the_latest_decision() {
        let quota = TokenBucket::new(Rate::per_hour(1)).burst(10);
        let rule = TokenBucket::compile(&[quota], 0).unwrap().remove(0);
        let (units, at) = (Cell::new(0), rule.moment(Timestamp::from_nanos(1)));
        let Verdict::Allow(charged) = rule.decide(Payload::UNSEEN, Ring::NONE, at, 7) else {
            panic!("seven of ten are there")
        };
        let as_much = AsMuch::within(&rule, &units);
        for (payload, left) in [(Payload::UNSEEN, 10), (charged, 3), (Payload::UNSEEN, 10)] {
            assert!(matches!(as_much.decide(payload, Ring::NONE, at, 10), Verdict::Allow(_)));
            assert_eq!(units.get(), left);
        }
    }
}
