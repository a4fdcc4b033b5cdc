//! What a bucket gives back.
//!
//! In terms of [`crate::arrival`], with c = cost * I, `at` the time of the admission, `charged` the
//! TAT right after it, and `now` never before `at`. A refund *out of order* gives back another
//! admission than the newest and leaves a mark with its time on the key. The key is *marked* for an
//! admission at or before that time:
//!
//! ```text
//!   marked:  mark >= at
//!
//!   newest         not marked, TAT == charged    back = min(c, charged - now)
//!   out of order   not marked                    back = min(c, charged - now)
//!                                                back -= TAT - charged    if TAT > now + burst * I
//!                  marked, never a reservation   back = min(c, at + c - now)
//!                  marked otherwise              back = 0
//!   in a queue     TAT != charged                back = 0
//!
//!   TAT  = TAT - back, but not below `now` nor below that of a key never seen
//!   mark = max(mark, now)      out of order, also with back = 0; never in a queue
//!                              a credit
//! ```
//!
//! A *credit* is given back as the newest charge is, and marks the key. A queue reads no marks.
//!
//! # Why a refund creates no tokens
//!
//! *Not marked*: all later admissions were charged on top of this one. Without this one, the TAT
//! would now be lower by at least `min(c, charged - now)`: by c at first, and a later charge
//! reduces the difference only by what the refill had paid by then. A reservation beyond the burst
//! got a departure that depends on all charges before it; what it depends on is not given back
//! (this is the rule of Go's `x/time/rate`).
//!
//! *Newest*: without a mark, later admissions only raised the TAT, and giving them back lowered it
//! again. When the TAT is the same as right after the charge, no later admission depends on the
//! charge. On a *marked* key other admissions may have led to the same TAT, so no admission counts
//! as the newest.
//!
//! *Marked*: `charged` may include charges that were given back. But this request alone, charged at
//! `at`, would still have a debt of `at + c - now`. So the refund gives back at most that. The TAT
//! may no longer show that a reservation depends on it, so once a key had a reservation, nothing is
//! given back.
//!
//! `tests/refund_search.rs` tries this rule, and simpler ones, with every short sequence of
//! operations.
//!
//! # A refund at an old time
//!
//! The argument above needs a refund that is not earlier than the key's latest charge, at T. An
//! earlier refund creates at most `min(c, T - now)`, which was refilled in between. Its mark is
//! also too early for the admissions after `now`: each of them may later get back up to its cost
//! too much. If the mark were T, only the refill would be too much.

use crate::arrival::Arrivals;
use crate::rule::{Charge, clamp};
use crate::turn::Turn;

/// The state of a bucket's key, in grains.
#[derive(Clone, Debug)]
pub(crate) struct BucketState {
    /// When the bucket will be full.
    pub(crate) tat: u128,
    /// The latest time of a refund out of order.
    mark: Option<u128>,
    /// Whether the key ever had a reservation.
    had_reservation: bool,
}

impl BucketState {
    pub(crate) fn new(tat: u128) -> Self {
        Self { tat, mark: None, had_reservation: false }
    }

    pub(crate) fn with_tat(&self, tat: u128) -> Self {
        Self { tat, ..*self }
    }

    /// The state after a debit, which may lie ahead as a reservation does.
    pub(crate) fn debited(&self, tat: u128) -> Self {
        Self { tat, had_reservation: true, ..*self }
    }

    /// The state once a reservation has this turn.
    pub(crate) fn with_reservation(&self, turn: Turn<u128>) -> Turn<Self> {
        match turn {
            Turn::After { wait, charged: tat } => {
                Turn::After { wait, charged: Self { tat, had_reservation: true, ..*self } }
            }
            Turn::Full { wait } => Turn::Full { wait },
        }
    }

    /// Whether a refund out of order was tried, or a credit given, at this time or later.
    fn marked(&self, at: u128) -> bool {
        self.mark >= Some(at)
    }
}

impl Arrivals {
    /// The state after a refund, and how many units came back, with part of a unit rounded up. The
    /// TAT never falls below `unseen`, that of a key that was never seen.
    pub(crate) fn refunded(
        &self,
        unseen: u128,
        state: &BucketState,
        charge: &Charge<'_, BucketState>,
        now: u64,
    ) -> (BucketState, u64) {
        let (at, now) = (self.clock(charge.at), self.clock(now));
        let (cost, charged) = (self.grains(charge.cost), charge.after.tat);
        let left = cost.min(charged.saturating_sub(now));
        if state.tat == charged && !state.marked(at) {
            return self.lowered(state, left, now.max(unseen));
        }
        let reserved_ahead = state.tat > now.saturating_add(self.grains(self.capacity()));
        let back = match state.marked(at) {
            false if reserved_ahead => left.saturating_sub(state.tat.saturating_sub(charged)),
            false => left,
            true if state.had_reservation => 0,
            true => cost.min(at.saturating_add(cost).saturating_sub(now)),
        };
        let marked = BucketState { mark: state.mark.max(Some(now)), ..*state };
        self.lowered(&marked, back, now.max(unseen))
    }

