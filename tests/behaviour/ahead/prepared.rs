//! What `prepare` promises.

use std::time::Duration;

use tollgate::{Limiter, ManualClock, Prepared, Rate, Timestamp, TokenBucket, WhenFull};

use super::{Counting, LIMITS, SECOND, all_of, every, limiter};

#[test]
fn a_prepared_key_decides_as_its_limiter_does() {
    for tiers in every() {
        let (ahead, plain) = (limiter(tiers), limiter(tiers));
        for key in 0..6 {
            let prepared = ahead.prepare(&key);
            for step in 0..60_u64 {
                let now = Timestamp::ZERO + Duration::from_millis(step * 90);
                // Costs of nothing, of some, and of more than every limit.
                let cost = [1, 0, 2, 8][step as usize % 4];
                assert_eq!(
                    all_of(prepared.peek_n_at(cost, now)),
                    all_of(plain.peek_n_at(&key, cost, now)),
                    "{tiers:?}"
                );
                assert_eq!(
                    all_of(prepared.check_n_at(cost, now)),
                    all_of(plain.check_n_at(&key, cost, now)),
                    "{tiers:?}"
                );
                assert_eq!(all_of(prepared.check_at(now)), all_of(plain.check_at(&key, now)), "{tiers:?}");
            }
        }
    }
}

#[test]
fn a_prepared_key_reads_the_limiters_clock() {
    let clock = Counting::default();
    let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1))).clock(clock.clone());
    let limiter = limiter.build().unwrap();
    let key = limiter.prepare(&7);
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
    let _ = limiter.prepare(&7);
    assert!(limiter.is_empty());
    assert_eq!(limiter.check(&7).remaining(), limiter.check(&10).remaining());
}

/// A table of four buckets, so that sixty keys are all that it holds.
fn small(clock: &ManualClock) -> Limiter<u64, TokenBucket, ManualClock> {
    Limiter::builder(TokenBucket::new(Rate::per_second(2)))
        .max_keys(1)
        .when_full(WhenFull::Deny)
        .clock(clock.clone())
        .build()
        .unwrap()
}

/// Checks other keys until every slot of the table is theirs.
fn crowd(limiter: &Limiter<u64, TokenBucket, ManualClock>) {
    for key in 1_000..2_000 {
        let _ = limiter.check_n(&key, 2);
    }
    assert_eq!(limiter.len(), 60, "four buckets of fifteen");
}

#[test]
fn a_prepared_key_is_itself_after_others_took_its_slot() {
    let clock = ManualClock::new();
    let limiter = small(&clock);
    let key = limiter.prepare(&7);
    assert_eq!(key.check_n(2).remaining(), 0);
    // It owes nothing any more, and each slot is somebody else's.
    clock.advance(SECOND);
    crowd(&limiter);
    assert!(
        !key.check().is_allowed(),
        "there is no room for it, and no other key's debt or right is its own"
    );
    assert_eq!(limiter.len(), 60);
    assert!(
        (1_000..2_000).all(|other| !limiter.check(&other).is_allowed()),
        "nobody was charged or forgiven"
    );
    // They owe nothing any more: it is new, in whatever slot it finds.
    clock.advance(SECOND);
    assert_eq!(key.check().remaining(), 1);
    assert_eq!(limiter.check(&7).remaining(), 0, "one key, whoever asks");
    assert!(!key.check().is_allowed());
    assert_eq!(limiter.len(), 1);
}

#[test]
fn a_prepared_key_is_forgiven_by_a_reset() {
    let clock = ManualClock::new();
    let limiter = small(&clock);
    let key = limiter.prepare(&7);
    assert!(key.check_n(2).is_allowed());
    assert!(!key.check().is_allowed());
    assert!(limiter.reset(&7));
    assert!(key.check_n(2).is_allowed());
    assert!(!limiter.check(&7).is_allowed());
}

#[test]
fn a_prepared_key_has_its_own_tier() {
    let [tiers, ..] = every()[..] else { panic!("there are algorithms") };
    let limiter = limiter(tiers);
    for key in 0..9 {
        assert_eq!(limiter.prepare(&key).check().limit(), LIMITS[key as usize % 3]);
        for (number, limit) in LIMITS.into_iter().enumerate() {
            let tier = limiter.tier(number).unwrap();
            assert_eq!(tier.prepare(&key).peek().limit(), limit, "asked for, so not its own");
        }
    }
}

#[test]
fn a_prepared_key_is_copied_and_shared_by_threads() {
    let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_hour(1_000))).build().unwrap();
    let key = limiter.prepare(&7);
    let admit =
        |key: Prepared<'_, u64, TokenBucket, _>| (0..1_000).filter(|_| key.check().is_allowed()).count();
    let admitted = std::thread::scope(|scope| {
        let threads = [scope.spawn(move || admit(key)), scope.spawn(move || admit(key))];
        threads.map(|thread| thread.join().unwrap()).iter().sum::<usize>()
    });
    // A thousand at once, and one more if this took four seconds.
    assert!((1_000..1_010).contains(&admitted), "{admitted}");
}
