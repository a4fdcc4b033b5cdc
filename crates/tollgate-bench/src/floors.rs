//! Floors, which no limiter can beat: the clock, a compare-exchange, both, and both on a random
//! line of a table.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quanta::Clock;
use tollgate::{Limiter, Rate, TokenBucket};

use crate::contest::Contestant;

/// Reads the clock (the raw TSC if there is one).
pub(crate) fn clock<K: 'static>() -> Contestant<K> {
    Contestant::floor("floor: clock", || {
        let clock = Clock::new();
        move |_: &K| clock.raw() != 0
    })
}

/// Makes one compare-exchange on one word.
pub(crate) fn compare_exchange<K: 'static>() -> Contestant<K> {
    Contestant::floor("floor: CAS", || {
        let word = AtomicU64::new(0);
        move |_: &K| {
            let current = word.load(Relaxed);
            word.compare_exchange(current, current + 1, Relaxed, Relaxed).is_ok()
        }
    })
}

/// Reads the clock and makes one compare-exchange on one word.
pub(crate) fn clock_and_compare_exchange<K: 'static>() -> Contestant<K> {
    Contestant::floor("floor: clock + CAS", || {
        let (clock, word) = (Clock::new(), AtomicU64::new(0));
        move |_: &K| advance(&word, &clock)
    })
}

/// Mixes the key, reads the clock, and makes one compare-exchange on a line of a table that is as
/// large as Tollgate's for `keys`.
pub(crate) fn line(keys: usize) -> Contestant<u64> {
    Contestant::floor("floor: hash + clock + CAS", move || {
        let builder = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<u64>().max_keys(keys);
        let bytes = builder.memory().expect("the quota is valid");
        let lines: Vec<Line> =
            (0..bytes.next_power_of_two() / size_of::<Line>()).map(|_| Line(AtomicU64::new(0))).collect();
        let (clock, shift) = (Clock::new(), u64::BITS - lines.len().trailing_zeros());
        move |key: &u64| {
            let line = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift;
            advance(&lines[line as usize].0, &clock)
        }
    })
}

/// The name of [`stream`].
pub(crate) const STREAM: &str = "floor: a line of memory";

/// Reads and writes one word of each line in order, so that the bandwidth of memory is the bound.
pub(crate) fn stream(lines: usize) -> Contestant<u64> {
    Contestant::floor(STREAM, move || {
        let lines: Vec<Line> = (0..lines).map(|_| Line(AtomicU64::new(1))).collect();
        move |&index: &u64| {
            let word = &lines[index as usize].0;
            word.store(word.load(Relaxed) + 1, Relaxed);
            true
        }
    })
}

/// A word in its own cache line.
#[repr(align(64))]
struct Line(AtomicU64);

/// The least work of GCRA.
fn advance(word: &AtomicU64, clock: &Clock) -> bool {
    let (current, now) = (word.load(Relaxed), clock.raw());
    word.compare_exchange(current, current.max(now) + 1, Relaxed, Relaxed).is_ok()
}
