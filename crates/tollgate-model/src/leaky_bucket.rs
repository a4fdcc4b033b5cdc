//! The leaky bucket, as a meter and as a queue.
//!
//! Both are the token bucket read the other way ([`crate::arrival`]): its missing tokens are the water in
//! this bucket, its TAT is the moment at which the last drop is gone. The meter lets everything that fits
//! pass at once and refuses the rest. The queue lets what fits out one by one: a request departs when
//! everything before it is gone, which is the TAT before the request.

use crate::arrival::Arrivals;
use crate::inherit::Debt;
use crate::refund::Owed;
use crate::reservation::Place;
use crate::rule::{Charge, Rule};

pub(crate) struct LeakyBucket {
    arrivals: Arrivals,
    /// Whether what is admitted waits for its departure.
    queued: bool,
}

impl LeakyBucket {
    pub(crate) fn meter(count: u64, period_ns: u64, capacity: u64, grains: Option<u64>) -> Self {
        Self { arrivals: Arrivals::new(count, period_ns, capacity, grains), queued: false }
    }

    pub(crate) fn queue(count: u64, period_ns: u64, capacity: u64, grains: Option<u64>) -> Self {
        Self { arrivals: Arrivals::new(count, period_ns, capacity, grains), queued: true }
    }
}

impl Rule for LeakyBucket {
    type State = Owed;

    fn limit(&self) -> u64 {
        self.arrivals.capacity()
    }

    fn unseen(&self) -> Owed {
        Owed::new(0)
    }

    fn admitted(&self, owed: &Owed, now: u64, cost: u64) -> Option<Owed> {
        self.arrivals.admitted(owed.tat, now, cost).map(|tat| owed.charged(tat))
    }

    fn refused(&self, owed: &Owed, _now: u64, _cost: u64) -> Owed {
        owed.clone()
    }

    fn remaining(&self, owed: &Owed, now: u64) -> u64 {
        self.arrivals.remaining(owed.tat, now)
    }

    fn retry_after(&self, owed: &Owed, now: u64, cost: u64) -> u64 {
        self.arrivals.retry_after(owed.tat, now, cost)
    }

    fn reset_after(&self, owed: &Owed, now: u64) -> u64 {
        self.arrivals.paid_after(owed.tat, now)
    }

    fn refunded(&self, owed: &Owed, charge: &Charge<'_, Owed>, now: u64) -> (Owed, u64) {
        if self.queued {
            self.arrivals.refunded_in_a_queue(owed, charge, now)
        } else {
            self.arrivals.refunded(0, owed, charge, now)
        }
    }

    fn debt(&self, owed: &Owed, now: u64) -> Option<Debt> {
        Some(self.arrivals.owed(owed.tat, now))
    }

    fn owing(&self, debt: Debt, now: u64) -> Option<Owed> {
        Some(Owed::new(self.arrivals.owing(debt, now)))
    }

    fn reserved(&self, owed: &Owed, now: u64, cost: u64) -> Option<Place<Owed>> {
        let Self { arrivals, queued } = self;
        let place = if *queued {
            arrivals.queued(owed.tat, now, cost)
        } else {
            arrivals.reserved(owed.tat, now, cost)
        };
        Some(owed.booked(place))
    }

    /// A queued request departs when all that was admitted before it is gone.
    fn delay(&self, owed: &Owed, now: u64) -> u64 {
        if self.queued { self.arrivals.paid_after(owed.tat, now) } else { 0 }
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
