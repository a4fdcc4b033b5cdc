//! Threads that stall where the engine reads the clock: before a check, between the scan and the
//! claim of an insertion, or in a refund that holds the slot. Other operations run during the
//! stall.

use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tollgate::{
    FixedWindow, Inherit, Key, KeyHasher, LeakyBucket, Limiter, ManualClock, Quota, Rate, SlidingLog,
    Timestamp, TokenBucket, WhenFull,
};
use tollgate_testing::clocks::{Hooked, at_reading};

use super::every;

/// A key whose low bits choose its bucket. All keys of a test are in one bucket.
struct Placed(u64);

impl Key for Placed {
    fn fingerprint(&self, _: &KeyHasher) -> u64 {
        self.0 << 8 | self.0.wrapping_mul(0x9E37_79B9) << 32
    }
}

type Subject = Rc<Limiter<Placed, Quota, 1, Hooked>>;

fn limiter(quota: Quota, max_keys: usize) -> (Subject, ManualClock) {
    let clock = Hooked::default();
    let builder = Limiter::builder(quota).per().max_keys(max_keys).clock(clock.clone());
    (Rc::new(builder.build().unwrap()), clock.0)
}

/// Room for as many splits of a bucket as new keys cause. All buckets of a log exist from the
/// beginning, with their rings.
fn max_keys(quota: Quota) -> usize {
    if matches!(quota, Quota::SlidingLog(_)) { RINGED } else { 100_000 }
}

const RINGED: usize = 2_000;

const KEY: Placed = Placed(1);

