//! Save and restore of several limits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use proptest::prelude::*;
use tollgate::{
    Decision, FixedWindow, Inherit, LeakyBucket, Limiter, MOST_LIMITS, ManualClock, Quota, Rate,
    RestoreError, SlidingLog, SlidingWindow, Timestamp, TokenBucket, WhenFull,
};

use super::exact::{BEGUN, quotas, span};
use super::meanwhile::keep_charging;
use super::sealed::{body, sealed};
use super::{SECOND, clock, saved};

type Several = Limiter<u64, Quota, MOST_LIMITS, ManualClock>;

fn built(quotas: &[Quota], at: ManualClock) -> Several {
    Limiter::builder(quotas.to_vec()).per().max_keys(8).clock(at).build().unwrap()
}

fn restore(quotas: &[Quota], at: ManualClock, file: &[u8]) -> Result<Several, RestoreError> {
    Limiter::builder(quotas.to_vec()).per().max_keys(8).clock(at).restore(file)
}

fn file_of<const N: usize>(limiter: &Limiter<u64, Quota, N, ManualClock>) -> Vec<u8> {
    let mut file = Vec::new();
    limiter.save(&mut file).expect("a vector takes all");
    file
}

/// Every field of a decision, limit by limit.
fn answer(decision: &Decision<'_, MOST_LIMITS>) -> String {
    let parts: Vec<_> = decision.parts().collect();
    format!("{decision:?} {parts:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn restored_limits_answer_as_the_saved_ones_would(
        quotas in prop::collection::vec(prop::sample::select(quotas()), 1..=8),
        lives in prop::collection::vec((span(), span(), prop::collection::vec((0..3_u64, 0..6_u64, span()), 0..12)), 2..4),
    ) {
        // One limiter lasts through all lives. The other is saved and restored on a new clock
        // before each life.
        let whole_clock = clock(BEGUN, 0);
        let whole = built(&quotas, whole_clock.clone());
        let (mut unix, mut pieces) = (BEGUN, None::<Vec<u8>>);
        for (gap, shown, ops) in lives {
            // The first two limiters start at the same time with the full limit.
            let (gap, shown) = if pieces.is_none() { (0, 0) } else { (gap, shown) };
            unix += gap;
            let now = clock(unix, shown);
            let piece = match &pieces {
                None => built(&quotas, now.clone()),
                Some(file) => restore(&quotas, now.clone(), file).unwrap(),
            };
            for (key, cost, pause) in ops {
                unix += pause;
                now.advance(std::time::Duration::from_nanos(pause));
                whole_clock.set(Timestamp::from_nanos(unix - BEGUN));
                let (one, other) = (whole.check_n(key, cost), piece.check_n(key, cost));
                prop_assert_eq!(answer(&one), answer(&other), "{} of {}", cost, key);
            }
            pieces = Some(file_of(&piece));
        }
    }
}

/// Every algorithm at ten an hour. A log and a queue are not the first to be charged.
fn ten() -> [Quota; 5] {
    let rate = Rate::per_hour(10);
    [
        SlidingLog::new(rate).into(),
        LeakyBucket::queue(rate).into(),
        TokenBucket::new(rate).into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).into(),
    ]
}

/// A limiter with two keys in debt, and its file.
fn owing() -> (Several, Vec<u8>) {
    let limiter = built(&ten(), clock(BEGUN, SECOND));
    assert!(limiter.check_n(1, 4).is_allowed() && limiter.check_n(2, 10).is_allowed());
    let file = file_of(&limiter);
    (limiter, file)
}

#[test]
fn a_save_of_several_limits_keeps_all_debt() {
    let (limiter, file) = owing();
    assert_eq!(limiter.save(&mut Vec::new()).unwrap(), 10);
    let after = restore(&ten(), clock(BEGUN + SECOND, 0), &file).unwrap();
    assert_eq!(after.usage().live_keys, 2);
    assert_eq!(
        after.account(1).at(after.now()).peek_n(0).parts().map(|part| part.remaining()).max(),
        Some(6)
    );
    assert!(after.check_n(1, 6).is_allowed() && !after.check(1).is_allowed());
    assert!(!after.check(2).is_allowed());
}

#[test]
fn a_file_of_several_limits_cut_short_anywhere_is_truncated() {
    let (_, file) = owing();
    for len in 0..file.len() {
        let error = restore(&ten(), clock(BEGUN, SECOND), &file[..len]).expect_err("a part is not the whole");
        assert!(matches!(error, RestoreError::Truncated), "{len} bytes: {error:?}");
    }
}

