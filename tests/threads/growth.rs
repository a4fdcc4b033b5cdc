//! Growth in place: a table that grows as keys arrive forgives no debt.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota, Rate, SlidingWindow, TokenBucket, WhenFull};
use tollgate_testing::keys::Scattered;

mod keys;

use keys::{LIMIT, Subject, ask_for_all, counters, movable, nobody_got_more, take_and_give_back};

/// Room for 20,000 keys in 4,096 buckets, of which 256 are used at first.
fn limiter(quota: Quota) -> (Subject, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).per().max_keys(20_000).when_full(WhenFull::Deny);
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

#[test]
fn a_limiter_grows_with_its_keys_up_to_its_memory() {
    let builder =
        || Limiter::builder(TokenBucket::new(Rate::per_hour(1))).per::<Scattered>().max_keys(20_000);
    let limiter = builder().clock(ManualClock::new()).build().unwrap();
    let most = builder().memory().unwrap();
    let mut used = limiter.usage().memory_in_use;
    assert_eq!((used, most), (256 * 256, 4_096 * 256));
    for key in 0..20_000 {
        assert!(limiter.check(Scattered(key)).is_allowed(), "there is room for key {key}");
        // It reads the whole table, so not after every key.
        if key % 64 > 0 {
            continue;
        }
        let now = limiter.usage().memory_in_use;
        assert!((used..=2 * used).contains(&now), "{used} then {now}");
        assert!(now <= most);
        used = now;
    }
    let usage = limiter.usage();
    assert_eq!(usage.live_keys, 20_000);
    assert!(usage.memory_in_use > most / 2, "buckets that were full by chance use the second half");
}

#[test]
fn memory_follows_the_keys_in_debt() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1)))
        .per::<Scattered>()
        .max_keys(1_000_000)
        .clock(clock.clone())
        .build()
        .unwrap();
    for key in 0..200_000 {
        assert!(limiter.check(Scattered(key)).is_allowed());
        clock.advance(Duration::from_millis(10));
    }
    // About a hundred keys at a time.
    assert_eq!(limiter.usage().memory_in_use, 256 * 256);
}

#[test]
fn a_key_keeps_its_debt_when_it_migrates() {
    for quota in movable() {
        let (limiter, clock) = limiter(quota);
        clock.set(tollgate::Timestamp::from_nanos(10_000_000_000_000));
        let early: Vec<Scattered> = (0..300).map(Scattered).collect();
        for (cost, key) in early.iter().enumerate() {
            assert!(limiter.check_n(key, 1 + cost as u64 % LIMIT).is_allowed());
        }
        let owed = |key: &Scattered| limiter.account(key).at(limiter.now()).peek_n(0);
        let before: Vec<_> =
            early.iter().map(|key| (owed(key).remaining(), owed(key).reset_after())).collect();
        let memory = limiter.usage().memory_in_use;
        for other in 1_000..15_000 {
            let _ = limiter.check(Scattered(other));
        }
        assert!(limiter.usage().memory_in_use >= 8 * memory, "{quota}: the table has grown");
        let after: Vec<_> =
            early.iter().map(|key| (owed(key).remaining(), owed(key).reset_after())).collect();
        assert_eq!(before, after, "{quota}");
        let again: Vec<_> = early
            .iter()
            .map(|key| (0..LIMIT).filter(|_| limiter.check(key).is_allowed()).count() as u64)
            .collect();
        assert_eq!(again, before.iter().map(|(remaining, _)| *remaining).collect::<Vec<_>>(), "{quota}");
        assert_eq!(limiter.usage().live_keys, 14_300);
    }
}

#[test]
fn a_peek_at_an_unmigrated_key_equals_a_check() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(LIMIT)).into());
    let later = 4_000;
    for nth in 0..later {
        assert!(limiter.check_n(Scattered(nth), 1 + nth % LIMIT).is_allowed());
        // Among these numbers is the one at which the table follows its full buckets. The keys of
        // the other buckets have not migrated then.
        if nth < 2_000 || nth % 10 > 0 {
            continue;
        }
        for early in 0..=nth {
            let looked = limiter.account(Scattered(early)).at(limiter.now()).peek_n(0).remaining();
            assert_eq!(looked, LIMIT - 1 - early % LIMIT);
        }
    }
    for nth in 0..later {
        let looked = limiter.account(Scattered(nth)).at(limiter.now()).peek_n(0).remaining();
        assert_eq!(looked, LIMIT - 1 - nth % LIMIT);
        assert_eq!(limiter.peek(Scattered(nth)).is_allowed(), looked > 0);
        assert_eq!(limiter.check(Scattered(nth)).is_allowed(), looked > 0);
    }
    assert_eq!(limiter.peek(Scattered(later)).remaining(), LIMIT - 1, "and a new key is new");
}