/// The operations during the stall, and how much of the key's limit they use.
type Meddling = (&'static str, fn(&Subject), u64);

const MEDDLINGS: &[Meddling] = &[
    ("nothing", |_| {}, 0),
    ("the key is inserted", |limiter| assert!(limiter.check(&KEY).is_allowed()), 1),
    ("and given back", |limiter| assert_eq!(limiter.refund(limiter.check(&KEY)), 1), 0),
    ("strangers fill the bucket", |limiter| strangers(limiter, 12), 0),
    (
        "the key comes after them",
        |limiter| {
            strangers(limiter, 12);
            assert!(limiter.check_n(&KEY, 2).is_allowed());
        },
        2,
    ),
    ("the bucket is split, and split again", |limiter| strangers(limiter, 60), 0),
    (
        "the key moves",
        |limiter| {
            assert!(limiter.check(&KEY).is_allowed());
            strangers(limiter, 60);
        },
        1,
    ),
    (
        "the quota is changed to itself",
        |limiter| {
            assert!(limiter.check(&KEY).is_allowed());
            let _ = limiter.change().to(quota_of(limiter)).inherit(Inherit::Additive).apply();
        },
        1,
    ),
];

/// Checks other keys of the bucket; for a log, no more than fit.
fn strangers(limiter: &Subject, count: u64) {
    let room = if limiter.usage().max_keys == RINGED { 12 } else { count };
    (100..100 + count.min(room)).for_each(|key| drop(limiter.check(Placed(key))));
}

/// Finds the quota of a limiter by its debug output.
fn quota_of(limiter: &Subject) -> Quota {
    let said = format!("{limiter:?}");
    let is = |quota: &Quota| {
        let other = Limiter::builder(*quota).per::<Placed>().clock(ManualClock::new()).build().unwrap();
        said.split_once('{').map(|(rule, _)| rule)
            == format!("{other:?}").split_once('{').map(|(rule, _)| rule)
    };
    every().into_iter().find(is).unwrap()
}

/// Returns how many requests the key is still admitted.
fn drained(limiter: &Subject) -> u64 {
    (0..20).take_while(|_| limiter.check(&KEY).is_allowed()).count() as u64
}

/// Time stands still, so exactly five are admitted, wherever the thread stalls.
#[test]
fn a_stalled_check_charges_once() {
    let mut stalls = 0;
    for quota in every() {
        for &(what, meddle, taken) in MEDDLINGS {
            for known in [false, true] {
                for nth in 1..=3 {
                    let (limiter, _) = limiter(quota, max_keys(quota));
                    let before = u64::from(known && limiter.check(&KEY).is_allowed());
                    let others = limiter.clone();
                    let (admitted, stalled) =
                        at_reading(nth, move || meddle(&others), || limiter.check(&KEY).is_allowed());
                    stalls += u32::from(stalled);
                    let taken = if stalled { taken } else { 0 };
                    let all = before + taken + u64::from(admitted) + drained(&limiter);
                    assert_eq!(all, 5, "{quota}: {what}, known: {known}, reading {nth}");
                }
            }
        }
    }
    assert!(stalls > 100, "{stalls} checks stalled");
}

#[test]
fn a_stalled_refund_gives_back_at_most_its_charge() {
    let mut stalls = 0;
    for quota in every() {
        for &(what, meddle, taken) in MEDDLINGS {
            for nth in 1..=3 {
                let (limiter, _) = limiter(quota, max_keys(quota));
                let decision = limiter.check(&KEY);
                assert!(decision.is_allowed());
                let others = limiter.clone();
                let (back, stalled) = at_reading(nth, move || meddle(&others), || limiter.refund(decision));
                stalls += u32::from(stalled);
                let taken = if stalled { taken } else { 0 };
                let kept = 1 - back + taken;
                let left = drained(&limiter);
                assert_eq!(kept + left, 5, "{quota}: {what}, reading {nth}, {back} back");
            }
        }
    }
    assert!(stalls > 40, "{stalls} refunds stalled");
}

/// An insertion stalls after it has found a free slot of a log. Another key then uses the slot and
/// fills its ring. Its entries must refuse neither other keys nor this key after they have left the
/// window.
#[test]
fn a_stalled_insertion_ignores_entries_of_later_owners() {
    let (limiter, clock) = limiter(SlidingLog::new(Rate::per_second(3)).into(), 100);
    let others = limiter.clone();
    let meddle = move || {
        // Another key with the same home slot takes the slot and writes its whole ring twice.
        for second in [10, 20] {
            clock.set(Timestamp::ZERO + Duration::from_secs(second));
            assert!(others.check_n(&KEY, 2).is_allowed());
        }
        clock.set(Timestamp::ZERO + Duration::from_secs(30));
    };
    let (admitted, stalled) = at_reading(2, meddle, || limiter.check(&KEY).is_allowed());
    assert!(stalled && admitted, "two units of three were taken, at most");
}

/// A key is inserted into one slot while another insertion of it, which has chosen another slot,
/// stalls. Only the header can tell.
#[test]
fn a_stalled_insertion_does_not_insert_a_key_twice() {
    let quota = TokenBucket::new(Rate::per_hour(5));
    for first in 200..210 {
        let hooked = Hooked::default();
        let builder =
            Limiter::builder(Quota::from(quota)).per::<Placed>().max_keys(1).when_full(WhenFull::Deny);
        let limiter = Rc::new(builder.clock(hooked.clone()).build().unwrap());
        assert!(limiter.check(Placed(first)).is_allowed());
        let others = 300..314;
        assert!(others.clone().all(|other| limiter.check_n(Placed(other), 5).is_allowed()), "15 slots");
        // The first slot is free now, until the others have as little debt.
        hooked.0.set(Timestamp::ZERO + Duration::from_secs(720));
        let same = limiter.clone();
        let meddle = move || {
            assert!(others.clone().all(|other| same.account(Placed(other)).reset()));
            assert!(same.check(&KEY).is_allowed());
        };
        let (admitted, stalled) = at_reading(2, meddle, || limiter.check(&KEY).is_allowed());
        assert!(stalled, "an insertion reads the clock after its scan");
        assert_eq!(1 + u64::from(admitted) + drained(&limiter), 5, "beside {first}");
    }
}

/// A check finds its cost above the limit. A change then makes the cost possible, so the check is
/// charged under the new quota.
#[test]
fn a_cost_made_possible_during_its_check_is_charged() {
    for quota in every() {
        let (of, to) = (|limit| Rate::per_hour(limit), 9);
        let larger: Quota = match quota {
            Quota::TokenBucket(_) => TokenBucket::new(of(to)).into(),
            Quota::LeakyBucket(_) => LeakyBucket::meter(of(to)).into(),
            Quota::FixedWindow(_) => FixedWindow::new(of(to)).into(),
            _ => continue,
        };
        let (limiter, _) = limiter(quota, max_keys(quota));
        let same = limiter.clone();
        let meddle = move || same.change().to(larger).inherit(Inherit::Additive).apply().unwrap();
        let (decision, stalled) = at_reading(1, meddle, || limiter.check_n(&KEY, 6));
        assert!(stalled && decision.is_allowed(), "{quota}: six of nine");
        assert_eq!(drained(&limiter), 3, "{quota}");
    }
}

/// An insertion that began before a change of the quota judges the other keys of its bucket by
/// that quota, and so at no later time than that of the change: its debt of then remains under the
/// new quota.
#[test]
fn an_insertion_that_a_change_overtakes_forgets_no_debt() {
    let fast = || TokenBucket::new(Rate::per_second(1_000)).burst(1_000);
    let slow = || TokenBucket::new(Rate::per_hour(1)).burst(1_000);
    let (limiter, clock) = limiter(fast().into(), 1);
    clock.advance(Duration::from_secs(10));
    // Fifteen keys fill the bucket; the first has the least debt, which the old quota soon refills.
    let keys: Vec<Placed> = (0..15).map(|nth| Placed(200 + nth)).collect();
    for (key, cost) in keys.iter().zip([300].into_iter().chain([1_000; 14])) {
        assert!(limiter.check_n(key, cost).is_allowed());
    }
    let (same, later) = (limiter.clone(), clock.clone());
    let meddle = move || {
        same.change().to(Quota::from(slow())).inherit(Inherit::AsIs).apply().unwrap();
        later.advance(Duration::from_millis(500));
    };
    // It stalls at its second reading, after the first has found nothing, and goes on half a second
    // after the change.
    let (_, stalled) = at_reading(1, meddle, || limiter.check(&KEY));
    assert!(stalled && limiter.account(&keys[1]).reset(), "a slot is vacant");

    let left = limiter.account(&keys[0]).at(limiter.now()).peek_n(0).remaining();
    assert!(left <= 700, "the first key owed 300 at the change, and has {left} of 1,000");
}

/// A thread that never continues blocks no other thread.
#[test]
fn a_stalled_thread_blocks_no_other() {
    let quota = TokenBucket::new(Rate::per_hour(5));
    let limiter = Limiter::builder(quota).per::<u64>().clock(Hooked::default()).build().unwrap();
    let ((stall, stalled), (resume, resumed)) = (channel(), channel::<()>());
    let (finish, finished) = channel();
    std::thread::scope(|scope| {
        let limiter = &limiter;
        let sleeper = scope.spawn(move || {
            let hook = move || {
                stall.send(()).expect("somebody waits for it");
                resumed.recv().expect("somebody wakes it");
            };
            at_reading(2, hook, || limiter.check(1).is_allowed())
        });
        stalled.recv().expect("the thread stalls in its insertion");
        scope.spawn(move || {
            for round in 0..3 {
                (0..5_000).for_each(|key| drop(limiter.check(key)));
                assert_eq!(limiter.usage().live_keys, 5_000, "round {round}");
            }
            finish.send(()).expect("somebody waits for it");
        });
        let is_finished = finished.recv_timeout(Duration::from_secs(40));
        resume.send(()).expect("the thread waits");
        assert_eq!(is_finished, Ok(()), "15,000 checks while one stood still");
        assert_eq!(
            sleeper.join().expect("it does not panic"),
            (true, true),
            "it asked for the fourth of five"
        );
    });
    assert!(limiter.check(1).is_allowed() && !limiter.check(1).is_allowed());
    assert_eq!(limiter.usage().live_keys, 5_000);
}
