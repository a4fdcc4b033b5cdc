//! What a bucket gives back.
//!
//! In terms of [`crate::arrival`], with c = cost * I, `at` the time of the admission, `charged` the TAT right after
//! it, and `now` never before `at`:
//!
//! ```text
//!   marked:  a refund out of order was tried on the key, at `at` or later
//!
//!   newest         not marked, TAT == charged     back = min(c, charged - now)
//!   out of order   not marked                     back = min(c, charged - now)
//!                                                 back = back - (TAT - charged)   if TAT > now + burst * I
//!                  marked, nobody ever reserved   back = min(c, at + c - now)
//!                  marked otherwise               back = 0
//!   in a queue     TAT != charged                 back = 0
//!
//!   TAT  = TAT - back, but not below `now` nor below that of a key never seen
//!   mark = max(mark, now)                         out of order, whatever it gives back; never in a queue
//! ```
//!
//! # Why it mints nothing
//!
//! *Not marked*: whoever came since was charged on top of it. Had it never come, the TAT would now be lower by at
//! least `min(c, charged - now)`: by c at first, and later charges lose of that only what the refill had paid by
//! then. Who is booked ahead got a departure that counts on everything charged before; what they count on is not
//! given back (that is the rule of Go's `x/time/rate`).
//!
//! *Newest*: the TAT of a receipt that is not marked was only raised by those who came since and lowered again when
//! the last of them was given back. If it is what it was then, nobody is left who counts on the charge. On a *marked*
//! key the same TAT may be others', so there is no newest.
//!
//! *Marked*: `charged` may rest on what was given back. But without the others this request, too, would have been
//! charged from `at` on, so that `at + c - now` of it are owed whatever became of them: its own debt is paid first.
//! Who is booked may no longer show in the TAT, so once anybody has reserved, nothing is given back.
//!
//! `tests/refund_search.rs` puts the rule, and simpler ones, to every short sequence there is.
//!
//! # A refund at an old time
//!
//! All of this is about refunds that are not earlier than the key's latest charge, at T. An earlier one mints at most
//! `min(c, T - now)`, which has dripped in between; and the mark it leaves is too early for those charged after
//! `now`, each of whom may get up to its cost too much in turn. Were the mark T, it would be the drip alone.

use crate::arrival::Arrivals;
use crate::reservation::Place;
use crate::rule::{Charge, clamp};

/// What is remembered of a bucket's key, in grains.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    /// When the bucket is full again.
    pub(crate) tat: u128,
    /// The latest time of a refund out of order.
    mark: Option<u128>,
    /// Whether anybody has ever reserved.
    reserved: bool,
}

impl Owed {
    pub(crate) fn new(tat: u128) -> Self {
        Self { tat, mark: None, reserved: false }
    }

    /// The same key with another TAT.
    pub(crate) fn charged(&self, tat: u128) -> Self {
        Self { tat, ..*self }
    }

    /// The same key once somebody has reserved `place`.
    pub(crate) fn booked(&self, place: Place<u128>) -> Place<Self> {
        match place {
            Place::After { wait, charged: tat } => {
                Place::After { wait, charged: Self { tat, reserved: true, ..*self } }
            }
            Place::Full { wait } => Place::Full { wait },
        }
    }

    /// Whether a refund out of order was tried at this time or later.
    fn marked(&self, at: u128) -> bool {
        self.mark >= Some(at)
    }
}

impl Arrivals {
    /// What is owed after a refund, and how many units that was, a begun one counted as whole. A key never gets
    /// better than one that was never seen, whose TAT is `unseen`.
    pub(crate) fn refunded(
        &self,
        unseen: u128,
        owed: &Owed,
        charge: &Charge<'_, Owed>,
        now: u64,
    ) -> (Owed, u64) {
        let (at, now) = (self.clock(charge.at), self.clock(now));
        let (cost, charged) = (self.grains(charge.cost), charge.after.tat);
        let left = cost.min(charged.saturating_sub(now));
        if owed.tat == charged && !owed.marked(at) {
            return self.lowered(owed, left, now.max(unseen));
        }
        let booked_ahead = owed.tat > now.saturating_add(self.grains(self.capacity()));
        let back = match owed.marked(at) {
            false if booked_ahead => left.saturating_sub(owed.tat.saturating_sub(charged)),
            false => left,
            true if owed.reserved => 0,
            true => cost.min(at.saturating_add(cost).saturating_sub(now)),
        };
        let marked = Owed { mark: owed.mark.max(Some(now)), ..*owed };
        self.lowered(&marked, back, now.max(unseen))
    }

    /// The same in a queue, where each departs when those before it are gone: only the last can be taken out.
    pub(crate) fn refunded_in_a_queue(
        &self,
        owed: &Owed,
        charge: &Charge<'_, Owed>,
        now: u64,
    ) -> (Owed, u64) {
        let now = self.clock(now);
        let last = owed.tat == charge.after.tat;
        let back = if last { self.grains(charge.cost) } else { 0 };
        self.lowered(owed, back, now)
    }

    fn lowered(&self, owed: &Owed, back: u128, lowest: u128) -> (Owed, u64) {
        let back = back.min(owed.tat.saturating_sub(lowest));
        (owed.charged(owed.tat - back), clamp(back.div_ceil(self.grains(1))))
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
        // 59 have flowed in since: 99 of 100.
        assert_eq!(model.peek("k", 59_000, 0).remaining, 99);
        assert_eq!(model.refund(receipt, 59_000), 1);
        assert_eq!(model.peek("k", 59_000, 0).remaining, 100);
        assert_eq!(model.peek("k", 59_000, 0).reset_after_ns, 0);
    }

