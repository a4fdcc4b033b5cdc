//! Changes of several limits on one key, together or of one alone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::Inherit::{Additive, AsIs, Proportional, Reset};
use tollgate::{
    BuildError, Clock, Decision, FixedWindow, LeakyBucket, Leased, Limiter, MOST_LIMITS, ManualClock, Quota,
    Rate, ReserveError, SlidingLog, SlidingWindow, Timestamp, TokenBucket,
};
use tollgate_testing::limits::list;

use super::{SECOND, at, bucket};

pub(crate) type Several = Limiter<u64, Quota, MOST_LIMITS, ManualClock>;

/// These limits on a clock that stands still.
pub(crate) fn several(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> (Several, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(list(quotas)).per().clock(clock.clone()).max_keys(100).build().unwrap();
    (limiter, clock)
}

/// The units that each limit has left.
pub(crate) fn left(limiter: &Several, key: u64) -> Vec<u64> {
    limiter.account(key).at(limiter.now()).peek_n(0).parts().map(|part| part.remaining()).collect()
}

/// The limits in a decision.
fn limits(decision: &Decision<'_, MOST_LIMITS>) -> Vec<u64> {
    decision.parts().map(|part| part.limit()).collect()
}

/// Every algorithm at `limit` an hour.
fn every(limit: u64) -> [Quota; 7] {
    let rate = Rate::per_hour(limit);
    [
        SlidingLog::new(rate).into(),
        LeakyBucket::queue(rate).into(),
        TokenBucket::new(rate).into(),
        SlidingWindow::new(rate).into(),
        LeakyBucket::meter(rate).into(),
        FixedWindow::new(rate).into(),
        SlidingWindow::new(rate).subwindows(4).into(),
    ]
}

#[test]
fn each_limit_inherits_as_the_change_says() {
    for (inherit, expected) in
        [(AsIs, [6, 16]), (Proportional, [12, 24]), (Additive, [16, 26]), (Reset, [20, 30])]
    {
        let quotas = |one, two| [Quota::from(bucket(1, one)), FixedWindow::new(Rate::per_hour(two)).into()];
        let (limiter, _) = several(quotas(10, 20));
        assert!(limiter.check_n(7, 4).is_allowed());
        limiter.change().to(list(quotas(20, 30))).inherit(inherit).apply().unwrap();
        assert_eq!(left(&limiter, 7), expected, "{inherit:?}");
        let most = expected[0].min(expected[1]);
        assert!(limiter.check_n(7, most).is_allowed() && !limiter.check(7).is_allowed(), "{inherit:?}");
    }
}

/// The turn is later than any check could be charged for.
#[test]
fn a_turn_of_one_limit_survives_a_change() {
    let (limiter, _) = several([bucket(1, 2)]);
    assert!(limiter.check_n(7, 2).is_allowed());
    let turn = limiter.account(7).reserve(2, Duration::MAX).unwrap();
    assert_eq!(turn.delay(), Duration::from_secs(2));
    limiter.change().to(list([bucket(1, 4)])).inherit(AsIs).apply().unwrap();
    let refused = limiter.account(7).reserve(4, Duration::ZERO).map(|turn| turn.delay());
    assert_eq!(refused, Err(ReserveError::TooLong { wait: Duration::from_secs(6) }));
}

#[test]
fn a_change_of_one_limit_keeps_the_others_debt() {
    for number in 0..7 {
        let (limiter, _) = several(every(10));
        assert!(limiter.check_n(7, 4).is_allowed());
        // The log has room for ten times, so its limit shrinks.
        limiter.change().limit(number, every(8)[number]).inherit(Additive).apply().unwrap();
        let mut expected = [6; 7];
        expected[number] = 4;
        assert_eq!(left(&limiter, 7), expected, "{number}");
        let refused = limiter.check_n(7, 5);
        assert_eq!(refused.refused_by(), Some(number));
        assert!(limiter.check_n(7, 4).is_allowed() && !limiter.check(7).is_allowed());
        // Every other limit has room for two, as at the beginning.
        let (limits, fours) = (limits(&limiter.peek(7)), [4; 7]);
        assert!(limits.iter().enumerate().all(|(at, limit)| *limit == if at == number { 8 } else { 10 }));
        assert!(left(&limiter, 7).iter().zip(fours).all(|(left, four)| *left <= four));
    }
}

#[test]
fn one_limit_is_forgiven_and_no_other() {
    for number in [1, 2, 4, 5] {
        let (limiter, _) = several(every(10));
        assert!(limiter.check_n(7, 4).is_allowed());
        limiter.change().limit(number, every(10)[number]).inherit(Reset).apply().unwrap();
        let mut expected = [6; 7];
        expected[number] = 10;
        assert_eq!(left(&limiter, 7), expected, "{number}");
    }
}

#[test]
fn a_change_can_make_a_cost_possible_or_impossible() {
    let (limiter, _) = several([bucket(1, 5), bucket(1, 9)]);
    assert!(limiter.check_n(7, 6).is_never());
    limiter.change().to(list([bucket(1, 7), bucket(1, 9)])).inherit(Additive).apply().unwrap();
    assert!(limiter.check_n(7, 6).is_allowed());
    limiter.change().limit(1, bucket(1, 2).into()).inherit(Additive).apply().unwrap();
    let never = limiter.check_n(8, 3);
    assert_eq!((never.is_never(), never.refused_by()), (true, Some(1)));
    assert!(limiter.check_n(8, 2).is_allowed());
}

/// A change rejected by one limit changes no limit.
#[test]
fn a_change_that_one_limit_refuses_changes_none() {
    let (limiter, _) = several(every(10));
    assert!(limiter.check_n(7, 4).is_allowed());
    let mut other = every(12);
    other[0] = SlidingLog::new(Rate::per_hour(10)).into();
    let with = |number: usize, quota: Quota| {
        let mut quotas = other;
        quotas[number] = quota;
        quotas
    };
    let hour = Rate::per_hour(12);
    let cases = [
        (with(0, SlidingLog::new(Rate::per_minute(10)).into()), Additive, "rate.period"),
        (with(1, LeakyBucket::queue(Rate::per_hour(0)).into()), Additive, "rate.count"),
        (with(2, FixedWindow::new(hour).into()), Additive, "algorithm"),
        (with(3, SlidingWindow::new(Rate::per_day(12)).into()), Additive, "rate.period"),
        (other, Proportional, "inherit"),
        (other, Reset, "inherit"),
    ];
    for (quotas, inherit, field) in cases {
        match limiter.change().to(list(quotas)).inherit(inherit).apply() {
            Err(BuildError::CannotInherit { field: named } | BuildError::OutOfRange { field: named, .. }) => {
                assert_eq!(named, field);
            }
            result => panic!("{field}: {result:?}"),
        }
    }
    assert_eq!(
        limiter.change().to(list(other.into_iter().skip(1))).inherit(Additive).apply(),
        Err(BuildError::CannotInherit { field: "limits" })
    );
    let outside = limiter.change().limit(7, other[0]).inherit(Additive).apply();
    assert_eq!(outside, Err(BuildError::OutOfRange { field: "limit", value: 7, min: 0, max: 6 }));
    assert_eq!((left(&limiter, 7), limits(&limiter.peek(7))), (vec![6; 7], vec![10; 7]));
    // Nor do they come with the next change.
    limiter.change().limit(6, every(10)[6]).inherit(Additive).apply().unwrap();
    assert_eq!((left(&limiter, 7), limits(&limiter.peek(7))), (vec![6; 7], vec![10; 7]));
    limiter.change().to(list(other)).inherit(Additive).apply().unwrap();
    assert_eq!(limits(&limiter.peek(7)), [10, 12, 12, 12, 12, 12, 12]);
}

#[test]
fn a_decision_keeps_the_numbers_of_its_quotas() {
    let (limiter, _) = several([bucket(1, 10), bucket(1, 20)]);
    let decision = limiter.check_n(7, 4);
    limiter.change().to(list([bucket(1, 100), bucket(1, 200)])).inherit(Reset).apply().unwrap();
    assert_eq!((limits(&decision), decision.remaining()), (vec![10, 20], 6));
}

#[test]
fn a_refund_after_a_change_is_as_one_before_it() {
    let (limiter, _) = several([bucket(1, 10), bucket(1, 20)]);
    assert!(limiter.check_n(7, 4).is_allowed());
    let taken = limiter.check_n(7, 3);
    limiter.change().to(list([bucket(1, 20), bucket(1, 40)])).inherit(Proportional).apply().unwrap();
    assert_eq!(limiter.refund(taken), 3);
    assert_eq!(left(&limiter, 7), [12, 32]);
    let kept = limiter.check_n(7, 2);
    limiter.change().to(list([bucket(1, 20), bucket(1, 40)])).inherit(AsIs).apply().unwrap();
    assert!(limiter.check(7).is_allowed());
    assert_eq!(limiter.refund(kept), 0, "the key was charged under the new quotas");
    assert_eq!(left(&limiter, 7), [9, 29]);
}

#[test]
fn a_reset_after_a_change_forgives_every_limit() {
    let (limiter, _) = several(every(10));
    assert!(limiter.check_n(7, 10).is_allowed());
    limiter.change().to(list(every(9))).inherit(Additive).apply().unwrap();
    assert_eq!(left(&limiter, 7), [0; 7]);
    assert!(limiter.account(7).reset());
    assert_eq!((left(&limiter, 7), limiter.usage().live_keys), (vec![9; 7], 0));
}

#[test]
fn keys_in_debt_across_a_change_are_counted() {
    let (limiter, clock) = several([bucket(1, 10), bucket(1, 20)]);
    for key in 0..50 {
        assert!(limiter.check_n(key, 10).is_allowed());
    }
    limiter.change().to(list([bucket(1, 20), bucket(1, 40)])).inherit(Additive).apply().unwrap();
    assert_eq!(limiter.usage().live_keys, 50);
    assert!((0..50).all(|key| left(&limiter, key) == [10, 30]));
    clock.advance(Duration::from_secs(10));
    assert_eq!(limiter.usage().live_keys, 0);
}

/// Of two limits, one needs much room for each change and decides for both.
#[test]
fn too_many_changes_are_an_error() {
    let slow = TokenBucket::new(Rate::per_day(1)).burst(100);
    let (limiter, _) = several([bucket(10, 10), slow]);
    assert!(limiter.check_n(7, 9).is_allowed());
    let changes = (0..10_000).take_while(|_| {
        match limiter.change().to(list([bucket(10, 10), slow])).inherit(AsIs).apply() {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error, BuildError::ChangedTooOften);
                false
            }
        }
    });
    let changes = changes.count();
    assert!((100..=1_025).contains(&changes), "{changes}");
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (vec![1, 91], vec![10, 100]));
    assert!(limiter.check(7).is_allowed() && !limiter.check(7).is_allowed());
}

