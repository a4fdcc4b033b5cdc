//! The token bucket.
//!
//! A bucket holds up to `burst` tokens and gains `count` tokens, evenly, in each period. A request
//! takes as many tokens as it costs, or is refused. So any interval of length D admits at most
//! `burst + rate * D`.
//!
//! The state is the time at which the bucket will be full, see [`crate::arrival`]. With fewer than
//! `burst` initial tokens, *every* bucket had so few at the clock's zero and fills since then,
//! whether its key was seen or not.

use crate::arrival::Arrivals;
use crate::inherit::Debt;
use crate::refund::BucketState;
use crate::rule::{Charge, Counted, Rule};
use crate::turn::Turn;

pub(crate) struct TokenBucket {
    arrivals: Arrivals,
    /// The TAT of every bucket at the clock's zero.
    initial_tat: u128,
}

impl TokenBucket {
    pub(crate) fn new(count: u64, period_ns: u64, burst: u64, initial: u64, grains: Option<u64>) -> Self {
        let arrivals = Arrivals::new(count, period_ns, burst, grains);
        Self { arrivals, initial_tat: arrivals.grains(burst.saturating_sub(initial)) }
    }
}

impl TokenBucket {
    pub(crate) fn by_intervals(count: u64, period_ns: u64, origin_ns: u64, burst: u64, initial: u64) -> Self {
        let arrivals = Arrivals::by_intervals(count, period_ns, origin_ns, burst);
        Self { arrivals, initial_tat: arrivals.grains(burst.saturating_sub(initial)) }
    }
}

impl Rule for TokenBucket {
    type State = BucketState;

    fn limit(&self) -> u64 {
        self.arrivals.capacity()
    }

    fn unseen(&self) -> BucketState {
        BucketState::new(self.initial_tat)
    }

    fn admitted(&self, state: &BucketState, now: u64, cost: u64) -> Option<BucketState> {
        self.arrivals.admitted(state.tat, now, cost).map(|tat| state.with_tat(tat))
    }

    fn refused(&self, state: &BucketState, _now: u64, _cost: u64) -> BucketState {
        state.clone()
    }

    fn remaining(&self, state: &BucketState, now: u64) -> u64 {
        self.arrivals.remaining(state.tat, now)
    }

    fn retry_after(&self, state: &BucketState, now: u64, cost: u64) -> u64 {
        self.arrivals.retry_after(state.tat, now, cost)
    }

    fn reset_after(&self, state: &BucketState, now: u64) -> u64 {
        self.arrivals.debt_ends_after(state.tat, now)
    }

    fn refunded(
        &self,
        state: &BucketState,
        charge: &Charge<'_, BucketState>,
        now: u64,
    ) -> (BucketState, u64) {
        self.arrivals.refunded(self.initial_tat, state, charge, now)
    }

    fn credited(
        &self,
        state: &BucketState,
        unseen: &BucketState,
        now: u64,
        units: u64,
    ) -> (BucketState, u64) {
        self.arrivals.credited(unseen, state, units, now)
    }

    fn debited(&self, state: &BucketState, now: u64, cost: u64) -> Option<(BucketState, u64)> {
        Some((state.with_tat(self.arrivals.debited(state.tat, now, cost)), cost))
    }

    fn debt(&self, state: &BucketState, now: u64) -> Option<Debt> {
        Some(self.arrivals.debt_in_grains(state.tat, now))
    }

    fn with_debt(&self, debt: Debt, now: u64, _: Option<Counted>) -> Option<BucketState> {
        Some(BucketState::new(self.arrivals.tat_with_debt(debt, now)))
    }

    fn realigned(&self, origin: u64) -> Option<Self> {
        Some(Self { arrivals: self.arrivals.realigned(origin)?, ..*self })
    }

    fn moved(&self, next: &Self, state: &BucketState, _: &BucketState, now: u64) -> BucketState {
        BucketState::new(self.arrivals.moved(&next.arrivals, state.tat, now))
    }

    fn refills_by_steps(&self) -> bool {
        self.arrivals.refills_by_steps()
    }

    fn booked(&self, state: &BucketState, until: u64) -> BucketState {
        state.booked(until)
    }

    fn turn(&self, state: &BucketState, now: u64, cost: u64) -> Option<Turn<BucketState>> {
        Some(state.with_reservation(self.arrivals.turn(state.tat, now, cost)))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Model};

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn bucket(count: u64, period_ns: u64, burst: u64, initial: u64) -> Model {
        Model::new(Algorithm::TokenBucket { count, period_ns, burst, initial, grains: None })
    }

