//! How long does one check take, beside governor's keyed limiter in the same run?
//!
//! Each group asks both for the same keys in the same order, under limits that are never reached (`allow`) or always
//! (`deny`). governor is used as its documentation advises: the default keyed store and clock.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use tollgate::{Limiter, Rate, TokenBucket};
use tollgate_bench::uniform;

/// Tokens a second, and a burst that no bench spends.
const RATE: u32 = 1_000;
const PLENTY: u32 = 1_000_000_000;

fn ours(quota: TokenBucket, keys: usize) -> Limiter<u64> {
    Limiter::builder(quota).max_keys(keys).build().expect("the quota is valid")
}

fn theirs(quota: governor::Quota) -> DefaultKeyedRateLimiter<u64> {
    RateLimiter::keyed(quota)
}

/// Calls `check` with one key after the other, around and around.
fn run(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, keys: &[u64], check: impl Fn(&u64) -> bool) {
    // Every key is known before the clock runs.
    keys.iter().for_each(|key| {
        black_box(check(key));
    });
    let mut order = keys.iter().cycle();
    group.bench_function(name, |bencher| bencher.iter(|| check(black_box(order.next().expect("a cycle")))));
}

fn compare(criterion: &mut Criterion) {
    for (name, keys) in
        [("hot key, allow", vec![7]), ("1M keys uniform, allow", uniform(1_000_000, 4_000_000))]
    {
        let mut group = criterion.benchmark_group(name);
        let (rate, burst) =
            (NonZeroU32::new(RATE).expect("not zero"), NonZeroU32::new(PLENTY).expect("not zero"));
        let peer = theirs(governor::Quota::per_second(rate).allow_burst(burst));
        let tollgate = ours(TokenBucket::new(Rate::per_second(RATE.into())).burst(PLENTY.into()), 1_000_000);
        run(&mut group, "governor", &keys, |key| peer.check_key(key).is_ok());
        run(&mut group, "tollgate", &keys, |key| tollgate.check(key).is_allowed());
        group.finish();
    }
    let mut group = criterion.benchmark_group("hot key, deny");
    let hourly = governor::Quota::with_period(Duration::from_secs(3_600)).expect("not zero");
    let (peer, tollgate) = (theirs(hourly), ours(TokenBucket::new(Rate::per_hour(1)), 1_000));
    run(&mut group, "governor", &[7], |key| peer.check_key(key).is_ok());
    run(&mut group, "tollgate", &[7], |key| tollgate.check(key).is_allowed());
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = compare
}
criterion_main!(benches);
