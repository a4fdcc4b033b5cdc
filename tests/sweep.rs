//! Giving memory back while everybody goes on: nobody is forgotten, and nobody gets anything twice.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tollgate::{
    Limiter, ManualClock, MultiLimiter, Quota, Rate, SlidingLog, Timestamp, TokenBucket, WhenFull,
};

#[path = "threads/growth/keys.rs"]
mod keys;
mod quotas;

use keys::{LIMIT, Nth, Subject, ask_for_all, counters, movable, nobody_got_more, take_and_give_back};

/// Room for 20,000 keys in 4,096 buckets, of which 64 are in use at first.
fn limiter(quota: Quota) -> (Subject, ManualClock) {
    let clock = ManualClock::new();
    let builder = Limiter::builder(quota).max_keys(20_000).when_full(WhenFull::Deny);
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

/// Keys that have come and run out, and some that owe something.
fn after_a_spike(quota: Quota) -> (Subject, ManualClock) {
    let (limiter, clock) = limiter(quota);
    clock.set(Timestamp::from_nanos(10_000_000_000_000));
    assert!((0..15_000).all(|key| limiter.check(&Nth(key)).is_allowed()));
    clock.advance(Duration::from_secs(3 * 3_600));
    assert!((100..300).all(|key| limiter.check_n(&Nth(key), 1 + key % LIMIT).is_allowed()));
    (limiter, clock)
}

#[test]
fn a_limiter_that_shrinks_forgets_nobody() {
    for quota in movable() {
        let (limiter, _) = after_a_spike(quota);
        let owed = || -> Vec<_> {
            let look = |key| limiter.peek_n_at(&Nth(key), 0, limiter.now());
            (0..400).map(|key| (look(key).remaining(), look(key).reset_after())).collect()
        };
        let (before, stats, used) = (owed(), limiter.stats(), limiter.memory());
        assert!(used > 16 * 64 * 256);
        // To the other half and back.
        let returned = limiter.shrink();
        assert_eq!((limiter.memory(), returned), (64 * 256, used - 64 * 256), "{quota}");
        for _ in 0..3 {
            assert_eq!((owed(), limiter.stats(), limiter.len()), (before.clone(), stats, 200), "{quota}");
            assert_eq!((limiter.shrink(), limiter.memory()), (0, 64 * 256), "{quota}");
        }
        // It goes on as before, and grows again.
        for key in 100..300 {
            let rest = (0..LIMIT).filter(|_| limiter.check(&Nth(key)).is_allowed()).count() as u64;
            assert_eq!(rest, LIMIT - 1 - key % LIMIT);
        }
        assert!((20_000..34_000).all(|key| limiter.check(&Nth(key)).is_allowed()));
    }
}

#[test]
fn a_sweep_goes_on_where_it_was_and_says_when_it_has_been_round() {
    let (limiter, _) = after_a_spike(TokenBucket::new(Rate::per_hour(LIMIT)).into());
    let buckets = limiter.memory() / 256;
    let mut calls = 1;
    while !limiter.sweep(10) {
        calls += 1;
        // Keys are found whether their turn has come or not.
        for key in 0..400 {
            let expected = if (100..300).contains(&key) { LIMIT - 1 - key % LIMIT } else { LIMIT };
            assert_eq!(limiter.peek_n_at(&Nth(key), 0, limiter.now()).remaining(), expected);
        }
        assert_eq!(limiter.len(), 200);
    }
    assert!((buckets / 10..=buckets / 10 + 2).contains(&calls), "{calls} calls for {buckets} buckets");
    assert_eq!(limiter.memory(), 64 * 256);
    assert!(!limiter.sweep(1), "and begins again");
}

#[test]
fn verbs_find_a_key_whose_turn_has_not_come() {
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(LIMIT)).into());
    let taken: Vec<_> = (0..600).map(|key| (key, limiter.check_n(&Nth(key), 2))).collect();
    assert!((1_000..5_000).all(|key| limiter.check(&Nth(key)).is_allowed()));
    assert!(!limiter.sweep(1));
    for (key, decision) in taken {
        if key % 2 == 0 {
            assert_eq!(limiter.refund(decision), 2);
        } else {
            assert!(limiter.reset(&Nth(key)));
        }
        assert_eq!(limiter.check_n(&Nth(key), LIMIT).remaining(), 0);
        assert!(!limiter.check(&Nth(key)).is_allowed());
    }
    assert!(limiter.sweep(usize::MAX));
    assert!((0..600).all(|key| !limiter.check(&Nth(key)).is_allowed()));
    assert!((1_000..5_000).all(|key| limiter.check_n(&Nth(key), LIMIT - 1).is_allowed()));
}

