//! How much of a key is in flight: the one rule without time.
//!
//! ```text
//!   61          42   41                           0
//!  +--------------+--------------------------------+
//!  |    count     |            sequence            |
//!  +--------------+--------------------------------+
//! ```
//!
//! A charge adds to the count and moves the sequence; giving back lowers the count and nothing else, so it is one
//! subtraction that cannot fail. Whoever takes over an empty slot goes on from its sequence. So a word does not come
//! back while a thread is between reading it and its compare-exchange: without a charge the count only falls, and with
//! one the sequence has moved. (It comes around after 2^42 charges of one slot: half a day at a hundred million a
//! second, within that one stall.)
//!
//! The count is the upper field: of the slots of a bucket, the table hands over the one of the smallest payload, and
//! that is an empty one if there is any.

use std::borrow::Cow;

use crate::algorithm::{Moment, Order, PAYLOAD_BITS, Refund, Rule, Taken, Verdict};
use crate::bits::Field;
use crate::error::{BuildError, within};
use crate::ring::Ring;
use crate::time::Timestamp;

const SEQUENCE: Field = Field::lowest(42);
const COUNT: Field = SEQUENCE.above(20);
const _: () = assert!(COUNT.end() == PAYLOAD_BITS, "the fields must fill the payload");

/// At most `limit` units in flight at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightRule {
    limit: u64,
}

impl InFlightRule {
    /// The largest limit: the most that the count can say.
    pub(crate) const LARGEST: u64 = COUNT.max();

    /// Judges the limit: at least 1, and it must fit the count.
    pub(crate) fn new(limit: u64) -> Result<Self, BuildError> {
        within("limit", limit, 1_u64, Self::LARGEST)?;
        Ok(Self { limit })
    }

    /// The rule of a limit that `new` has judged.
    #[inline]
    pub(crate) fn judged(limit: u64) -> Self {
        Self { limit }
    }

    /// The units in flight.
    pub(crate) fn count(payload: u64) -> u64 {
        COUNT.get(payload)
    }

    /// By how much a payload falls when `units` of it are given back.
    pub(crate) fn weight(units: u64) -> u64 {
        COUNT.of(units)
    }
}

impl Rule for InFlightRule {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    /// All moments are one.
    #[inline]
    fn moment(&self, _: Timestamp) -> Moment {
        Moment { tick: 0, elapsed: 0 }
    }

    #[inline]
    fn decide(&self, payload: u64, _: Ring<'_>, _: Moment, cost: u64) -> Verdict {
        let count = Self::count(payload) + cost;
        if count <= self.limit { Verdict::Allow(COUNT.set(self.bump(payload), count)) } else { Verdict::Deny }
    }

    #[inline]
    fn expired(&self, payload: u64, _: Moment) -> bool {
        Self::count(payload) == 0
    }

    /// Units come back by their guard, not by a decision.
    fn refund(&self, _: u64, _: Taken, _: Moment, _: Order) -> Option<Refund> {
        None
    }

    /// Each unit has its guard.
    fn ahead(&self) -> Option<Cow<'_, Self>> {
        None
    }

    /// What is in flight cannot be handed over: its guard will give it back under the key that took it.
    fn half(&self, _: Moment) -> Option<u64> {
        None
    }

    fn forgive(&self, payload: u64, _: Moment) -> u64 {
        COUNT.set(payload, 0)
    }

    #[inline]
    fn bump(&self, payload: u64) -> u64 {
        SEQUENCE.set(payload, (SEQUENCE.get(payload) + 1) & SEQUENCE.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment { tick: 0, elapsed: 0 };

    fn charged(payload: u64, cost: u64) -> u64 {
        let rule = InFlightRule::new(COUNT.max()).unwrap();
        match rule.decide(payload, Ring::NONE, NOW, cost) {
            Verdict::Allow(payload) => payload,
            verdict => panic!("{verdict:?}"),
        }
    }

    /// The word from which a stalled thread wants to charge must not be there again when it goes on.
    #[test]
    fn a_payload_does_not_come_back_when_its_units_do() {
        let before = charged(charged(0, 1), 5);
        let returned = charged(before, 2) - InFlightRule::weight(2);
        assert_eq!(InFlightRule::count(returned), 6);
        assert_ne!(returned, before);
        let (emptied, rule) = (returned - InFlightRule::weight(6), InFlightRule::new(1).unwrap());
        assert!(rule.expired(emptied, NOW));
        assert_eq!(rule.forgive(emptied, NOW), emptied, "the next owner goes on from the sequence");
        assert_eq!(rule.half(NOW), None, "no debt is handed over: its guard gives it back under its own key");
    }

    #[test]
    fn a_sequence_that_comes_around_leaves_the_count_alone() {
        let last = COUNT.of(7) | SEQUENCE.of(SEQUENCE.max());
        assert_eq!(charged(last, 1), COUNT.of(8));
        assert_eq!(InFlightRule::new(1).unwrap().bump(last), COUNT.of(7));
    }

    /// The table hands over the slot of the smallest payload.
    #[test]
    fn an_empty_payload_is_smaller_than_any_that_counts() {
        let rule = InFlightRule::new(1).unwrap();
        assert!(rule.forgive(SEQUENCE.of(SEQUENCE.max()) | COUNT.of(1), NOW) < charged(0, 1));
    }
}