    /// How many requests of cost 1 pass at `now`.
    fn drain(model: &mut Model, now: u64) -> u64 {
        (0..).take_while(|_| model.check("k", now, 1).allowed).count() as u64
    }

    #[test]
    fn a_long_idle_bucket_admits_its_burst_and_no_more() {
        let mut model = bucket(5, SECOND, 5, 5);
        assert_eq!(drain(&mut model, 0), 5);
        assert_eq!(drain(&mut model, 2 * SECOND), 5);
    }

    #[test]
    fn a_pause_never_gives_more_than_one_burst() {
        for pause in [17_999 * MS, 12 * SECOND] {
            let mut model = bucket(60, 60 * SECOND, 10, 10);
            assert_eq!(drain(&mut model, 0), 10);
            assert_eq!(drain(&mut model, pause), 10);
        }
    }

    #[test]
    fn two_a_second_admits_two_then_two_a_second_later() {
        let mut model = bucket(2, SECOND, 2, 2);
        let allowed = [0, 1, 2, 1002, 1003, 1004].map(|t| model.check("k", t * MS, 1).allowed);
        assert_eq!(allowed, [true, true, false, true, true, false]);
    }

    #[test]
    fn a_bucket_that_starts_empty_fills_from_the_clocks_zero() {
        let mut model = bucket(10, 100, 10, 0);
        assert_eq!(drain(&mut model, 97), 9);
        assert_eq!(model.check("k", 97, 1).retry_after_ns, Some(3));
        assert_eq!(drain(&mut model, 100), 1);
    }

    #[test]
    fn a_half_full_bucket_fills_before_its_key_is_seen() {
        let model = bucket(10, 100, 10, 5);
        assert_eq!([0, 9, 10, 49, 50, 1_000].map(|t| model.peek("k", t, 0).remaining), [5, 5, 6, 9, 10, 10]);
    }

    #[test]
    fn a_third_of_a_second_is_rounded_up() {
        let mut model = bucket(3, SECOND, 1, 0);
        let wait = 333_333_334;
        assert_eq!(model.check("k", 0, 1).retry_after_ns, Some(wait));
        assert_eq!(model.check("k", wait - 1, 1).retry_after_ns, Some(1));
        assert!(model.check("k", wait, 1).allowed);
    }

    #[test]
    fn waits_grow_with_the_cost() {
        let empty = bucket(3, 2 * SECOND, 3, 0);
        assert_eq!(empty.peek("k", 0, 1).retry_after_ns, Some(666_666_667));

        let empty = bucket(1, SECOND, 4, 0);
        assert_eq!(empty.peek("k", 200 * MS, 1).retry_after_ns, Some(800 * MS));
        assert_eq!(empty.peek("k", 200 * MS, 3).retry_after_ns, Some(2_800 * MS));
    }

    #[test]
    fn a_clock_that_goes_back_mints_no_tokens() {
        let mut model = bucket(20, SECOND, 3, 3);
        let instants = [10_100 * MS, 10_000 * MS].into_iter().cycle().take(100);
        assert_eq!(instants.filter(|&t| model.check("k", t, 1).allowed).count(), 3);
    }

    #[test]
    fn the_answer_describes_the_bucket_after_the_request() {
        let mut model = bucket(4, SECOND, 4, 4);
        assert_eq!([(); 4].map(|()| model.check("k", 0, 1).remaining), [3, 2, 1, 0]);
        assert_eq!(model.peek("k", 0, 1).reset_after_ns, SECOND);
        assert_eq!(model.peek("k", 300 * MS, 2).remaining, 1);
    }

    #[test]
    fn a_grain_is_the_smallest_step_of_the_refill() {
        let quarters =
            Algorithm::TokenBucket { count: 1, period_ns: 10, burst: 2, initial: 2, grains: Some(4) };
        let mut model = Model::new(quarters);
        // At 4 ns the clock shows one grain (2.5 ns), so a bucket drained now is full at 9 grains.
        assert_eq!(model.check("k", 4, 2).reset_after_ns, 23 - 4);
        assert_eq!(model.check("k", 4, 1).retry_after_ns, Some(13 - 4)); // 5 grains are 12.5 ns
    }
}
