//! Changes of the quota at run time: the inheritance of each key, without minting.

mod buckets;
mod exact;
mod forgotten;
mod late;
mod model;
mod realign;
mod refunds;
mod several;
mod several_model;
mod several_threads;
mod threads;
mod tiers;
mod verbs;
mod windows;

use std::time::Duration;

use tollgate::{Algorithm, GlobalLimiter, Limiter, ManualClock, Rate, Timestamp, TokenBucket};

const SECOND: u64 = 1_000_000_000;

/// `count` in `nanos` nanoseconds.
fn per(count: u64, nanos: u64) -> Rate {
    Rate::new(count, Duration::from_nanos(nanos))
}

/// A token bucket of `count` a second.
fn bucket(count: u64, burst: u64) -> TokenBucket {
    TokenBucket::new(Rate::per_second(count)).burst(burst)
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn global<A: Algorithm>(quota: A) -> (GlobalLimiter<A, 1, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).clock(clock.clone()).build().unwrap(), clock)
}

fn keyed<A: Algorithm>(quota: A) -> (Limiter<u64, A, 1, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).per().clock(clock.clone()).build().unwrap(), clock)
}

/// The units that the key has left.
fn left<A: Algorithm>(limiter: &Limiter<u64, A, 1, ManualClock>, key: u64) -> u64 {
    limiter.account(key).at(limiter.now()).peek_n(0).remaining()
}
