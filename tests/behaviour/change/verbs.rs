//! The other verbs across a change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::Inherit::{Additive, AsIs, Proportional, Reset};
use tollgate::{
    CountPolicy, FixedWindow, Inherit, Limiter, ManualClock, Rate, SlidingLog, SlidingWindow, Timestamp,
    TokenBucket,
};

use super::{SECOND, at, bucket, global, keyed, left, per};

const ALL: [Inherit; 4] = [AsIs, Proportional, Additive, Reset];

#[test]
fn a_prepared_key_is_checked_by_the_new_quota() {
    let clock = ManualClock::new();
    let builder = Limiter::builder(bucket(10, 10)).per::<u64>().tier(bucket(20, 20)).clock(clock);
    let limiter = builder.build().unwrap();
    let tier = |key: u64| limiter.account(key).tier(1).unwrap();
    let (prepared, of_tier) = (limiter.account(7), tier(8));
    let mut batch = limiter.check_many(&[1, 2]);
    assert_eq!(batch.next().unwrap().limit(), 10);
    limiter.change().to(bucket(10, 30)).tier(1, bucket(20, 40)).inherit(Additive).apply().unwrap();
    assert_eq!(prepared.check_n(30).limit(), 30);
    assert_eq!((prepared.peek().limit(), prepared.peek().remaining()), (30, 0));
    assert_eq!((tier(9).check().limit(), of_tier.check_n(40).remaining()), (40, 0));
    assert_eq!(batch.next().unwrap().limit(), 30, "a batch that has begun");
    assert!(limiter.check_many(&[1, 2]).all(|decision| decision.limit() == 30));
}

#[test]
fn decisions_by_the_new_quota_are_observed() {
    let told = Arc::new(AtomicU64::new(0));
    let sum = told.clone();
    let builder = Limiter::builder(bucket(10, 10)).per::<u64>().clock(ManualClock::new());
    let limiter = builder.on_decision(move |decision| {
        sum.fetch_add(decision.limit(), Ordering::Relaxed);
    });
    let limiter = limiter.build().unwrap();
    assert!(limiter.check(7).is_allowed());
    limiter.change().to(bucket(10, 300)).inherit(AsIs).apply().unwrap();
    assert!(limiter.check(7).is_allowed() && limiter.check_n(7, 299).retry_after().is_some());
    assert_eq!(told.load(Ordering::Relaxed), 10 + 300 + 300);
}

#[test]
fn a_change_that_names_nothing_changes_nothing() {
    let limiter = Limiter::builder(bucket(1, 10)).per::<u64>().clock(ManualClock::new()).build().unwrap();
    assert!(limiter.check_n(7, 4).is_allowed());
    // Nor does it take room: while a debt remains, a thousand changes are too many.
    for _ in 0..2_000 {
        limiter.change().inherit(Reset).check().unwrap();
        limiter.change().inherit(Reset).apply().unwrap();
    }
    assert_eq!(left(&limiter, 7), 6);
    // Unless it says otherwise, the debt stays.
    limiter.change().to(bucket(1, 20)).apply().unwrap();
    assert_eq!(left(&limiter, 7), 16);
}

#[test]
fn permits_of_a_lease_outlive_a_change_but_no_reset() {
    for inherit in ALL {
        let (limiter, _) = keyed(bucket(1, 10));
        let mut lease = limiter.account(7).lease().permits(4);
        assert!(lease.check().is_allowed());
        limiter.change().to(bucket(1, 8)).inherit(inherit).apply().unwrap();
        let spent = (0..100).filter(|_| lease.check().is_allowed()).count() as u64;
        // Four units were charged before the change, which left six of ten.
        let expected = match inherit {
            AsIs => 3 + 6,
            Proportional => 3 + 6 * 8 / 10,
            Additive => 3 + 4,
            _ => 8,
        };
        assert_eq!(spent, expected, "{inherit:?}");
    }
}

#[test]
fn a_lease_acquires_under_the_new_quota() {
    let (limiter, _) = global(bucket(1, 10));
    let mut lease = limiter.account(()).lease().permits(50);
    assert!((0..10).all(|_| lease.check().is_allowed()) && !lease.check().is_allowed());
    limiter.change().to(bucket(1, 60)).inherit(Additive).apply().unwrap();
    assert!(lease.check().is_allowed());
    assert_eq!(lease.held(), 49);
}

