//! Reservations: their departures, their cost for others, and the refund of a cancellation.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::{
    Clock, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Rate, ReserveError, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};

type Keyed<A> = Limiter<u64, A, 1, ManualClock>;

fn limiter<A: tollgate::Algorithm>(quota: A) -> (Keyed<A>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).per().clock(clock.clone()).max_keys(100).build().unwrap(), clock)
}

/// The rate is ten a second: a token takes a tick of 100 ms.
fn tenths(ticks: u64) -> Duration {
    Duration::from_millis(100 * ticks)
}

fn tick(ticks: u64) -> Timestamp {
    Timestamp::ZERO + tenths(ticks)
}

const LONG: Duration = Duration::from_secs(3_600);

/// Go's TestCancelMulti.
#[test]
fn a_cancelled_turn_before_later_ones_is_not_refunded() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(10)).burst(4));
    let reserve = |cost| limiter.account(1).reserve(cost, LONG).unwrap();
    assert_eq!(reserve(4).departure(), tick(0));
    let a = reserve(3);
    assert_eq!(a.departure(), tick(3));
    assert_eq!(reserve(1).departure(), tick(4));
    let c = reserve(1);
    assert_eq!(c.departure(), tick(5));
    clock.set(tick(1));
    assert_eq!(c.cancel(), 1);
    assert_eq!(a.cancel(), 2, "one of the three is what the reservation at 4 rests on");
    assert_eq!(reserve(3).departure(), tick(5));
}

/// x/time/rate refunds a unit for the second cancellation, and then four depart at 5 where three
/// may.
#[test]
fn cancellations_out_of_order_keep_departures_apart() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_second(10)).burst(3));
    let reserve = |cost| limiter.account(1).reserve(cost, LONG).unwrap();
    assert!(limiter.check(1).is_allowed());
    let (x, y) = (reserve(3), reserve(3));
    assert_eq!((x.departure(), y.departure()), (tick(1), tick(4)));
    assert_eq!(reserve(1).departure(), tick(5));
    assert_eq!(y.cancel(), 2);
    assert_eq!(x.cancel(), 0);
    assert_eq!(reserve(3).departure(), tick(6));
}

#[test]
fn a_cancelled_reservation_gives_its_turn_to_the_next() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(10)).burst(2));
    let reserve = |cost| limiter.account(1).reserve(cost, LONG).unwrap();
    assert_eq!(reserve(2).departure(), tick(0));
    let second = reserve(2);
    assert_eq!(second.departure(), tick(2));
    clock.set(tick(1));
    assert_eq!(second.cancel(), 2);
    assert_eq!(reserve(2).departure(), tick(2));
}

/// Its clock moves on, as any but a manual one does.
#[test]
fn a_turn_at_once_is_given_back_as_a_check() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(10)).burst(4));
    let turn = limiter.account(1).reserve(2, Duration::ZERO).unwrap();
    clock.advance(Duration::from_nanos(50));
    assert_eq!(turn.cancel(), 2);
    let turn = limiter.account(1).reserve(2, Duration::ZERO).unwrap();
    clock.advance(Duration::from_millis(150));
    assert_eq!(turn.cancel(), 1, "the refill has paid one and a half");
}

#[test]
fn a_reservation_that_has_departed_cannot_be_cancelled() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(10)).burst(2));
    assert_eq!(limiter.account(1).reserve(2, LONG).unwrap().departure(), tick(0));
    let second = limiter.account(1).reserve(2, LONG).unwrap();
    clock.set(tick(3));
    assert_eq!(second.cancel(), 0);
    assert_eq!(limiter.account(1).reserve(1, LONG).unwrap().departure(), tick(3));
}

#[test]
fn beyond_the_longest_wait_nothing_is_charged() {
    let quota = TokenBucket::new(Rate::new(10, Duration::from_nanos(100))).burst(10);
    let (limiter, _) = limiter(quota);
    assert!(limiter.check_n(1, 9).is_allowed());
    let nanos = Duration::from_nanos;
    assert_eq!(
        limiter.account(1).reserve(5, nanos(39)).unwrap_err(),
        ReserveError::TooLong { wait: nanos(40) }
    );
    assert!(limiter.peek(1).is_allowed());
    assert_eq!(limiter.account(1).reserve(5, nanos(40)).unwrap().delay(), nanos(40));
}