/// Threads ask for all keys while another sweeps without end: time stands still, so each gets its limit and never a unit
/// more, while the table grows in the half that it has just moved to.
#[test]
fn threads_that_check_under_a_sweep_admit_no_key_more_than_its_limit() {
    const KEYS: usize = 6_000;
    for quota in movable() {
        let (limiter, _) = limiter(quota);
        let (admitted, done) = (counters(KEYS), AtomicBool::new(false));
        thread::scope(|scope| {
            let (limiter, admitted, done) = (&limiter, &admitted, &done);
            scope.spawn(move || {
                let mut rounds = 0;
                while !done.load(SeqCst) || rounds < 3 {
                    rounds += u64::from(limiter.sweep(20));
                }
            });
            let checkers =
                [1, 1, 7_919].map(|stride| scope.spawn(move || ask_for_all(limiter, admitted, stride, 4)));
            checkers.into_iter().for_each(|checker| checker.join().unwrap());
            done.store(true, SeqCst);
        });
        nobody_got_more(&admitted, &quota.to_string());
        assert_eq!(limiter.len(), KEYS);
    }
}

#[test]
fn refunds_under_a_sweep_mint_nothing() {
    const KEYS: u64 = 256;
    let (limiter, _) = limiter(TokenBucket::new(Rate::per_hour(LIMIT)).into());
    let (held, done) = (counters(KEYS as usize), AtomicBool::new(false));
    thread::scope(|scope| {
        for hand in 0..2 {
            let (limiter, held, done) = (&limiter, &held, &done);
            scope.spawn(move || take_and_give_back(limiter, held, hand, done));
        }
        // Newcomers make the table grow, too.
        for key in 1_000..5_000 {
            assert!(limiter.check(&Nth(key)).is_allowed());
            limiter.sweep(8);
        }
        done.store(true, SeqCst);
    });
    let free = (0..KEYS).filter(|&key| limiter.check_n(&Nth(key), LIMIT).is_allowed()).count() as u64;
    assert!(free + keys::CHARGED_TWICE >= KEYS, "all was given back but to {}", KEYS - free);
}

#[test]
fn a_limiter_saved_under_a_sweep_forgets_nobody() {
    let quota: Quota = TokenBucket::new(Rate::per_hour(LIMIT)).into();
    let (limiter, _) = limiter(quota);
    assert!((0..3_000).all(|key| limiter.check_n(&Nth(key), LIMIT).is_allowed()));
    let done = AtomicBool::new(false);
    let files: Vec<Vec<u8>> = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                limiter.sweep(5);
            }
        });
        let save = |_| {
            let mut file = Vec::new();
            limiter.save(&mut file).unwrap();
            file
        };
        let files = (0..40).map(save).collect();
        done.store(true, SeqCst);
        files
    });
    for file in files {
        let builder = Limiter::<Nth, Quota>::builder(quota).max_keys(20_000).when_full(WhenFull::Deny);
        let restored = builder.clock(ManualClock::new()).restore(&file[..]).unwrap();
        assert_eq!((0..3_000).find(|&nth| restored.check(&Nth(nth)).is_allowed()), None);
    }
}

