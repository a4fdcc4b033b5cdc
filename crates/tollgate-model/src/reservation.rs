//! A place in the future of a bucket.
//!
//! Where a check refuses because there is not enough *yet*, a reservation takes what will be there and says
//! when: at its *departure* the caller may act without asking again.
//!
//! ```text
//!   base = max(TAT, now)      tat = base + cost * I      departure = max(now, tat - burst * I)
//!
//!     now          departure = when a check of this cost would pass          tat
//!   ---|---------------|--------------------------------------------------------|------> time
//!      '----- wait ----'---------------------- burst * I -----------------------'
//! ```
//!
//! A reservation that would have to wait longer than the caller is ready to charges nothing. One that is booked
//! moves the TAT to `tat`, beyond `now + burst * I` if it has to wait: until then, checks find no room.
//!
//! A leaky bucket as a queue has departures of its own, one after the other, and a capacity that bounds who may
//! wait at all; there a reservation is a check whose caller says how long the wait may be.

use std::error::Error;
use std::fmt;

use crate::Receipt;

/// The answer to [`Model::reserve`](crate::Model::reserve).
#[derive(Debug)]
pub enum Booking {
    /// Charged; act at the departure.
    Booked(Reservation),
    /// Not charged.
    Refused {
        /// How long the request would have to wait: for its departure if that is more than was allowed, or
        /// until a queue that is full has room. At most `u64::MAX`.
        wait_ns: u64,
    },
    /// Not charged, and no wait will ever help: the cost is above the limit.
    Never,
}

/// A right to act at the departure, without asking again.
///
/// It can be given back by [`Model::cancel`](crate::Model::cancel) until then.
#[must_use = "what is reserved is charged, whether somebody acts or not"]
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

/// The algorithm has no departures: what a window will hold cannot be known ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMeaning;

impl fmt::Display for NoMeaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only buckets can be reserved ahead")
    }
}

impl Error for NoMeaning {}

/// Where a request finds its place, before the caller's patience is asked.
pub(crate) enum Place<S> {
    /// After `wait`, in nanoseconds; the state once it is booked.
    After { wait: u128, charged: S },
    /// Nowhere: whatever the caller's patience, there is no room before `wait`.
    Full { wait: u64 },
}

#[cfg(test)]
mod tests {
    use crate::{Algorithm, Booking, CountPolicy, Model, NoMeaning, Reservation};

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

    /// With a burst of four.
    #[test]
    fn a_cancelled_reservation_gives_back_what_nobody_booked_on() {
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

    /// With a burst of two.
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
    fn who_would_have_to_wait_too_long_is_charged_nothing() {
        let mut model = bucket(10, 100, 10);
        assert!(model.check("k", 0, 9).allowed);
        assert!(matches!(model.reserve("k", 0, 5, 39), Ok(Booking::Refused { wait_ns: 40 })));
        assert_eq!(model.peek("k", 0, 0).remaining, 1);
        let booked = model.reserve("k", 0, 5, 40).unwrap().booked().unwrap();
        assert_eq!(booked.departs_at_ns(), 40);
        assert_eq!(model.peek("k", 0, 0).remaining, 0);
    }

    #[test]
    fn a_departure_is_the_first_nanosecond_at_which_a_check_would_pass() {
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
    fn what_costs_nothing_departs_now_and_what_costs_too_much_never() {
        let mut model = ten_a_second(2);
        assert!(matches!(model.reserve("k", 5, 3, u64::MAX), Ok(Booking::Never)));
        assert_eq!(departure(&mut model, 5, 2), 5);
        let nothing = reserve(&mut model, 5, 0);
        assert_eq!(nothing.departs_at_ns(), 5);
        assert_eq!(model.cancel(nothing, 0), 0);
        assert_eq!(model.peek("k", 5, 1).retry_after_ns, Some(D));
    }

    #[test]
    fn a_queue_books_its_own_departures_and_no_more_than_its_capacity() {
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
        assert_eq!(log.reserve("k", 0, 1, u64::MAX).unwrap_err(), NoMeaning);
        assert_eq!(log.reserve("k", 0, 0, u64::MAX).unwrap_err(), NoMeaning);
        assert!(log.check("k", 0, 1).allowed);
    }
}
