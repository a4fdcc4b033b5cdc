//! User code that panics in the middle of a call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate::{Inherit, Key, KeyHasher, Limiter, Outcome, Quota, Rate, TokenBucket, WhenFull};
use tollgate_testing::clocks::{Hooked, at_reading, unhook};
use tollgate_testing::keys::Fellow;

use super::every;

type Subject<K = u64> = Limiter<K, Quota, 1, Hooked>;

fn limiter(quota: Quota) -> Subject {
    Limiter::builder(quota).per().clock(Hooked::default()).build().unwrap()
}

/// Runs `work` with a panic of the clock at the `nth` reading. Returns whether it panicked.
fn interrupted<T>(nth: usize, work: impl FnOnce() -> T) -> bool {
    let work = || drop(at_reading(nth, || panic!("the clock has stopped"), work));
    let panicked = catch_unwind(AssertUnwindSafe(work)).is_err();
    unhook();
    panicked
}

/// Returns how many requests the key is still admitted.
fn drained(limiter: &Subject, key: u64) -> usize {
    (0..20).take_while(|_| limiter.check(key).is_allowed()).count()
}

#[test]
fn a_check_whose_clock_panics_charges_nothing() {
    for quota in every() {
        let limiter = limiter(quota);
        assert!(limiter.check(1).is_allowed());
        for (key, left) in [(1, 4), (2, 5)] {
            // A known key reads the clock once, a new key twice.
            let panics = (1..=3).filter(|&nth| interrupted(nth, || limiter.check(key))).count();
            assert!(panics >= 1, "{quota}: no clock was read");
            let charged = 3 - panics;
            assert_eq!(drained(&limiter, key), left - charged, "{quota}, key {key}");
        }
    }
}

#[test]
fn verbs_whose_clock_panics_change_and_block_nothing() {
    for quota in every() {
        let limiter = limiter(quota);
        let taken = limiter.check(1);
        assert!(interrupted(1, || limiter.peek(1)), "{quota}");
        assert!(interrupted(1, || limiter.account(1).reset()), "{quota}");
        // A refund holds the slot when it reads the clock.
        assert!(interrupted(1, || limiter.refund(taken)), "{quota}");
        assert_eq!(limiter.account(1).at(limiter.now()).peek_n(0).remaining(), 4, "{quota}");
        let second = limiter.check(1);
        assert!(second.is_allowed() && limiter.refund(second) == 1, "{quota}: the slot is usable");
        assert_eq!(drained(&limiter, 1), 4, "{quota}");
        assert!(limiter.account(1).reset() && drained(&limiter, 1) == 5, "{quota}");
    }
}

/// The slots of one bucket. Each key's refund or credit reads the clock while it holds the slot.
#[test]
fn a_slot_whose_refund_panicked_is_free_for_other_keys() {
    for (quota, credits) in every().into_iter().flat_map(|quota| [(quota, false), (quota, true)]) {
        let clock = Hooked::default();
        let builder = Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(WhenFull::Deny);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        for key in 0..15 {
            let taken = limiter.check_n(Fellow(key), 2);
            assert!(taken.is_allowed(), "{quota}");
            let panicked = match credits {
                true => interrupted(1, || limiter.account(Fellow(key)).credit(1)),
                false => interrupted(1, || limiter.refund(taken)),
            };
            assert!(panicked, "{quota}");
            assert_eq!(limiter.account(Fellow(key)).peek_n(0).remaining(), 3, "{quota}: nothing came back");
        }
        assert!(!limiter.check(Fellow(15)).is_allowed(), "{quota}: the keys are in debt");
        clock.0.advance(Duration::from_secs(3 * 3_600));
        assert!((15..30).all(|key| limiter.check(Fellow(key)).is_allowed()), "{quota}: no slot was vacant");
    }
}

#[test]
fn an_interrupted_refund_leaves_a_movable_slot() {
    let limiter = limiter(TokenBucket::new(Rate::per_hour(5)).into());
    let taken = limiter.check_n(1, 3);
    assert!(interrupted(1, || limiter.refund(taken)));
    // Enough keys to grow the table.
    (100..3_000).for_each(|key| drop(limiter.check(key)));
    assert_eq!(drained(&limiter, 1), 2);
}

#[test]
fn a_change_and_a_save_whose_clock_panics_change_nothing() {
    let limiter = limiter(TokenBucket::new(Rate::per_hour(5)).into());
    assert!(limiter.check_n(1, 2).is_allowed());
    let ten = || Quota::from(TokenBucket::new(Rate::per_hour(10)));
    assert!(interrupted(1, || limiter.change().to(ten()).inherit(Inherit::Additive).apply()));
    assert!(interrupted(1, || limiter.save(Vec::new())));
    assert_eq!(limiter.account(1).at(limiter.now()).peek_n(0).remaining(), 3, "the old quota is in force");
    limiter.change().to(ten()).inherit(Inherit::Additive).apply().unwrap();
    assert_eq!(limiter.account(1).at(limiter.now()).peek_n(0).remaining(), 8);
    assert_eq!(limiter.save(Vec::new()).unwrap(), 1);
}

