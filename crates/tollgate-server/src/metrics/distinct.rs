//! How many distinct keys there were lately.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Bits of a hash that choose a register.
const BITS: u32 = 10;

/// Registers of a sketch: 1 KiB, and a standard error of 1.04 / √1024 = 3.25 %.
const REGISTERS: usize = 1 << BITS;

/// Bits of a hash that are left for the run of zeros.
const RUN: usize = (u64::BITS - BITS) as usize;

/// Slices: the current one, the five before it, and one that is empty for the next minute.
const SLICES: u64 = 7;

/// How many slices are counted.
const COUNTED: u64 = 6;

/// The length of a slice, in nanoseconds.
const SLICE: u64 = 60_000_000_000;

/// Estimates how many distinct keys there were in the last five minutes and the current one, by
/// HyperLogLog: a sketch for each minute, merged when it is read.
///
/// A key that was seen before in this minute changes nothing: it costs a load of one byte. Threads
/// share the sketches without a lock. A key that arrives in the instant at which a new minute
/// begins may be lost.
pub(crate) struct DistinctKeys {
    /// The number of the current minute.
    minute: AtomicU64,
    slices: Box<[[AtomicU8; REGISTERS]; SLICES as usize]>,
}

impl DistinctKeys {
    pub(crate) fn new() -> Self {
        let slice = |_| std::array::from_fn(|_| AtomicU8::new(0));
        Self { minute: AtomicU64::new(0), slices: Box::new(std::array::from_fn(slice)) }
    }

    /// Counts a key, by its hash, at a time in nanoseconds.
    #[inline]
    pub(crate) fn add(&self, hash: u64, now: u64) {
        let minute = now / SLICE;
        if minute > self.minute.load(Relaxed) {
            self.turn(minute);
        }
        let register = &self.slices[(minute % SLICES) as usize][(hash >> (u64::BITS - BITS)) as usize];
        let run = ((hash << BITS) | (1 << (BITS - 1))).leading_zeros() as u8 + 1;
        if register.load(Relaxed) < run {
            register.fetch_max(run, Relaxed);
        }
    }

    /// About how many distinct keys there were.
    pub(crate) fn estimate(&self, now: u64) -> f64 {
        let minute = now / SLICE;
        if minute > self.minute.load(Relaxed) {
            self.turn(minute);
        }
        let counted = (0..COUNTED).filter_map(|back| minute.checked_sub(back));
        let slices: Vec<_> = counted.map(|minute| &self.slices[(minute % SLICES) as usize]).collect();
        let mut with_run = [0_u32; RUN + 2];
        for register in 0..REGISTERS {
            let runs = slices.iter().map(|slice| slice[register].load(Relaxed));
            with_run[usize::from(runs.max().unwrap_or(0)).min(RUN + 1)] += 1;
        }
        estimate(&with_run)
    }

    /// Begins a minute: the thread that is first empties the slices that it needs.
    #[cold]
    #[inline(never)]
    fn turn(&self, minute: u64) {
        let before = self.minute.fetch_max(minute, Relaxed);
        if before >= minute {
            return;
        }
        // The slice of the next minute always is empty, so the usual turn empties the one after.
        let first = (before + 2).max((minute + 2).saturating_sub(SLICES));
        for minute in first..=minute + 1 {
            for register in &self.slices[(minute % SLICES) as usize] {
                register.store(0, Relaxed);
            }
        }
    }
}

/// The estimate by the numbers of registers with each run: Otmar Ertl, "New cardinality estimation
/// algorithms for HyperLogLog sketches" (2017), algorithm 6. It needs no table of corrections.
fn estimate(with_run: &[u32; RUN + 2]) -> f64 {
    let registers = REGISTERS as f64;
    let mut z = registers * tau(1.0 - f64::from(with_run[RUN + 1]) / registers);
    for count in with_run[1..=RUN].iter().rev() {
        z = 0.5 * (z + f64::from(*count));
    }
    z += registers * sigma(f64::from(with_run[0]) / registers);
    registers * registers / (2.0 * std::f64::consts::LN_2 * z)
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z <= before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z >= before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    /// The error in standard errors of a sketch. A key in a thousand would be above 3.3, were the
    /// hasher random in each run; of the 60 sketches here the worst may be 4.5.
    const WORST: f64 = 4.5;

    #[test]
    fn distinct_keys_are_estimated_within_the_bound() {
        let mut squares = 0.0;
        let mut sketches = 0.0;
        for keys in [1_u64, 10, 100, 1_000, 3_000, 10_000, 100_000] {
            for _ in 0..10 {
                let (distinct, hasher) = (DistinctKeys::new(), RandomState::new());
                // Each key comes twice, in two minutes.
                for now in [0, SLICE] {
                    (0..keys).for_each(|key| distinct.add(hasher.hash_one(key), now));
                }
                let error = distinct.estimate(SLICE) / keys as f64 - 1.0;
                assert!(error.abs() < WORST * 0.0325, "{keys} keys: {error}");
                squares += error * error;
                sketches += 1.0;
            }
        }
        assert!((squares / sketches).sqrt() < 0.04, "{}", (squares / sketches).sqrt());
        assert_eq!(DistinctKeys::new().estimate(0), 0.0);
    }

    #[test]
    fn keys_are_forgotten_after_six_minutes() {
        let hasher = RandomState::new();
        let distinct = DistinctKeys::new();
        (0..500_u64).for_each(|key| distinct.add(hasher.hash_one(key), 10 * SLICE));
        let about = |now| (distinct.estimate(now) / 500.0).round();
        assert_eq!((about(10 * SLICE), about(16 * SLICE - 1), about(16 * SLICE)), (1.0, 1.0, 0.0));
        // After a time without requests no old slice is left.
        (0..500_u64).for_each(|key| distinct.add(hasher.hash_one(key), 17 * SLICE));
        assert_eq!((about(17 * SLICE), about(900 * SLICE)), (1.0, 0.0));
        assert_eq!((about(904 * SLICE), about(907 * SLICE)), (0.0, 0.0));
    }
}
