//! What a bucket gives back.
//!
//! In terms of [`crate::arrival`], with c = cost * I, `at` the time of the admission, `charged` the
//! TAT right after it, and `now` never before `at`. A refund *out of order* gives back another
//! admission than the newest, or one of a key that had such a refund before. It is noted:
//!
//! ```text
//!   latest   the time of the last refund that was noted; debt   what it left
//!   steps    for each of them its time x, the one before it, and L, which the least debt since x
//!            is not below
//!
//!   kept:    latest < at
//!
//!   kept     TAT == charged                      back = min(c, charged - now)
//!   kept     otherwise                           back = min(c, charged - now)
//!                                                back -= TAT - charged    if TAT > now + burst * I
//!                                                  and booked ahead until at, or later
//!   lost     booked ahead until at, or later     back = 0
//!   lost     otherwise                           back = min(c, the largest of
//!                                                  at + c - now
//!                                                  L of the last step with x <= at
//!                                                  min(L, charged - x) of the first with x > at,
//!                                                    if the refund before it came before at)
//!   in a queue     TAT != charged                back = 0
//! ```
//!
//! Each L is at most the debt that the last refund left, less the time since. A refund lowers the L
//! of the steps after `at` by what comes back. Those before are at most the least debt that is left
//! without the request. The TAT never falls below `now` nor below that of a key never seen.
//!
//! A *credit* is given back as the newest charge is, and forgets all steps. A queue notes nothing.
//!
//! # Why a refund creates no tokens
//!
//! Without the request the debt would be lower by c from `at` on, until it would have been zero:
//! from there on by what the debt was. So what comes back is at most `min(c, least debt since at)`,
//! which [`Exact`](crate::Exact) computes. All the rules above are at most that.
//!
//! *Kept*: since the charge, no refund lowered the debt. So it was never below what the charge
//! left, less the time. A reservation beyond the burst got a departure that depends on all charges
//! before it; what it depends on is not given back (this is the rule of Go's `x/time/rate`).
//!
//! *Lost*: `charged` may include charges that were given back. But this request alone, charged at
//! `at`, would still have a debt of `at + c - now`. And between two refunds that were noted the
//! debt falls by at most the time between them, whatever is charged. The TAT may no longer show
//! that a reservation depends on it, so nothing is given back from before a reservation departs.
//!
//! `tests/refund_search.rs` tries this rule, and simpler ones, with every short sequence of
//! operations.
//!
//! # A refund at an old time
//!
//! The argument above needs a refund that is not earlier than the key's latest charge, at T. An
//! earlier refund creates at most `min(c, T - now)`, which was refilled in between. It is also
//! noted too early for the admissions after `now`: each of them may later get back up to its cost
//! too much. If it were noted at T, only the refill would be too much.

use crate::arrival::Arrivals;
use crate::rule::{Charge, clamp};
use crate::turn::Turn;

/// How many steps a key keeps.
const STEPS: usize = 23;

/// The state of a bucket's key, in grains.
#[derive(Clone, Debug)]
pub(crate) struct BucketState {
    /// When the bucket will be full.
    pub(crate) tat: u128,
    /// The latest nanosecond at which a reservation would have departed that was asked for.
    booked: Option<u64>,
    refunds: Refunds,
}

/// What is known of the refunds out of order.
#[derive(Clone, Debug, Default)]
struct Refunds {
    /// When the last one came.
    latest: Option<u128>,
    /// The debt that it left.
    debt: u128,
    steps: Vec<Step>,
    /// Whether the order was lost since the key was new, or credited.
    noted: bool,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    at: u128,
    before: Option<u128>,
    least: u128,
}

impl Refunds {
    /// The least debt between `at` and `now`, as far as it is known.
    fn least(&self, at: u128, charged: u128, now: u128) -> u128 {
        let left = self.left(now);
        let before = self.steps.iter().rfind(|step| step.at <= at).map_or(0, |step| step.least.min(left));
        let after = self.steps.iter().find(|step| step.at > at).filter(|step| step.before < Some(at));
        let after = after.map_or(0, |step| step.least.min(left).min(charged.saturating_sub(step.at)));
        before.max(after)
    }

    /// What is left at least of the debt after the last refund.
    fn left(&self, now: u128) -> u128 {
        self.debt.saturating_sub(now.saturating_sub(self.latest.unwrap_or(0)))
    }