/// What the keys of a full bucket owe together goes along.
#[test]
fn a_shared_allowance_is_swept_along() {
    let quota = TokenBucket::new(Rate::per_day(1)).burst(10);
    let build =
        || Limiter::<Nth, _>::builder(quota).max_keys(1_000).clock(ManualClock::new()).build().unwrap();
    let (still, swept) = (build(), build());
    // Every slot of the 128 buckets owes more than half, and the newcomers share the other.
    for limiter in [&still, &swept] {
        (0..6_000).for_each(|key| drop(limiter.check_n(&Nth(key), 6)));
        assert!((6_000..8_000).filter(|&key| limiter.check_n(&Nth(key), 2).is_allowed()).count() > 100);
        assert!(limiter.stats().shared > 100);
    }
    assert!(swept.sweep(usize::MAX));
    for key in 0..8_000 {
        let owed = |limiter: &Limiter<Nth, TokenBucket, ManualClock>| {
            limiter.peek_n_at(&Nth(key), 0, limiter.now()).remaining()
        };
        assert_eq!(owed(&still), owed(&swept), "key {key}");
    }
}

#[test]
fn several_limits_shrink_together() {
    let clock = ManualClock::new();
    let rates = [Rate::per_second(1), Rate::per_hour(10)];
    let limiter = MultiLimiter::<Nth>::builder(rates.map(TokenBucket::new))
        .max_keys(20_000)
        .clock(clock.clone())
        .build()
        .unwrap();
    let quiet = limiter.memory();
    assert!((0..15_000).all(|key| limiter.check_n(&Nth(key), 1).is_allowed()));
    let used = limiter.memory();
    clock.advance(Duration::from_secs(2 * 3_600));
    assert!(limiter.check(&Nth(1)).is_allowed());
    assert_eq!(limiter.shrink(), used - quiet);
    assert!(!limiter.check(&Nth(1)).is_allowed());
    assert_eq!(limiter.len(), 1);
}

#[test]
fn several_limits_are_swept_one_after_the_other() {
    let clock = ManualClock::new();
    // The log between them has nothing to give back.
    let rate = Rate::per_hour(10);
    let quotas: [Quota; 3] =
        [TokenBucket::new(rate).into(), SlidingLog::new(rate).into(), TokenBucket::new(rate).into()];
    let limiter = MultiLimiter::<Nth>::builder(quotas).max_keys(20_000).clock(clock.clone()).build().unwrap();
    let quiet = limiter.memory();
    assert!((0..15_000).all(|key| limiter.check(&Nth(key)).is_allowed()));
    let buckets = (limiter.memory() - quiet) / 256;
    clock.advance(Duration::from_secs(2 * 3_600));
    assert!((0..50).all(|key| limiter.check_n(&Nth(key), 7).is_allowed()));
    let calls = 1 + std::iter::repeat_with(|| limiter.sweep(50)).take_while(|has_ended| !has_ended).count();
    assert!(calls > buckets / 50, "{calls} calls for {buckets} buckets");
    assert_eq!(limiter.memory(), quiet);
    assert!((0..50).all(|key| limiter.peek_n_at(&Nth(key), 0, limiter.now()).remaining() == 3));
    assert!(!limiter.sweep(1), "and begins again");
}

#[test]
fn a_log_and_a_small_table_have_nothing_to_give_back() {
    let (log, _) = limiter(SlidingLog::new(Rate::per_hour(LIMIT)).into());
    let small = Limiter::<Nth, Quota>::builder(TokenBucket::new(Rate::per_hour(LIMIT)).into());
    let small = small.max_keys(100).clock(ManualClock::new()).build().unwrap();
    for limiter in [log, small] {
        assert!(limiter.check_n(&Nth(1), LIMIT).is_allowed());
        assert!(limiter.sweep(1));
        assert_eq!(limiter.shrink(), 0);
        assert!(!limiter.check(&Nth(1)).is_allowed());
    }
}
