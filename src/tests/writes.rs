//! The writes of each verb, counted: a peek writes nothing, an admission of a known key writes one
//! word. A refusal of a known key writes nothing, with two exceptions: a refusal that counts
//! (`CountPolicy::All`) writes the count, and about once a second a refusal raises the horizon.

use std::cell::Cell;
use std::time::Duration;

use crate::sync::counted::{Writes, writes_of};
use crate::{
    Clock, CountPolicy, Decision, FixedWindow, Inherit, Key, KeyHasher, LeakyBucket, Limiter, ManualClock,
    Quota, Rate, SlidingLog, SlidingWindow, Timestamp, TokenBucket, WhenFull,
};

const NOTHING: Writes = Writes { exchanges: 0, stores: 0 };
const ONE_EXCHANGE: Writes = Writes { exchanges: 1, stores: 0 };

/// What each key has an hour.
const LIMIT: u64 = 5;

fn rate() -> Rate {
    Rate::per_hour(LIMIT)
}

/// Every algorithm, and the logs apart: those write a time for each unit as well.
fn quotas() -> Vec<Quota> {
    vec![
        TokenBucket::new(rate()).into(),
        LeakyBucket::meter(rate()).into(),
        LeakyBucket::queue(rate()).into(),
        FixedWindow::new(rate()).into(),
        SlidingWindow::new(rate()).into(),
        SlidingWindow::new(rate()).subwindows(4).into(),
    ]
}

fn with_log() -> Vec<Quota> {
    quotas().into_iter().chain([SlidingLog::new(rate()).into()]).collect()
}

/// A key whose bucket is known: all are in the first.
struct Fellow(u64);

impl Key for Fellow {
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        (self.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) << 8
    }
}

type Subject = Limiter<Fellow, Quota, 1, ManualClock>;

/// A clock at which every quota has begun, and no key's window is about to end.
fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(36_000));
    clock
}

fn keyed(quota: Quota, when_full: WhenFull, max_keys: usize) -> Subject {
    let builder = Limiter::builder(quota).per().tier(quota).max_keys(max_keys).when_full(when_full);
    builder.clock(clock()).build().unwrap()
}

/// Its first admission inserts a key; the second is one of a known key.
fn known(limiter: &Subject, key: u64) {
    assert!(limiter.check(Fellow(key)).is_allowed());
}

fn drain(limiter: &Subject, key: u64) {
    (0..2 * LIMIT).for_each(|_| drop(limiter.check(Fellow(key))));
}

/// The first refusal may raise the horizon, so it does not count.
#[track_caller]
fn refused(what: &str, work: impl Fn() -> bool) {
    work();
    for _ in 0..3 {
        assert_eq!(writes_of(&work), (NOTHING, false), "{what}: a refusal");
    }
}

#[track_caller]
fn peeked<T>(what: &str, work: impl Fn() -> T) {
    work();
    assert_eq!(writes_of(work).0, NOTHING, "{what}: a peek");
}

#[test]
fn a_refusal_of_a_known_key_writes_nothing() {
    for quota in with_log() {
        let limiter = keyed(quota, WhenFull::Share, 1_000);
        let fellows: Vec<u64> = (0..12).collect();
        fellows.iter().for_each(|&key| drain(&limiter, key));
        for key in 0..12 {
            let key = &Fellow(key);
            refused(&format!("{quota}, check"), || limiter.check(key).is_allowed());
            refused(&format!("{quota}, check_n"), || limiter.check_n(key, 2).is_allowed());
            refused(&format!("{quota}, never"), || limiter.check_n(key, LIMIT + 1).is_allowed());
            let account = limiter.account(key);
            refused(&format!("{quota}, account"), || account.check().is_allowed());
            let tier = account.tier(1).unwrap();
            refused(&format!("{quota}, tier"), || tier.check().is_allowed());
            let now = limiter.now();
            refused(&format!("{quota}, at"), || limiter.account(key).at(now).check().is_allowed());
        }
        let keys: Vec<Fellow> = fellows.iter().map(|&key| Fellow(key)).collect();
        let (writes, allowed) = writes_of(|| limiter.check_many(&keys).any(|decision| decision.is_allowed()));
        assert_eq!((writes, allowed), (NOTHING, false), "{quota}: a batch of refusals");
    }
}

#[test]
fn an_admission_of_a_known_key_writes_one_word() {
    for quota in quotas() {
        let limiter = keyed(quota, WhenFull::Share, 1_000);
        for key in 0..12 {
            known(&limiter, key);
            let (writes, allowed) = writes_of(|| limiter.check(Fellow(key)).is_allowed());
            assert_eq!((writes, allowed), (ONE_EXCHANGE, true), "{quota}");
            let prepared = limiter.account(Fellow(key));
            let (writes, allowed) = writes_of(|| prepared.check_n(2).is_allowed());
            assert_eq!((writes, allowed), (ONE_EXCHANGE, true), "{quota}");
        }
        let global = Limiter::builder(quota).clock(clock()).build().unwrap();
        assert!(global.check(()).is_allowed());
        assert_eq!(writes_of(|| global.check(()).is_allowed()), (ONE_EXCHANGE, true), "{quota}");
    }
}

