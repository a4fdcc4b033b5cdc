//! Any bytes as a saved limiter: a typed error, or a limiter that admits no more than its limit.
//!
//! The bytes are taken as a file; as what a file holds, with checksums that are right; and as changes to what a limiter
//! has saved, again with checksums that are right.

#![no_main]

#[allow(dead_code, reason = "the tests ask it more")]
#[path = "../../tests/model/against_model/limit.rs"]
mod limit;
#[path = "shared/limits.rs"]
mod limits;
#[path = "../../tests/behaviour/save/sealed.rs"]
mod sealed;

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tollgate::{Builder, Limiter, ManualClock, Quota, RestoreError, Timestamp};

use limit::{Kind, Limit};
use limits::{AnyLimit, Number};
use sealed::{body, sealed};

/// A limiter of more is slow and says nothing new.
const MOST_MEMORY: usize = 1 << 20;

/// The ten years that every accepted limit must run.
const UPTIME: u64 = 10 * 31_557_600_000_000_000;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    limit: AnyLimit,
    /// The Unix time of the clock's zero, and the clock at the save.
    origin: u64,
    saved_at: Number,
    /// How much later it is at the restore, and by how much the clock's zero is later then.
    later: Number,
    moved: Number,
    taken: [(u8, Number); 3],
    edits: Vec<Edit>,
    bytes: Bytes<'a>,
}

#[derive(Arbitrary, Debug)]
enum Bytes<'a> {
    File(&'a [u8]),
    Body(&'a [u8]),
    /// What was saved, edited.
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
    /// These bytes once more, elsewhere.
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
    let memory = Limiter::<u64, Quota>::builder(limit.quota()).max_keys(8).memory();
    let Ok(..=MOST_MEMORY) = memory else { return };
    // Unix time beyond 584 years stands still, and with it what counts as passed.
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
    // Time has passed since the save, on a clock that begins later.
    let passed = saved_at.saturating_add(input.later.value()).min(UPTIME);
    let moved = input.moved.value().min(passed);
    let clock = clock_at(origin + moved, passed - moved);
    match builder(&limit, &clock).restore(&file[..]) {
        Err(error) => judge(&error),
        Ok(restored) => {
            before.set(Timestamp::from_nanos(passed));
            if let (Bytes::Edited, []) = (&input.bytes, &input.edits[..]) {
                says_what_the_saved_one_would(&limiter, &restored);
            }
            let again = builder(&limit, &clock).restore(&saved(&restored)[..]);
            assert!(again.is_ok(), "what was saved under this limit is restored under it: {again:?}");
            admits_no_more_than_its_limit(&limit, &restored, &clock);
        }
    }
});

/// No key has more left than by the saved limiter, nor more than a grain less.
fn says_what_the_saved_one_would(
    saved: &Limiter<u64, Quota, ManualClock>,
    restored: &Limiter<u64, Quota, ManualClock>,
) {
    for key in 0..=255 {
        let (one, other) = (saved.peek(&key).remaining(), restored.peek(&key).remaining());
        assert!(other <= one && one - other <= 1, "key {key} had {one} left and has {other}");
    }
}

fn clock_at(unix: u64, at: u64) -> ManualClock {
    let clock = ManualClock::starting_at(Duration::from_nanos(unix));
    clock.set(Timestamp::from_nanos(at));
    clock
}

fn builder(limit: &Limit, clock: &ManualClock) -> Builder<u64, Quota, ManualClock> {
    Limiter::builder(limit.quota()).max_keys(8).clock(clock.clone())
}

fn saved(limiter: &Limiter<u64, Quota, ManualClock>) -> Vec<u8> {
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
                if let Some(place) = body.get_mut(within(at)) {
                    *place = byte;
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

/// An error that says something, and what it should.
fn judge(error: &RestoreError) {
    assert!(!error.to_string().is_empty());
    assert!(!matches!(error, RestoreError::Io(_)), "a slice is read without errors: {error}");
    assert!(!matches!(error, RestoreError::Build(_)), "the limit was accepted before: {error}");
}

/// A client that takes what it gets, at every eighth of a period for two periods.
fn admits_no_more_than_its_limit(
    limit: &Limit,
    limiter: &Limiter<u64, Quota, ManualClock>,
    clock: &ManualClock,
) {
    let begin = limiter.now().as_nanos();
    let mut admitted: Vec<(u64, u128)> = Vec::new();
    for step in 0..=16 {
        let now = begin.saturating_add((u128::from(limit.period) * step / 8).try_into().unwrap_or(u64::MAX));
        clock.set(Timestamp::from_nanos(now));
        let mut took = 0;
        // Halving what is asked for, until not even one is left.
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
            let most = most_within(limit, to - from);
            assert!(sum <= most, "{sum} and not {most} in {} ns, {limit}\n{admitted:?}", to - from);
        }
    }
}

/// The most that may be admitted in a closed interval of so many nanoseconds.
fn most_within(limit: &Limit, nanos: u64) -> u128 {
    let (most, count) = (u128::from(limit.most()), u128::from(limit.count));
    let (nanos, period) = (u128::from(nanos), u128::from(limit.period));
    match limit.kind {
        // A token may come one grain early, where grains are not exact.
        Kind::TokenBucket { .. } | Kind::Meter { .. } | Kind::Queue { .. } => {
            most + (count * nanos).div_ceil(period) + 1
        }
        Kind::Log { .. } | Kind::SubWindows { .. } => most * (nanos / period + 1),
        // Around a boundary twice as many may pass.
        Kind::Fixed { .. } | Kind::Sliding { .. } => most * (nanos / period + 2),
    }
}
