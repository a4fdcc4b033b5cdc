//! The leaky bucket, as a meter and as a queue.
//!
//! Both are the reverse of the token bucket ([`crate::arrival`]): the missing tokens are the water
//! in this bucket, and the TAT is the time at which it is empty. The meter admits requests that fit
//! at once and refuses others. In the queue, a request that fits departs when all water before it
//! has leaked: at the TAT before the request.

use crate::arrival::Arrivals;
use crate::inherit::Debt;
use crate::refund::BucketState;
use crate::rule::{Charge, Counted, Rule};
use crate::turn::Turn;

pub(crate) struct LeakyBucket {
    arrivals: Arrivals,
    /// Whether admitted requests wait for their departure.
    is_queue: bool,
}

impl LeakyBucket {
    pub(crate) fn meter(count: u64, period_ns: u64, capacity: u64, grains: Option<u64>) -> Self {
        Self { arrivals: Arrivals::new(count, period_ns, capacity, grains), is_queue: false }
    }

    pub(crate) fn queue(count: u64, period_ns: u64, capacity: u64, grains: Option<u64>) -> Self {
        Self { arrivals: Arrivals::new(count, period_ns, capacity, grains), is_queue: true }
    }
}

impl Rule for LeakyBucket {
    type State = BucketState;

    fn limit(&self) -> u64 {
        self.arrivals.capacity()
    }

    fn unseen(&self) -> BucketState {
        BucketState::new(0)
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
        if self.is_queue {
            self.arrivals.refunded_in_queue(state, charge, now)
        } else {
            self.arrivals.refunded(0, state, charge, now)
        }
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

    fn booked(&self, state: &BucketState, until: u64) -> BucketState {
        state.booked(until)
    }

    fn turn(&self, state: &BucketState, now: u64, cost: u64) -> Option<Turn<BucketState>> {
        let Self { arrivals, is_queue } = self;
        let turn = if *is_queue { Arrivals::turn_in_queue } else { Arrivals::turn };
        Some(state.with_reservation(turn(arrivals, state.tat, now, cost)))
    }

    /// A queued request departs when all water before it has leaked.
    fn delay(&self, state: &BucketState, now: u64) -> u64 {
        if self.is_queue { self.arrivals.debt_ends_after(state.tat, now) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Model};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_meter_lets_its_capacity_pass_at_once() {
        let mut meter =
            Model::new(Algorithm::LeakyMeter { count: 2, period_ns: SECOND, capacity: 2, grains: None });
        for remaining in [1, 0] {
            let answer = meter.check("k", 0, 1);
            assert!(answer.allowed);
            assert_eq!((answer.remaining, answer.delay_ns), (remaining, 0));
        }
        let full = meter.check("k", 0, 1);
        assert_eq!((full.allowed, full.retry_after_ns), (false, Some(SECOND / 2)));
        assert_eq!(full.reset_after_ns, SECOND);
    }

    #[test]
    fn a_queue_hands_out_departure_times_one_interval_apart() {
        let mut queue =
            Model::new(Algorithm::LeakyQueue { count: 10, period_ns: SECOND, capacity: 3, grains: None });
        assert_eq!([(); 3].map(|()| queue.check("k", 0, 1).delay_ns), [0, SECOND / 10, SECOND / 5]);
        let full = queue.check("k", 0, 1);
        assert_eq!((full.allowed, full.delay_ns, full.retry_after_ns), (false, 0, Some(SECOND / 10)));
    }

    #[test]
    fn a_heavy_request_leaves_at_once_and_delays_the_next() {
        let mut queue =
            Model::new(Algorithm::LeakyQueue { count: 3, period_ns: 10, capacity: 5, grains: None });
        assert_eq!(queue.check("k", 0, 4).delay_ns, 0);
        assert_eq!(queue.check("k", 1, 1).delay_ns, 13); // 40/3 ns after zero, rounded up, from 1
        assert_eq!(queue.peek("k", 100, 1).delay_ns, 0);
    }
}