#[test]
fn several_limits_whose_clock_panics_are_charged_at_most_once() {
    let quotas = [TokenBucket::new(Rate::per_hour(5)), TokenBucket::new(Rate::per_hour(9))];
    let builder = || Limiter::builder(quotas).per::<u64>().clock(Hooked::default());
    let mut panics = 0;
    for nth in 1..6 {
        let limiter = builder().build().unwrap();
        let panicked = interrupted(nth, || limiter.check(1));
        panics += u32::from(panicked);
        let admitted = (0..20).take_while(|_| limiter.check(1).is_allowed()).count();
        assert!((4..=5).contains(&admitted), "reading {nth}: {admitted}");
    }
    assert!(panics >= 2, "a new key reads the clock for each limit");
}

/// A key whose hash panics while it is poisoned.
struct Poisoned(u64, AtomicBool);

impl Key for Poisoned {
    fn fingerprint(&self, identity: &KeyHasher) -> u64 {
        assert!(!self.1.load(Relaxed), "the key is poisoned");
        identity.short(self.0)
    }
}

#[test]
fn a_key_whose_hash_panics_charges_nothing() {
    for quota in every() {
        let limiter: Subject<Poisoned> =
            Limiter::builder(quota).per().clock(Hooked::default()).build().unwrap();
        let keys = [1, 2, 3].map(|key| Poisoned(key, AtomicBool::new(false)));
        assert!(keys.iter().all(|key| limiter.check(key).is_allowed()));
        keys[1].1.store(true, Relaxed);
        let panics = |work: &dyn Fn() -> bool| catch_unwind(AssertUnwindSafe(work)).is_err();
        assert!(panics(&|| limiter.check(&keys[1]).is_allowed()), "{quota}");
        assert!(panics(&|| limiter.peek(&keys[1]).is_allowed()), "{quota}");
        assert!(panics(&|| limiter.account(&keys[1]).check().is_allowed()), "{quota}");
        assert!(panics(&|| limiter.account(&keys[1]).reset()), "{quota}");
        // A batch hashes its keys ahead, so none of them is decided.
        assert!(panics(&|| limiter.check_many(&keys).all(|decision| decision.is_allowed())), "{quota}");
        keys[1].1.store(false, Relaxed);
        let left = |key| limiter.account(key).at(limiter.now()).peek_n(0).remaining();
        assert_eq!(keys.each_ref().map(left), [4; 3], "{quota}");
    }
}

/// Five requests are admitted. An observer that panics at every other one still observes all, and
/// those stay charged: the sixth is refused.
fn told_of_all(quota: Quota, told: &AtomicU64, check: impl Fn() -> Outcome) {
    told.store(0, Relaxed);
    let panics = (0..5).filter(|_| catch_unwind(AssertUnwindSafe(&check)).is_err());
    assert_eq!(panics.count(), 3, "{quota}");
    assert_eq!(told.load(Relaxed), 5, "{quota}");
    told.store(1, Relaxed);
    assert_eq!(check(), Outcome::Denied, "{quota}: five were admitted");
}

#[test]
fn an_observer_that_panics_loses_no_decision() {
    let told = Arc::new(AtomicU64::new(0));
    let [first, second, third] = [(); 3].map(|()| told.clone());
    let panics = |told: &AtomicU64| assert!(told.fetch_add(1, Relaxed) % 2 == 1, "the observer panics");
    for quota in every() {
        let [first, second, third] = [&first, &second, &third].map(Arc::clone);
        let keyed = Limiter::builder(quota).per::<u64>().clock(Hooked::default());
        let keyed = keyed.on_decision(move |_| panics(&first)).build().unwrap();
        told_of_all(quota, &told, || keyed.check(1).outcome());
        assert_eq!(keyed.account(1).at(keyed.now()).peek_n(0).remaining(), 0, "{quota}");

        let global = Limiter::builder(quota).clock(Hooked::default());
        let global = global.on_decision(move |_| panics(&second)).build().unwrap();
        told_of_all(quota, &told, || global.check(()).outcome());
        assert_eq!(global.account(()).at(global.now()).peek_n(0).remaining(), 0, "{quota}");

        let larger = Quota::from(TokenBucket::new(Rate::per_hour(9)));
        let several = Limiter::builder([larger, quota]).per::<u64>().clock(Hooked::default());
        let several = several.on_decision(move |_| panics(&third)).build().unwrap();
        told_of_all(quota, &told, || several.check(1).outcome());
        let left: Vec<_> =
            several.account(1).at(several.now()).peek_n(0).parts().map(|part| part.remaining()).collect();
        assert_eq!(left, [4, 0], "{quota}: a refusal takes nothing");
    }
}

/// If a wait panics, its reservation is given back, and no later request waits for it.
#[test]
fn a_reservation_whose_clock_panics_keeps_one_turn() {
    let quota = TokenBucket::new(Rate::per_hour(5));
    let limiter = limiter(quota.into());
    assert!(limiter.check_n(1, 5).is_allowed());
    let wait = Duration::from_secs(3_600);
    assert!(interrupted(1, || limiter.account(1).reserve(1, wait).map(|_| ())));
    let first = limiter.account(1).reserve(1, wait).expect("it may wait");
    assert_eq!(first.delay(), Duration::from_secs(720), "nobody stands before it");
    // Cancelling reads the clock to find whether the reservation has departed. If that panics, the
    // reservation keeps its turn.
    assert!(interrupted(1, || first.cancel()));
    assert_eq!(limiter.account(1).reserve(1, wait).expect("it may wait").delay(), Duration::from_secs(1_440));
}
