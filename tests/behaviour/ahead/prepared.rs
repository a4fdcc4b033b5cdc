//! The promises of `prepare`.

use std::time::Duration;

use tollgate::{
    Account, FixedWindow, Inherit, Limiter, ManualClock, Quota, Rate, Timestamp, TokenBucket, WhenFull,
};

use super::{Counting, LIMITS, SECOND, all_of, every, limiter};
use tollgate_testing::limits::every as every_quota;

#[test]
fn a_prepared_key_decides_as_its_limiter_does() {
    for tiers in every() {
        let (ahead, plain) = (limiter(tiers), limiter(tiers));
        for key in 0..6 {
            let prepared = ahead.account(key);
            for step in 0..60_u64 {
                let now = Timestamp::ZERO + Duration::from_millis(step * 90);
                // Costs of 0, of a few units, and above every limit.
                let cost = [1, 0, 2, 8][step as usize % 4];
                assert_eq!(
                    all_of(prepared.at(now).peek_n(cost)),
                    all_of(plain.account(key).at(now).peek_n(cost)),
                    "{tiers:?}"
                );
                assert_eq!(
                    all_of(prepared.at(now).check_n(cost)),
                    all_of(plain.account(key).at(now).check_n(cost)),
                    "{tiers:?}"
                );
                assert_eq!(
                    all_of(prepared.at(now).check()),
                    all_of(plain.account(key).at(now).check()),
                    "{tiers:?}"
                );
            }
        }
    }
}

#[test]
fn a_prepared_key_reads_the_limiters_clock() {
    let clock = Counting::default();
    let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<u64>().clock(clock.clone());
    let limiter = limiter.build().unwrap();
    let key = limiter.account(7);
    assert_eq!(clock.readings(), 0, "nothing is decided yet");
    assert!(key.check().is_allowed());
    let inserted = clock.readings();
    assert!(key.check().is_allowed(), "this clock moves on by a second");
    assert!(key.check_n(2).is_never());
    assert!(key.peek().is_allowed());
    assert_eq!(clock.readings() - inserted, 3);
}

#[test]
fn preparing_charges_nothing() {
    let [tiers, ..] = every()[..] else { panic!("there are algorithms") };
    let limiter = limiter(tiers);
    let _ = limiter.account(7);
    assert!(limiter.usage().live_keys == 0);
    assert_eq!(limiter.check(7).remaining(), limiter.check(10).remaining());
}

/// A table of four buckets, with room for sixty keys.
fn small(clock: &ManualClock) -> Limiter<u64, TokenBucket, 1, ManualClock> {
    Limiter::builder(TokenBucket::new(Rate::per_second(2)))
        .per()
        .max_keys(1)
        .when_full(WhenFull::Deny)
        .clock(clock.clone())
        .build()
        .unwrap()
}

/// Checks other keys until they have every slot of the table.
fn crowd(limiter: &Limiter<u64, TokenBucket, 1, ManualClock>) {
    for key in 1_000..2_000 {
        let _ = limiter.check_n(key, 2);
    }
    assert_eq!(limiter.usage().live_keys, 60, "four buckets of fifteen");
}

#[test]
fn a_prepared_key_survives_the_eviction_of_its_key() {
    let clock = ManualClock::new();
    let limiter = small(&clock);
    let key = limiter.account(7);
    assert_eq!(key.check_n(2).remaining(), 0);
    // The key has no debt, and other keys have all slots.
    clock.advance(SECOND);
    crowd(&limiter);
    assert!(
        !key.check().is_allowed(),
        "there is no room for it, and no other key's debt or right is its own"
    );
    assert_eq!(limiter.usage().live_keys, 60);
    assert!((1_000..2_000).all(|other| !limiter.check(other).is_allowed()), "nobody was charged or forgiven");
    // All debts are zero: the key is new, in any slot, and its old slot is another key's.
    clock.advance(SECOND);
    assert_eq!(limiter.check(8).remaining(), 1);
    assert_eq!(key.check().remaining(), 1);
    assert_eq!(limiter.check(7).remaining(), 0, "one key, whoever asks");
    assert!(!key.check().is_allowed());
    assert_eq!(limiter.usage().live_keys, 2);
    assert_eq!(limiter.check(8).remaining(), 0);
}

