//! The bound on what leases spend, in total and in any interval.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollgate::{
    Clock, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog, SlidingWindow, Timestamp,
    TokenBucket,
};
use tollgate_testing::random::Random;

use super::{Manual, counting_all, every, left, limiter};

const THREADS: u64 = 4;

/// Threads use leases and checks while time stands still: exactly the limit is admitted.
fn exactly_the_limit(quota: Quota, limit: u64, permits: Option<u64>) {
    let (limiter, _) = limiter(quota);
    let (limiter, start) = (&limiter, &Barrier::new(THREADS as usize));
    let work = |number: u64| {
        start.wait();
        let open = || {
            let lease = limiter.account(1).lease();
            if let Some(permits) = permits { lease.permits(permits) } else { lease }
        };
        let (mut lease, mut admitted) = (open(), 0);
        for turn in 0..4_000 {
            let cost = 1 + turn % 3;
            let allowed = if (turn + number).is_multiple_of(5) {
                limiter.check_n(1, cost).is_allowed()
            } else {
                lease.check_n(cost).is_allowed()
            };
            admitted += if allowed { cost } else { 0 };
            if turn % 97 == 96 {
                lease = open(); // the previous lease returns its permits
            }
        }
        admitted
    };
    let admitted: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(admitted <= limit, "{quota}, {permits:?}: {admitted} of {limit}");
    // The rest of the limit is still available, except for units that a log could not take back.
    if quota.to_string().starts_with("sliding-log") {
        assert!(admitted + left(limiter) <= limit);
    } else {
        assert_eq!(admitted + left(limiter), limit, "{quota}, {permits:?}");
    }
}

#[test]
fn the_total_never_exceeds_the_limit() {
    for permits in [None, Some(7), Some(300)] {
        for quota in every(5_000) {
            exactly_the_limit(quota, 5_000, permits);
        }
    }
}

