//! Tables that are far too small, flooded with new keys while known ones are charged: no debt is
//! forgiven.

use tollgate::{
    Algorithm, CountPolicy, FixedWindow, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog,
    SlidingWindow, Stats, Timestamp, TokenBucket, WhenFull,
};
use tollgate_testing::keys::Scattered;
use tollgate_testing::random::Random;

use super::crew::crew;
use super::{SECOND, every};

const LIMIT: u64 = 20;

/// One and a half times the room of the smallest table: four buckets of fifteen.
const KEYS: u64 = 90;

fn build<A: Algorithm>(
    quota: A,
    max_keys: usize,
    when_full: WhenFull,
) -> Limiter<Scattered, A, 1, ManualClock> {
    let builder = Limiter::builder(quota).per::<Scattered>().max_keys(max_keys).when_full(when_full);
    builder.clock(ManualClock::new()).build().unwrap()
}

/// Checks the admissions of one key: `(time, cost)` in order of time.
type Judge = fn(&[(u64, u64)]) -> Result<(), String>;

/// No interval exceeds the limit and the refill during it.
fn as_a_bucket(history: &[(u64, u64)]) -> Result<(), String> {
    for (first, &(start, _)) in history.iter().enumerate() {
        let mut sum = 0;
        for &(at, cost) in &history[first..] {
            sum += cost;
            if sum * SECOND > LIMIT * SECOND + LIMIT * (at - start) {
                return Err(format!("{sum} between {start} and {at} ns"));
            }
        }
    }
    Ok(())
}

/// No aligned window exceeds the limit.
fn as_a_fixed_window(history: &[(u64, u64)]) -> Result<(), String> {
    for window in history.chunk_by(|(one, _), (other, _)| one / SECOND == other / SECOND) {
        let sum: u64 = window.iter().map(|(_, cost)| cost).sum();
        if sum > LIMIT {
            return Err(format!("{sum} in window {}", window[0].0 / SECOND));
        }
    }
    Ok(())
}

/// No window exceeds the limit.
fn as_a_log(history: &[(u64, u64)]) -> Result<(), String> {
    for (first, &(start, _)) in history.iter().enumerate() {
        let window = history[first..].iter().take_while(|(at, _)| at - start < SECOND);
        let sum: u64 = window.map(|(_, cost)| cost).sum();
        if sum > LIMIT {
            return Err(format!("{sum} from {start} ns on"));
        }
    }
    Ok(())
}

fn bucket() -> Quota {
    TokenBucket::new(Rate::per_second(LIMIT)).into()
}

fn window() -> Quota {
    FixedWindow::new(Rate::per_second(LIMIT)).into()
}

fn log() -> Quota {
    SlidingLog::new(Rate::per_second(LIMIT)).into()
}

/// Many keys are checked in turn at random times and costs. Each key's admissions are checked
/// separately.
fn forgets_nothing(quota: Quota, when_full: WhenFull, judge: Judge) {
    for seed in 0..40 {
        let (limiter, mut random) = (build(quota, 1, when_full), Random::with_seed(seed));
        // Few enough keys for many checks of each, and more than fit.
        let mut histories = vec![Vec::new(); KEYS as usize];
        let (largest, pause) =
            (random.u64(1..=LIMIT), [10_000_000, 100_000_000, 2_000_000_000][seed as usize % 3]);
        let mut at = 0;
        for _ in 0..4_000 {
            if random.u64(..8) == 0 {
                at += random.u64(..pause);
            }
            let (key, cost) = (random.u64(..KEYS), random.u64(1..=largest));
            if limiter.account(Scattered(key)).at(Timestamp::from_nanos(at)).check_n(cost).is_allowed() {
                histories[key as usize].push((at, cost));
            }
        }
        for history in &histories {
            judge(history).unwrap_or_else(|much| panic!("{quota}, {when_full:?}, seed {seed}: {much}"));
        }
    }
}

/// Threads charge their own keys while others flood the table. Time moves while they contend.
fn forgets_nothing_under_threads(quota: Quota, when_full: WhenFull, judge: Judge) {
    for max_keys in [1, 20] {
        let limiter = build(quota, max_keys, when_full);
        let histories = crew(4, |worker| {
            let (mut random, mut times) = (Random::with_seed(worker.number as u64), Random::with_seed(99));
            let mut histories = vec![Vec::new(); 8];
            let mut at = 0;
            for round in 0..300 {
                for _ in 0..20 {
                    let own = random.u64(..8);
                    let tracked = worker.number as u64 * 8 + own;
                    let stranger = 1_000_000 * (worker.number as u64 + 1) + 100 * round + random.u64(..100);
                    let (key, cost) = (if worker.number < 2 { tracked } else { stranger }, random.u64(1..=6));
                    if limiter
                        .account(Scattered(key))
                        .at(Timestamp::from_nanos(at))
                        .check_n(cost)
                        .is_allowed()
                    {
                        histories[own as usize].push((at, cost));
                    }
                    worker.count_operation();
                }
                worker.meet();
                at += times.u64(..SECOND / 10);
            }
            histories
        });
        for history in histories.iter().take(2).flatten() {
            judge(history).unwrap_or_else(|much| panic!("{quota}, {when_full:?}, {max_keys} keys: {much}"));
        }
    }
}

#[test]
fn an_evicted_bucket_keeps_its_debt() {
    forgets_nothing(bucket(), WhenFull::Share, as_a_bucket);
    forgets_nothing(LeakyBucket::queue(Rate::per_second(LIMIT)).into(), WhenFull::Share, as_a_bucket);
    forgets_nothing(bucket(), WhenFull::Deny, as_a_bucket);
}

