//! Another quota while the limiter runs: what each key inherits over the change, and that nothing is minted by it.
//!
//! V10.6 and V6.3 are vectors of this project's survey of its peers.

#[path = "reconfigure/buckets.rs"]
mod buckets;
#[path = "reconfigure/exact.rs"]
mod exact;
#[path = "reconfigure/forgotten.rs"]
mod forgotten;
#[path = "reconfigure/model.rs"]
mod model;
#[path = "reconfigure/several.rs"]
mod several;
#[path = "reconfigure/several_model.rs"]
mod several_model;
#[path = "reconfigure/several_threads.rs"]
mod several_threads;
#[path = "reconfigure/threads.rs"]
mod threads;
#[path = "reconfigure/verbs.rs"]
mod verbs;
#[path = "reconfigure/windows.rs"]
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

fn global<A: Algorithm>(quota: A) -> (GlobalLimiter<A, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (GlobalLimiter::builder(quota).clock(clock.clone()).build().unwrap(), clock)
}

fn keyed<A: Algorithm>(quota: A) -> (Limiter<u64, A, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder(quota).clock(clock.clone()).build().unwrap(), clock)
}

/// What the key could be admitted now.
fn left<A: Algorithm>(limiter: &Limiter<u64, A, ManualClock>, key: u64) -> u64 {
    limiter.peek_n_at(&key, 0, limiter.now()).remaining()
}