#[test]
fn verbs_find_a_key_that_has_not_moved_yet() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(LIMIT)).into());
    let taken: Vec<_> = (0..600).map(|key| (key, limiter.check_n(Scattered(key), 2))).collect();
    (1_000..12_000).for_each(|key| assert!(limiter.check(Scattered(key)).is_allowed()));
    // The refunds first: a reset also ends the receipts of the keys that share its mark.
    for (key, decision) in taken {
        if key % 2 == 0 {
            assert_eq!(limiter.refund(decision), 2);
        }
    }
    for key in 0..600 {
        assert!(key % 2 == 0 || limiter.account(Scattered(key)).reset());
        assert_eq!(limiter.check_n(Scattered(key), LIMIT).remaining(), 0);
        assert!(!limiter.check(Scattered(key)).is_allowed());
    }
}

/// Threads check keys in different orders while the table grows. Time stands still, so each key is
/// admitted exactly its limit.
#[test]
fn threads_that_grow_a_table_exceed_no_limit() {
    const KEYS: usize = 15_000;
    for quota in movable() {
        let (limiter, _) = limiter(quota);
        let admitted = counters(KEYS);
        thread::scope(|scope| {
            for stride in [1, 1, 7_919, 7_919] {
                let (limiter, admitted) = (&limiter, &admitted);
                scope.spawn(move || ask_for_all(limiter, admitted, stride, 2));
            }
        });
        nobody_got_more(&admitted, &quota.to_string());
        assert_eq!(limiter.usage().live_keys, KEYS);
    }
}

/// Like the test before, while other threads refund and take units again. One unit of each key is
/// held all the time.
#[test]
fn refunds_of_migrating_keys_mint_nothing() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(LIMIT)).into());
    let (held, done) = (counters(256), AtomicBool::new(false));
    for (nth, held) in (0..).zip(&held) {
        assert!(limiter.check(Scattered(nth)).is_allowed());
        held.store(1, SeqCst);
    }
    thread::scope(|scope| {
        for worker in 0..2 {
            let (limiter, held, done) = (&limiter, &held, &done);
            scope.spawn(move || take_and_give_back(limiter, held, worker, done));
        }
        (1_000..14_000).for_each(|key| assert!(limiter.check(Scattered(key)).is_allowed()));
        done.store(true, SeqCst);
    });
    assert!(limiter.usage().memory_in_use > 4 * 256 * 256);
    // A charge that meets its key's migration may be made twice: that errs by refusing.
    // A peek tells what one request more would leave.
    assert!((0..256).all(|nth| limiter.peek(Scattered(nth)).remaining() < LIMIT - 1));
}

#[test]
fn a_save_during_growth_keeps_all_debt() {
    let quota: Quota = TokenBucket::new(Rate::per_hour(LIMIT)).into();
    let (limiter, _) = limiter(quota);
    let known = AtomicU64::new(0);
    let files = thread::scope(|scope| {
        scope.spawn(|| {
            for nth in 0..15_000 {
                assert!(limiter.check_n(Scattered(nth), LIMIT).is_allowed());
                known.store(nth + 1, SeqCst);
            }
        });
        let mut files = Vec::new();
        while known.load(SeqCst) < 15_000 {
            let before = known.load(SeqCst);
            let mut file = Vec::new();
            limiter.save(&mut file).unwrap();
            files.push((before, file));
        }
        files
    });
    for (before, file) in files {
        let builder = Limiter::builder(quota).per::<Scattered>().max_keys(20_000).when_full(WhenFull::Deny);
        let restored = builder.clock(ManualClock::new()).restore(&file[..]).unwrap();
        let forgotten = (0..before).find(|&nth| restored.check(Scattered(nth)).is_allowed());
        assert_eq!(forgotten, None);
    }
}

#[test]
fn several_limits_grow_each_by_itself() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder([
        Quota::from(TokenBucket::new(Rate::per_second(LIMIT))),
        SlidingWindow::new(Rate::per_hour(2 * LIMIT)).into(),
    ])
    .per::<Scattered>()
    .max_keys(20_000)
    .clock(clock.clone())
    .build()
    .unwrap();
    for key in 0..10_000 {
        assert!(limiter.check_n(Scattered(key), LIMIT).is_allowed());
        // The first limit forgets keys and the second remembers them, so one table stays small.
        clock.advance(Duration::from_millis(10));
    }
    assert_eq!(limiter.usage().live_keys, 10_000);
    clock.advance(Duration::from_secs(1));
    for key in 0..10_000 {
        assert!(limiter.check_n(Scattered(key), LIMIT).is_allowed());
        assert!(!limiter.check_n(Scattered(key), LIMIT).is_allowed());
        clock.advance(Duration::from_millis(1));
    }
}
