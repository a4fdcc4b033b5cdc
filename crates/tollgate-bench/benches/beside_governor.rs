//! How long does one check take, beside governor's keyed limiter in the same run?
//!
//! criterion measures one after the other; `cargo run --release -p tollgate-bench` lets them take turns, which is the
//! fairer ratio on a machine that others use too.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tollgate_bench::{Peer, Workload, workloads};

fn compare(criterion: &mut Criterion) {
    for Workload { name, keys, governor, tollgate, floor } in workloads() {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        for (name, check) in [("governor", governor), ("tollgate", tollgate), ("floor", floor)] {
            // Every key is known before the clock runs.
            black_box(check(&keys));
            group.bench_function(name, |bencher| bencher.iter_custom(|checks| time(&check, &keys, checks)));
        }
        group.finish();
    }
}

/// How long so many checks take, around and around the keys.
fn time(check: &Peer, keys: &[u64], checks: u64) -> Duration {
    let mut left = usize::try_from(checks).expect("a bench makes fewer checks than there are addresses");
    let begun = Instant::now();
    while left > 0 {
        let some = left.min(keys.len());
        black_box(check(&keys[..some]));
        left -= some;
    }
    begun.elapsed()
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = compare
}
criterion_main!(benches);