#[test]
fn every_flipped_bit_of_several_limits_is_found() {
    let (_, file) = owing();
    for bit in 0..8 * file.len() {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(restore(&ten(), clock(BEGUN, SECOND), &flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn edited_bytes_of_several_limits_never_panic() {
    let (_, file) = owing();
    let body = body(&file);
    for at in 0..body.len() {
        for value in [0, 1, 3, 0x3F, 0x7F, 0xFF] {
            for width in [1, 8] {
                let mut body = body.clone();
                let end = (at + width).min(body.len());
                body[at..end].fill(value);
                let restored = restore(&ten(), clock(BEGUN, SECOND), &sealed(&body));
                let Ok(limiter) = restored else { continue };
                for key in [1, 2] {
                    let _ = limiter.refund(limiter.check_n(key, 2));
                    let _ = answer(&limiter.check(key));
                }
                let _ = limiter.change().to(ten().to_vec()).inherit(Inherit::Additive).apply();
                let _ = answer(&limiter.check(1));
                file_of(&limiter);
            }
        }
        let _ = restore(&ten(), clock(BEGUN, SECOND), &sealed(&body[..at]));
    }
}

#[test]
fn a_restore_needs_the_same_limits_in_order() {
    let (_, file) = owing();
    let field = |quotas: &[Quota], file: &[u8]| match restore(quotas, clock(BEGUN, SECOND), file) {
        Err(RestoreError::Differs { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let mut other = ten();
    other[3] = FixedWindow::new(Rate::per_hour(11)).into();
    assert_eq!(field(&other, &file), "the quota of limit 3");
    other = ten();
    other.swap(0, 1);
    assert_eq!(field(&other, &file), "the quota");
    assert_eq!(field(&ten()[..4], &file), "the number of limits");
    let one = Limiter::builder(ten()[0]).per::<u64>().max_keys(8).clock(clock(BEGUN, SECOND));
    assert_eq!(field(&ten()[..2], &saved(&one.build().unwrap())), "the number of limits");
    let one = Limiter::builder(ten()[0]).per::<u64>().restore(&file[..]).unwrap_err();
    assert_eq!(one.to_string(), "the number of limits is 1, but was 5 when the limiter was saved");
    let trusted = Limiter::builder(ten()).per::<u64>().trusted_keys().restore(&file[..]).unwrap_err();
    assert!(matches!(trusted, RestoreError::Differs { field, .. } if field == "trusted_keys"));
}

#[test]
fn a_single_limit_is_restored_by_either_limiter() {
    let one = || Limiter::builder(ten()[0]).per::<u64>().max_keys(8).clock(clock(BEGUN, SECOND));
    let limiter = one().build().unwrap();
    assert!(limiter.check_n(1, 7).is_allowed());
    let multi = restore(&ten()[..1], clock(BEGUN, SECOND), &saved(&limiter)).unwrap();
    assert_eq!(multi.check_n(1, 2).remaining(), 1);
    let limiter = one().restore(&file_of(&multi)[..]).unwrap();
    assert_eq!(limiter.check(1).remaining(), 0);
    assert!(!limiter.check(1).is_allowed());
}

#[test]
fn too_many_keys_for_smaller_tables_are_an_error() {
    let before =
        Limiter::builder(ten()).per::<u64>().max_keys(1_000).clock(clock(BEGUN, SECOND)).build().unwrap();
    (0..300).for_each(|key| assert!(before.check(key).is_allowed()));
    match restore(&ten(), clock(BEGUN, SECOND), &file_of(&before)) {
        Err(RestoreError::NoRoom { keys: 300, max_keys: 8 }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn changed_limits_are_restored_with_the_current_quotas() {
    let now = clock(BEGUN, SECOND);
    let limiter = built(&ten(), now.clone());
    assert!(limiter.check_n(1, 4).is_allowed());
    let rate = Rate::per_hour(8);
    let mut eight = ten();
    eight[0] = SlidingLog::new(rate).into();
    eight[2] = TokenBucket::new(Rate::per_minute(7)).burst(8).into();
    eight[3] = FixedWindow::new(Rate::per_day(8)).into();
    limiter.change().to(eight.to_vec()).inherit(Inherit::Additive).apply().unwrap();
    let file = file_of(&limiter);
    assert!(matches!(restore(&ten(), now.clone(), &file), Err(RestoreError::Differs { .. })));
    let after = restore(&eight, clock(BEGUN, 5 * SECOND), &file).unwrap();
    for cost in [3, 1, 1] {
        assert_eq!(answer(&limiter.check_n(1, cost)), answer(&after.check_n(1, cost)));
    }
    after
        .change()
        .to(ten().to_vec())
        .inherit(Inherit::Additive)
        .apply()
        .expect("its ring has room for ten still");
    after.change().to(eight.to_vec()).inherit(Inherit::Additive).apply().unwrap();
    after
        .change()
        .limit(3, FixedWindow::new(Rate::per_day(20)).into())
        .inherit(Inherit::Additive)
        .apply()
        .unwrap();
}

/// Two threads charge all keys while a third saves. Nothing refills.
#[test]
fn a_save_of_several_limits_contains_earlier_admissions() {
    const KEYS: u64 = 40;
    let quotas: [Quota; 3] = [
        TokenBucket::new(Rate::per_day(5_000)).into(),
        SlidingWindow::new(Rate::per_day(6_000)).into(),
        SlidingLog::new(Rate::per_day(400)).into(),
    ];
    let builder = || {
        let builder = Limiter::builder(quotas).per::<u64>().max_keys(2_000).when_full(WhenFull::Share);
        builder.clock(clock(BEGUN, SECOND))
    };
    let limiter = builder().build().unwrap();
    let admitted: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    let files = thread::scope(|scope| {
        for seed in 1..=2_u64 {
            let (limiter, admitted, done) = (&limiter, &admitted, &done);
            scope.spawn(move || keep_charging(seed, admitted, done, |key| limiter.check(key).is_allowed()));
        }
        let save = |_| {
            let before: Vec<u64> = admitted.iter().map(|count| count.load(SeqCst)).collect();
            (before, file_of(&limiter))
        };
        let files: Vec<_> = (0..20).map(save).collect();
        done.store(true, SeqCst);
        files
    });
    for (before, file) in files {
        let restored = builder().restore(&file[..]).unwrap();
        for key in 0..KEYS {
            for part in restored.account(key).at(restored.now()).peek_n(0).parts() {
                let counted = part.limit() - part.remaining();
                assert!(counted >= before[key as usize], "limit {}: key {key} is forgiven", part.number());
            }
        }
    }
}
