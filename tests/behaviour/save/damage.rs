//! Damaged files are errors and have no other effect.

use std::io::{self, Read};

use tollgate::{Inherit, Limiter, Quota, Rate, RestoreError, SlidingLog, TokenBucket};

use super::sealed::{body, sealed};
use super::{SECOND, Subject, clock, saved};

const BEGUN: u64 = 1_700_000_000 * SECOND;

fn quota() -> Quota {
    SlidingLog::new(Rate::per_hour(3)).into()
}

/// A file with two keys and their times.
fn file() -> Vec<u8> {
    let limiter: Subject =
        Limiter::builder(quota()).per().max_keys(8).clock(clock(BEGUN, SECOND)).build().unwrap();
    assert!(limiter.check_n(1, 2).is_allowed());
    assert!(limiter.check(2).is_allowed());
    saved(&limiter)
}

fn restore(file: impl Read) -> Result<Subject, RestoreError> {
    Limiter::builder(quota()).per().max_keys(8).clock(clock(BEGUN, SECOND)).restore(file)
}

#[test]
fn a_file_cut_short_anywhere_is_truncated() {
    let file = file();
    assert!(restore(&file[..]).is_ok());
    for len in 0..file.len() {
        let error = restore(&file[..len]).expect_err("a part is not the whole");
        assert!(matches!(error, RestoreError::Truncated), "{len} bytes: {error:?}");
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let file = file();
    for bit in 0..8 * file.len() {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = restore(&flipped[..]).expect_err("a damaged file");
        let expected = match bit / 8 {
            0..8 => matches!(error, RestoreError::Foreign { .. }),
            8..12 => matches!(error, RestoreError::Version { known: 5, .. }),
            _ => matches!(error, RestoreError::Corrupt | RestoreError::Truncated),
        };
        assert!(expected, "bit {bit}: {error:?}");
    }
}

#[test]
fn a_foreign_file_is_named_so() {
    for foreign in [&b"# Tollgate\n"[..], b"\x7fELF\x02\x01\x01\0\0\0\0\0\0", b"{", &[0; 4096]] {
        assert!(matches!(restore(foreign), Err(RestoreError::Foreign { .. })));
    }
}

#[test]
fn a_newer_format_is_named_so() {
    let mut newer = file();
    newer[8] += 1;
    assert!(matches!(restore(&newer[..]), Err(RestoreError::Version { found: 6, known: 5 })));
}

#[test]
fn an_error_of_the_reader_keeps_its_cause() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is on fire"))
        }
    }
    let error = restore(Broken).unwrap_err();
    assert!(error.to_string().ends_with("the disk is on fire"), "{error}");
}

/// An endless reader that counts the bytes read.
struct Endless<'a> {
    begins: &'a [u8],
    asked: usize,
}

impl Read for &mut Endless<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.asked += into.len();
        if self.begins.is_empty() {
            into.fill(0xFF);
            return Ok(into.len());
        }
        self.begins.read(into)
    }
}

#[test]
fn a_length_beyond_the_file_is_an_error() {
    let file = file();
    let mut endless = Endless { begins: &file[..12], asked: 0 };
    assert!(matches!(restore(&mut endless), Err(RestoreError::Corrupt)));
    assert!(endless.asked < 1 << 10, "asked for {} bytes", endless.asked);

    // With valid checksums: billions of quotas, of letters, of times, of keys.
    let body = body(&file);
    assert!(restore(&sealed(&body)[..]).is_ok());
    // The number of quotas, and the length of the first one's text.
    for at in [29, 33] {
        let mut long = body.clone();
        long[at..at + 4].fill(0xFF);
        let allocated = allocation_counter::measure(|| {
            assert!(matches!(restore(&sealed(&long)[..]), Err(RestoreError::Corrupt)));
        });
        assert!(allocated.bytes_max < 1 << 20, "{at}: {allocated:?}");
    }
    let mut times = body.clone();
    let len = times.len();
    // KEY: tag, fingerprint, payload, times; one key with two times, one with one, END and its
    // count.
    let second = len - 9 - 8 - 4;
    let found = [second, second - 8].into_iter().find(|&at| matches!(times[at..at + 4], [1 | 2, 0, 0, 0]));
    let at = found.expect("the last key's number of times");
    let mut one_too_many = times[..at].to_vec();
    one_too_many.extend_from_slice(&4_u32.to_le_bytes());
    (0..4).for_each(|_| one_too_many.extend_from_slice(&times[at + 4..at + 12]));
    one_too_many.extend_from_slice(&times[len - 9..]);
    assert!(matches!(restore(&sealed(&one_too_many)[..]), Err(RestoreError::Corrupt)));
    times[at..at + 4].fill(0xFF);
    assert!(matches!(restore(&sealed(&times)[..]), Err(RestoreError::Corrupt)));
    let mut keys = body;
    keys[len - 8..].fill(0xFF);
    assert!(matches!(restore(&sealed(&keys)[..]), Err(RestoreError::Corrupt)));
}

