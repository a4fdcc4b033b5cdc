//! Limiters in one file, with values of the caller.

use tollgate::saved::{Format, Reader, Writer};
use tollgate::{BuildError, Inherit, Limiter, MOST_LIMITS, ManualClock, Quota, Rate, RestoreError};
use tollgate::{SlidingLog, TokenBucket};

use super::{SECOND, clock};

const MINE: Format = Format { magic: *b"\xA7mine\r\n\x1A", name: "a file of mine" };
const BEGUN: u64 = 1_700_000_000 * SECOND;

type List = Limiter<u64, Quota, MOST_LIMITS, ManualClock>;

fn builder(quotas: &[Quota]) -> tollgate::Builder<u64, Quota, MOST_LIMITS, ManualClock> {
    Limiter::builder(quotas.to_vec()).per().max_keys(1_000).clock(clock(BEGUN, SECOND))
}

fn bucket(per_hour: u64) -> Quota {
    TokenBucket::new(Rate::per_hour(per_hour)).into()
}

fn log(per_hour: u64) -> Quota {
    SlidingLog::new(Rate::per_hour(per_hour)).into()
}

/// A limiter of which keys 0 to 299 have taken one or two units.
fn used(quotas: &[Quota]) -> List {
    let limiter = builder(quotas).build().unwrap();
    (0..300).for_each(|key| assert!(limiter.check_n(key, 1 + key % 2).is_allowed()));
    limiter
}

/// A number, a limiter of these quotas, a text, a limiter of five an hour, and a last byte.
fn file(first: &[Quota]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut out = Writer::begin(&mut file, MINE).unwrap();
    out.word(u64::MAX).unwrap();
    assert_eq!(used(first).save_in(&mut out).unwrap(), 300 * first.len());
    out.bytes("zwölf".as_bytes()).unwrap();
    assert_eq!(used(&[bucket(5)]).save_in(&mut out).unwrap(), 300);
    out.byte(7).unwrap();
    out.finish().unwrap();
    file
}

/// Reads such a file, with `first` at the place of the first limiter.
fn read(file: &[u8], first: impl FnOnce(&mut Reader<&mut &[u8]>)) {
    let mut rest = &[file, b"more"].concat()[..];
    let mut input = Reader::begin(&mut rest, MINE).unwrap();
    assert_eq!(input.word().unwrap(), u64::MAX);
    first(&mut input);
    assert_eq!(input.text().unwrap(), "zwölf");
    let second = builder(&[bucket(5)]).restore_from(&mut input).unwrap();
    assert!((0..300).all(|key| second.check(key).remaining() == 3 - key % 2));
    assert_eq!(input.byte().unwrap(), 7);
    input.finish().unwrap();
    assert_eq!(rest, b"more");
}

#[test]
fn a_limiter_that_is_skipped_leaves_the_next_whole() {
    for first in [vec![bucket(3)], vec![log(3)], vec![bucket(3), log(9), bucket(5)]] {
        read(&file(&first), |input| input.skip_limiter().unwrap());
    }
}

#[test]
fn a_limiter_that_is_refused_leaves_the_next_whole() {
    let saved = [bucket(3), log(9)];
    read(&file(&saved), |input| {
        let fewer = builder(&[bucket(3)]).restore_from(input).unwrap_err();
        assert!(matches!(&fewer, RestoreError::Differs { field, .. } if field == "the number of limits"));
        assert!(!fewer.is_damage());
    });
    read(&file(&saved), |input| {
        let small = builder(&saved).max_keys(10).restore_from(input).unwrap_err();
        assert!(matches!(small, RestoreError::NoRoom { keys: 300, max_keys: 10 }), "{small}");
    });
    read(&file(&saved), |input| {
        let poor = builder(&saved).memory_budget(1).restore_from(input).unwrap_err();
        assert!(matches!(poor, RestoreError::Build(BuildError::OverBudget { .. })), "{poor}");
    });
    read(&file(&saved), |input| {
        let other = builder(&[bucket(3), log(8)]).restore_from(input).unwrap_err();
        assert!(matches!(other, RestoreError::Differs { .. }), "{other}");
    });
    read(&file(&saved), |input| {
        let larger = builder(&[bucket(3), log(19)]);
        let larger = larger.restore_changed_from(input, Inherit::Additive).unwrap_err();
        assert!(matches!(larger, RestoreError::Build(_)), "{larger}");
    });
}

#[test]
fn a_limiter_of_other_quotas_is_changed_as_told() {
    read(&file(&[bucket(3)]), |input| {
        let more = builder(&[bucket(13)]).restore_changed_from(input, Inherit::Additive).unwrap();
        assert!((0..300).all(|key| more.check(key).remaining() == 11 - key % 2));
    });
}

#[test]
fn a_file_of_another_kind_is_named_as_expected() {
    let mut of_a_limiter = Vec::new();
    used(&[bucket(3)]).save(&mut of_a_limiter).unwrap();
    let error = Reader::begin(&of_a_limiter[..], MINE).unwrap_err();
    assert_eq!(error.to_string(), "this is not a file of mine");
    assert!(error.is_damage());
    let error = builder(&[bucket(3)]).restore(&file(&[bucket(3)])[..]).unwrap_err();
    assert_eq!(error.to_string(), "this is not a saved limiter");
}

#[test]
fn a_file_of_several_cut_short_anywhere_is_damaged() {
    let file = file(&[bucket(3)]);
    let whole = |file: &[u8]| -> Result<(), RestoreError> {
        let mut input = Reader::begin(file, MINE)?;
        input.word()?;
        input.skip_limiter()?;
        input.text()?;
        input.skip_limiter()?;
        input.byte()?;
        input.finish()
    };
    whole(&file).unwrap();
    for len in 0..file.len() {
        let error = whole(&file[..len]).expect_err("a part is not the whole");
        assert!(matches!(error, RestoreError::Truncated), "{len} bytes: {error}");
    }
}