    #[test]
    fn what_the_refill_has_paid_back_is_not_given_again() {
        let mut model = bucket(1, 10, 3, 3);
        let receipt = admit(&mut model, 0, 2);
        // Five of twenty grains are left: half a unit is given back, which counts as one.
        assert_eq!(model.refund(receipt, 15), 1);
        assert_eq!(model.peek("k", 15, 0).remaining, 3);
    }

    #[test]
    fn a_full_bucket_in_between_has_paid_for_everything_before() {
        let mut model = bucket(1, 10, 3, 3);
        let early = admit(&mut model, 0, 1);
        assert!(model.check("k", 10, 3).allowed);
        assert_eq!(model.refund(early, 10), 0);
        assert!(!model.check("k", 10, 1).allowed);
    }

    #[test]
    fn others_do_not_matter_while_nobody_is_booked_ahead() {
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
    fn nothing_is_given_back_beyond_what_a_new_key_has() {
        let mut model = bucket(1, 10, 10, 5);
        let receipt = admit(&mut model, 0, 2);
        model.reset("k");
        assert_eq!(model.refund(receipt, 0), 0);
        assert_eq!(model.peek("k", 0, 0).remaining, 5);
    }

    #[test]
    fn a_cost_of_nothing_gives_nothing_back() {
        let mut model = bucket(1, 10, 3, 3);
        assert!(model.check("k", 0, 3).allowed);
        let nothing = admit(&mut model, 0, 0);
        assert_eq!(model.refund(nothing, 0), 0);
        assert_eq!(model.peek("k", 0, 0).remaining, 0);
    }

    #[test]
    fn who_is_refused_has_no_receipt() {
        let mut model = bucket(1, 10, 3, 3);
        let (answer, receipt) = model.admit("k", 0, 4);
        assert!(answer.never && receipt.is_none());
    }

    /// The second receipt's `charged` rests on the first charge, which is gone when it is refunded.
    #[test]
    fn what_was_given_back_out_of_order_is_not_given_back_again() {
        let mut model = bucket(1, 1, 2, 2);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 0), 1);
        assert!(model.check("k", 1, 1).allowed); // and the TAT is the second's again
        assert_eq!(model.refund(second, 1), 0); // without the first, the bucket was full at 1
        assert!(!model.check("k", 1, 2).allowed);
    }

    #[test]
    fn ones_own_debt_is_paid_first() {
        let mut model = bucket(1, 10, 3, 3);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 5), 1); // a half: the refill has paid the other
        assert_eq!(model.refund(second, 5), 1); // a half again, though it was charged on top of the first
        assert_eq!(model.peek("k", 5, 0).reset_after_ns, 5);
    }

    #[test]
    fn who_comes_after_a_refund_out_of_order_is_refunded_as_if_there_had_been_none() {
        let mut model = bucket(1, 10, 5, 5);
        let [first, _second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 0), 1);
        let [third, _fourth] = [1, 1].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(third, 10), 1); // owed from 10 to 20
        assert_eq!(model.peek("k", 10, 0).reset_after_ns, 10);
    }

    #[test]
    fn a_refund_after_a_refund_moves_nobody_who_is_booked() {
        let mut model = bucket(1, 1, 2, 2);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 0), 1);
        assert_eq!(reserve(&mut model, 0, 2).departs_at_ns(), 1);
        assert_eq!(model.refund(second, 1), 0);
        assert!(!model.check("k", 1, 1).allowed);
    }

    /// After the first cancellation the TAT no longer shows that somebody departs at 5.
    #[test]
    fn a_cancellation_after_a_cancellation_forgets_nobody_who_is_booked() {
        let mut model = bucket(1, 1, 3, 3);
        assert!(model.check("k", 0, 1).allowed);
        let [early, late, last] = [3, 3, 1].map(|cost| reserve(&mut model, 0, cost));
        assert_eq!([&early, &late, &last].map(Reservation::departs_at_ns), [1, 4, 5]);
        assert_eq!(model.cancel(late, 0), 2);
        assert_eq!(model.cancel(early, 0), 0);
        assert_eq!(reserve(&mut model, 0, 3).departs_at_ns(), 6);
    }

    #[test]
    fn only_the_last_is_taken_out_of_a_queue() {
        let (count, period_ns, capacity, grains) = (1, 10, 2, None);
        let mut queue = Model::new(Algorithm::LeakyQueue { count, period_ns, capacity, grains });
        let [first, second] = [0, 0].map(|now| admit(&mut queue, now, 1));
        assert_eq!(queue.refund(first, 0), 0); // who is behind it has a departure already
        assert_eq!(queue.refund(second, 0), 1);
        assert_eq!(queue.check("k", 0, 1).delay_ns, 10);
    }

    /// A bucket knows no time but its TAT, so a refund cannot tell that its own time is old.
    #[test]
    fn a_refund_at_an_old_time_mints_what_has_dripped_since() {
        let mut model = bucket(1, 1, 2, 2);
        let first = admit(&mut model, 0, 1);
        assert!(model.check("k", 1, 1).allowed);
        assert_eq!(model.refund(first, 0), 1); // nothing: at 1 the bucket was full
        assert!(model.check("k", 1, 2).allowed); // three at one instant
    }

    #[test]
    fn a_refund_at_an_old_time_marks_nobody_charged_since() {
        let mut model = bucket(1, 1, 6, 6);
        let first = admit(&mut model, 0, 3);
        let second = admit(&mut model, 2, 3);
        assert_eq!(model.refund(first, 1), 2); // one, which the refill has paid until 2
        assert!(model.check("k", 3, 5).allowed);
        assert_eq!(model.refund(second, 3), 3); // two: its own debt
        assert!(model.check("k", 5, 5).allowed); // ten within two, from a burst of six
    }
}