/// Guava's SmoothBursty, rate 1: each request waits for the cost of the one before it.
#[test]
fn reservations_depart_in_order_and_spaced_by_the_rate() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_second(10)).burst(1));
    for turn in 0..20 {
        assert_eq!(limiter.account(1).reserve(1, LONG).unwrap().departure(), tick(turn));
    }
    assert_eq!(
        limiter.account(2).reserve(1, LONG).unwrap().departure(),
        tick(0),
        "another key's line is its own"
    );
}

#[test]
fn checks_are_refused_while_others_stand_in_line() {
    let (limiter, clock) = limiter(TokenBucket::new(Rate::per_second(10)).burst(1));
    for _ in 0..3 {
        assert!(limiter.account(1).reserve(1, LONG).is_ok());
    }
    for now in 0..3 {
        clock.set(tick(now));
        assert!(!limiter.check(1).is_allowed());
        assert_eq!(limiter.check(1).retry_after(), Some(tenths(3 - now)));
    }
    clock.set(tick(3));
    assert!(limiter.check(1).is_allowed());
}

#[test]
fn a_cost_above_the_limit_is_never_reserved() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_second(10)).burst(4));
    let never = ReserveError::Never { cost: 5, limit: 4 };
    assert_eq!(limiter.account(1).reserve(5, Duration::MAX).unwrap_err(), never);
    assert_eq!(limiter.account(1).wait(1, LONG), Ok(()));
    assert_eq!(limiter.account(1).at(tick(0)).peek_n(0).remaining(), 3);
}

#[test]
fn the_largest_cost_is_refused_for_good() {
    let rate = Rate::per_second(10);
    for quota in [Quota::from(TokenBucket::new(rate)), LeakyBucket::queue(rate).into()] {
        let (limiter, _) = limiter(quota);
        let never = ReserveError::Never { cost: u64::MAX, limit: 10 };
        assert_eq!(limiter.account(1).reserve(u64::MAX, LONG).unwrap_err(), never, "{quota}");
    }
}

#[test]
fn cost_zero_departs_at_once_and_charges_nothing() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_second(10)).burst(1));
    assert!(limiter.check(1).is_allowed());
    let nothing = limiter.account(1).reserve(0, Duration::ZERO).unwrap();
    assert_eq!(nothing.delay(), Duration::ZERO);
    assert_eq!(nothing.cancel(), 0);
}

#[test]
fn window_algorithms_have_no_turns_to_reserve() {
    let rate = Rate::per_second(10);
    for quota in [
        Quota::from(FixedWindow::new(rate)),
        SlidingWindow::new(rate).into(),
        SlidingWindow::new(rate).subwindows(2).into(),
        SlidingLog::new(rate).into(),
    ] {
        let (limiter, _) = limiter(quota);
        assert_eq!(limiter.account(1).reserve(1, LONG).unwrap_err(), ReserveError::NoTurns, "{quota}");
        assert_eq!(limiter.account(1).wait(1, Duration::MAX), Err(ReserveError::NoTurns), "{quota}");
        assert_eq!(limiter.account(1).at(tick(0)).peek_n(0).remaining(), 10, "{quota}");
    }
}

#[test]
fn a_meter_reserves_like_a_bucket() {
    let (limiter, _) = limiter(LeakyBucket::meter(Rate::per_second(10)).capacity(2));
    let departures = [0, 0, 1, 2];
    for departs in departures {
        assert_eq!(limiter.account(1).reserve(1, LONG).unwrap().departure(), tick(departs));
    }
}

#[test]
fn reservations_respect_capacity_and_max_wait() {
    let (limiter, _) = limiter(LeakyBucket::queue(Rate::per_second(10)).capacity(3));
    assert_eq!(limiter.account(1).reserve(1, Duration::ZERO).unwrap().departure(), tick(0));
    let too_long = ReserveError::TooLong { wait: tenths(1) };
    assert_eq!(limiter.account(1).reserve(1, tenths(1) - Duration::from_nanos(1)).unwrap_err(), too_long);
    assert_eq!(limiter.account(1).reserve(1, tenths(1)).unwrap().departure(), tick(1));
    assert_eq!(limiter.account(1).reserve(1, LONG).unwrap().departure(), tick(2));
    // Three requests wait or depart. There is room for a turn when the first has departed.
    assert_eq!(limiter.account(1).reserve(1, LONG).unwrap_err(), too_long);
}

