//! Threads that check, reserve, cancel and refund in real time: the requests that act in the end
//! respect the limit in every interval.
//!
//! Each thread reads the limiter's clock itself and passes the time on, so that it records the time
//! of the charge, and intervals need no slack for readings in between. A time that is old at its
//! charge is charged on top of later ones, which is stricter. Only refunds and cancellations let
//! the limiter read the clock, when no other thread can charge the key unnoticed. A unit takes
//! whole nanoseconds, so nothing is rounded.

use std::time::{Duration, Instant};

use tollgate::{Decision, LeakyBucket, Limiter, Quota, Rate, Reservation, SystemClock, TokenBucket};
use tollgate_testing::random::Random;

use super::crew::crew;

/// The nanoseconds of a unit.
const UNIT: u64 = 10_000;
const ROOM: u64 = 12;
const KEYS: u64 = 2;
/// How long a thread runs. If it has done less than [`ENOUGH`], as on a busy machine or under a
/// sanitizer, it runs up to a hundred times longer.
const WHILE: Duration = Duration::from_millis(400);
/// The least number of acts of a thread, and of refunds or cancellations.
const ENOUGH: u64 = 25;
/// The most units that a thread holds undecided.
const UNDECIDED: usize = 6;

type Keyed = Limiter<u64, Quota, 1, SystemClock>;

/// A request that acts unless it is given back.
enum Plan<'l> {
    Request(Decision<'l>),
    Place(Reservation<'l, Quota, 1, SystemClock>),
}

/// The time of the act in nanoseconds, and its units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Act {
    key: u64,
    at: u64,
    cost: u64,
}

/// Returns the acts, and how many plans were given back.
fn changing_minds(limiter: &Keyed, worker: usize, count_operation: impl Fn()) -> (Vec<Act>, u64) {
    let (mut acts, mut returned, begun) = (Vec::new(), 0, Instant::now());
    let mut plans: Vec<(Act, Plan<'_>)> = Vec::new();
    let mut random = Random::with_seed(worker as u64);
    let goes_on = |acts: &[Act], returned: u64| {
        let is_too_little = (acts.len() as u64).min(returned) < ENOUGH;
        begun.elapsed() < if is_too_little { 100 * WHILE } else { WHILE }
    };
    while goes_on(&acts, returned) {
        let (key, cost, now) = (random.u64(..KEYS), random.u64(1..=4), limiter.now());
        if random.u64(..3) == 0 {
            let patience = Duration::from_nanos(random.u64(..4 * ROOM * UNIT));
            if let Ok(place) = limiter.account(key).at(now).reserve(cost, patience) {
                plans.push((Act { key, at: place.departure().as_nanos(), cost }, Plan::Place(place)));
            }
        } else {
            let decision = limiter.account(key).at(now).check_n(cost);
            if decision.is_allowed() {
                let at = (now + decision.delay()).as_nanos();
                plans.push((Act { key, at, cost }, Plan::Request(decision)));
            }
        }
        count_operation();
        while plans.len() > random.usize(..UNDECIDED) {
            let (act, plan) = plans.swap_remove(random.usize(..plans.len()));
            let back = match plan {
                _ if random.u64(..3) == 0 => 0,
                Plan::Request(decision) => limiter.refund(decision),
                Plan::Place(place) => place.cancel(),
            };
            // If nothing came back, all of it may act.
            if back == 0 {
                acts.push(act)
            } else {
                returned += 1
            }
            count_operation();
        }
    }
    acts.extend(plans.into_iter().map(|(act, _)| act));
    (acts, returned)
}

/// Returns the acts of all threads on a limiter, ordered by key and time.
fn acted(quota: Quota) -> Vec<Act> {
    let limiter = Limiter::builder(quota).per().max_keys(100).clock(SystemClock::new()).build().unwrap();
    let all = crew(4, |worker| changing_minds(&limiter, worker.number, || worker.count_operation()));
    let returned: u64 = all.iter().map(|(_, returned)| returned).sum();
    let mut acts: Vec<Act> = all.into_iter().flat_map(|(acts, _)| acts).collect();
    acts.sort_unstable();
    let enough = 4 * ENOUGH;
    assert!(
        returned >= enough && acts.len() as u64 >= enough,
        "{returned} came back and {} acted",
        acts.len()
    );
    acts
}

/// Every closed interval of length D has at most `burst + rate * D`. The worst interval that ends
/// with an act is the level of a leaking bucket at that time.
#[test]
fn a_bucket_keeps_its_bound_under_refunds_and_reservations() {
    let rate = Rate::new(1, Duration::from_nanos(UNIT));
    let bucket = TokenBucket::new(rate).burst(ROOM);
    for quota in [bucket.into(), LeakyBucket::meter(rate).capacity(ROOM).into()] {
        let mut before: Option<(Act, u64)> = None;
        for act in acted(quota) {
            let held = match before {
                Some((last, held)) if last.key == act.key => held.saturating_sub(act.at - last.at),
                _ => 0,
            };
            let held = held + act.cost * UNIT;
            assert!(held <= ROOM * UNIT, "{quota}: {held} ns of {} at {}", ROOM * UNIT, act.at);
            before = Some((act, held));
        }
    }
}

#[test]
fn departures_of_a_queue_stay_apart_under_cancellations() {
    let rate = Rate::new(1, Duration::from_nanos(UNIT));
    for pair in acted(LeakyBucket::queue(rate).capacity(ROOM).into()).windows(2) {
        let [first, next] = pair else { unreachable!("windows of two") };
        let distance = next.at.saturating_sub(first.at);
        assert!(first.key != next.key || distance >= first.cost * UNIT, "{distance} ns at {}", first.at);
    }
}