/// The log writes each unit's time beside its word.
#[test]
fn an_admission_to_a_log_writes_word_and_times() {
    let limiter = keyed(SlidingLog::new(rate()).into(), WhenFull::Share, 1_000);
    known(&limiter, 1);
    for cost in [1, 2] {
        let (writes, allowed) = writes_of(|| limiter.check_n(Fellow(1), cost).is_allowed());
        assert!(allowed && writes.exchanges + writes.stores == 1 + cost, "{cost}: {writes:?}");
    }
}

#[test]
fn a_refusal_by_one_limit_or_by_several_writes_nothing() {
    for quota in with_log() {
        let global = Limiter::builder(quota).clock(clock()).build().unwrap();
        while global.check(()).is_allowed() {}
        refused(&format!("{quota}, global"), || global.check(()).is_allowed());
        peeked(&quota.to_string(), || drop(global.peek(())));
        let larger = Quota::from(TokenBucket::new(Rate::per_hour(100)));
        for quotas in [vec![quota], vec![quota, larger], vec![larger, quota, larger, larger]] {
            let multi = Limiter::builder(quotas.clone()).per::<Fellow>().clock(clock()).build().unwrap();
            while multi.check(Fellow(1)).is_allowed() {}
            refused(&format!("{quotas:?}"), || multi.check(Fellow(1)).is_allowed());
            for key in [1, 2] {
                peeked(&format!("{quotas:?}"), || drop(multi.peek(Fellow(key))));
            }
        }
    }
}

#[test]
fn an_admission_by_several_limits_writes_a_word_of_each() {
    for quotas in [quotas()[..2].to_vec(), quotas()] {
        let multi = Limiter::builder(quotas.clone()).per::<Fellow>().clock(clock()).build().unwrap();
        assert!(multi.check(Fellow(1)).is_allowed());
        let (writes, allowed) = writes_of(|| multi.check(Fellow(1)).is_allowed());
        let expected = Writes { exchanges: quotas.len() as u64, stores: 0 };
        assert_eq!((writes, allowed), (expected, true), "{quotas:?}");
    }
}

/// Everything that a decision says, read.
fn numbers(decision: &Decision<'_>) -> (u64, Duration) {
    (decision.remaining(), decision.reset_after())
}

#[test]
fn a_peek_writes_nothing_whatever_the_key_is() {
    for quota in with_log() {
        for when_full in [WhenFull::Share, WhenFull::Deny, WhenFull::Allow] {
            let limiter = keyed(quota, when_full, 1);
            // Known, drained, never seen; and then in a bucket that is full.
            for keys in [3, 15, 40] {
                (0..keys).for_each(|key| drain(&limiter, key));
                for key in 0..60 {
                    for cost in [0, 1, LIMIT, LIMIT + 1] {
                        let what = format!("{quota}, {when_full:?}, {keys} keys, cost {cost}");
                        peeked(&what, || {
                            numbers(&limiter.account(Fellow(key)).at(limiter.now()).peek_n(cost))
                        });
                    }
                    let prepared = limiter.account(Fellow(key));
                    peeked(&quota.to_string(), || drop(prepared.peek()));
                }
                peeked(&quota.to_string(), || limiter.usage().live_keys);
            }
        }
    }
}

/// A word older than the quota is read as it is, and answered by the new quota: nothing is brought
/// up to date.
#[test]
fn refusals_and_peeks_of_outdated_words_write_nothing() {
    for (old, new) in [
        (TokenBucket::new(rate()).into(), TokenBucket::new(Rate::per_hour(7)).into()),
        (LeakyBucket::queue(rate()).into(), LeakyBucket::queue(Rate::per_hour(7)).into()),
        (Quota::from(FixedWindow::new(rate())), Quota::from(FixedWindow::new(Rate::per_hour(4)))),
        (SlidingWindow::new(rate()).into(), SlidingWindow::new(Rate::per_hour(4)).into()),
        (SlidingLog::new(rate()).into(), SlidingLog::new(Rate::per_hour(4)).into()),
    ] {
        let limiter = keyed(old, WhenFull::Share, 1_000);
        let keys = || (0..12).map(Fellow);
        keys().for_each(|key| drain(&limiter, key.0));
        for change in 0..3 {
            limiter.change().to(new).tier(1, new).inherit(Inherit::Additive).apply().unwrap();
            // The first reading of the clock under a quota says how far that may be trusted.
            let _ = limiter.peek(Fellow(99));
            for key in keys() {
                let (writes, cost) = writes_of(|| {
                    let left = limiter.account(&key).at(limiter.now()).peek_n(0).remaining();
                    assert!(!limiter.check_n(&key, left + 1).is_allowed());
                    left
                });
                assert_eq!(writes, NOTHING, "{old} to {new}, change {change}, {cost} left");
            }
        }
    }
}