#[test]
fn no_bytes_panic_even_when_their_checksums_are_right() {
    let quotas: [Quota; 5] = [
        quota(),
        TokenBucket::new(Rate::per_hour(3)).initial(1).into(),
        TokenBucket::new(Rate::per_minute(14_500)).into(),
        tollgate::FixedWindow::new(Rate::per_second(3)).into(),
        tollgate::SlidingWindow::new(Rate::per_second(3)).subwindows(3).into(),
    ];
    for quota in quotas {
        let builder = || Limiter::builder(quota).per::<u64>().max_keys(8).clock(clock(BEGUN, SECOND));
        let limiter = builder().build().unwrap();
        let _ = limiter.check(1);
        let body = body(&saved(&limiter));
        for at in 0..body.len() {
            for value in [0, 1, 2, 3, 0x3F, 0x7F, 0x80, 0xFF] {
                for width in [1, 8] {
                    let mut body = body.clone();
                    let end = (at + width).min(body.len());
                    body[at..end].fill(value);
                    let file = sealed(&body);
                    let changed = builder().memory_budget(1 << 20).restore_changed(&file[..], Inherit::AsIs);
                    if let Ok(changed) = changed {
                        let _ = changed.check(1);
                    }
                    let Ok(limiter) = builder().restore(&file[..]) else { continue };
                    for key in [1, 2] {
                        let _ = limiter.refund(limiter.check_n(key, 2));
                        let decision = limiter.check(key);
                        let _ = (decision.remaining(), decision.retry_after(), decision.reset_after());
                    }
                    saved(&limiter);
                }
            }
            let _ = builder().restore(&sealed(&body[..at])[..]);
        }
    }
}

#[test]
fn restore_reads_no_bytes_after_the_limiter() {
    let one = Limiter::builder(quota()).clock(clock(BEGUN, SECOND)).build().unwrap();
    assert!(one.check_n((), 3).is_allowed());
    let mut two = file();
    one.save(&mut two).unwrap();
    let mut rest = &two[..];
    let first = restore(&mut rest).unwrap();
    let second = Limiter::builder(quota()).clock(clock(BEGUN, SECOND)).restore(&mut rest).unwrap();
    assert!(rest.is_empty());
    assert_eq!(first.usage().live_keys, 2);
    assert!(!second.check(()).is_allowed());
}

#[test]
fn a_limiter_without_keys_has_one_debt() {
    let bucket = TokenBucket::new(Rate::per_hour(3));
    let builder = || Limiter::builder(bucket).clock(clock(BEGUN, SECOND));
    let limiter = builder().build().unwrap();
    assert!(limiter.check_n((), 3).is_allowed());
    let mut file = Vec::new();
    limiter.save(&mut file).unwrap();
    let body = body(&file);
    // Tag, fingerprint, payload and the number of times; then a tag and the number of keys.
    let (head, end) = body.split_at(body.len() - 9);
    let (head, debt) = head.split_at(head.len() - 21);
    let file = |debts: &[&[u8]], keys: u64| {
        sealed(&[head, &debts.concat(), &end[..1], &keys.to_le_bytes()].concat())
    };
    assert!(!builder().restore(&file(&[debt], 1)[..]).unwrap().check(()).is_allowed());
    // As another format numbered its only key.
    let mut renamed = debt.to_vec();
    renamed[1] = 77;
    assert!(!builder().restore(&file(&[&renamed], 1)[..]).unwrap().check(()).is_allowed());
    let two = builder().restore(&file(&[debt, &renamed], 2)[..]);
    assert!(matches!(two, Err(RestoreError::Corrupt)), "{two:?}");
    let mut shared = debt[..17].to_vec();
    shared[0] = 2;
    let shared = builder().restore(&file(&[&shared], 0)[..]);
    assert!(matches!(shared, Err(RestoreError::Corrupt)), "{shared:?}");
}
