//! The workloads of the comparison: the same keys in the same order for everybody, under limits that are never
//! reached (`allow`) or always (`deny`).
//!
//! governor is used as its documentation advises: the default keyed store and clock. The floor is no limiter: it mixes
//! the key, reads the clock, and swaps one word by compare-exchange in a table of the size that the limiter would have.
//! Both are asked one key at a time, also where Tollgate is asked for a batch or by a prepared key.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use governor::{DefaultKeyedRateLimiter, RateLimiter};
use tollgate::{Decision, Limiter, Rate, TokenBucket};

/// Checks all keys in order and counts the admitted.
pub type Peer = Box<dyn Fn(&[u64]) -> usize>;

/// Keys to ask for, and both limiters to ask.
pub struct Workload {
    /// What it shows.
    pub name: &'static str,
    /// The keys, in order.
    pub keys: Vec<u64>,
    /// The peer.
    pub governor: Peer,
    /// Tollgate, default clock and hash.
    pub tollgate: Peer,
    /// What no limiter can beat.
    pub floor: Peer,
}

/// Tokens a second, and a burst that nobody spends.
const RATE: u32 = 1_000;
const PLENTY: u32 = 1_000_000_000;

/// All workloads.
#[must_use]
pub fn workloads() -> Vec<Workload> {
    let hot = || vec![7; 1_000_000];
    let million = || uniform(1_000_000, 2_000_000);
    vec![
        Workload {
            name: "hot key, allow",
            keys: hot(),
            governor: theirs(allowing()),
            tollgate: ours(ALLOW),
            floor: floor(),
        },
        Workload {
            name: "hot key, deny",
            keys: hot(),
            governor: theirs(denying()),
            tollgate: ours(DENY),
            floor: floor(),
        },
        Workload {
            name: "1M keys uniform, allow",
            keys: million(),
            governor: theirs(allowing()),
            tollgate: ours(ALLOW),
            floor: floor(),
        },
        Workload {
            name: "1M keys uniform, deny",
            keys: million(),
            governor: theirs(denying()),
            tollgate: ours(DENY),
            floor: floor(),
        },
        Workload {
            name: "1M keys, batches of 32",
            keys: million(),
            governor: theirs(allowing()),
            tollgate: in_batches(ALLOW),
            floor: floor(),
        },
        Workload {
            name: "hot key, prepared",
            keys: hot(),
            governor: theirs(allowing()),
            tollgate: prepared(ALLOW),
            floor: floor(),
        },
    ]
}

const ALLOW: TokenBucket = TokenBucket::new(Rate::per_second(RATE as u64)).burst(PLENTY as u64);
const DENY: TokenBucket = TokenBucket::new(Rate::per_hour(1));

/// Keys a batch.
const BATCH: usize = 32;

fn limiter(quota: TokenBucket) -> Limiter<u64> {
    Limiter::builder(quota).max_keys(1_000_000).build().expect("the quota is valid")
}

fn ours(quota: TokenBucket) -> Peer {
    let limiter = limiter(quota);
    Box::new(move |keys| keys.iter().filter(|key| limiter.check(key).is_allowed()).count())
}

fn in_batches(quota: TokenBucket) -> Peer {
    let limiter = limiter(quota);
    let allowed = move |keys: &[u64]| limiter.check_many(keys).filter(Decision::is_allowed).count();
    Box::new(move |keys| keys.chunks(BATCH).map(&allowed).sum())
}

/// Asks for the first key, prepared once, whatever the others are.
fn prepared(quota: TokenBucket) -> Peer {
    let limiter = limiter(quota);
    Box::new(move |keys| {
        let key = limiter.prepare(&keys[0]);
        keys.iter().filter(|_| key.check().is_allowed()).count()
    })
}

fn allowing() -> governor::Quota {
    let number = |n| NonZeroU32::new(n).expect("not zero");
    governor::Quota::per_second(number(RATE)).allow_burst(number(PLENTY))
}

fn denying() -> governor::Quota {
    governor::Quota::with_period(Duration::from_secs(3_600)).expect("not zero")
}

fn theirs(quota: governor::Quota) -> Peer {
    let limiter: DefaultKeyedRateLimiter<u64> = RateLimiter::keyed(quota);
    Box::new(move |keys| keys.iter().filter(|key| limiter.check_key(key).is_ok()).count())
}

/// Lines of 64 bytes in a table of a million keys: 32 MiB.
const LINES: usize = 1 << 19;

/// A word on a cache line of its own.
#[repr(align(64))]
struct Line(AtomicU64);

fn floor() -> Peer {
    let lines: Vec<Line> = (0..LINES).map(|_| Line(AtomicU64::new(0))).collect();
    let clock = quanta::Clock::new();
    Box::new(move |keys| {
        let swap = |key: &&u64| {
            let word = &lines[(key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 45) as usize].0;
            let (seen, now) = (word.load(Relaxed), clock.raw());
            word.compare_exchange(seen, seen.max(now) + 1, Relaxed, Relaxed).is_ok()
        };
        keys.iter().filter(swap).count()
    })
}

/// `asks` keys out of `0..keys`, uniformly at random, the same each time (splitmix64).
#[must_use]
pub fn uniform(keys: u64, asks: usize) -> Vec<u64> {
    let mut state = 42_u64;
    let mut draw = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    (0..asks).map(|_| draw() % keys).collect()
}
