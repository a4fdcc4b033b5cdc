//! The cost of a check for each algorithm, on one hot key and among a million keys.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tollgate::{
    Algorithm, Clock, FixedWindow, LeakyBucket, Limiter, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket,
    TscClock,
};

/// A limit that no benchmark reaches and every algorithm supports.
const RATE: Rate = Rate::new(1_000_000_000, Duration::from_secs(3_600));

fn limiter<A: Algorithm>(quota: A, keys: usize) -> Limiter<u64, A> {
    Limiter::builder(quota).per().max_keys(keys).build().expect("the quota is valid")
}

/// The whole check on one hot key, with the default clock.
fn hot<A: Algorithm>(criterion: &mut Criterion, name: &str, quota: A) {
    let limiter = limiter(quota, 1_000);
    criterion.bench_function(&format!("hot/{name}"), |bencher| {
        bencher.iter(|| limiter.check(black_box(&7)).is_allowed());
    });
}

/// Each algorithm, and the parts of a check: the clock, the hash, the table.
fn algorithms(criterion: &mut Criterion) {
    let clock = TscClock::new();
    criterion.bench_function("clock alone", |bencher| bencher.iter(|| black_box(clock.now())));
    hot(criterion, "token bucket", TokenBucket::new(RATE));
    hot(criterion, "token bucket, odd rate", TokenBucket::new(Rate::per_second(999_983)).burst(1 << 40));
    hot(criterion, "leaky bucket", LeakyBucket::queue(RATE));
    hot(criterion, "fixed window", FixedWindow::new(RATE));
    hot(criterion, "sliding window", SlidingWindow::new(RATE));
    hot(criterion, "sliding window, 4 subwindows", SlidingWindow::new(Rate::per_hour(1_000)).subwindows(4));
    hot(criterion, "sliding log of 100", SlidingLog::new(Rate::new(100, Duration::from_micros(1))));
    hot(criterion, "any algorithm: token bucket", Quota::from(TokenBucket::new(RATE)));
    let global = Limiter::builder(TokenBucket::new(RATE)).build().expect("the quota is valid");
    criterion.bench_function("global/token bucket", |bencher| bencher.iter(|| global.check(()).is_allowed()));
    let limiter = limiter(TokenBucket::new(RATE), 1_000);
    let now = limiter.now();
    criterion.bench_function("hot/token bucket, time given", |bencher| {
        bencher.iter(|| limiter.account(black_box(&7)).at(now).check().is_allowed());
    });
}

/// The cost of hashing a key.
fn keys(criterion: &mut Criterion) {
    let prf = Limiter::builder(TokenBucket::new(RATE)).per::<str>().build().expect("the quota is valid");
    let trusted = Limiter::builder(TokenBucket::new(RATE))
        .per::<str>()
        .trusted_keys()
        .build()
        .expect("the quota is valid");
    for key in ["198.51.100.7", "2001:db8:85a3:8d3:1319:8a2e:370:7348"] {
        criterion.bench_function(&format!("string of {}/SipHash-1-3", key.len()), |bencher| {
            bencher.iter(|| prf.check(black_box(key)).is_allowed());
        });
        criterion.bench_function(&format!("string of {}/ahash", key.len()), |bencher| {
            bencher.iter(|| trusted.check(black_box(key)).is_allowed());
        });
    }
}

/// The savings of a prepared key, which is hashed once, and of a prefetched line.
fn prepared(criterion: &mut Criterion) {
    let limiter = Limiter::builder(TokenBucket::new(RATE)).per::<str>().build().expect("the quota is valid");
    let key = "2001:db8:85a3:8d3:1319:8a2e:370:7348";
    criterion.bench_function("prepared string of 36", |bencher| {
        let key = limiter.account(key);
        bencher.iter(|| black_box(&key).check().is_allowed());
    });
}

/// Several limits on a hot key compared with one: admitted, and refused by the last limit.
fn several(criterion: &mut Criterion) {
    let of = |count: usize| {
        let limiter =
            Limiter::builder(vec![Quota::from(TokenBucket::new(RATE)); count]).per::<u64>().max_keys(1_000);
        limiter.build().expect("the quotas are valid")
    };
    hot(criterion, "beside several: one", Quota::from(TokenBucket::new(RATE)));
    for count in [1, 2, 3, 8] {
        let limiter = of(count);
        criterion.bench_function(&format!("hot/several: {count}"), |bencher| {
            bencher.iter(|| limiter.check(black_box(&7)).is_allowed());
        });
    }
    let slow = TokenBucket::new(Rate::per_hour(1));
    let one = limiter(Quota::from(slow), 1_000);
    criterion.bench_function("hot, refused/one", |bencher| {
        bencher.iter(|| one.check(black_box(&7)).is_allowed());
    });
    let two = Limiter::builder([TokenBucket::new(RATE), slow]).per::<u64>().max_keys(1_000);
    let two = two.build().expect("the quotas are valid");
    criterion.bench_function("hot, refused/several: 2", |bencher| {
        bencher.iter(|| two.check(black_box(&7)).is_allowed());
    });
}

/// The keys of a table of 32 MiB.
const MILLION: u64 = 1_000_000;

/// Batches of keys outside the cache, by size. A batch of one key shows the cost of a batch itself.
fn batches(criterion: &mut Criterion) {
    let limiter = limiter(TokenBucket::new(RATE), MILLION as usize);
    assert!(
        limiter.check_many(0..MILLION).all(|decision| decision.is_allowed()),
        "every key is known before"
    );
    let mut group = criterion.benchmark_group("batch, a million keys");
    for size in [1, 8, 32, 256] {
        // The step has no common factor with a million, so it visits all keys.
        let mut keys = (0_u64..).map(|nth| nth * 611_953 % MILLION);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(size.to_string(), |bencher| {
            bencher.iter(|| {
                limiter.check_many(keys.by_ref().take(size)).filter(|decision| decision.is_allowed()).count()
            });
        });
    }
    group.finish();
}

/// Returns the time in which `threads` threads, started together, each run `work` `times` times.
fn together<W: FnMut()>(threads: usize, times: u64, worker: impl Fn() -> W + Sync) -> Duration {
    let start = &Barrier::new(threads + 1);
    let run = || {
        let mut work = worker();
        start.wait();
        (0..times).for_each(|_| work());
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        start.wait();
        let begun = Instant::now();
        threads.into_iter().for_each(|thread| thread.join().expect("a worker does not panic"));
        begun.elapsed()
    })
}

/// One and two threads on one hot key. Checks pass the key's line between the cores; leases do so
/// once in a thousand checks.
fn contended(criterion: &mut Criterion) {
    let limiter = limiter(TokenBucket::new(Rate::per_second(1_000)).burst(1 << 40), 1_000);
    for threads in [1, 2] {
        let mut group = criterion.benchmark_group(format!("one hot key, threads: {threads}"));
        group.throughput(Throughput::Elements(threads as u64));
        group.bench_function("prepared check", |bencher| {
            bencher.iter_custom(|times| {
                together(threads, times, || {
                    let key = limiter.account(7);
                    move || assert!(black_box(&key).check().is_allowed())
                })
            });
        });
        group.bench_function("lease", |bencher| {
            bencher.iter_custom(|times| {
                together(threads, times, || {
                    let mut lease = limiter.account(7).lease();
                    move || assert!(black_box(&mut lease).check().is_allowed())
                })
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    targets = algorithms, keys, prepared, several, batches, contended
}
criterion_main!(benches);
