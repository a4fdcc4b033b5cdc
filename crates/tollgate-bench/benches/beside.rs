//! A quick comparison of a check with governor's, on one hot key and among a million keys. Figures
//! in documents come from the `tollgate-bench` command, in which contestants take turns on the same
//! keys.
//!
//!     cargo bench -p tollgate-bench --bench beside

use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use governor::RateLimiter;
use tollgate::{Limiter, Rate, TokenBucket};

const KEYS: u64 = 1_000_000;

/// So large that no run reaches it, with a refill so slow that every key stays in debt.
const BURST: u32 = 1_000_000;

/// A reproducible sequence of keys below `keys`.
fn random_keys(keys: u64) -> impl Iterator<Item = u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(move || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % keys
    })
}

fn beside(criterion: &mut Criterion) {
    for (name, keys) in [("one hot key", 1), ("a million keys, uniform", KEYS)] {
        let sequence: Vec<u64> = random_keys(keys).take(2 * KEYS as usize).collect();
        let quota = TokenBucket::new(Rate::per_minute(1)).burst(BURST.into());
        let tollgate =
            Limiter::builder(quota).per::<u64>().max_keys(keys as usize).build().expect("the quota is valid");
        let quota = governor::Quota::with_period(Duration::from_secs(60)).expect("not zero");
        let governor = RateLimiter::dashmap(quota.allow_burst(NonZeroU32::new(BURST).expect("not zero")));
        // Both limiters know every key before the measurement.
        assert!((0..keys).all(|key| tollgate.check(key).is_allowed() && governor.check_key(&key).is_ok()));

        let mut group = criterion.benchmark_group(name);
        let mut next = sequence.iter().cycle();
        group.bench_function("tollgate", |bencher| {
            bencher.iter(|| tollgate.check(next.next().expect("it is endless")).is_allowed());
        });
        let mut next = sequence.iter().cycle();
        group.bench_function("governor", |bencher| {
            bencher.iter(|| governor.check_key(next.next().expect("it is endless")).is_ok());
        });
        group.finish();
    }
}

criterion_group!(benches, beside);
criterion_main!(benches);
