//! Pseudo-random numbers and limits that are the same in every run.

use tollgate_model::{Algorithm, CountPolicy};

/// xorshift64*: three shifts and a multiplication.
pub(crate) struct Random(u64);

impl Random {
    /// Adjacent seeds give unrelated sequences.
    pub(crate) fn new(seed: u64) -> Self {
        assert!(seed > 0, "xorshift never leaves zero");
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for _ in 0..8 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to `end - 1`, nearly uniform for a small `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 32) % end
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// From 1 to `end`.
    fn up_to(&mut self, end: u64) -> u64 {
        1 + self.below(end)
    }

    fn count(&mut self) -> CountPolicy {
        if self.one_in(2) { CountPolicy::All } else { CountPolicy::Allowed }
    }

    fn tick(&mut self) -> u64 {
        [1, 1, 2, 8][self.below(4) as usize]
    }

    /// Half of the time none, else few or many.
    fn grains(&mut self) -> Option<u64> {
        [None, None, Some(self.up_to(8)), Some(1 << 20)][self.below(4) as usize]
    }
}

/// Any algorithm.
pub(crate) fn algorithm(random: &mut Random) -> Algorithm {
    let (limit, window_ns, origin_ns) = (random.up_to(8), random.up_to(30), random.below(100));
    let (count, ceiling, granule) = (random.count(), limit + random.below(9), random.up_to(4));
    match random.below(10) {
        0 => token_bucket(random),
        1 => {
            let (count, period_ns, grains) = (random.up_to(9), random.up_to(30), random.grains());
            Algorithm::LeakyMeter { count, period_ns, capacity: limit, grains }
        }
        2 => {
            let (count, period_ns, grains) = (random.up_to(9), random.up_to(30), random.grains());
            Algorithm::LeakyQueue { count, period_ns, capacity: limit, grains }
        }
        3 => Algorithm::FixedWindow { limit, window_ns, origin_ns, count, ceiling },
        4 => Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule },
        5 => sub_windows(random),
        6 => {
            let (count, period_ns, burst) = (random.up_to(9), random.up_to(30), limit);
            Algorithm::IntervalBucket { count, period_ns, origin_ns, burst, initial: random.below(burst + 1) }
        }
        7 => {
            let (count, period_ns, burst) = (random.up_to(9), random.up_to(30), limit);
            let (initial, tick_ns) = (random.below(burst + 1), random.tick());
            Algorithm::FirstHitBucket { count, period_ns, burst, initial, tick_ns }
        }
        8 => Algorithm::FirstHitWindow { limit, window_ns, tick_ns: random.tick(), count, ceiling },
        _ => sliding_log(random),
    }
}

pub(crate) fn token_bucket(random: &mut Random) -> Algorithm {
    let (count, period_ns, burst) = (random.up_to(9), random.up_to(30), random.up_to(8));
    Algorithm::TokenBucket {
        count,
        period_ns,
        burst,
        initial: random.below(burst + 1),
        grains: random.grains(),
    }
}

pub(crate) fn sub_windows(random: &mut Random) -> Algorithm {
    let (limit, window_ns, origin_ns) = (random.up_to(8), random.up_to(30), random.below(100));
    let (count, ceiling, granule) = (random.count(), limit + random.below(9), random.up_to(4));
    let subwindows = random.up_to(6) as u32;
    Algorithm::SubWindows { limit, window_ns, subwindows, origin_ns, count, ceiling, granule }
}

pub(crate) fn sliding_log(random: &mut Random) -> Algorithm {
    Algorithm::SlidingLog { limit: random.up_to(8), window_ns: random.up_to(30), count: random.count() }
}
