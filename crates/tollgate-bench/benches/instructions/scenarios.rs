//! The counted scenarios. Time stands still and random values are fixed, so that every run executes
//! the same instructions.

use std::hint::black_box;
use std::time::Duration;

use tollgate::{
    Algorithm, CallQuota, Decision, FixedWindow, Key, KeyHasher, LeakyBucket, Limiter, ManualClock, Quota,
    Rate, SlidingLog, SlidingWindow, TokenBucket,
};

/// Makes this many checks.
type Scenario = fn(usize);

/// The scenarios by their names in the baseline.
pub(crate) const SCENARIOS: [(&str, Scenario); 29] = [
    ("hot key, allow", |checks| hot(TokenBucket::new(RATE), checks)),
    ("hot key, deny", |checks| hot(TokenBucket::new(Rate::per_hour(1)), checks)),
    ("hot key, time given", time_given),
    ("hot key, prepared", prepared),
    ("hot key, lease", leased),
    ("hot key, any algorithm", |checks| hot(Quota::from(TokenBucket::new(RATE)), checks)),
    ("token bucket in grains", |checks| {
        hot(TokenBucket::new(Rate::per_second(999_983)).burst(1 << 40), checks)
    }),
    ("leaky queue", |checks| hot(LeakyBucket::queue(RATE).capacity(1_000_000_000), checks)),
    ("fixed window", |checks| hot(FixedWindow::new(RATE), checks)),
    ("sliding window", |checks| hot(SlidingWindow::new(RATE), checks)),
    ("sliding window, 4 subwindows", |checks| {
        hot(SlidingWindow::new(Rate::per_hour(100_000)).subwindows(4), checks);
    }),
    ("sliding log, allow", |checks| hot(SlidingLog::new(Rate::per_hour(20_000)), checks)),
    ("sliding log, deny", |checks| hot(SlidingLog::new(Rate::per_hour(100)), checks)),
    ("string of 16 bytes", string),
    ("a displaced key", displaced),
    ("batches of 32", batches),
    ("a new key, with its growth", insert),
    ("a recovered key", |checks| recovered(SOON, checks)),
    ("a recovered key, any algorithm", |checks| recovered(Quota::from(SOON), checks)),
    ("a recovered key, two limits", recovered_of_two),
    ("two limits", two_limits),
    ("two limits, from two places", two_limits_from_two_places),
    ("three limits", three_limits),
    ("a list of two limits", list_of_two),
    ("the numbers of a decision", numbers),
    ("the numbers of two limits", numbers_of_two),
    ("one limit for all, allow", |checks| global(TokenBucket::new(RATE), checks)),
    ("one limit for all, any algorithm", |checks| global(Quota::from(TokenBucket::new(RATE)), checks)),
    ("quota with the call", lent),
];

/// A billion an hour, which every algorithm supports and no scenario reaches.
const RATE: Rate = Rate::new(1_000_000_000, Duration::from_secs(3_600));

/// A clock that stands still.
fn clock() -> ManualClock {
    let clock = ManualClock::starting_at(Duration::from_secs(1_700_000_000));
    // Real checks happen later than time zero.
    clock.advance(Duration::from_secs(1));
    clock
}

fn limiter<K: Key + ?Sized, A: Algorithm>(quota: A, keys: usize) -> Limiter<K, A, 1, ManualClock> {
    let builder = Limiter::builder(quota).per().max_keys(keys).clock(clock());
    builder.build().expect("the quota is valid")
}

/// A key with a fixed fingerprint, so that it has the same slot in every run.
#[derive(Clone, Copy)]
struct Named(u64);

impl Key for Named {
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        self.0
    }
}