/// Refusals are counted, so the remaining units are unknown, but the admissions are known.
#[test]
fn the_total_never_exceeds_the_limit_where_refusals_count() {
    for quota in counting_all(2_000) {
        let (limiter, _) = limiter(quota);
        let limiter = &limiter;
        let admitted: usize = thread::scope(|scope| {
            let work = || {
                let mut lease = limiter.account(1).lease();
                (0..3_000).filter(|_| lease.check().is_allowed()).count()
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(admitted <= 2_000, "{quota}: {admitted}");
    }
}

/// The times in nanoseconds at which requests are admitted, in order, while leases are used, left
/// idle, dropped and opened again at random times.
fn history(limiter: &Manual, clock: &ManualClock, ttl: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::with_seed(seed);
    let open = || limiter.account(1).lease().ttl(Duration::from_nanos(ttl)).permits(8);
    let mut leases: Vec<_> = (0..3).map(|_| open()).collect();
    let mut times = Vec::new();
    for _ in 0..2_000 {
        let one = random.usize(..3);
        match random.u64(..12) {
            0 => leases[one] = open(),
            1 => clock.advance(Duration::from_nanos(random.u64(..2 * ttl))),
            2 | 3 => clock.advance(Duration::from_nanos(random.u64(..ttl / 8))),
            4 => {
                if limiter.check(1).is_allowed() {
                    times.push(clock.now().as_nanos());
                }
            }
            _ => {
                if leases[one].check().is_allowed() {
                    times.push(clock.now().as_nanos());
                }
            }
        }
    }
    times
}

/// The most units by which any interval exceeds `bound(length)`.
fn excess(times: &[u64], bound: impl Fn(u64) -> u64) -> u64 {
    let mut worst = 0;
    for (from, &first) in times.iter().enumerate() {
        for (to, &last) in times.iter().enumerate().skip(from) {
            worst =
                worst.max((to - from + 1) as u64 - (to - from + 1).min(bound(last - first) as usize) as u64);
        }
    }
    worst
}

const TTL: u64 = 1_000_000;

/// Three leases acquire all that there is, and stand idle. Then all is spent at once that can be.
fn spent_at_once_after(idle: u64, (limiter, clock): &(Manual, ManualClock)) -> u64 {
    let lease = || limiter.account(1).lease().ttl(Duration::from_nanos(TTL)).permits(8);
    let mut leases = [lease(), lease(), lease()];
    assert!(leases.iter_mut().all(|lease| lease.check().is_allowed()));
    clock.advance(Duration::from_nanos(idle));
    let by_leases: usize =
        leases.iter_mut().map(|lease| (0..100).filter(|_| lease.check().is_allowed()).count()).sum();
    by_leases as u64 + (0..100).filter(|_| limiter.check(1).is_allowed()).count() as u64
}

/// The rate is ten a millisecond. A rate of a thousand would hide the effect of the ttl.
#[test]
fn leases_exceed_a_bucket_by_the_ttl_at_most() {
    let (burst, nanos_a_token, rate) = (20, 100_000, Rate::per_second(10_000));
    let buckets: [Quota; 2] =
        [TokenBucket::new(rate).burst(burst).into(), LeakyBucket::meter(rate).capacity(burst).into()];
    for quota in buckets {
        let mut later_than_charged = 0;
        for seed in 0..20 {
            let (limiter, clock) = limiter(quota);
            let times = history(&limiter, &clock, TTL, seed);
            assert!(times.len() > 200, "{}", times.len());
            assert_eq!(
                excess(&times, |length| burst + (length + TTL) / nanos_a_token),
                0,
                "{quota}, seed {seed}"
            );
            later_than_charged += excess(&times, |length| burst + length / nanos_a_token);
        }
        assert!(later_than_charged > 0, "{quota}: without the ttl in the bound, some history is beyond it");
        for idle in [0, TTL / 2, TTL - 1, TTL, 19 * TTL / 10, 2 * TTL] {
            let spent = spent_at_once_after(idle, &limiter(quota));
            assert!(spent <= burst + TTL / nanos_a_token, "{quota}: {spent} after {idle} ns");
        }
    }
}

/// With the ttl, an interval shorter than a period touches two half-open periods.
#[test]
fn leases_exceed_a_log_by_the_ttl_at_most() {
    let rate = Rate::new(20, Duration::from_millis(2));
    for quota in [Quota::from(SlidingLog::new(rate)), SlidingWindow::new(rate).subwindows(2).into()] {
        for seed in 0..10 {
            let (limiter, clock) = limiter(quota);
            let times = history(&limiter, &clock, TTL, seed);
            assert!(times.len() > 200, "{}", times.len());
            let bound = |length| 20 * ((length + TTL) / 2_000_000 + 1);
            assert_eq!(excess(&times, bound), 0, "{quota}, seed {seed}");
        }
    }
}

#[test]
fn leases_of_a_window_spend_charges_within_the_ttl() {
    let rate = Rate::new(20, Duration::from_millis(2));
    for quota in [Quota::from(FixedWindow::new(rate)), SlidingWindow::new(rate).into()] {
        for seed in 0..10 {
            let (limiter, clock) = limiter(quota);
            let times = history(&limiter, &clock, TTL, seed);
            assert!(times.len() > 200, "{}", times.len());
            let window = |time: u64| time / 2_000_000;
            for (from, &first) in times.iter().enumerate() {
                for (to, &last) in times.iter().enumerate().skip(from) {
                    let touched = window(last) - window(first.saturating_sub(TTL - 1)) + 1;
                    assert!((to - from + 1) as u64 <= 20 * touched, "{quota}, seed {seed}");
                }
            }
        }
    }
}

/// Threads check while another thread advances the clock.
#[test]
fn threads_keep_the_windowed_bound_under_a_moving_clock() {
    let clock = ManualClock::new();
    let (burst, nanos_a_token, step) = (50_u64, 10_000_u64, 5_000_u64);
    let quota = TokenBucket::new(Rate::per_second(100_000)).burst(burst);
    let limiter = Limiter::builder(quota).per::<u64>().clock(clock.clone()).build().unwrap();
    let (limiter, clock, running) = (&limiter, &clock, &AtomicU64::new(THREADS));
    let mut times: Vec<Timestamp> = thread::scope(|scope| {
        scope.spawn(move || {
            while running.load(Relaxed) > 0 {
                clock.advance(Duration::from_nanos(step));
                thread::yield_now();
            }
        });
        let work = move || {
            let (mut lease, mut times) =
                (limiter.account(1).lease().ttl(Duration::from_nanos(TTL)), Vec::new());
            while times.len() < 400 {
                // The time is passed to the check, so the recorded time is the time of the
                // decision.
                let now = limiter.now();
                if lease.check_n_at(1, now).is_allowed() {
                    times.push(now);
                } else {
                    thread::yield_now(); // to the thread that advances the clock
                }
            }
            running.fetch_sub(1, Relaxed);
            times
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    times.sort_unstable();
    let times: Vec<u64> = times.into_iter().map(Timestamp::as_nanos).collect();
    // The bound holds even if a thread stalls between reading the time and its charge: admissions
    // at times in an interval raise the bucket's arrival time from at least its begin to at most
    // `burst` beyond its end.
    assert_eq!(excess(&times, |length| burst + (length + TTL) / nanos_a_token), 0);
}
