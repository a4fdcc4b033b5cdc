//! Reservations of a bucket.
//!
//! Where a check refuses because there are not enough tokens yet, a reservation takes tokens of the
//! future. At its *departure* the caller may act without another check.
//!
//! ```text
//!   base = max(TAT, now)      tat = base + cost * I      departure = max(now, tat - burst * I)
//!
//!     now          departure = when a check of this cost would pass          tat
//!   ---|---------------|--------------------------------------------------------|------> time
//!      '----- wait ----'---------------------- burst * I -----------------------'
//! ```
//!
//! A reservation that would wait longer than the caller allows charges nothing. A booked
//! reservation moves the TAT to `tat`. If it waits, that is beyond `now + burst * I`, and checks
//! find no room before its departure.
//!
//! In a leaky bucket as a queue, every admitted request has a departure, one after the other, and
//! the capacity bounds how many wait. There a reservation is a check with a longest wait.

use crate::Receipt;

/// The answer to [`Model::reserve`](crate::Model::reserve).
#[derive(Debug)]
pub enum Booking {
    /// Charged; act at the departure.
    Booked(Reservation),
    /// Not charged.
    Refused {
        /// How long the request would wait for its departure, or until a full queue has room. At
        /// most `u64::MAX`.
        wait_ns: u64,
    },
    /// Not charged, and no wait will ever help: the cost is above the limit.
    Never,
}

/// Permission to act at the departure, without another check.
///
/// [`Model::cancel`](crate::Model::cancel) gives it back before the departure.
#[must_use = "a reservation is charged even if its caller never acts"]
#[derive(Debug)]
pub struct Reservation {
    pub(crate) receipt: Receipt,
    pub(crate) departs_at: u64,
}

impl Reservation {
    /// The first nanosecond at which the request may act.
    pub fn departs_at_ns(&self) -> u64 {
        self.departs_at
    }
}

