//! Any bytes as a saved limiter: a typed error, or a limiter that admits no more than its limit.
//!
//! The bytes are a file, or the content of a file with valid checksums, or edits of a limiter's
//! file, again with valid checksums.

#![no_main]

#[path = "shared/limits.rs"]
mod limits;
#[path = "../../tests/behaviour/save/sealed.rs"]
mod sealed;

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tollgate::{BuildError, Builder, Inherit, Limiter, ManualClock, Quota, RestoreError, Timestamp};
use tollgate_testing::limits::{Kind, Limit};

use limits::{AnyLimit, Number};
use sealed::{body, sealed};

/// A larger limiter is slow and tests nothing new.
const MAX_MEMORY: usize = 1 << 20;

/// Every accepted limit must run for ten years.
const UPTIME: u64 = 10 * 31_557_600_000_000_000;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    limit: AnyLimit,
    /// The Unix time of the clock's zero.
    origin: u64,
    /// The clock at the save.
    saved_at: Number,
    /// The time from the save to the restore.
    later: Number,
    /// How much later the zero of the clock is at the restore.
    moved: Number,
    taken: [(u8, Number); 3],
    edits: Vec<Edit>,
    bytes: Bytes<'a>,
}

#[derive(Arbitrary, Debug)]
enum Bytes<'a> {
    File(&'a [u8]),
    Body(&'a [u8]),
    /// The edited file of the limiter.
    Edited,
}

#[derive(Arbitrary, Debug)]
enum Edit {
    Byte {
        at: u16,
        byte: u8,
    },
    Word {
        at: u16,
        word: Number,
    },
    /// Inserts a copy of these bytes elsewhere.
    Copy {
        from: u16,
        len: u8,
        to: u16,
    },
    Cut {
        at: u16,
    },
}

fuzz_target!(|input: Input<'_>| {
    let limit = input.limit.limit();
    let memory = Limiter::builder(limit.quota()).per::<u64>().max_keys(8).memory();
    let Ok(..=MAX_MEMORY) = memory else { return };
    // Unix time saturates at 584 years, so the origin stays below the half.
    let (origin, saved_at) = (input.origin >> 1, input.saved_at.value().min(UPTIME));
    let before = clock_at(origin, saved_at);
    let limiter = builder(&limit, &before).build().expect("its memory was asked for");
    for (key, cost) in &input.taken {
        let _ = limiter.check_n(&u64::from(*key), cost.value());
    }
    let file = saved(&limiter);
    let file = match input.bytes {
        Bytes::File(bytes) => bytes.to_vec(),
        Bytes::Body(bytes) => sealed(bytes),
        Bytes::Edited => sealed(&edited(body(&file), &input.edits)),
    };
    // The restore happens later, with a clock whose zero is later.
    let passed = saved_at.saturating_add(input.later.value()).min(UPTIME);
    let moved = input.moved.value().min(passed);
    let clock = clock_at(origin + moved, passed - moved);
    // A file may say that it was saved under another quota.
    let continued = builder(&limit, &clock).memory_budget(2 * MAX_MEMORY);
    if let Ok(continued) = continued.restore_changed(&file[..], Inherit::Additive) {
        assert_within_the_limit(&limit, &continued, &clock);
        clock.set(Timestamp::from_nanos(passed - moved));
    }
    match builder(&limit, &clock).restore(&file[..]) {
        Err(error) => assert_meaningful(&error),
        Ok(restored) => {
            before.set(Timestamp::from_nanos(passed));
            if let (Bytes::Edited, []) = (&input.bytes, &input.edits[..]) {
                assert_no_debt_is_lost(&limit, &limiter, &restored);
            }
            let again = builder(&limit, &clock).restore(&saved(&restored)[..]);
            assert!(again.is_ok(), "a restored limiter can be saved and restored: {again:?}");
            assert_within_the_limit(&limit, &restored, &clock);
        }
    }
});

