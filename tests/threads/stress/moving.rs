//! A clock that moves ahead and back while threads check.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{CountPolicy, Limiter, ManualClock, Quota, Timestamp};
use tollgate_testing::random::Random;

use super::crew::crew;
use super::{SECOND, every};

const LIMIT: u64 = 10;
const KEYS: u64 = 3;
const OPERATIONS: u64 = 8_000;

/// Returns the most units that a key may be admitted from zero until `latest`.
fn bound(quota: &Quota, latest: u64) -> u64 {
    match quota {
        Quota::TokenBucket(_) | Quota::LeakyBucket(_) => LIMIT + LIMIT * latest / SECOND,
        // Each aligned window, or each window counted from zero, has at most the limit.
        _ => LIMIT * (latest / SECOND + 1),
    }
}

#[test]
fn a_clock_that_steps_back_under_threads_adds_no_tokens() {
    for count in [CountPolicy::Allowed, CountPolicy::All] {
        for quota in every(LIMIT, count) {
            let clock = ManualClock::new();
            let builder = Limiter::builder(quota).per::<u64>().clock(clock.clone()).max_keys(1_000);
            let (limiter, latest) = (builder.build().unwrap(), AtomicU64::new(0));
            let results = crew(4, |worker| {
                let (mut admitted, mut random) =
                    ([0; KEYS as usize], Random::with_seed(worker.number as u64));
                for _ in 0..OPERATIONS {
                    if random.u64(..16) == 0 {
                        // Ahead by up to 30 ms, or back by up to a second.
                        let step = random.u64(..30_000_000);
                        let ahead = latest.fetch_add(step, Relaxed) + step;
                        let back = if random.u64(..4) == 0 { random.u64(..SECOND) } else { 0 };
                        clock.set(Timestamp::from_nanos(ahead.saturating_sub(back)));
                    }
                    let (key, cost) = (random.u64(..KEYS), random.u64(1..=3));
                    if limiter.check_n(key, cost).is_allowed() {
                        admitted[key as usize] += cost;
                    }
                    worker.count_operation();
                }
                admitted
            });
            let most = bound(&quota, latest.into_inner());
            for key in 0..KEYS as usize {
                let admitted: u64 = results.iter().map(|admitted| admitted[key]).sum();
                assert!(admitted <= most, "{quota}: key {key} got {admitted} of {most}");
                assert!(
                    count == CountPolicy::All || admitted >= LIMIT,
                    "{quota}: key {key} got only {admitted}"
                );
            }
        }
    }
}