impl Named {
    /// The `number`th of a sequence of scattered keys.
    fn nth(number: usize) -> Self {
        Self((number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

fn hot<A: Algorithm>(quota: A, checks: usize) {
    let limiter = limiter::<u64, A>(quota, 15);
    for _ in 0..checks {
        black_box(limiter.check(black_box(&7)).is_allowed());
    }
}

fn time_given(checks: usize) {
    let limiter = limiter::<u64, _>(TokenBucket::new(RATE), 15);
    let now = limiter.now();
    for _ in 0..checks {
        black_box(limiter.account(black_box(&7)).at(now).check().is_allowed());
    }
}

/// As "hot key, prepared", but for the pointer to the quota.
fn lent(checks: usize) {
    let quota = CallQuota::new(RATE, RATE.count()).expect("a billion an hour fits");
    let (limiter, quota) = (limiter::<u64, _>(quota, 15), quota.lend());
    let key = limiter.account(7);
    for _ in 0..checks {
        black_box(black_box(key).under(black_box(&quota)).check().is_allowed());
    }
}

fn prepared(checks: usize) {
    let limiter = limiter::<u64, _>(TokenBucket::new(RATE), 15);
    let key = limiter.account(7);
    for _ in 0..checks {
        black_box(black_box(key).check().is_allowed());
    }
}

fn leased(checks: usize) {
    let limiter = limiter::<u64, _>(TokenBucket::new(RATE), 15);
    let mut lease = limiter.account(7).lease();
    for _ in 0..checks {
        black_box(lease.check().is_allowed());
    }
}

fn string(checks: usize) {
    let limiter = limiter::<str, _>(TokenBucket::new(RATE), 15);
    for _ in 0..checks {
        black_box(limiter.check(black_box("198.51.100.255:0")).is_allowed());
    }
}

/// Of two keys with the same home slot, the second is in another slot of the bucket.
fn displaced(checks: usize) {
    let limiter = limiter::<Named, _>(TokenBucket::new(RATE), 15);
    let (first, second) = (Named(0x5000_0000_0000_0000), Named(0x5000_0001_0000_0000));
    black_box(limiter.check(first).is_allowed());
    for _ in 0..checks {
        black_box(limiter.check(black_box(&second)).is_allowed());
    }
}

fn batches(checks: usize) {
    let limiter = limiter::<Named, _>(TokenBucket::new(RATE), 1_000);
    let keys: Vec<Named> = (0..320).map(Named::nth).collect();
    let batches = keys.chunks(32).cycle().take(checks / 32);
    black_box(
        batches.map(|batch| limiter.check_many(batch).filter(Decision::is_allowed).count()).sum::<usize>(),
    );
}

/// Insertions into a table that starts small, so the count contains the splits of its buckets.
fn insert(checks: usize) {
    let limiter = limiter::<Named, _>(TokenBucket::new(Rate::per_hour(1)).burst(10), 1_000_000);
    for number in 0..checks {
        black_box(limiter.check(Named::nth(number)).is_allowed());
    }
}

/// A key that was admitted has recovered ten milliseconds later.
const SOON: TokenBucket = TokenBucket::new(Rate::per_second(100)).burst(20);

/// Clients that come now and then: each has recovered when it comes again, and lost its slot.
fn recovered<A: Algorithm>(quota: A, checks: usize) {
    let limiter = limiter::<Named, A>(quota, 1_000_000);
    let start = limiter.now();
    for number in 0..checks {
        let now = start + Duration::from_micros(100 * number as u64);
        black_box(limiter.account(black_box(&Named::nth(number))).at(now).check().is_allowed());
    }
}

fn recovered_of_two(checks: usize) {
    let limits =
        [Quota::from(SOON), Quota::from(FixedWindow::new(Rate::new(100, Duration::from_millis(10))))];
    let limiter = Limiter::builder(limits).per::<Named>().max_keys(1_000_000).clock(clock());
    let limiter = limiter.build().expect("the quotas are valid");
    let start = limiter.now();
    for number in 0..checks {
        let now = start + Duration::from_micros(100 * number as u64);
        black_box(limiter.account(black_box(&Named::nth(number))).at(now).check().is_allowed());
    }
}

/// A limiter of these limits, and a key.
fn several<const N: usize>(limits: [Quota; N]) -> Limiter<u64, Quota, N, ManualClock> {
    let limiter = Limiter::builder(limits).per::<u64>().max_keys(15).clock(clock());
    limiter.build().expect("the quotas are valid")
}

fn two() -> [Quota; 2] {
    [Quota::from(TokenBucket::new(RATE)), Quota::from(FixedWindow::new(RATE))]
}

fn two_limits(checks: usize) {
    let limiter = several(two());
    for _ in 0..checks {
        black_box(limiter.check(black_box(&7)).is_allowed());
    }
}

/// The compiler may leave a function with two callers out of line.
fn two_limits_from_two_places(checks: usize) {
    let limiter = several(two());
    for _ in 0..checks / 2 {
        black_box(limiter.check(black_box(&7)).is_allowed());
        black_box(limiter.check(black_box(&7)).outcome());
    }
}

fn three_limits(checks: usize) {
    let [bucket, window] = two();
    let limiter = several([window, bucket, window]);
    for _ in 0..checks {
        black_box(limiter.check(black_box(&7)).is_allowed());
    }
}

/// Of a number that the compiler does not know.
fn list_of_two(checks: usize) {
    let limiter = Limiter::builder(two().to_vec()).per::<u64>().max_keys(15).clock(clock());
    let limiter = limiter.build().expect("the quotas are valid");
    for _ in 0..checks {
        black_box(limiter.check(black_box(&7)).is_allowed());
    }
}

fn numbers(checks: usize) {
    let limiter = limiter::<u64, _>(TokenBucket::new(RATE), 15);
    for _ in 0..checks {
        let decision = limiter.check(black_box(&7));
        black_box((decision.remaining(), decision.reset_after()));
    }
}

fn numbers_of_two(checks: usize) {
    let limiter = several(two());
    for _ in 0..checks {
        let decision = limiter.check(black_box(&7));
        black_box((decision.remaining(), decision.reset_after()));
    }
}

fn global<A: Algorithm>(quota: A, checks: usize) {
    let limiter = Limiter::builder(quota).per().clock(clock()).build().expect("the quota is valid");
    for _ in 0..checks {
        black_box(black_box(&limiter).check(()).is_allowed());
    }
}