#[test]
fn a_reset_after_a_change_gives_the_new_burst() {
    let (limiter, clock) = keyed(bucket(1, 10));
    assert!(limiter.check_n(7, 10).is_allowed() && limiter.check_n(8, 10).is_allowed());
    limiter.change().to(bucket(1, 20)).inherit(Additive).apply().unwrap();
    assert!(limiter.account(7).reset());
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (20, 10));
    clock.advance(Duration::from_secs(10));
    assert_eq!(limiter.usage().live_keys, 0);
    let (limiter, _) = global(bucket(1, 10));
    assert!(limiter.check_n((), 10).is_allowed());
    limiter.change().to(bucket(1, 20)).inherit(AsIs).apply().unwrap();
    limiter.account(()).reset();
    // As a new bucket.
    assert_eq!(limiter.account(()).at(limiter.now()).peek_n(0).remaining(), 10);
}

/// Saves the limiter and restores it `later` nanoseconds after.
fn restarted<A: tollgate::Algorithm>(
    limiter: &Limiter<u64, A, 1, ManualClock>,
    quota: A,
    later: u64,
) -> Limiter<u64, A, 1, ManualClock> {
    let mut file = Vec::new();
    limiter.save(&mut file).unwrap();
    let unix = Duration::from_nanos(limiter.now().as_nanos() + later);
    Limiter::builder(quota).per().clock(ManualClock::starting_at(unix)).restore(&file[..]).unwrap()
}

#[test]
fn a_changed_limiter_is_restored_with_the_current_quota() {
    for inherit in ALL {
        for (old, new) in [((10, 10), (1, 40)), ((3, 100), (7, 50)), ((14_500, 60), (1, 100))] {
            let (limiter, clock) = keyed(bucket(old.0, old.1));
            clock.set(at(5 * SECOND));
            assert!(limiter.check_n(7, 8).is_allowed() && limiter.check_n(8, 8).is_allowed());
            let quota = bucket(new.0, new.1);
            limiter.change().to(quota).inherit(inherit).apply().unwrap();
            clock.set(at(6 * SECOND));
            let _ = (limiter.check_n(8, 2), limiter.check_n(9, 3));
            for later in [0, SECOND, 9 * SECOND] {
                let again = restarted(&limiter, quota, later);
                let then = limiter.now() + Duration::from_nanos(later);
                for key in [7, 8, 9, 10] {
                    let expected = limiter.account(key).at(then).peek_n(0).remaining();
                    assert_eq!(
                        left(&again, key),
                        expected,
                        "{inherit:?} {old:?} {new:?} key {key} later {later}"
                    );
                }
            }
        }
    }
}

#[test]
fn windows_and_logs_that_were_changed_are_restored() {
    let fixed = |limit, nanos| FixedWindow::new(per(limit, nanos));
    let (limiter, clock) = keyed(fixed(10, SECOND));
    clock.set(at(5 * SECOND));
    assert!(limiter.check_n(7, 4).is_allowed());
    let quota = fixed(25, 60 * SECOND);
    limiter.change().to(quota).inherit(Additive).apply().unwrap();
    assert!(limiter.check_n(8, 5).is_allowed());
    let again = restarted(&limiter, quota, SECOND);
    assert_eq!([7, 8, 9].map(|key| left(&again, key)), [21, 20, 25]);
    let again = restarted(&limiter, quota, 55 * SECOND);
    assert_eq!([7, 8, 9].map(|key| left(&again, key)), [25, 25, 25]);

    let sliding = |limit| SlidingWindow::new(per(limit, SECOND));
    let (limiter, _) = keyed(sliding(1_000_000));
    assert!(limiter.check_n(7, 600_000).is_allowed());
    limiter.change().to(sliding(700_000)).inherit(Additive).apply().unwrap();
    let again = restarted(&limiter, sliding(700_000), 0);
    assert_eq!((left(&again, 7), left(&again, 8)), (100_000, 700_000));

    let log = |limit| SlidingLog::new(per(limit, SECOND));
    let (limiter, clock) = keyed(log(10));
    assert!(limiter.check_n(7, 5).is_allowed());
    clock.set(at(SECOND / 2));
    assert!(limiter.check_n(7, 3).is_allowed());
    limiter.change().to(log(6)).inherit(Additive).apply().unwrap();
    assert_eq!(left(&restarted(&limiter, log(6), 0), 7), 0);
    assert_eq!(left(&restarted(&limiter, log(6), SECOND / 2), 7), 3);
}