/// The debt of a key in its lost slot and its share of the allowance drain one after the other.
#[test]
fn an_evicted_bucket_that_shared_keeps_both_debts() {
    for quota in [bucket(), LeakyBucket::meter(Rate::per_second(LIMIT)).into()] {
        for seed in 0..200 {
            let (limiter, mut random) = (build(quota, 1, WhenFull::Share), Random::with_seed(seed));
            let (mut histories, half) = (vec![Vec::new(); KEYS as usize], LIMIT / 2);
            let mut ask = |key: u64, cost, at| {
                if limiter.account(Scattered(key)).at(Timestamp::from_nanos(at)).check_n(cost).is_allowed() {
                    histories[key as usize].push((at, cost));
                }
            };
            // More keys than fit use about half of their limits. Then all check for the rest.
            (0..KEYS).for_each(|key| ask(key, half + random.u64(..2), 0));
            (0..KEYS).for_each(|key| ask(key, half - random.u64(..2), 0));
            for later in 1..8 {
                (0..KEYS).for_each(|key| ask(key, random.u64(1..=LIMIT), later * SECOND / 8));
            }
            for history in &histories {
                as_a_bucket(history).unwrap_or_else(|much| panic!("{quota}, seed {seed}: {much}"));
            }
        }
    }
}

#[test]
fn an_evicted_fixed_window_keeps_its_debt() {
    forgets_nothing(window(), WhenFull::Share, as_a_fixed_window);
    forgets_nothing(window(), WhenFull::Deny, as_a_fixed_window);
}

#[test]
fn an_evicted_log_keeps_its_debt() {
    forgets_nothing(log(), WhenFull::Deny, as_a_log);
    forgets_nothing(log(), WhenFull::Share, as_a_log);
}

#[test]
fn a_window_refused_because_full_keeps_its_debt() {
    let sub = SlidingWindow::new(Rate::per_second(LIMIT)).subwindows(4);
    forgets_nothing(sub.into(), WhenFull::Deny, as_a_log);
    forgets_nothing_under_threads(sub.into(), WhenFull::Deny, as_a_log);
}

#[test]
fn under_threads_an_evicted_bucket_keeps_its_debt() {
    forgets_nothing_under_threads(bucket(), WhenFull::Deny, as_a_bucket);
    forgets_nothing_under_threads(bucket(), WhenFull::Share, as_a_bucket);
}

#[test]
fn under_threads_an_evicted_fixed_window_keeps_its_debt() {
    forgets_nothing_under_threads(window(), WhenFull::Deny, as_a_fixed_window);
    forgets_nothing_under_threads(window(), WhenFull::Share, as_a_fixed_window);
}

#[test]
fn under_threads_an_evicted_log_keeps_its_debt() {
    forgets_nothing_under_threads(log(), WhenFull::Deny, as_a_log);
    forgets_nothing_under_threads(log(), WhenFull::Share, as_a_log);
}

/// Each of four threads checks 2,000 keys of its own once, while time stands still.
fn flood(quota: Quota, when_full: WhenFull) -> (u64, Stats) {
    let limiter = build(quota, 20, when_full);
    let admitted = crew(4, |worker| {
        let keys = (0..2_000).map(|key| key * 4 + worker.number as u64);
        let allowed = keys.filter(|key| {
            worker.count_operation();
            limiter.check(Scattered(*key)).is_allowed()
        });
        allowed.count() as u64
    });
    (admitted.iter().sum(), limiter.stats())
}

#[test]
fn a_flood_is_counted_key_by_key() {
    for quota in every(2, CountPolicy::Allowed) {
        let (admitted, stats) = flood(quota, WhenFull::Allow);
        assert_eq!(admitted, 8_000, "{quota}");
        assert_eq!(stats.inserted + stats.recycled + stats.admitted_uncounted, 8_000, "{quota}: {stats:?}");
        assert!(stats.inserted + stats.recycled <= 60, "{quota}: {stats:?}");

        let (admitted, stats) = flood(quota, WhenFull::Deny);
        assert_eq!(stats.inserted + stats.recycled, admitted, "{quota}: {stats:?}");
        assert_eq!(stats.refused_full, 8_000 - admitted, "{quota}: {stats:?}");

        let (admitted, stats) = flood(quota, WhenFull::Share);
        let entered = stats.inserted + stats.recycled + stats.evicted_with_debt;
        assert_eq!(entered + stats.shared + stats.refused_full, 8_000, "{quota}: {stats:?}");
        assert!((entered..=entered + stats.shared).contains(&admitted), "{quota}: {admitted}, {stats:?}");
    }
}

/// The same with many threads.
#[test]
fn going_round_more_keys_than_fit_grants_threads_nothing_twice() {
    for when_full in [WhenFull::Share, WhenFull::Deny] {
        let limiter = build(TokenBucket::new(Rate::per_hour(1)), 20, when_full);
        let again = crew(4, |worker| {
            let keys = || (0..500).map(|key| key * 4 + worker.number as u64);
            let mut granted = Vec::new();
            for _ in 0..3 {
                granted.extend(keys().filter(|key| limiter.check(Scattered(*key)).is_allowed()));
                worker.count_operation();
            }
            granted.sort_unstable();
            granted.windows(2).filter(|pair| pair[0] == pair[1]).count()
        });
        assert_eq!(again, [0; 4], "{when_full:?}");
    }
}