#[test]
fn a_refusal_that_counts_writes_one_word() {
    let limiter = keyed(FixedWindow::new(rate()).count(CountPolicy::All).into(), WhenFull::Share, 1_000);
    drain(&limiter, 1);
    assert_eq!(writes_of(|| limiter.check(Fellow(1)).is_allowed()), (ONE_EXCHANGE, false));
}

/// The writes are the horizon, its copy and the bound of `early`. The sliding counters and the log
/// have none: their payloads mean the same under every quota.
#[test]
fn a_refusal_raises_the_horizon_about_once_a_second() {
    for quota in with_log() {
        let clock = clock();
        let limiter = Limiter::builder(quota).per().clock(clock.clone()).build().unwrap();
        drain(&limiter, 1);
        for _ in 0..3 {
            clock.advance(Duration::from_millis(1_100));
            let (writes, allowed) = writes_of(|| limiter.check(Fellow(1)).is_allowed());
            assert!(!allowed && writes.stores == 0 && writes.exchanges <= 3, "{quota}: {writes:?}");
            let has_horizon = !matches!(quota, Quota::SlidingWindow(_) | Quota::SlidingLog(_));
            assert_eq!(writes != NOTHING, has_horizon, "{quota}: {writes:?}");
            assert_eq!(writes_of(|| limiter.check(Fellow(1)).is_allowed()), (NOTHING, false), "{quota}");
        }
    }
}

#[test]
fn a_refund_of_the_newest_request_takes_four_exchanges() {
    for quota in quotas() {
        let limiter = keyed(quota, WhenFull::Share, 1_000);
        known(&limiter, 1);
        let receipt = limiter.check(Fellow(1)).receipt();
        let four = Writes { exchanges: 4, stores: 0 };
        assert_eq!(writes_of(|| limiter.refund(receipt)), (four, 1), "{quota}");
    }
}

#[test]
fn a_refund_by_several_limits_takes_four_exchanges_each() {
    for quotas in [quotas()[..2].to_vec(), quotas()] {
        let multi = Limiter::builder(quotas.clone()).per::<Fellow>().clock(clock()).build().unwrap();
        assert!(multi.check(Fellow(1)).is_allowed());
        let receipt = multi.check(Fellow(1)).receipt();
        let expected = Writes { exchanges: 4 * quotas.len() as u64, stores: 0 };
        assert_eq!(writes_of(|| multi.refund(receipt)), (expected, 1), "{quotas:?}");
    }
}

#[test]
fn a_reset_takes_six_exchanges() {
    for quota in quotas() {
        let limiter = keyed(quota, WhenFull::Share, 1_000);
        known(&limiter, 1);
        let six = Writes { exchanges: 6, stores: 0 };
        assert_eq!(writes_of(|| limiter.account(Fellow(1)).reset()), (six, true), "{quota}");
    }
}

#[test]
fn a_reservation_of_a_known_key_writes_one_word() {
    for quota in [TokenBucket::new(rate()).into(), LeakyBucket::queue(rate()).into()] {
        let limiter = keyed(quota, WhenFull::Share, 1_000);
        let reserve = || limiter.account(Fellow(1)).reserve(1, Duration::ZERO).is_ok();
        assert!(reserve(), "the first one notes that there are reservations");
        limiter.account(Fellow(1)).reset();
        assert_eq!(writes_of(reserve), (ONE_EXCHANGE, true), "{quota}");
    }
}

/// What happens while a clock is read.
type Work = Box<dyn FnOnce()>;

/// A clock that is read slowly: once, other work is done meanwhile.
struct Slow(ManualClock, Cell<Option<Work>>);

impl Clock for &Slow {
    fn now(&self) -> Timestamp {
        if let Some(work) = self.1.take() {
            work();
        }
        self.0.now()
    }
}

/// A refund reads the clock while it holds the key's slot.
#[test]
fn a_refusal_beside_a_held_slot_writes_nothing() {
    let slow: &Slow = Box::leak(Box::new(Slow(clock(), Cell::new(None))));
    let quotas = [Quota::from(TokenBucket::new(Rate::per_hour(100))), TokenBucket::new(rate()).into()];
    let limiter = Limiter::builder(quotas).per::<Fellow>().clock(slow).build().unwrap();
    let limiter: &'static _ = Box::leak(Box::new(limiter));
    let receipt = limiter.check(Fellow(1)).receipt();
    while limiter.check(Fellow(1)).is_allowed() {}
    let refusal = || refused("beside a held slot", || limiter.check(Fellow(1)).is_allowed());
    slow.1.set(Some(Box::new(refusal)));
    limiter.refund(receipt);
    assert!(slow.1.take().is_none(), "the refund has read the clock");
    assert!(limiter.check(Fellow(1)).is_allowed(), "it has given back");
}