#[test]
fn a_restored_limiter_can_be_changed() {
    let (limiter, clock) = keyed(TokenBucket::new(Rate::per_hour(100)).burst(100));
    assert!(limiter.check_n(7, 90).is_allowed());
    // A reservation far ahead of the next process's clock.
    let place = limiter.account(8).reserve(100, Duration::ZERO).unwrap();
    drop(place);
    drop(limiter.account(8).reserve(100, Duration::from_secs(7_200)).unwrap());
    clock.set(at(SECOND));
    let quota = TokenBucket::new(Rate::per_hour(100)).burst(100);
    let again = restarted(&limiter, quota, 0);
    again.change().to(quota.burst(200)).inherit(Additive).apply().unwrap();
    assert_eq!(left(&again, 7), 110);
    let wait = again.check_n(8, 200).retry_after().unwrap();
    assert!(wait > Duration::from_secs(3_600 * 2 - 10), "{wait:?}");
    let third = restarted(&again, quota.burst(200), 0);
    assert_eq!(left(&third, 7), 110);
}

#[test]
fn ten_years_of_uptime_hold_a_hundred_changes() {
    const YEAR: u64 = 31_557_600 * SECOND;
    let (limiter, clock) = keyed(bucket(1_000, 1_000));
    let mut now = 0;
    for turn in 0..100 {
        now += YEAR / 10;
        clock.set(at(now - 1));
        assert!(limiter.check_n(7, limiter.peek(7).limit()).is_allowed(), "{turn}");
        limiter
            .change()
            .to(bucket(1_000 + turn % 3, 1_000 + turn % 5))
            .inherit(Proportional)
            .apply()
            .unwrap();
        assert!(!limiter.check(7).is_allowed(), "{turn}");
        clock.set(at(now + SECOND));
        assert!(limiter.check_n(7, 900).is_allowed(), "{turn}");
    }
}

#[test]
fn times_far_ahead_need_room_and_mint_nothing() {
    let (limiter, clock) = keyed(bucket(10, 10));
    let ahead = at(8 * 31_557_600 * SECOND);
    assert!(limiter.account(7).at(ahead).check_n(10).is_allowed());
    // The horizon is eight years ahead: there is room for a few more such versions.
    let mut changes = 0;
    while limiter.change().to(bucket(10, 10)).inherit(AsIs).apply().is_ok() && changes < 100 {
        assert!(
            limiter.account(7).at(ahead + Duration::from_secs(10)).check_n(10).is_allowed() || changes > 0
        );
        changes += 1;
    }
    assert!(changes < 100, "{changes}");
    clock.set(at(SECOND));
    assert!(!limiter.check(7).is_allowed());
    assert!(limiter.check_n(8, 10).is_allowed() && !limiter.check(8).is_allowed());
}

#[test]
fn refused_requests_that_count_go_on_counting() {
    let quota = |limit| FixedWindow::new(per(limit, SECOND)).count(CountPolicy::All);
    let (limiter, clock) = keyed(quota(4));
    assert!(limiter.check_n(7, 4).is_allowed() && !limiter.check_n(7, 2).is_allowed());
    limiter.change().to(quota(8)).inherit(Additive).apply().unwrap();
    assert_eq!(left(&limiter, 7), 2);
    assert!(!limiter.check_n(7, 3).is_allowed());
    assert_eq!(left(&limiter, 7), 0, "that counted, too");
    clock.set(at(SECOND));
    assert_eq!(left(&limiter, 7), 8);
}

#[test]
fn concurrent_changes_exclude_one_another() {
    let limiter = Limiter::builder(bucket(1, 100)).clock(ManualClock::new()).build().unwrap();
    std::thread::scope(|scope| {
        for burst in [50, 70] {
            let limiter = &limiter;
            scope.spawn(move || {
                for _ in 0..200 {
                    limiter.change().to(bucket(1, burst)).inherit(AsIs).apply().unwrap();
                    let _ = limiter.account(()).at(Timestamp::ZERO).check();
                }
            });
        }
    });
    assert!([50, 70].contains(&limiter.peek(()).limit()));
}

/// Five billion tokens cost 158 years at one a second.
#[test]
fn a_change_keeps_ten_years_of_a_longer_debt() {
    let fast = per(1, 1);
    let (limiter, _) = global(TokenBucket::new(fast));
    assert_eq!(limiter.account(()).debit(5_000_000_000).unwrap().cost(), 5_000_000_000);
    limiter.change().to(TokenBucket::new(Rate::per_second(1))).inherit(AsIs).apply().unwrap();
    let wait = limiter.check(()).retry_after().unwrap();
    assert!(wait > 10 * Duration::from_secs(31_557_600), "{wait:?}");
    // The rest is not remembered.
    limiter.change().to(TokenBucket::new(fast)).inherit(AsIs).apply().unwrap();
    let wait = limiter.check(()).retry_after().unwrap().as_nanos();
    assert!((315_576_000..5_000_000_000).contains(&wait), "{wait}");
}
