//! What a bucket gives back.
//!
//! In terms of [`crate::arrival`], with c = cost * I and `charged` the TAT right after the admission:
//!
//! ```text
//!   left = max(0, charged - now)
//!   back = min(c, left)
//!   back = max(0, back - (TAT - charged))      if somebody is booked ahead: TAT > now + burst * I
//!   TAT  = TAT - back
//! ```
//!
//! *Left* is what the refill has not paid back anyway: without the admission the bucket might have been full at
//! `charged - c`, so at most `charged - now` of it is still owed. Who is booked ahead got a departure that
//! counts on everything charged before; what they count on is not given back. (That is the rule of Go's
//! `x/time/rate`.)
//!
//! The argument holds for one refund. `charged` is no longer true once others gave back what they had charged
//! before, and the TAT does not show everybody who is booked: `tests/known_holes.rs`.

use crate::arrival::Arrivals;
use crate::rule::clamp;

impl Arrivals {
    /// The TAT after giving back `cost`, whose admission left `charged` behind, and how many whole units that
    /// was. A key never gets better than one that was never seen, whose TAT is `unseen`.
    pub(crate) fn refunded(
        &self,
        unseen: u128,
        tat: u128,
        charged: u128,
        now: u64,
        cost: u64,
    ) -> (u128, u64) {
        let now = self.clock(now);
        let left = charged.saturating_sub(now);
        let mut back = self.grains(cost).min(left);
        let booked_ahead = tat > now.saturating_add(self.grains(self.capacity()));
        if booked_ahead {
            back = back.saturating_sub(tat.saturating_sub(charged));
        }
        let back = back.min(tat.saturating_sub(unseen));
        (tat - back, clamp(back / self.grains(1)))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Model, Receipt};

    fn bucket(count: u64, period_ns: u64, burst: u64, initial: u64) -> Model {
        Model::new(Algorithm::TokenBucket { count, period_ns, burst, initial, grains: None })
    }

    fn admit(model: &mut Model, now: u64, cost: u64) -> Receipt {
        model.admit("k", now, cost).1.expect("there is room")
    }

    #[test]
    fn a_refund_at_once_gives_everything_back() {
        let mut model = bucket(1, 10, 5, 5);
        let receipt = admit(&mut model, 0, 3);
        assert_eq!(model.refund(receipt, 0), 3);
        assert_eq!(model.peek("k", 0, 0), bucket(1, 10, 5, 5).peek("k", 0, 0));
    }

    /// V10.4
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
        // Five of twenty grains are left: half a unit is given back, which is no whole one.
        assert_eq!(model.refund(receipt, 15), 0);
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
        assert_eq!(model.refund(early, 5), 0); // half a unit
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
}
