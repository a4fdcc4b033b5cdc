//! Checks of new and known keys allocate nothing.
//!
//! The counter replaces the allocator of the whole process and counts for the calling thread, so
//! this file is a test binary of its own.

use std::hint::black_box;
use std::sync::Arc;

use tollgate::{BuildError, CallQuota, Counters, Inherit, Limiter, ManualClock, Quota, Rate, TokenBucket};
use tollgate_testing::limits;

/// Every algorithm, at 5 a second.
fn every() -> Vec<Quota> {
    limits::every(Rate::per_second(5))
}

/// Counts the allocations of `check` on a new limiter of each quota, so that it inserts keys too.
fn counted(check: impl Fn(&Limiter<str, Quota, 1, ManualClock>, &[String])) {
    let keys: Vec<String> = (0..200).map(|key| format!("client number {}", key % 90)).collect();
    for quota in every() {
        let limiter = Limiter::builder(quota).per().clock(ManualClock::new()).max_keys(60).build().unwrap();
        let seen = allocation_counter::measure(|| check(&limiter, &keys));
        assert_eq!(seen.count_total, 0, "{quota}");
        assert!(limiter.usage().live_keys > 50, "{quota}: the keys were checked");
    }
}

#[test]
fn a_check_allocates_nothing() {
    counted(|limiter, keys| {
        for key in keys {
            black_box(limiter.check(key).retry_after());
            black_box(limiter.check_n(key, 9).is_never());
        }
    });
}

#[test]
fn a_call_with_its_quota_allocates_nothing() {
    let default = CallQuota::from_nanos(1, 1).unwrap();
    let limiter =
        Limiter::builder(default).per::<u64>().clock(ManualClock::new()).max_keys(60).build().unwrap();
    let seen = allocation_counter::measure(|| {
        for key in 0..500_u64 {
            let quota = CallQuota::new(Rate::per_second(5), 1 + key % 9).unwrap().lend();
            black_box(limiter.account(key % 300).under(&quota).check_n(key % 3).retry_after());
        }
    });
    assert_eq!(seen.count_total, 0);
    assert!(limiter.usage().live_keys > 50 && limiter.stats().refused_full > 0);
}

#[test]
fn a_batch_allocates_nothing() {
    counted(|limiter, keys| {
        let batch = limiter.check_many(keys.iter().map(String::as_str));
        assert_eq!(black_box(batch.map(|decision| decision.retry_after())).count(), keys.len());
    });
}

#[test]
fn a_prepared_key_allocates_nothing() {
    counted(|limiter, keys| {
        for key in keys {
            let key = limiter.account(key);
            black_box(key.check().retry_after());
            black_box(key.peek().remaining());
        }
    });
}

#[test]
fn a_check_of_several_limits_allocates_nothing() {
    let keys: Vec<String> = (0..200).map(|key| format!("client number {}", key % 90)).collect();
    for quotas in every().chunks(5) {
        let builder = Limiter::builder(quotas.to_vec()).per::<str>().clock(ManualClock::new());
        let limiter = builder.max_keys(60).build().unwrap();
        let seen = allocation_counter::measure(|| {
            for key in &keys {
                let decision = limiter.check_n(key, 2);
                black_box((decision.retry_after(), decision.remaining(), decision.refused_by()));
                limiter.refund(decision);
                black_box(limiter.check(key).reset_after());
                black_box((limiter.check_n(key, 9).is_never(), limiter.peek(key).delay()));
            }
        });
        assert_eq!(seen.count_total, 0);
        assert!(limiter.usage().live_keys > 50, "the keys were checked");
    }
}

#[test]
fn a_lease_allocates_nothing() {
    counted(|limiter, keys| {
        for key in keys {
            let mut lease = limiter.account(key).lease().permits(3);
            black_box(lease.check().is_allowed());
            black_box(lease.check_n(9).is_allowed());
            black_box(lease.check().is_allowed());
        }
    });
}