    /// The state after a refund in a queue. Only the last request can be taken out, because later
    /// ones already have departures.
    pub(crate) fn refunded_in_queue(
        &self,
        state: &BucketState,
        charge: &Charge<'_, BucketState>,
        now: u64,
    ) -> (BucketState, u64) {
        let now = self.clock(now);
        let is_last = state.tat == charge.after.tat;
        let back = if is_last { self.grains(charge.cost) } else { 0 };
        self.lowered(state, back, now)
    }

    /// The state after a credit, as after the refund of the newest charge; and how many units came
    /// back. It leaves a mark: `charged` of earlier charges no longer tells how much remains.
    pub(crate) fn credited(
        &self,
        unseen: &BucketState,
        state: &BucketState,
        units: u64,
        now: u64,
    ) -> (BucketState, u64) {
        let now = self.clock(now);
        let marked = BucketState { mark: state.mark.max(Some(now)), ..*state };
        match self.lowered(&marked, self.grains(units), now.max(unseen.tat)) {
            (_, 0) => (state.clone(), 0),
            given => given,
        }
    }

    fn lowered(&self, state: &BucketState, back: u128, lowest: u128) -> (BucketState, u64) {
        let back = back.min(state.tat.saturating_sub(lowest));
        (state.with_tat(state.tat - back), clamp(back.div_ceil(self.grains(1))))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Model, Receipt, Reservation};

    fn bucket(count: u64, period_ns: u64, burst: u64, initial: u64) -> Model {
        Model::new(Algorithm::TokenBucket { count, period_ns, burst, initial, grains: None })
    }

    fn admit(model: &mut Model, now: u64, cost: u64) -> Receipt {
        model.admit("k", now, cost).1.expect("there is room")
    }

    fn reserve(model: &mut Model, now: u64, cost: u64) -> Reservation {
        model.reserve("k", now, cost, u64::MAX).unwrap().booked().expect("any wait will do")
    }

    #[test]
    fn a_refund_at_once_gives_everything_back() {
        let mut model = bucket(1, 10, 5, 5);
        let receipt = admit(&mut model, 0, 3);
        assert_eq!(model.refund(receipt, 0), 3);
        assert_eq!(model.peek("k", 0, 0), bucket(1, 10, 5, 5).peek("k", 0, 0));
    }

    #[test]
    fn a_refund_stops_at_the_burst() {
        let mut model = bucket(1, 1_000, 100, 100);
        let receipt = admit(&mut model, 0, 60);
        // 59 have refilled in since: 99 of 100.
        assert_eq!(model.peek("k", 59_000, 0).remaining, 99);
        assert_eq!(model.refund(receipt, 59_000), 1);
        assert_eq!(model.peek("k", 59_000, 0).remaining, 100);
        assert_eq!(model.peek("k", 59_000, 0).reset_after_ns, 0);
    }

    #[test]
    fn a_refund_gives_back_only_what_the_refill_has_not() {
        let mut model = bucket(1, 10, 3, 3);
        let receipt = admit(&mut model, 0, 2);
        // Five of twenty grains are left: half a unit comes back, which is rounded up to one.
        assert_eq!(model.refund(receipt, 15), 1);
        assert_eq!(model.peek("k", 15, 0).remaining, 3);
    }

    #[test]
    fn a_refund_from_before_a_full_bucket_is_empty() {
        let mut model = bucket(1, 10, 3, 3);
        let early = admit(&mut model, 0, 1);
        assert!(model.check("k", 10, 3).allowed);
        assert_eq!(model.refund(early, 10), 0);
        assert!(!model.check("k", 10, 1).allowed);
    }

    #[test]
    fn without_reservations_later_admissions_do_not_matter() {
        let mut model = bucket(1, 10, 3, 3);
        let early = admit(&mut model, 0, 1);
        assert!(model.check("k", 5, 2).allowed);
        assert_eq!(model.refund(early, 5), 1); // half a unit
        assert_eq!(model.peek("k", 5, 1).retry_after_ns, None);
    }

    #[test]
    fn a_refund_is_never_earlier_than_its_admission() {
        let mut model = bucket(1, 10, 3, 3);
        let receipt = admit(&mut model, 100, 2);
        assert_eq!(model.refund(receipt, 0), 2);
        assert_eq!(model.peek("k", 100, 0).remaining, 3);
    }

    #[test]
    fn a_refund_leaves_no_more_than_a_new_key_has() {
        let mut model = bucket(1, 10, 10, 5);
        let receipt = admit(&mut model, 0, 2);
        model.reset("k");
        assert_eq!(model.refund(receipt, 0), 0);
        assert_eq!(model.peek("k", 0, 0).remaining, 5);
    }

    #[test]
    fn a_cost_of_zero_gives_nothing_back() {
        let mut model = bucket(1, 10, 3, 3);
        assert!(model.check("k", 0, 3).allowed);
        let nothing = admit(&mut model, 0, 0);
        assert_eq!(model.refund(nothing, 0), 0);
        assert_eq!(model.peek("k", 0, 0).remaining, 0);
    }