    /// Notes that `back` came back of what was charged at `at`. It left `debt`, and `rest` of the
    /// least debt since.
    fn note(&mut self, at: u128, now: u128, back: u128, rest: u128, debt: u128) {
        let noted_at = self.latest.map_or(now, |latest| latest.max(now));
        let debt = debt.saturating_sub(noted_at - now);
        let left = self.left(noted_at);
        for step in &mut self.steps {
            let least = step.least.min(left);
            step.least = if step.at <= at { least.min(rest) } else { least.saturating_sub(back) }.min(debt);
        }
        self.steps.push(Step { at: noted_at, before: self.latest, least: debt });
        if self.steps.len() > STEPS {
            self.drop_one();
        }
        (self.latest, self.debt, self.noted) = (Some(noted_at), debt, true);
    }

    /// Drops the step that rises least above the one before it, in parts of 2^32 of its own height.
    fn drop_one(&mut self) {
        let mut least_rise = (u128::MAX, 0);
        let mut below = 0;
        for (nth, step) in self.steps.iter().enumerate() {
            let rise = (step.least.saturating_sub(below) << 32).checked_div(step.least).unwrap_or(0);
            least_rise = least_rise.min((rise, nth));
            below = step.least;
        }
        self.steps.remove(least_rise.1);
    }

    fn forget(&mut self, now: u128) {
        *self = Self { latest: self.latest.max(Some(now)), ..Self::default() };
    }
}

impl BucketState {
    pub(crate) fn new(tat: u128) -> Self {
        Self { tat, booked: None, refunds: Refunds::default() }
    }

    pub(crate) fn with_tat(&self, tat: u128) -> Self {
        Self { tat, ..self.clone() }
    }

    /// The state when a reservation is asked for that departs until then.
    pub(crate) fn booked(&self, until: u64) -> Self {
        Self { booked: self.booked.max(Some(until)), ..self.clone() }
    }

    /// The state once a reservation has this turn.
    pub(crate) fn with_reservation(&self, turn: Turn<u128>) -> Turn<Self> {
        match turn {
            Turn::After { wait, charged } => Turn::After { wait, charged: self.with_tat(charged) },
            Turn::Full { wait } => Turn::Full { wait },
        }
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
        let debt = state.tat.saturating_sub(now.max(unseen));
        let is_kept = state.refunds.latest < Some(at);
        let least = if is_kept {
            charged.saturating_sub(now)
        } else if state.booked >= Some(charge.at) {
            0
        } else {
            let own = at.saturating_add(cost).saturating_sub(now);
            own.max(state.refunds.least(at, charged, now))
        };
        let least = least.min(debt);
        let reserved_ahead =
            state.booked >= Some(charge.at) && state.tat > now.saturating_add(self.grains(self.capacity()));
        let (back, rest) = if is_kept && reserved_ahead && state.tat > charged {
            (least.min(cost).saturating_sub(state.tat - charged), 0)
        } else {
            (least.min(cost), least.saturating_sub(cost))
        };
        let (mut next, units) = self.lowered(state, back, now.max(unseen));
        let reorders = !is_kept || state.tat != charged || state.refunds.noted;
        if back > 0 && reorders {
            next.refunds.note(at, now, back, rest, next.tat.saturating_sub(now));
        }
        (next, units)
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
    /// back. It forgets the refunds before: `charged` of earlier charges no longer tells how much
    /// remains.
    pub(crate) fn credited(
        &self,
        unseen: &BucketState,
        state: &BucketState,
        units: u64,
        now: u64,
    ) -> (BucketState, u64) {
        let now = self.clock(now);
        match self.lowered(state, self.grains(units), now.max(unseen.tat)) {
            (_, 0) => (state.clone(), 0),
            (mut next, given) => {
                next.refunds.forget(now);
                (next, given)
            }
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
    fn later_refunds_give_back_what_earlier_ones_could_not() {
        let mut model = bucket(1, 10, 3, 3);
        let [first, second] = [0, 0].map(|now| admit(&mut model, now, 1));
        assert_eq!(model.refund(first, 5), 1); // a half: the refill has paid the other
        assert_eq!(model.refund(second, 5), 1); // all of it: the first refund left ten grains
        assert_eq!(model.peek("k", 5, 0).reset_after_ns, 0);
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

    #[test]
    fn while_one_is_booked_nothing_comes_back_out_of_order() {
        let mut model = bucket(1, 1, 9, 9);
        let first = reserve(&mut model, 5, 1);
        let second = admit(&mut model, 5, 1);
        assert!(model.check("k", 5, 1).allowed);
        assert_eq!(model.refund(second, 5), 1);
        assert_eq!(model.cancel(first, 5), 0);
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
