//! Counts the units of a key that are in flight: the one rule without time.
//!
//! ```text
//!   61          42     41      40                 0
//!  +--------------+---------+----------------------+
//!  |    count     | awaited |       sequence       |
//!  +--------------+---------+----------------------+
//! ```
//!
//! A charge adds to the count and advances the sequence. Giving units back only lowers the count:
//! one subtraction, which cannot fail. A thread that claims an empty slot continues its sequence.
//! So a word does not recur between a thread's read of it and its compare-exchange: without a
//! charge the count only falls, and a charge advances the sequence. (The sequence wraps after 2^41
//! charges of one slot: six hours at a hundred million a second, within one stall.)
//!
//! *Awaited*: futures wait for units of the key, so a guard that gives some back wakes one. The
//! subtraction that gives back reads it.
//!
//! The count is the upper field: the table evicts the slot with the smallest payload in a bucket,
//! and that is an empty one if there is any.

use crate::algorithm::{
    Moment, PAYLOAD_BITS, Payload, Ranged, Refund, RefundOrder, Ringed, Rule, Stored, Taken, Verdict,
};
use crate::bits::Field;
use crate::error::{BuildError, within};
use crate::ring::Ring;
use crate::time::Timestamp;

const SEQUENCE: Field = Field::lowest(41);
const AWAITED: Field = SEQUENCE.above(1);
const COUNT: Field = AWAITED.above(20);
const _: () = assert!(COUNT.end() == PAYLOAD_BITS, "the fields must fill the payload");

/// At most `limit` units in flight at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightRule {
    limit: u64,
}

impl InFlightRule {
    /// The largest limit that the count field can hold.
    pub(crate) const LARGEST: u64 = COUNT.max();

    /// Checks the limit: it must be at least 1 and fit the count.
    pub(crate) fn new(limit: u64) -> Result<Self, BuildError> {
        within("limit", limit, 1_u64, Self::LARGEST)?;
        Ok(Self { limit })
    }

    /// The rule of a limit that `new` has checked.
    #[inline]
    pub(crate) fn judged(limit: u64) -> Self {
        Self { limit }
    }

    /// The units in flight.
    pub(crate) fn count(payload: Payload) -> u64 {
        COUNT.get(payload.0)
    }

    /// Whether futures wait for units of the key.
    pub(crate) fn is_awaited(payload: Stored) -> bool {
        AWAITED.get(payload.bits()) == 1
    }

    /// The payload of a key of which that is so, or not.
    pub(crate) fn awaited(payload: Stored, is_awaited: bool) -> Payload {
        Payload(AWAITED.set(payload.bits(), is_awaited.into()))
    }

    /// The amount to subtract from a payload to give back `units`.
    pub(crate) fn weight(units: u64) -> u64 {
        COUNT.of(units)
    }
}

/// A limit may change while units are in flight, and no word changes its meaning.
impl Ranged for InFlightRule {}

impl Ringed for InFlightRule {}

/// A slot with units in flight cannot be evicted: their guard gives them back under the key that
/// acquired them.
impl Rule for InFlightRule {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    /// The rule reads no time: every instant is the same.
    #[inline]
    fn moment(&self, _: Timestamp) -> Moment {
        Moment { tick: 0, elapsed: 0 }
    }

    #[inline]
    fn decide(&self, payload: Payload, _: Ring<'_>, _: Moment, cost: u64) -> Verdict {
        let count = Self::count(payload) + cost;
        if count <= self.limit {
            Verdict::Allow(Payload(COUNT.set(self.bump(payload).0, count)))
        } else {
            Verdict::Deny(payload)
        }
    }

    #[inline]
    fn expired(&self, payload: Payload, _: Moment) -> bool {
        Self::count(payload) == 0
    }

    /// A guard gives units back, not a decision.
    fn refund(&self, _: Payload, _: Taken, _: Moment, _: RefundOrder) -> Option<Refund> {
        None
    }

    /// The next owner's: no future waits for that yet.
    fn forgive(&self, payload: Payload, _: Moment) -> Payload {
        Payload(SEQUENCE.of(SEQUENCE.get(payload.0)))
    }

    #[inline]
    fn bump(&self, payload: Payload) -> Payload {
        Payload(SEQUENCE.set(payload.0, (SEQUENCE.get(payload.0) + 1) & SEQUENCE.max()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment { tick: 0, elapsed: 0 };

    fn charged(payload: Payload, cost: u64) -> Payload {
        let rule = InFlightRule::new(COUNT.max()).unwrap();
        match rule.decide(payload, Ring::NONE, NOW, cost) {
            Verdict::Allow(payload) => payload,
            verdict => panic!("{verdict:?}"),
        }
    }

    fn returned(payload: Payload, units: u64) -> Payload {
        Payload(payload.0 - InFlightRule::weight(units))
    }

    /// The word that a stalled thread read before its charge must not recur when it resumes.
    #[test]
    fn a_payload_does_not_come_back_when_its_units_do() {
        let before = charged(charged(Payload(0), 1), 5);
        let back = returned(charged(before, 2), 2);
        assert_eq!(InFlightRule::count(back), 6);
        assert_ne!(back, before);
        let (emptied, rule) = (returned(back, 6), InFlightRule::new(1).unwrap());
        assert!(rule.expired(emptied, NOW));
        assert_eq!(rule.forgive(emptied, NOW), emptied, "the next owner goes on from the sequence");
        assert_eq!(
            rule.inheritable(NOW),
            None,
            "no debt is handed over: its guard gives it back under its own key"
        );
    }

    #[test]
    fn a_key_stays_awaited_until_another_has_its_slot() {
        let rule = InFlightRule::new(9).unwrap();
        let awaited = InFlightRule::awaited(charged(Payload(0), 3).stored(), true);
        let later = returned(charged(awaited, 2), 5);
        assert!(InFlightRule::is_awaited(later.stored()) && rule.expired(later, NOW));
        assert!(!InFlightRule::is_awaited(rule.forgive(later, NOW).stored()));
        assert_eq!(InFlightRule::awaited(awaited.stored(), false), charged(Payload(0), 3));
    }

    #[test]
    fn a_sequence_that_comes_around_leaves_the_count_alone() {
        let last = Payload(COUNT.of(7) | SEQUENCE.of(SEQUENCE.max()));
        assert_eq!(charged(last, 1), Payload(COUNT.of(8)));
        assert_eq!(InFlightRule::new(1).unwrap().bump(last), Payload(COUNT.of(7)));
    }

    /// The table evicts the slot with the smallest payload.
    #[test]
    fn an_empty_payload_is_smaller_than_any_that_counts() {
        let rule = InFlightRule::new(1).unwrap();
        let last = Payload(SEQUENCE.of(SEQUENCE.max()) | COUNT.of(1));
        assert!(rule.forgive(last, NOW) < charged(Payload(0), 1));
    }
}