    #[test]
    fn a_refused_request_has_no_receipt() {
        let mut model = bucket(1, 10, 3, 3);
        let (answer, receipt) = model.admit("k", 0, 4);
        assert!(answer.never && receipt.is_none());
    }

    /// The second receipt's `charged` includes the first charge, which was given back before.
    #[test]
    fn a_refund_out_of_order_is_not_given_back_again() {
        let mut model = bucket(1, 1, 2, 2);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 0), 1);
        assert!(model.check("k", 1, 1).allowed); // the TAT equals the second's `charged` again
        assert_eq!(model.refund(second, 1), 0); // without the first, the bucket was full at 1
        assert!(!model.check("k", 1, 2).allowed);
    }

    #[test]
    fn a_marked_key_gives_back_a_requests_own_debt() {
        let mut model = bucket(1, 10, 3, 3);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 5), 1); // a half: the refill has paid the other
        assert_eq!(model.refund(second, 5), 1); // a half again, despite the first
        assert_eq!(model.peek("k", 5, 0).reset_after_ns, 5);
    }

    #[test]
    fn a_mark_does_not_affect_later_admissions() {
        let mut model = bucket(1, 10, 5, 5);
        let [first, _second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 0), 1);
        let [third, _fourth] = [1, 1].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(third, 10), 1); // in debt from 10 to 20
        assert_eq!(model.peek("k", 10, 0).reset_after_ns, 10);
    }

    #[test]
    fn a_second_refund_keeps_what_a_reservation_depends_on() {
        let mut model = bucket(1, 1, 2, 2);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 0), 1);
        assert_eq!(reserve(&mut model, 0, 2).departs_at_ns(), 1);
        assert_eq!(model.refund(second, 1), 0);
        assert!(!model.check("k", 1, 1).allowed);
    }

    /// After the first cancellation the TAT no longer shows the departure at 5.
    #[test]
    fn a_second_cancellation_keeps_what_a_reservation_depends_on() {
        let mut model = bucket(1, 1, 3, 3);
        assert!(model.check("k", 0, 1).allowed);
        let [early, late, last] = [3, 3, 1].map(|cost| reserve(&mut model, 0, cost));
        assert_eq!([&early, &late, &last].map(Reservation::departs_at_ns), [1, 4, 5]);
        assert_eq!(model.cancel(late, 0), 2);
        assert_eq!(model.cancel(early, 0), 0);
        assert_eq!(reserve(&mut model, 0, 3).departs_at_ns(), 6);
    }

    #[test]
    fn only_the_last_request_of_a_queue_is_refunded() {
        let (count, period_ns, capacity, grains) = (1, 10, 2, None);
        let mut queue = Model::new(Algorithm::LeakyQueue { count, period_ns, capacity, grains });
        let [first, second] = [0, 0].map(|now| admit(&mut queue, now, 1));
        assert_eq!(queue.refund(first, 0), 0); // the request behind it already has a departure
        assert_eq!(queue.refund(second, 0), 1);
        assert_eq!(queue.check("k", 0, 1).delay_ns, 10);
    }

    /// A bucket has no time but its TAT, so it does not know that a refund's time is old.
    #[test]
    fn a_refund_at_an_old_time_creates_the_refill_since() {
        let mut model = bucket(1, 1, 2, 2);
        let first = admit(&mut model, 0, 1);
        assert!(model.check("k", 1, 1).allowed);
        assert_eq!(model.refund(first, 0), 1); // nothing: at 1 the bucket was full
        assert!(model.check("k", 1, 2).allowed); // three at one instant
    }

    #[test]
    fn a_refund_at_an_old_time_marks_no_later_charge() {
        let mut model = bucket(1, 1, 6, 6);
        let first = admit(&mut model, 0, 3);
        let second = admit(&mut model, 2, 3);
        assert_eq!(model.refund(first, 1), 2); // one too many, which the refill would give until 2
        assert!(model.check("k", 3, 5).allowed);
        assert_eq!(model.refund(second, 3), 3); // should be two, its own debt
        assert!(model.check("k", 5, 5).allowed); // ten within two, from a burst of six
    }

    #[test]
    fn a_credit_gives_what_is_left_of_the_debt() {
        let mut model = bucket(1, 10, 10, 8);
        assert_eq!(model.credit("k", 0, 3), 0, "two are missing to a key that was never seen");
        assert!(model.check("k", 0, 5).allowed);
        assert_eq!([model.credit("k", 5, 2), model.credit("k", 5, 9)], [2, 3]);
        assert_eq!(model.peek("k", 5, 0), bucket(1, 10, 10, 8).peek("k", 5, 0));
    }

    #[test]
    fn after_a_credit_a_request_gives_back_its_own_debt() {
        let mut model = bucket(1, 10, 6, 6);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 3));
        assert_eq!(model.credit("k", 0, 4), 4);
        assert_eq!(model.refund(second, 10), 1); // of its two one is there
        assert_eq!(model.refund(first, 10), 0);
    }
}