/// A key has at most as much left as in the saved limiter, and at most one unit less. Where the
/// ends of periods are counted in ticks, one may come less than two ticks later.
fn assert_no_debt_is_lost(
    limit: &Limit,
    saved: &Limiter<u64, Quota, 1, ManualClock>,
    restored: &Limiter<u64, Quota, 1, ManualClock>,
) {
    let late = match limit.kind {
        Kind::FirstHitWindow => 2 * restored.resolution().tick,
        _ => 0,
    };
    let later = restored.now() + Duration::from_nanos(late);
    for key in 0..=255 {
        let (one, other) = (saved.peek(&key).remaining(), restored.peek(&key).remaining());
        let then = restored.account(&key).at(later).peek().remaining();
        assert!(other <= one && one <= then + 1, "key {key} had {one} left, has {other}, then {then}");
    }
}

fn clock_at(unix: u64, at: u64) -> ManualClock {
    let clock = ManualClock::starting_at(Duration::from_nanos(unix));
    clock.set(Timestamp::from_nanos(at));
    clock
}

fn builder(limit: &Limit, clock: &ManualClock) -> Builder<u64, Quota, 1, ManualClock> {
    Limiter::builder(limit.quota()).per().max_keys(8).clock(clock.clone())
}

fn saved(limiter: &Limiter<u64, Quota, 1, ManualClock>) -> Vec<u8> {
    let mut file = Vec::new();
    limiter.save(&mut file).expect("a vector takes all");
    file
}

fn edited(mut body: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits.iter().take(16) {
        let end = body.len();
        let within = |at: u16| usize::from(at) % (end + 1);
        match *edit {
            Edit::Byte { at, byte } => {
                if let Some(target) = body.get_mut(within(at)) {
                    *target = byte;
                }
            }
            Edit::Word { at, ref word } => {
                let at = within(at);
                let word = word.value().to_le_bytes();
                let len = word.len().min(end - at);
                body[at..at + len].copy_from_slice(&word[..len]);
            }
            Edit::Copy { from, len, to } => {
                let from = within(from);
                let copy = body[from..(from + usize::from(len)).min(end)].to_vec();
                body.splice(within(to)..within(to), copy);
            }
            Edit::Cut { at } => body.truncate(within(at)),
        }
    }
    body
}

/// The error has a message and blames the file.
fn assert_meaningful(error: &RestoreError) {
    assert!(!error.to_string().is_empty());
    assert!(!matches!(error, RestoreError::Io(_)), "a slice is read without errors: {error}");
    // A log that was built for more than its quota needs that room again.
    let is_too_large = matches!(error, RestoreError::Build(BuildError::OverBudget { .. }));
    assert!(is_too_large || !matches!(error, RestoreError::Build(_)), "it was accepted before: {error}");
}

/// A client that takes all it can get, at every eighth of a period for two periods, gets no more
/// than the limit.
fn assert_within_the_limit(
    limit: &Limit,
    limiter: &Limiter<u64, Quota, 1, ManualClock>,
    clock: &ManualClock,
) {
    let begin = limiter.now().as_nanos();
    let mut admitted: Vec<(u64, u128)> = Vec::new();
    for step in 0..=16 {
        let now = begin.saturating_add((u128::from(limit.period) * step / 8).try_into().unwrap_or(u64::MAX));
        clock.set(Timestamp::from_nanos(now));
        let mut took = 0;
        // Halve the cost until not even one unit is left.
        let mut cost = limit.most();
        while cost > 0 {
            if limiter.check_n(&7, cost).is_allowed() { took += u128::from(cost) } else { cost /= 2 }
        }
        admitted.push((now, took));
    }
    for (first, &(from, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for &(to, took) in &admitted[first..] {
            sum += took;
            let most = max_within(limit, to - from);
            assert!(sum <= most, "{sum} and not {most} in {} ns, {limit}\n{admitted:?}", to - from);
        }
    }
}

/// Returns the most that may be admitted in a closed interval.
fn max_within(limit: &Limit, nanos: u64) -> u128 {
    let (most, count) = (u128::from(limit.most()), u128::from(limit.count));
    let (nanos, period) = (u128::from(nanos), u128::from(limit.period));
    match limit.kind {
        // Where grains are not exact, a token may come one grain early.
        Kind::Bucket | Kind::Meter | Kind::Queue => most + (count * nanos).div_ceil(period) + 1,
        Kind::Log | Kind::SubWindows => most * (nanos / period + 1),
        // So many interval ends may be in it.
        Kind::Intervals => most + count * (nanos / period + 1),
        // Twice the limit may pass around a window boundary.
        Kind::Fixed | Kind::FirstHitWindow | Kind::Sliding => most * (nanos / period + 2),
    }
}
