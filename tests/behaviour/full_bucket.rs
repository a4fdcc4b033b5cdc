//! What a request is told that is refused because its bucket is full.

mod counts;
mod given_back;

use std::sync::mpsc::channel;
use std::time::Duration;

use tollgate::{Limiter, ManualClock, Quota, Rate, ReserveError, Timestamp, TokenBucket, WhenFull};
use tollgate_testing::keys::Fellow;
use tollgate_testing::limits;

const SLOTS: u64 = 15;
const STRANGER: Fellow = Fellow(1_000);

/// Every quota of ten a minute and of 1,013 in 101 seconds (in grains), and each choice under which
/// a full bucket of it refuses.
fn refusing() -> Vec<(Quota, WhenFull)> {
    let rates = [Rate::per_minute(10), Rate::new(1_013, Duration::from_secs(101))];
    rates
        .into_iter()
        .flat_map(limits::every)
        .flat_map(|quota| [(quota, WhenFull::Deny), (quota, WhenFull::Share)])
        .filter(|(quota, when_full)| *when_full == WhenFull::Deny || limits::refuses_when_full(quota))
        .collect()
}

fn start() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_nanos(1_234_567_890_123));
    clock
}

/// Fifteen keys, ten milliseconds apart, each asking for seven.
fn fill(clock: &ManualClock, check: impl Fn(&Fellow) -> bool) {
    for key in 0..SLOTS {
        assert!(check(&Fellow(key)));
        clock.advance(Duration::from_millis(10));
    }
}

/// The wait is the truth: refused a nanosecond before, admitted then.
fn is_admitted_after(wait: Duration, clock: &ManualClock, what: &str, admitted: impl Fn() -> bool) {
    clock.advance(wait - Duration::from_nanos(1));
    assert!(!admitted(), "{what}: a nanosecond before {wait:?}");
    clock.advance(Duration::from_nanos(1));
    assert!(admitted(), "{what}: after {wait:?}");
}

#[test]
fn a_full_buckets_refusal_says_when_a_slot_is_vacant() {
    for (quota, when_full) in refusing() {
        for peeks in [false, true] {
            let clock = start();
            let builder = Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(when_full);
            let limiter = builder.clock(clock.clone()).build().unwrap();
            fill(&clock, |key| limiter.check_n(key, 7).is_allowed());
            let what = format!("{quota}, {when_full:?}");
            let refused = if peeks { limiter.peek(&STRANGER) } else { limiter.check(&STRANGER) };
            assert!(!refused.is_allowed() && !refused.is_never(), "{what}");
            assert_eq!(refused.remaining(), 0, "{what}");
            let wait = refused.retry_after().unwrap();
            assert!(wait > Duration::from_millis(100), "{what}: {wait:?}");
            is_admitted_after(wait, &clock, &what, || limiter.check(&STRANGER).is_allowed());
        }
    }
}

#[test]
fn a_full_bucket_has_nothing_left_for_other_keys() {
    for (quota, when_full) in refusing() {
        let clock = start();
        let builder = Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(when_full);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        fill(&clock, |key| limiter.check_n(key, 7).is_allowed());
        for cost in [0, 2_000] {
            assert_eq!(limiter.check_n(&STRANGER, cost).remaining(), 0, "{quota}, {when_full:?}, {cost}");
        }
        assert!(limiter.check_n(Fellow(14), 0).remaining() > 0, "{quota}: of a key that is in it");
    }
}