impl Booking {
    /// The reservation, if there is one.
    pub fn booked(self) -> Option<Reservation> {
        match self {
            Booking::Booked(reservation) => Some(reservation),
            Booking::Refused { .. } | Booking::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Booking, CountPolicy, Model, NotReservable, Reservation};

    const MS: u64 = 1_000_000;
    /// One interval of a rate of ten a second.
    const D: u64 = 100 * MS;

    fn ten_a_second(burst: u64) -> Model {
        bucket(1, D, burst)
    }

    fn bucket(count: u64, period_ns: u64, burst: u64) -> Model {
        Model::new(Algorithm::TokenBucket { count, period_ns, burst, initial: burst, grains: None })
    }

    fn reserve(model: &mut Model, now: u64, cost: u64) -> Reservation {
        let booking = model.reserve("k", now, cost, u64::MAX).expect("buckets can be reserved");
        booking.booked().expect("the cost fits and any wait will do")
    }

    fn departure(model: &mut Model, now: u64, cost: u64) -> u64 {
        reserve(model, now, cost).departs_at_ns()
    }

    #[test]
    fn a_cancellation_keeps_what_later_reservations_depend_on() {
        let mut model = ten_a_second(4);
        assert_eq!(departure(&mut model, 0, 4), 0);
        let a = reserve(&mut model, 0, 3);
        assert_eq!(a.departs_at_ns(), 3 * D);
        assert_eq!(departure(&mut model, 0, 1), 4 * D);
        let c = reserve(&mut model, 0, 1);
        assert_eq!(c.departs_at_ns(), 5 * D);
        assert_eq!(model.cancel(c, D), 1);
        assert_eq!(model.cancel(a, D), 2);
        assert_eq!(departure(&mut model, D, 3), 5 * D);
    }

    #[test]
    fn a_reservation_that_has_departed_cannot_be_cancelled() {
        let mut model = ten_a_second(2);
        assert_eq!(departure(&mut model, 0, 2), 0);
        let second = reserve(&mut model, 0, 2);
        assert_eq!(second.departs_at_ns(), 2 * D);
        assert_eq!(model.cancel(second, D), 2);
        let third = reserve(&mut model, D, 2);
        assert_eq!(third.departs_at_ns(), 2 * D);
        assert_eq!(model.cancel(third, 3 * D), 0);
        assert_eq!(departure(&mut model, 3 * D, 2), 4 * D);
    }

    #[test]
    fn a_reservation_that_waits_too_long_is_not_charged() {
        let mut model = bucket(10, 100, 10);
        assert!(model.check("k", 0, 9).allowed);
        assert!(matches!(model.reserve("k", 0, 5, 39), Ok(Booking::Refused { wait_ns: 40 })));
        assert_eq!(model.peek("k", 0, 0).remaining, 1);
        let booked = model.reserve("k", 0, 5, 40).unwrap().booked().unwrap();
        assert_eq!(booked.departs_at_ns(), 40);
        assert_eq!(model.peek("k", 0, 0).remaining, 0);
    }

    #[test]
    fn a_reservation_departs_when_a_check_would_first_pass() {
        let mut model = bucket(3, 1_000 * MS, 1);
        assert!(model.check("k", 0, 1).allowed);
        assert_eq!(model.peek("k", 0, 1).retry_after_ns, Some(333_333_334));
        assert_eq!(departure(&mut model, 0, 1), 333_333_334);
        assert_eq!(departure(&mut model, 0, 1), 666_666_667);
    }

    #[test]
    fn checks_find_no_room_before_the_last_reservation_departs() {
        let mut model = ten_a_second(2);
        assert_eq!(departure(&mut model, 0, 2), 0);
        assert_eq!(departure(&mut model, 0, 1), D);
        assert_eq!(model.check("k", D, 1).retry_after_ns, Some(D));
        assert!(model.check("k", 2 * D, 1).allowed);
    }

    #[test]
    fn a_cost_of_zero_departs_now_and_too_large_never() {
        let mut model = ten_a_second(2);
        assert!(matches!(model.reserve("k", 5, 3, u64::MAX), Ok(Booking::Never)));
        assert_eq!(departure(&mut model, 5, 2), 5);
        let nothing = reserve(&mut model, 5, 0);
        assert_eq!(nothing.departs_at_ns(), 5);
        assert_eq!(model.cancel(nothing, 0), 0);
        assert_eq!(model.peek("k", 5, 1).retry_after_ns, Some(D));
    }

    #[test]
    fn a_queue_reserves_no_more_than_its_capacity() {
        let mut queue =
            Model::new(Algorithm::LeakyQueue { count: 1, period_ns: D, capacity: 3, grains: None });
        assert_eq!([(); 2].map(|()| departure(&mut queue, 0, 1)), [0, D]);
        assert!(
            matches!(queue.reserve("k", 0, 1, 2 * D - 1), Ok(Booking::Refused { wait_ns }) if wait_ns == 2 * D)
        );
        let last = reserve(&mut queue, 0, 1);
        assert_eq!(last.departs_at_ns(), 2 * D);
        assert!(matches!(queue.reserve("k", 0, 1, u64::MAX), Ok(Booking::Refused { wait_ns: D })));
        assert_eq!(queue.cancel(last, 2 * D - 1), 1);
        assert_eq!(departure(&mut queue, 2 * D - 1, 1), 2 * D);
    }

    #[test]
    fn windows_have_no_departures() {
        let mut log =
            Model::new(Algorithm::SlidingLog { limit: 1, window_ns: 10, count: CountPolicy::Allowed });
        assert_eq!(log.reserve("k", 0, 1, u64::MAX).unwrap_err(), NotReservable);
        assert_eq!(log.reserve("k", 0, 0, u64::MAX).unwrap_err(), NotReservable);
        assert!(log.check("k", 0, 1).allowed);
    }
}