/// Two requests in a queue never depart at the same time, even after refunds.
#[test]
fn a_queue_keeps_its_distance_after_a_refund() {
    let (limiter, clock) = limiter(LeakyBucket::queue(Rate::per_second(10)).capacity(5));
    let first = limiter.check(1);
    let second = limiter.check(1);
    assert_eq!((first.delay(), second.delay()), (tenths(0), tenths(1)));
    assert_eq!(limiter.refund(first), 0, "the second's departure rests on it");
    assert_eq!(limiter.check(1).delay(), tenths(2));
    clock.set(tick(1));
}

#[test]
fn the_end_of_time_is_no_departure() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_day(1)).burst(1));
    let mut last = Timestamp::ZERO;
    for _ in 0..100 {
        let departure = limiter.account(1).reserve(1, Duration::MAX).unwrap().departure();
        assert!(departure >= last);
        last = departure;
    }
    let forever = Timestamp::from_nanos(u64::MAX);
    assert!(limiter.account(2).at(forever).reserve(1, Duration::MAX).is_ok());
    let _ = limiter.account(2).at(forever).reserve(1, Duration::MAX).map(|place| place.departure());
}

#[test]
fn a_global_limiter_reserves_and_cancels() {
    let clock = ManualClock::new();
    let quota = TokenBucket::new(Rate::per_second(10)).burst(1);
    let limiter = Limiter::builder(quota).clock(clock.clone()).build().unwrap();
    assert_eq!(limiter.account(()).reserve(1, LONG).unwrap().departure(), tick(0));
    let second = limiter.account(()).reserve(1, LONG).unwrap();
    assert_eq!(second.departure(), tick(1));
    assert_eq!(second.cancel(), 1);
    assert_eq!(limiter.account(()).reserve(1, LONG).unwrap().departure(), tick(1));
    assert_eq!(clock.now(), Timestamp::ZERO);
}

/// A bucket that gets more at once than it holds: what does not fit is lost, also to turns.
/// A turn of a later interval takes the tokens left in the running one.
#[test]
fn a_turn_by_intervals_comes_back_from_its_departure_on() {
    let quota = TokenBucket::new(Rate::per_hour(6)).burst(6).by_intervals();
    let limiter = Limiter::builder(quota).clock(ManualClock::new()).build().unwrap();
    let account = limiter.account(());
    assert!(account.check_n(5).is_allowed());
    let now = account.reserve(1, Duration::ZERO).unwrap();
    assert_eq!((now.cancel(), account.peek_n(0).remaining()), (1, 1), "in this interval all comes back");
    let later = account.reserve(2, Duration::from_secs(3_600)).unwrap();
    assert_eq!((later.cancel(), account.peek_n(0).remaining()), (2, 0));
    let then = limiter.now() + Duration::from_secs(3_600);
    assert_eq!(account.at(then).peek_n(0).remaining(), 6);
}

#[test]
fn turns_departing_at_once_fit_a_bucket_by_intervals() {
    for (count, burst) in [(6, 4), (3, 2), (2, 4), (100, 7)] {
        let clock = ManualClock::starting_at(Duration::from_secs(1_700_000_000));
        let quota = TokenBucket::new(Rate::per_minute(count)).burst(burst).by_intervals();
        let limiter = Limiter::builder(quota).per::<str>().clock(clock.clone()).build().unwrap();
        let several = Limiter::builder([quota]).per::<str>().clock(clock.clone()).build().unwrap();
        let global = Limiter::builder(quota).clock(clock).build().unwrap();
        for cost in 1..=burst {
            let mut departures = BTreeMap::<_, [u64; 3]>::new();
            for _ in 0..20 {
                let turns = [
                    limiter.account("alice").reserve(cost, Duration::MAX).unwrap().departure(),
                    several.account("alice").reserve(cost, Duration::MAX).unwrap().departure(),
                    global.account(()).reserve(cost, Duration::MAX).unwrap().departure(),
                ];
                for (place, departure) in turns.into_iter().enumerate() {
                    departures.entry(departure).or_default()[place] += cost;
                }
            }
            for (departure, units) in departures {
                assert!(units.iter().all(|units| *units <= burst), "{quota}: {units:?} at {departure}");
            }
            limiter.account("alice").reset();
            several.account("alice").reset();
            global.account(()).reset();
        }
    }
}
