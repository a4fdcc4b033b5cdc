//! Limits drawn at random.

use tollgate_model::{Algorithm, CountPolicy};
use tollgate_testing::random::Random;

fn count(random: &mut Random) -> CountPolicy {
    if random.bool() { CountPolicy::All } else { CountPolicy::Allowed }
}

fn tick(random: &mut Random) -> u64 {
    [1, 1, 2, 8][random.usize(..4)]
}

/// Half of the time none, else few or many.
fn grains(random: &mut Random) -> Option<u64> {
    [None, None, Some(random.u64(1..=8)), Some(1 << 20)][random.usize(..4)]
}

/// Any algorithm.
pub(crate) fn algorithm(random: &mut Random) -> Algorithm {
    let (limit, window_ns, origin_ns) = (random.u64(1..=8), random.u64(1..=30), random.u64(..100));
    let (count, ceiling, granule) = (count(random), limit + random.u64(..9), random.u64(1..=4));
    match random.u64(..10) {
        0 => token_bucket(random),
        1 => {
            let (count, period_ns, grains) = (random.u64(1..=9), random.u64(1..=30), grains(random));
            Algorithm::LeakyMeter { count, period_ns, capacity: limit, grains }
        }
        2 => {
            let (count, period_ns, grains) = (random.u64(1..=9), random.u64(1..=30), grains(random));
            Algorithm::LeakyQueue { count, period_ns, capacity: limit, grains }
        }
        3 => Algorithm::FixedWindow { limit, window_ns, origin_ns, count, ceiling },
        4 => Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule },
        5 => sub_windows(random),
        6 => {
            let (count, period_ns, burst) = (random.u64(1..=9), random.u64(1..=30), limit);
            Algorithm::IntervalBucket { count, period_ns, origin_ns, burst, initial: random.u64(..burst + 1) }
        }
        7 => {
            let (count, period_ns, burst) = (random.u64(1..=9), random.u64(1..=30), limit);
            let (initial, tick_ns) = (random.u64(..burst + 1), tick(random));
            Algorithm::FirstHitBucket { count, period_ns, burst, initial, tick_ns }
        }
        8 => Algorithm::FirstHitWindow { limit, window_ns, tick_ns: tick(random), count, ceiling },
        _ => sliding_log(random),
    }
}

pub(crate) fn token_bucket(random: &mut Random) -> Algorithm {
    let (count, period_ns, burst) = (random.u64(1..=9), random.u64(1..=30), random.u64(1..=8));
    Algorithm::TokenBucket {
        count,
        period_ns,
        burst,
        initial: random.u64(..burst + 1),
        grains: grains(random),
    }
}

pub(crate) fn sub_windows(random: &mut Random) -> Algorithm {
    let (limit, window_ns, origin_ns) = (random.u64(1..=8), random.u64(1..=30), random.u64(..100));
    let (count, ceiling, granule) = (count(random), limit + random.u64(..9), random.u64(1..=4));
    let subwindows = random.u64(1..=6) as u32;
    Algorithm::SubWindows { limit, window_ns, subwindows, origin_ns, count, ceiling, granule }
}

pub(crate) fn sliding_log(random: &mut Random) -> Algorithm {
    Algorithm::SlidingLog { limit: random.u64(1..=8), window_ns: random.u64(1..=30), count: count(random) }
}
