//! Time stands still while threads check and moves between rounds. So the order of the threads does
//! not matter, and together they are admitted as one caller with as many checks is by the model.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{
    CountPolicy, Limiter, ManualClock, Quota, Rate, Resolution, SlidingLog, SlidingWindow, Timestamp,
};
use tollgate_testing::limits::{Kind, Limit};
use tollgate_testing::random::Random;

use super::crew::crew;
use super::{SECOND, every};

const LIMIT: u64 = 6;
const WORKERS: usize = 4;
/// The checks of a thread in a round. All threads together make more than the limit.
const CHECKS: u64 = 3;
const ROUNDS: u64 = 400;

/// The time between rounds: none, short, a window, long.
fn step(random: &mut Random) -> u64 {
    match random.u64(..6) {
        0 => 0,
        1 => 1,
        2 => SECOND,
        3 => SECOND + random.u64(..SECOND),
        _ => random.u64(..SECOND / 2),
    }
}

fn agrees(limit: &Limit, resolution: Resolution, check: impl Fn(u64) -> bool + Sync) {
    let admitted: Vec<AtomicU64> = (0..ROUNDS).map(|_| AtomicU64::new(0)).collect();
    let mut times = vec![0];
    let mut random = Random::with_seed(LIMIT);
    times.extend((1..ROUNDS).scan(0, |at, _| {
        *at += step(&mut random);
        Some(*at)
    }));
    crew(WORKERS, |worker| {
        for (&at, admitted) in times.iter().zip(&admitted) {
            for _ in 0..CHECKS {
                admitted.fetch_add(check(at).into(), Relaxed);
                worker.count_operation();
            }
            worker.meet();
        }
    });
    let mut model = limit.model(resolution, 0);
    for (round, (&at, admitted)) in times.iter().zip(&admitted).enumerate() {
        let right = (0..WORKERS as u64 * CHECKS).filter(|_| model.check("k", at, 1).allowed).count() as u64;
        assert_eq!(admitted.load(Relaxed), right, "{limit}, round {round} at {at} ns");
    }
}

fn all_agree(policy: CountPolicy, is_of: impl Fn(Kind) -> bool) {
    for kind in Kind::ALL.into_iter().filter(|kind| is_of(*kind)) {
        let limit = Limit { policy, ..kind.limit(LIMIT, SECOND) };
        let limiter = Limiter::builder(limit.quota()).per::<u64>().clock(ManualClock::new()).max_keys(100);
        let limiter = limiter.build().unwrap();
        agrees(&limit, limiter.resolution(), |at| {
            limiter.account(7).at(Timestamp::from_nanos(at)).check().is_allowed()
        });
        let limiter = Limiter::builder(limit.quota()).clock(ManualClock::new()).build().unwrap();
        agrees(&limit, limiter.resolution(), |at| {
            limiter.account(()).at(Timestamp::from_nanos(at)).check().is_allowed()
        });
    }
}

#[test]
fn threads_are_admitted_exactly_as_one_caller() {
    all_agree(CountPolicy::Allowed, |_| true);
}

#[test]
fn windows_with_count_all_admit_threads_as_one_caller() {
    all_agree(CountPolicy::All, |kind| !kind.refills() && kind != Kind::Log);
}

#[test]
fn a_log_with_count_all_admits_threads_as_one_caller() {
    all_agree(CountPolicy::All, |kind| kind == Kind::Log);
}

#[test]
fn knocking_at_one_instant_opens_nothing() {
    for quota in every(LIMIT, CountPolicy::Allowed).into_iter().chain(every(LIMIT, CountPolicy::All)) {
        let limiter = Limiter::builder(quota).clock(ManualClock::new()).build().unwrap();
        let admitted = crew(3, |worker| {
            let knocks = (0..150_000).filter(|_| {
                worker.count_operation();
                limiter.account(()).at(Timestamp::from_nanos(SECOND)).check().is_allowed()
            });
            knocks.count() as u64
        });
        assert_eq!(admitted.iter().sum::<u64>(), LIMIT, "{quota}");
    }
}

#[test]
fn twenty_threads_get_ten_of_ten_tokens() {
    for quota in every(10, CountPolicy::Allowed) {
        let clock = ManualClock::new();
        let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).build().unwrap();
        for round in 0..20 {
            clock.set(Timestamp::from_nanos(2 * round * SECOND));
            let admitted = crew(20, |worker| {
                let allowed = limiter.check(round).is_allowed();
                worker.count_operation();
                u64::from(allowed)
            });
            assert_eq!(admitted.iter().sum::<u64>(), 10, "{quota}");
        }
    }
}

/// Costs of many units, and two tiers on one key, whose ring is longer than the smaller limit.
#[test]
fn no_window_holds_more_than_the_limit_whatever_requests_cost() {
    let rates = (Rate::per_second(7), Rate::per_second(20));
    let log = |rate| Quota::from(SlidingLog::new(rate));
    let sub = |rate| Quota::from(SlidingWindow::new(rate).subwindows(5));
    for (small, large) in [(log(rates.0), log(rates.1)), (sub(rates.0), sub(rates.1))] {
        let builder = Limiter::builder(small).per::<u64>().tier(large).max_keys(100);
        let limiter = builder.clock(ManualClock::new()).build().unwrap();
        let histories = crew(WORKERS, |worker| {
            let mut random = Random::with_seed(worker.number as u64);
            let mut times = Random::with_seed(77);
            let (mut at, mut history) = (0, Vec::new());
            for _ in 0..ROUNDS {
                for _ in 0..3 {
                    let (tier, cost) = (random.u64(..2), random.u64(1..=7));
                    let account = limiter.account(7).tier(tier as usize).unwrap();
                    if account.at(Timestamp::from_nanos(at)).check_n(cost).is_allowed() {
                        history.push((at, cost, tier));
                    }
                    worker.count_operation();
                }
                worker.meet();
                at += times.u64(..SECOND / 3);
            }
            history
        });
        let mut history: Vec<_> = histories.concat();
        history.sort_unstable();
        for &(start, _, _) in &history {
            let window = history.iter().filter(|(at, _, _)| (start..start + SECOND).contains(at));
            let (mut all, mut last_small) = (0, 0);
            for &(_, cost, tier) in window {
                all += cost;
                last_small = if tier == 0 { last_small + cost } else { last_small };
            }
            assert!(all <= 20, "{small}: {all} from {start} ns on");
            assert!(last_small <= 7, "{small}: {last_small} of the small tier from {start} ns on");
        }
    }
}

#[test]
fn tiers_that_share_a_key_share_its_debt() {
    for (small, large) in every(5, CountPolicy::Allowed).into_iter().zip(every(20, CountPolicy::Allowed)) {
        let builder = Limiter::builder(small).per::<u64>().tier(large).max_keys(100);
        let limiter = builder.clock(ManualClock::new()).build().unwrap();
        for key in 0..50 {
            let admitted = crew(WORKERS, |worker| {
                let account = limiter.account(key).tier(worker.number % 2).unwrap();
                let admitted = (0..15).filter(|_| account.check().is_allowed()).count();
                worker.count_operation();
                admitted
            });
            let taken = |first| admitted.iter().skip(first).step_by(2).sum::<usize>();
            // A bucket's debt is time: a unit of the slow tier takes as long as four of the fast
            // one.
            let weight = if matches!(small, Quota::TokenBucket(_) | Quota::LeakyBucket(_)) { 4 } else { 1 };
            assert_eq!(weight * taken(0) + taken(1), 20, "{large}");
            assert!(taken(0) <= 5, "{small}");
        }
    }
}