#[test]
fn a_prepared_key_is_forgiven_by_a_reset() {
    let clock = ManualClock::new();
    let limiter = small(&clock);
    let key = limiter.account(7);
    assert!(key.check_n(2).is_allowed());
    assert!(!key.check().is_allowed());
    assert!(limiter.account(7).reset());
    assert!(key.check_n(2).is_allowed());
    assert!(!limiter.check(7).is_allowed());
}

/// The clock is ahead of the caller.
#[test]
fn a_reset_at_a_callers_time_forgives_all_debt() {
    for quota in every_quota(Rate::per_hour(4)) {
        let clock = ManualClock::new();
        clock.set(Timestamp::ZERO + Duration::from_secs(90_000));
        let limiter = Limiter::builder(quota).per::<u64>().clock(clock).build().unwrap();
        let key = limiter.account(7).at(Timestamp::ZERO + Duration::from_secs(72_000));
        assert!(key.check_n(4).is_allowed());
        assert!(key.reset());
        assert_eq!(key.peek_n(0).remaining(), 4, "{quota}");
    }
}

/// Where a key that was never seen has a debt, each tier has its own.
#[test]
fn a_reset_key_has_what_its_tier_gives_anew() {
    let bucket = TokenBucket::new(Rate::per_minute(9));
    let window = FixedWindow::new(Rate::per_hour(9));
    let two: [(Quota, Quota); 2] = [
        (bucket.initial(2).into(), bucket.into()),
        (FixedWindow::new(Rate::per_hour(20)).into(), window.into()),
    ];
    for (free, paid) in two {
        for [first, second] in [[free, paid], [paid, free]] {
            let builder = Limiter::builder(first).per::<u64>().tier(second).clock(ManualClock::new());
            let limiter = builder.build().unwrap();
            if let Quota::FixedWindow(_) = first {
                let larger = |old: Quota| Quota::from(FixedWindow::new(Rate::per_hour(old.limit() * 3)));
                let change = limiter.change().to(larger(first)).tier(1, larger(second));
                change.inherit(Inherit::AsIs).apply().unwrap();
            }
            for key in [0, 1] {
                let account = |name| limiter.account(name).tier(key as usize).unwrap();
                let (new, account) = (account(8).peek_n(0).remaining(), account(key));
                assert!(account.check_n(new).is_allowed());
                assert!(account.reset());
                assert_eq!(account.peek_n(0).remaining(), new, "{first} {second}");
            }
        }
    }
}

#[test]
fn an_account_has_the_tier_that_is_asked_for() {
    let [tiers, ..] = every()[..] else { panic!("there are algorithms") };
    let limiter = limiter(tiers);
    for key in 0..9 {
        assert_eq!(limiter.account(key).check().limit(), LIMITS[0]);
        for (number, limit) in LIMITS.into_iter().enumerate() {
            assert_eq!(limiter.account(key).tier(number).unwrap().peek().limit(), limit);
        }
        assert!(limiter.account(key).tier(LIMITS.len()).is_none());
    }
}

#[test]
fn a_prepared_key_is_copied_and_shared_by_threads() {
    let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(1_000))).per::<u64>().build().unwrap();
    let key = limiter.account(7);
    let admit = |key: Account<'_, TokenBucket, 1, tollgate::TscClock>| {
        (0..1_000).filter(|_| key.check().is_allowed()).count()
    };
    let admitted = std::thread::scope(|scope| {
        let threads = [scope.spawn(move || admit(key)), scope.spawn(move || admit(key))];
        threads.map(|thread| thread.join().unwrap()).iter().sum::<usize>()
    });
    // A burst of a thousand, and at most ten more, as if this took four seconds.
    assert!((1_000..1_010).contains(&admitted), "{admitted}");
}