#[test]
fn an_observed_check_allocates_nothing() {
    let counters = Arc::new(Counters::new());
    let [first, second, third] = [(); 3].map(|()| counters.clone());
    for quota in every() {
        let [first, second, third] = [&first, &second, &third].map(Arc::clone);
        let keyed = Limiter::builder(quota).per::<u64>().clock(ManualClock::new());
        let keyed = keyed.on_decision(move |decision| first.count(decision)).build().unwrap();
        let global = Limiter::builder(quota).per().clock(ManualClock::new());
        let global = global.on_decision(move |decision| second.count(decision)).build().unwrap();
        let several = Limiter::builder([quota, quota]).per::<u64>().clock(ManualClock::new());
        let several = several.on_decision(move |decision| third.count(decision)).build().unwrap();
        let seen = allocation_counter::measure(|| {
            for cost in [1, 5, 9] {
                black_box(keyed.check_n(7, cost).outcome());
                black_box(global.check_n((), cost).outcome());
                black_box(several.check_n(7, cost).outcome());
            }
        });
        assert_eq!(seen.count_total, 0, "{quota}");
    }
    let (counts, each) = (counters.counts(), 3 * every().len() as u64);
    assert_eq!((counts.allowed, counts.denied, counts.never), (each, each, each));
}

/// A limiter of a bucket with so many tiers.
fn tiered(tiers: u64) -> Limiter<str, TokenBucket, 1, ManualClock> {
    let bucket = |tier| TokenBucket::new(Rate::per_day(1)).burst(1 + tier);
    let builder = Limiter::builder(bucket(0)).per().clock(ManualClock::new()).max_keys(60);
    (1..tiers).map(bucket).fold(builder, |builder, tier| builder.tier(tier)).build().unwrap()
}

/// What the documentation of `change` says.
#[test]
fn a_change_keeps_a_kilobyte_or_for_a_list_six() {
    const CHANGES: u64 = 64;
    for tiers in [1, 2, 16, 64] {
        let limiter = tiered(tiers);
        assert!(limiter.check("alice").is_allowed(), "a debt remains of every version");
        let seen = allocation_counter::measure(|| {
            for _ in 0..CHANGES {
                limiter
                    .change()
                    .to(TokenBucket::new(Rate::per_day(1)))
                    .inherit(Inherit::Additive)
                    .apply()
                    .unwrap();
            }
        });
        let kept = seen.bytes_current as u64 / CHANGES;
        println!("{tiers} tiers: {kept} bytes a change");
        assert!(kept <= 1_024 * (tiers + 1), "{tiers} tiers: {kept} bytes a change");
    }
    let list = |count| vec![Quota::from(TokenBucket::new(Rate::per_day(count)))];
    let limiter = Limiter::builder(list(1)).per::<str>().clock(ManualClock::new()).build().unwrap();
    assert!(limiter.check("alice").is_allowed(), "a debt remains");
    let seen = allocation_counter::measure(|| {
        (0..CHANGES)
            .for_each(|more| limiter.change().to(list(2 + more)).inherit(Inherit::Additive).apply().unwrap());
    });
    let kept = seen.bytes_current as u64 / CHANGES;
    println!("a list: {kept} bytes a change");
    assert!(kept <= 7 * 1_024, "a list: {kept} bytes a change");
}

/// A debt is read through every change since, in every tier.
#[test]
fn more_tiers_are_changed_less_often_while_a_debt_remains() {
    for (tiers, most) in [(1, 1_024), (16, 1_024), (64, 256), (128, 128)] {
        let limiter = tiered(tiers);
        assert!(limiter.check("alice").is_allowed());
        let change =
            || limiter.change().to(TokenBucket::new(Rate::per_day(1))).inherit(Inherit::Additive).apply();
        let made = (0..2_000).find(|_| change() == Err(BuildError::ChangedTooOften));
        assert_eq!(made, Some(most), "{tiers} tiers");
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocation_counter::measure(|| drop(black_box(Box::new(7)))).count_total, 1);
}