#[test]
fn a_checked_change_can_be_made_and_taken_back() {
    let slow = |burst| [TokenBucket::new(Rate::per_day(1)).burst(burst)];
    let (limiter, clock) = several(slow(100));
    assert!(limiter.check_n(7, 90).is_allowed());
    let refused = (1..10_000).find_map(|change| {
        clock.advance(Duration::from_secs(1));
        let before = left(&limiter, 7);
        let checked = limiter.change().to(list(slow(200 + change % 2))).inherit(Additive).check();
        assert_eq!(left(&limiter, 7), before, "a check changes nothing");
        match checked {
            Ok(()) => limiter.change().to(list(slow(200 + change % 2))).inherit(Additive).apply().unwrap(),
            Err(error) => return Some((change, error)),
        }
        None
    });
    let (change, error) = refused.expect("changes are not without end");
    assert_eq!(error, BuildError::ChangedTooOften);
    assert!((100..=1_024).contains(&change), "{change}");
    clock.advance(Duration::from_secs(59));
    limiter.change().to(list(slow(201))).inherit(Additive).apply().unwrap();
    assert_eq!(left(&limiter, 7), [111]);
    let none: [Quota; 0] = [];
    assert_eq!(
        limiter.change().to(list(none)).inherit(Additive).check(),
        Err(BuildError::CannotInherit { field: "limits" })
    );
}

