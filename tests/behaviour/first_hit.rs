//! Windows of each key's own, and buckets that refill by intervals.

use std::time::Duration;

use tollgate::{
    BuildError, CountPolicy, FixedWindow, Inherit, Limiter, ManualClock, Outcome, Quota, Rate, TokenBucket,
    WhenFull,
};

const SECOND: Duration = Duration::from_secs(1);

fn limiter(quota: impl Into<Quota>, clock: &ManualClock) -> Limiter<str, Quota, 1, ManualClock> {
    Limiter::builder(Into::<Quota>::into(quota))
        .per()
        .clock(clock.clone())
        .build()
        .expect("the quota is valid")
}

/// A clock that is in the middle of a minute.
fn clock() -> ManualClock {
    ManualClock::starting_at(Duration::from_secs(1_700_000_000))
}

#[test]
fn each_keys_window_begins_with_its_first_admission() {
    let clock = clock();
    let limiter = limiter(FixedWindow::new(Rate::per_minute(3)).from_first_hit(), &clock);
    assert!(limiter.check_n("alice", 2).is_allowed());
    clock.advance(30 * SECOND);
    assert!(limiter.check_n("bob", 3).is_allowed());
    assert_eq!(limiter.check_n("alice", 2).retry_after(), Some(30 * SECOND));
    clock.advance(29 * SECOND);
    assert!(limiter.check("alice").is_allowed());
    clock.advance(SECOND);
    // Twice the limit passes around the end of a window.
    assert!(limiter.check_n("alice", 3).is_allowed());
    assert_eq!(limiter.check("alice").retry_after(), Some(60 * SECOND));
    assert_eq!(limiter.check("bob").retry_after(), Some(30 * SECOND));
}

#[test]
fn counted_refusals_end_with_the_keys_window() {
    let clock = clock();
    let quota = FixedWindow::new(Rate::per_minute(3)).count(CountPolicy::All).from_first_hit();
    let limiter = limiter(quota, &clock);
    assert_eq!(limiter.check_n("alice", 4).outcome(), Outcome::Never);
    clock.advance(10 * SECOND);
    assert!(limiter.check_n("alice", 2).is_allowed());
    clock.advance(50 * SECOND);
    assert!(!limiter.check_n("alice", 2).is_allowed());
    assert!(!limiter.check("alice").is_allowed(), "the refusal was counted");
    clock.advance(10 * SECOND);
    assert!(limiter.check_n("alice", 3).is_allowed());
}

#[test]
fn tokens_come_back_at_the_end_of_an_interval() {
    let (clock, quota) = (clock(), TokenBucket::new(Rate::per_minute(5)).burst(12).by_intervals());
    let limiter = limiter(quota, &clock);
    assert!(limiter.check_n("alice", 12).is_allowed());
    let waits = [1, 5, 6, 11].map(|cost| limiter.check_n("alice", cost).retry_after());
    assert_eq!(waits, [40, 40, 100, 160].map(|seconds| Some(seconds * SECOND)));
    clock.advance(40 * SECOND);
    assert_eq!(limiter.account("alice").at(limiter.now()).peek_n(0).remaining(), 5);
    clock.advance(60 * SECOND);
    assert!(limiter.check_n("alice", 10).is_allowed(), "they are carried over");
    clock.advance(24 * 60 * SECOND);
    assert!(!limiter.check_n("alice", 13).is_allowed() && limiter.check_n("alice", 12).is_allowed());
}

/// A configuration that is read again every few seconds must not keep a key out.
#[test]
fn a_quota_set_again_and_again_readmits_a_key() {
    for quota in [
        Quota::from(FixedWindow::new(Rate::per_minute(3)).from_first_hit()),
        TokenBucket::new(Rate::per_minute(3)).by_intervals().into(),
    ] {
        for inherit in [Inherit::AsIs, Inherit::Proportional, Inherit::Additive] {
            let clock = clock();
            let limiter = limiter(quota, &clock);
            assert!(limiter.check_n("alice", 3).is_allowed());
            for _ in 0..14 {
                clock.advance(SECOND * 4);
                limiter.change().to(quota).inherit(inherit).apply().expect("there is room");
            }
            clock.advance(SECOND * 5);
            assert!(limiter.check_n("alice", 3).is_allowed(), "{quota}, {inherit:?}");
        }
    }
}

/// Their debts do not compare at all later times.
#[test]
fn a_full_bucket_refuses_new_keys_of_first_hit_windows() {
    let (clock, quota) = (clock(), FixedWindow::new(Rate::per_minute(3)).from_first_hit());
    let builder = Limiter::builder(quota).per::<u64>().max_keys(1).when_full(WhenFull::Share);
    let limiter = builder.clock(clock.clone()).build().expect("the quota is valid");
    let admitted = (0..200).filter(|key| limiter.check(key).is_allowed()).count();
    assert!(admitted < 100, "{admitted}");
    clock.advance(SECOND);
    let late = (200..300).find_map(|key| limiter.check_n(key, 3).retry_after());
    assert_eq!(late, Some(59 * SECOND));
    clock.advance(59 * SECOND);
    assert!((300..310).all(|key| limiter.check_n(key, 3).is_allowed()));
}

#[test]
fn tiers_refill_their_own_tokens_at_shared_times() {
    let clock = clock();
    let (free, paid) = (TokenBucket::new(Rate::per_minute(4)), TokenBucket::new(Rate::per_minute(6)));
    let (free, paid) = (free.by_intervals(), paid.burst(20).by_intervals());
    let limiter = Limiter::builder(free).per::<str>().tier(paid).clock(clock.clone()).build().unwrap();
    let paid = limiter.account("paid").tier(1).expect("there is one");
    assert!(limiter.check_n("free", 4).is_allowed() && paid.check_n(20).is_allowed());
    clock.advance(40 * SECOND);
    assert_eq!(limiter.account("free").at(limiter.now()).peek_n(0).remaining(), 4);
    assert!(!paid.check_n(7).is_allowed() && paid.check_n(6).is_allowed());
    let of = |count| Quota::from(FixedWindow::new(count).from_first_hit());
    let (a, b) = (TokenBucket::new(Rate::per_minute(4)), TokenBucket::new(Rate::per_hour(4)));
    for (a, b) in [
        (Quota::from(a.by_intervals()), Quota::from(b.by_intervals())),
        (of(Rate::per_minute(4)), of(Rate::per_hour(4))),
    ] {
        let error = Limiter::builder(a).per::<str>().tier(b).build().map(drop).unwrap_err();
        assert_eq!(error, BuildError::TiersDiffer { field: "rate.period" });
    }
}

/// A quota is judged before its clock starts, too.
#[test]
fn a_bucket_by_intervals_fits_alike_at_any_start() {
    let years = |years: u64| Duration::from_secs(years * 31_557_600);
    for (count, fits) in [(1_400_000_000_000_000_000, true), (1_700_000_000_000_000_000, false)] {
        let quota = TokenBucket::new(Rate::new(count, years(6))).by_intervals();
        assert_eq!(Limiter::builder(quota).per::<str>().memory().is_ok(), fits, "{count}");
        for start in [0, 1, 5, 11] {
            let clock = ManualClock::starting_at(years(start));
            let built = Limiter::builder(quota).per::<str>().clock(clock).build();
            assert_eq!(built.is_ok(), fits, "{count} from year {start}");
        }
    }
}
