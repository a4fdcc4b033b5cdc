//! Threads on one key: no limit admits more than alone, and refused requests are charged to none.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{
    CountPolicy, FixedWindow, LeakyBucket, Limiter, MOST_LIMITS, Quota, Rate, SlidingLog, SlidingWindow,
    Timestamp, TokenBucket,
};

use super::{Several, every, left, several};

const HANDS: u64 = 4;

/// Returns what `HANDS` threads are admitted together, each with `rounds` checks of one key at
/// `costs`.
fn admitted(limiter: &Several, rounds: u64, costs: &[u64]) -> u64 {
    let barrier = Barrier::new(HANDS as usize);
    let ask = || {
        barrier.wait();
        (0..rounds)
            .flat_map(|_| costs)
            .map(|&cost| if limiter.check_n(1, cost).is_allowed() { cost } else { 0 })
            .sum::<u64>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..HANDS).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// For each order of the limits, with each of them as the smallest.
#[test]
fn after_all_threads_limits_count_exactly_the_admissions() {
    for tight in every(70) {
        for limit in [100, 71, 70] {
            for place in [0, 6] {
                for turn in 0..6 {
                    // At most one log or queue, because these take back their newest admission
                    // only.
                    let mut quotas = every(limit);
                    quotas.retain(|quota| !quota.is_queue() && !matches!(quota, Quota::SlidingLog(_)));
                    let others = quotas.len();
                    quotas.rotate_left(turn % others);
                    quotas.insert(place.min(quotas.len()), tight);
                    let (limiter, _) = several(quotas);
                    let admitted = admitted(&limiter, 40, &[3, 1, 2]);
                    assert!((68..=70).contains(&admitted), "{tight}: {admitted}");
                    let left = left(&limiter, 1);
                    let right = |&left: &u64| left + admitted == 70 || left + admitted == limit;
                    assert!(left.iter().all(right), "{tight} and {limit}: {left:?} after {admitted}");
                }
            }
        }
    }
}

/// Units that logs and queues cannot take back stay counted, so the limits refuse more, not less.
#[test]
fn limits_without_refunds_count_at_least_the_admissions() {
    const LIMIT: u64 = 100;
    let rate = Rate::per_second(LIMIT);
    let pairs: [[Quota; 2]; 4] = [
        [SlidingLog::new(rate).into(), SlidingLog::new(rate).into()],
        [LeakyBucket::queue(rate).into(), LeakyBucket::queue(rate).into()],
        [LeakyBucket::queue(rate).into(), SlidingLog::new(rate).count(CountPolicy::All).into()],
        // The second refuses while the first has room: the charge in between is undone.
        [SlidingLog::new(rate).into(), LeakyBucket::queue(Rate::per_second(LIMIT - 10)).into()],
    ];
    for quotas in pairs {
        // Without races nothing is shown: look until many requests have lost one.
        let (mut races, mut rounds) = (0, 0);
        while races < 100 || rounds < 200 {
            let (limiter, _) = several(quotas);
            let admitted = admitted(&limiter, 30, &[3, 1, 2]);
            let left = left(&limiter, 1);
            for (left, quota) in left.iter().zip(quotas) {
                assert!(left + admitted <= quota.limit(), "{quota}: {left} left after {admitted}");
            }
            races += limiter.stats().retried;
            rounds += 1;
            assert!(rounds < 100_000, "{races} races in {rounds} rounds");
        }
    }
}

/// Time advances under the threads, and every interval respects the bound of each limit.
#[test]
fn no_limit_admits_more_than_its_bound_while_time_moves() {
    let (limiter, clock) = several([
        Quota::from(TokenBucket::new(Rate::per_second(1_000)).burst(20)),
        TokenBucket::new(Rate::per_second(700)).burst(50).into(),
        FixedWindow::new(Rate::new(9, Duration::from_millis(10))).into(),
        SlidingWindow::new(Rate::new(80, Duration::from_millis(100))).subwindows(4).into(),
        SlidingLog::new(Rate::new(30, Duration::from_millis(40))).into(),
    ]);
    let (step, steps) = (Duration::from_micros(500), 4_000_u64);
    let barrier = Barrier::new(HANDS as usize);
    let admitted: Vec<AtomicU64> = (0..steps).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for hand in 0..HANDS {
            let (limiter, clock, barrier, admitted) = (&limiter, clock.clone(), &barrier, &admitted);
            scope.spawn(move || {
                for admitted in admitted {
                    for cost in [1, 3] {
                        if limiter.check_n(1, cost).is_allowed() {
                            admitted.fetch_add(cost, Relaxed);
                        }
                    }
                    barrier.wait();
                    if hand == 0 {
                        clock.advance(step);
                    }
                    barrier.wait();
                }
            });
        }
    });
    let admitted: Vec<u64> = admitted.iter().map(|admitted| admitted.load(Relaxed)).collect();
    let most = |steps: usize| admitted.windows(steps).map(|window| window.iter().sum::<u64>()).max().unwrap();
    for steps in 1..200 {
        // The time from the first step to the last.
        let elapsed = (steps as u64 - 1) * 500;
        assert!(most(steps) <= 20 + elapsed / 1_000, "1000/s in {elapsed} us: {}", most(steps));
        assert!(most(steps) <= 50 + elapsed * 7 / 10_000, "700/s in {elapsed} us: {}", most(steps));
    }
    assert!(admitted.chunks(20).all(|window| window.iter().sum::<u64>() <= 9));
    assert!(most(200) <= 80 && most(80) <= 30);
    assert!(admitted.iter().sum::<u64>() > 500, "it admits at all");
}

/// Each thread passes its own times. A time before a charge refunds nothing.
#[test]
fn callers_times_that_run_ahead_of_the_clock_mint_nothing() {
    let rates = [Rate::per_second(10), Rate::per_hour(50)];
    for _ in 0..300 {
        let (limiter, _) = several(rates.map(|rate| TokenBucket::new(rate).burst(50)));
        let limiter: &Limiter<_, Quota, MOST_LIMITS, _> = &limiter;
        let admitted: u64 = std::thread::scope(|scope| {
            let ask = |hand: u64| {
                let at = Timestamp::from_nanos(1 + hand * 4_000_000_000);
                (0..40).filter(|_| limiter.account(1).at(at).check_n(1 + hand).is_allowed()).count() as u64
                    * (1 + hand)
            };
            let threads: Vec<_> = (0..HANDS).map(|hand| scope.spawn(move || ask(hand))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(admitted <= 50, "{admitted}");
    }
}
