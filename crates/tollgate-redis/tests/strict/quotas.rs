//! Random quotas, with their algorithm in the model: its nanoseconds are our microseconds.

use std::time::Duration;

use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_model::{Algorithm, CountPolicy};
use tollgate_testing::random::Random;

const EXACT: u64 = 1 << 53;

pub(crate) fn any(random: &mut Random) -> Quota {
    match random.u64(..6) {
        0..=2 => bucket(random),
        _ => window(random),
    }
}

/// Any bucket that is exact.
pub(crate) fn bucket(random: &mut Random) -> Quota {
    let (count, nanos, burst) = match random.u64(..5) {
        // Small numbers, with rates that do not come out in microseconds.
        0..=1 => (random.u64(1..=9), random.u64(1..=30_000), random.u64(1..=8)),
        2 => (random.u64(1..=1_000), 1_000_000_000, random.u64(1..=50)),
        // Near 2^53: prime counts a day, and many tokens of few grains.
        3 => {
            let count = [7, 99_991, 17, 1_009][random.usize(..4)];
            (count, 86_400_000_000_000, near(count * 1_000, 86_400_000_000_000, random))
        }
        _ => {
            let count = 1_000_000_007;
            (count, 1_000_000_000, near(count * 1_000, 1_000_000_000, random))
        }
    };
    let rate = Rate::new(count, Duration::from_nanos(nanos));
    match random.u64(..3) {
        0 => LeakyBucket::meter(rate).capacity(burst).into(),
        1 => LeakyBucket::queue(rate).capacity(burst).into(),
        _ => TokenBucket::new(rate).burst(burst).into(),
    }
}

/// Whether a full bucket has more than 2^52 grains.
pub(crate) fn is_large_bucket(quota: &Quota) -> bool {
    let is_bucket = matches!(quota, Quota::TokenBucket(_) | Quota::LeakyBucket(_));
    is_bucket && quota.limit() > 100_000
}

/// A burst near the largest that is exact.
fn near(count: u64, nanos: u64, random: &mut Random) -> u64 {
    let divisor = gcd(count, nanos);
    (EXACT - 2 * (count / divisor)) / (nanos / divisor) - random.u64(..3)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn window(random: &mut Random) -> Quota {
    let (limit, micros) = match random.u64(..4) {
        0..=1 => (random.u64(1..=8), random.u64(1..=30)),
        2 => (random.u64(1..=700), 60_000_000),
        // limit * width near 2^53
        _ => (EXACT / 3_600_000_000 - random.u64(..3), 3_600_000_000),
    };
    let rate = |limit| Rate::new(limit, Duration::from_micros(micros));
    match random.u64(..3) {
        0 => FixedWindow::new(rate(limit)).into(),
        1 => SlidingWindow::new(rate(limit)).into(),
        _ => SlidingLog::new(rate(limit.min(1_200))).into(),
    }
}

/// The grains that a bucket gains in a microsecond, and those of a token.
pub(crate) fn grains(quota: &Quota) -> (u64, u64) {
    let (count, nanos) = (1_000 * quota.rate().count(), quota.rate().period().as_nanos() as u64);
    let divisor = gcd(count, nanos);
    (count / divisor, nanos / divisor)
}

/// The quota's algorithm, and by how many of the model's units a unit is counted there: a bucket is
/// counted in grains.
pub(crate) fn algorithm(quota: &Quota) -> (Algorithm, u64) {
    let (rate, policy) = (quota.rate(), CountPolicy::Allowed);
    let (limit, window_ns, origin_ns, ceiling) =
        (rate.count(), rate.period().as_nanos() as u64 / 1_000, 0, u64::MAX);
    let (count, a_token) = grains(quota);
    let (period_ns, capacity, grains) = (1, quota.limit().saturating_mul(a_token), None);
    let bucket = |algorithm| (algorithm, a_token);
    let window = |algorithm| (algorithm, 1);
    match quota {
        Quota::TokenBucket(_) => {
            bucket(Algorithm::TokenBucket { count, period_ns, burst: capacity, initial: capacity, grains })
        }
        Quota::LeakyBucket(_) if quota.is_queue() => {
            bucket(Algorithm::LeakyQueue { count, period_ns, capacity, grains })
        }
        Quota::LeakyBucket(_) => bucket(Algorithm::LeakyMeter { count, period_ns, capacity, grains }),
        Quota::FixedWindow(_) => {
            window(Algorithm::FixedWindow { limit, window_ns, origin_ns, count: policy, ceiling })
        }
        Quota::SlidingWindow(_) => window(Algorithm::SlidingWindow {
            limit,
            window_ns,
            origin_ns,
            count: policy,
            ceiling,
            granule: 1,
        }),
        Quota::SlidingLog(_) => window(Algorithm::SlidingLog { limit, window_ns, count: policy }),
        other => unreachable!("the store has none: {other:?}"),
    }
}