#[test]
fn several_limits_say_when_every_table_has_room() {
    for (quota, when_full) in refusing() {
        let clock = start();
        let other = Quota::from(TokenBucket::new(Rate::per_second(1_000)).burst(1_000_000));
        let builder = Limiter::builder([quota, other]).per::<Fellow>().max_keys(1).when_full(when_full);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        fill(&clock, |key| limiter.check_n(key, 7).is_allowed());
        let what = format!("{quota}, {when_full:?}");
        for refused in [limiter.peek(&STRANGER), limiter.check(&STRANGER)] {
            assert!(!refused.is_allowed() && refused.refused_by() == Some(0), "{what}");
            assert_eq!(refused.remaining(), 0, "{what}");
        }
        let wait = limiter.check(&STRANGER).retry_after().unwrap();
        assert!(wait > Duration::from_millis(100), "{what}: {wait:?}");
        is_admitted_after(wait, &clock, &what, || limiter.check(&STRANGER).is_allowed());
    }
}

#[test]
fn a_full_bucket_tells_reservations_when_a_slot_is_vacant() {
    for (quota, when_full) in refusing() {
        if limits::refuses_when_full(&quota) || matches!(quota, Quota::FixedWindow(_)) {
            continue;
        }
        let clock = start();
        let builder = Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(when_full);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        fill(&clock, |key| limiter.check_n(key, 7).is_allowed());
        let what = format!("{quota}, {when_full:?}");
        for patience in [Duration::ZERO, Duration::from_secs(3_600)] {
            let expected = limiter.peek(&STRANGER).retry_after().unwrap();
            match limiter.account(&STRANGER).reserve(1, patience) {
                Err(ReserveError::TooLong { wait }) => assert_eq!(wait, expected, "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        }
    }
}

/// The keys without a slot share half of a limit now. A turn is later, when more is there.
#[test]
fn several_limits_have_a_turn_in_a_full_bucket() {
    let quota = TokenBucket::new(Rate::per_minute(10));
    let builder = Limiter::builder([quota, quota.burst(100)]).per::<Fellow>().max_keys(1);
    let clock = start();
    let limiter = builder.when_full(WhenFull::Share).clock(clock.clone()).build().unwrap();
    fill(&clock, |key| limiter.check_n(key, 10).is_allowed());
    // Half of ten is the shared debt: two tokens more are there after twelve seconds.
    let turn = limiter.account(&STRANGER).reserve(7, Duration::MAX).unwrap();
    assert_eq!(turn.delay(), Duration::from_secs(12));
}

#[test]
fn several_limits_refuse_a_turn_that_never_comes() {
    // A hundred years, and a clock has room for ten.
    let quota = TokenBucket::new(Rate::new(1, Duration::from_secs(365 * 86_400))).burst(100);
    let limiter = Limiter::builder([quota, quota]).per::<u64>().clock(start()).build().unwrap();
    assert!(limiter.check_n(1, 100).is_allowed());
    let (tell, told) = channel();
    // If it never returns, the thread is left behind.
    std::thread::spawn(move || {
        let turn = limiter.account(1).reserve(100, Duration::MAX);
        tell.send(turn.map(|turn| turn.delay()))
    });
    let turn = told.recv_timeout(Duration::from_secs(20)).expect("it returns");
    assert!(matches!(turn, Err(ReserveError::TooLong { .. })), "{turn:?}");
}

/// The turn is later than the strangers' debts, but those still count until then.
#[test]
fn a_turn_of_several_limits_forgets_no_debt() {
    let of = |per, burst| TokenBucket::new(Rate::new(1, Duration::from_secs(per))).burst(burst);
    let builder = Limiter::builder([of(1, 4), of(100, 8)]).per::<Fellow>().max_keys(1);
    let clock = start();
    let limiter = builder.clock(clock.clone()).build().unwrap();
    // In debt to the second limit only, once the strangers have taken its slot in the first.
    for _ in 0..2 {
        assert!(limiter.check_n(&STRANGER, 4).is_allowed());
        clock.advance(Duration::from_secs(5));
    }
    // More than half of the first limit: a key that lost its slot would have two left, not one.
    let fellows = || (0..SLOTS).map(Fellow);
    assert!(fellows().all(|key| limiter.check_n(&key, 3).is_allowed()));
    let turn = limiter.account(&STRANGER).reserve(1, Duration::MAX).unwrap();
    assert_eq!(turn.delay(), Duration::from_secs(90));
    let left = |key| limiter.account(&key).at(limiter.now()).peek_n(0).parts().next().unwrap().remaining();
    assert!(fellows().map(left).all(|left| left <= 1), "{:?}", fellows().map(left).collect::<Vec<_>>());
}

/// Charging the first limit and undoing it would take a slot of its table.
#[test]
fn several_limits_charge_nothing_when_one_table_is_full() {
    let of = |per| TokenBucket::new(Rate::new(1, Duration::from_secs(per))).burst(4);
    let builder = Limiter::builder([of(1), of(100)]).per::<Fellow>().max_keys(1).when_full(WhenFull::Deny);
    let clock = start();
    let limiter = builder.clock(clock.clone()).build().unwrap();
    fill(&clock, |key| limiter.check_n(key, 2).is_allowed());
    clock.advance(Duration::from_secs(5));
    let recycled = limiter.stats().recycled;
    assert_eq!(limiter.check(&STRANGER).refused_by(), Some(1));
    assert_eq!(limiter.stats().recycled, recycled);
}

#[test]
fn a_refusal_tells_that_a_table_is_full() {
    for (quota, when_full) in limits::every(Rate::per_minute(10))
        .into_iter()
        .flat_map(|quota| [(quota, WhenFull::Deny), (quota, WhenFull::Share)])
    {
        let clock = start();
        let builder = Limiter::builder([quota]).per::<Fellow>().max_keys(1).when_full(when_full);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        let is_full = |decision: tollgate::Decision<'_>| {
            decision
                .parts()
                .any(|limit| limit.refuses_full())
                .then(|| assert!(!decision.is_allowed()))
                .is_some()
        };
        fill(&clock, |key| limiter.check_n(key, 7).is_allowed());
        let what = format!("{quota} {when_full:?}");
        // A key with a slot is refused for its own debt, and one that costs too much for good.
        assert!(
            !is_full(limiter.check_n(Fellow(3), 9)) && !is_full(limiter.account(Fellow(3)).peek_n(9)),
            "{what}"
        );
        let limit = quota.limit();
        assert!(!is_full(limiter.check_n(&STRANGER, limit + 1)), "{what}");
        // Strangers use up what they share, if they do.
        let admitted = (0..20).filter(|&key| limiter.check(Fellow(2_000 + key)).is_allowed()).count();
        assert!(admitted < 10, "{what}: {admitted}");
        assert!(is_full(limiter.check(&STRANGER)), "{what}");
        assert!(is_full(limiter.peek(&STRANGER)), "{what}");
    }
}

/// More than the keys without a slot share is there once a slot can be inherited, or is vacant.
#[test]
fn a_new_key_knows_when_it_may_have_much() {
    let sharing = limits::every(Rate::per_minute(10)).into_iter();
    for quota in sharing.filter(|quota| !limits::refuses_when_full(quota)) {
        for (taken, cost) in [0, 2, 5].into_iter().flat_map(|taken| (1..=10).map(move |cost| (taken, cost))) {
            let clock = start();
            let builder = Limiter::builder(quota).per::<Fellow>().max_keys(1).clock(clock.clone());
            let limiter = builder.when_full(WhenFull::Share).build().unwrap();
            fill(&clock, |key| limiter.check_n(key, 7).is_allowed());
            assert!(limiter.check_n(Fellow(1_001), taken).is_allowed());
            let what = format!("{quota}: {cost}, where {taken} are taken");
            let Some(wait) = limiter.account(&STRANGER).peek_n(cost).retry_after() else {
                assert!(limiter.check_n(&STRANGER, cost).is_allowed(), "{what}");
                continue;
            };
            assert_eq!(limiter.check_n(&STRANGER, cost).retry_after(), Some(wait), "{what}");
            is_admitted_after(wait, &clock, &what, || limiter.check_n(&STRANGER, cost).is_allowed());
        }
    }
}

/// The debt is that of several keys: no refusal of one is charged to all, by a check or a peek.
/// Without an allowance there is a slot to inherit, or a refusal; and a smaller table has no room.
#[test]
fn keys_inherit_a_slot_where_they_share_nothing() {
    let quota = TokenBucket::new(Rate::per_minute(10));
    let build =
        |when_full| Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(when_full).clock(start());
    let limiter = build(WhenFull::Inherit).build().unwrap();
    assert!((0..SLOTS).all(|key| limiter.check_n(Fellow(key), 5).is_allowed()));
    assert_eq!(limiter.check_n(&STRANGER, 2).remaining(), 3, "beside half of the limit");
    let large = limiter.check_n(Fellow(2_000), 6);
    assert!(large.is_full() && !large.is_allowed());
    assert_eq!(large.remaining(), 5);

    let limiter = build(WhenFull::Inherit).build().unwrap();
    assert!((0..SLOTS).all(|key| limiter.check_n(Fellow(key), 6).is_allowed()));
    let refused = limiter.check(&STRANGER);
    assert!(refused.is_full() && !refused.is_allowed());
    assert_eq!((refused.remaining(), refused.retry_after()), (0, Some(Duration::from_secs(36))));
    let stats = limiter.stats();
    assert_eq!((stats.refused_full, stats.shared, stats.evicted_with_debt), (1, 0, 0));
    // Of those that share an allowance one is admitted: more of them are in debt than have a slot.
    let shares = build(WhenFull::Share).build().unwrap();
    assert!((0..SLOTS).all(|key| shares.check_n(Fellow(key), 6).is_allowed()));
    assert!(shares.check(&STRANGER).is_allowed());
    let mut file = Vec::new();
    shares.save(&mut file).unwrap();
    assert!(build(WhenFull::Inherit).restore(&file[..]).is_ok(), "the bucket's own debt is as it was");
}

#[test]
fn a_refusal_by_a_shared_allowance_is_not_counted() {
    for quota in limits::counting_all(Rate::per_minute(10)) {
        let clock = start();
        let builder = Limiter::builder(quota).per::<Fellow>().max_keys(1).when_full(WhenFull::Share);
        let limiter = builder.clock(clock.clone()).build().unwrap();
        let multi = Limiter::builder([quota]).per::<Fellow>().max_keys(1).when_full(WhenFull::Share);
        let multi = multi.clock(clock.clone()).build().unwrap();
        fill(&clock, |key| limiter.check_n(key, 7).is_allowed() && multi.check_n(key, 7).is_allowed());
        if limits::refuses_when_full(&quota) {
            continue;
        }
        let asked = |decision: &tollgate::Decision<'_>| {
            (decision.is_allowed(), decision.remaining(), decision.retry_after(), decision.reset_after())
        };
        // Five are shared. Three are taken: a request of three is refused, and two are left.
        assert!(limiter.check_n(&STRANGER, 3).is_allowed() && multi.check_n(&STRANGER, 3).is_allowed());
        let refused = asked(&limiter.account(&STRANGER).peek_n(3));
        assert_eq!((refused.0, refused.1), (false, 2), "{quota}");
        assert_eq!(refused, asked(&limiter.check_n(&STRANGER, 3)), "{quota}");
        assert_eq!(refused, asked(&limiter.check_n(&STRANGER, 3)), "{quota}: nothing was counted");
        let stranger = multi.account(&STRANGER);
        for decision in [stranger.peek_n(3), stranger.check_n(3), stranger.check_n(3)] {
            let limit = decision.parts().next().unwrap();
            assert!(limit.refuses_full() && limit.remaining() == 2, "{quota}: {limit:?}");
        }
        assert!(limiter.check_n(&STRANGER, 2).is_allowed() && stranger.check_n(2).is_allowed(), "{quota}");
    }
}