/// The horizon of a version is a second ahead. A later check extends it, by any of the limits.
#[test]
fn time_goes_on_for_every_limit_between_and_after_changes() {
    let quotas = [bucket(1, 3), TokenBucket::new(Rate::per_hour(1_000_003)).burst(2_000)];
    let window = FixedWindow::new(Rate::per_minute(5));
    let (limiter, clock) = several([quotas[0].into(), quotas[1].into(), Quota::from(window)]);
    for minute in 1..=20 {
        assert_eq!((0..9).filter(|_| limiter.check(7).is_allowed()).count(), 3, "minute {minute}");
        clock.set(at(minute * 60 * SECOND - SECOND));
        assert_eq!((0..9).filter(|_| limiter.check(7).is_allowed()).count(), 2, "minute {minute}");
        let wait = limiter.check_n(7, 2).retry_after();
        clock.set(at(minute * 60 * SECOND));
        assert_eq!(wait, Some(Duration::from_secs(1)), "minute {minute}");
        if minute % 3 == 0 {
            limiter.change().limit(0, bucket(1, 3).into()).inherit(Reset).apply().unwrap();
        } else {
            clock.set(at(minute * 60 * SECOND + 2 * SECOND));
        }
    }
}

/// A clock that runs a hook once, during a reading.
struct Hooked {
    time: ManualClock,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Hooked {
    fn now(&self) -> Timestamp {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.time.now()
    }
}

/// The change ends the old version for all limits, whichever limit extends its horizon first.
#[test]
fn a_check_during_a_change_uses_one_version_only() {
    for known in [false, true] {
        let quotas = |rate, bursts: [u64; 2]| bursts.map(|burst| TokenBucket::new(rate).burst(burst));
        let clock = Arc::new(Hooked { time: ManualClock::new(), hook: Mutex::new(None) });
        let builder = Limiter::builder(list(quotas(Rate::per_second(7), [10, 20]))).per::<u64>();
        let limiter = Arc::new(builder.clock(clock.clone()).build().unwrap());
        assert!(!known || limiter.check(7).is_allowed());
        let (changes, time) = (limiter.clone(), clock.time.clone());
        *clock.hook.lock().unwrap() = Some(Box::new(move || {
            changes.change().to(list(quotas(Rate::per_day(1), [11, 21]))).inherit(Additive).apply().unwrap();
            time.set(at(8 * SECOND));
        }));
        let decision = limiter.check_n(7, 8);
        assert!(decision.is_allowed(), "{known}");
        let remaining = 2 - u64::from(known);
        assert_eq!((limits(&decision), decision.remaining()), (vec![10, 20], remaining), "{known}");
        // The check counts as before the change, and the old rate has not paid for it since.
        let after = limiter.account(7).at(limiter.now()).peek_n(0);
        let left: Vec<u64> = after.parts().map(|part| part.remaining()).collect();
        assert!(left[0] <= 3 && left[1] <= 13, "{known}: {left:?}");
    }
}

/// Permits of a queue would all depart at once.
#[test]
fn a_meter_that_becomes_a_queue_leases_no_permits() {
    let meter = LeakyBucket::meter(Rate::per_second(10));
    let clock = Arc::new(Hooked { time: ManualClock::new(), hook: Mutex::new(None) });
    let builder = Limiter::builder([meter, meter]).per::<u64>().clock(clock.clone());
    let limiter = Arc::new(builder.build().unwrap());
    let (changes, later) = (limiter.clone(), clock.clone());
    let change = move || {
        changes
            .change()
            .to([LeakyBucket::queue(Rate::per_second(10)), meter])
            .inherit(Additive)
            .apply()
            .unwrap();
        assert!(changes.account(7).at(at(0)).check().is_allowed());
    };
    // During the second reading: the first is the lease's own.
    let second = move || *later.hook.lock().unwrap() = Some(Box::new(change));
    *clock.hook.lock().unwrap() = Some(Box::new(second));
    let mut lease = limiter.account(7).lease().permits(5);
    let Leased::Decided(decision) = lease.check() else { panic!("each request has its own departure") };
    assert_eq!(decision.delay(), Duration::from_millis(100));
    assert_eq!(lease.held(), 0);
}
