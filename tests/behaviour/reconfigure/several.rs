//! Several limits on one key that change together, or one of them alone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::Inherit::{Additive, AsIs, Proportional, Reset};
use tollgate::{
    BuildError, Clock, FixedWindow, LeakyBucket, ManualClock, MultiDecision, MultiLimiter, Quota, Rate,
    SlidingLog, SlidingWindow, Timestamp, TokenBucket,
};

use super::{SECOND, at, bucket};

pub(crate) type Several = MultiLimiter<u64, ManualClock>;

/// These limits on a clock that stands still.
pub(crate) fn several(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> (Several, ManualClock) {
    let clock = ManualClock::new();
    let limiter = MultiLimiter::builder(quotas).clock(clock.clone()).max_keys(100).build().unwrap();
    (limiter, clock)
}

/// What each limit has left.
pub(crate) fn left(limiter: &Several, key: u64) -> Vec<u64> {
    limiter.peek_n_at(&key, 0, limiter.now()).parts().map(|part| part.remaining()).collect()
}

/// The limits by which a decision was taken.
fn limits(decision: &MultiDecision<'_>) -> Vec<u64> {
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
fn each_limit_inherits_what_the_change_says() {
    for (inherit, expected) in
        [(AsIs, [6, 16]), (Proportional, [12, 24]), (Additive, [16, 26]), (Reset, [20, 30])]
    {
        let quotas = |one, two| [Quota::from(bucket(1, one)), FixedWindow::new(Rate::per_hour(two)).into()];
        let (limiter, _) = several(quotas(10, 20));
        assert!(limiter.check_n(&7, 4).is_allowed());
        limiter.reconfigure(quotas(20, 30), inherit).unwrap();
        assert_eq!(left(&limiter, 7), expected, "{inherit:?}");
        let most = expected[0].min(expected[1]);
        assert!(limiter.check_n(&7, most).is_allowed() && !limiter.check(&7).is_allowed(), "{inherit:?}");
    }
}

#[test]
fn one_limit_changes_and_every_other_keeps_what_is_owed() {
    for number in 0..7 {
        let (limiter, _) = several(every(10));
        assert!(limiter.check_n(&7, 4).is_allowed());
        // The log has a ring for ten, so limits shrink.
        limiter.reconfigure_limit(number, every(8)[number], Additive).unwrap();
        let mut expected = [6; 7];
        expected[number] = 4;
        assert_eq!(left(&limiter, 7), expected, "{number}");
        let refused = limiter.check_n(&7, 5);
        assert_eq!(refused.refused_by(), Some(number));
        assert!(limiter.check_n(&7, 4).is_allowed() && !limiter.check(&7).is_allowed());
        // By what it began with, every other limit has room for two.
        let (limits, fours) = (limits(&limiter.peek(&7)), [4; 7]);
        assert!(limits.iter().enumerate().all(|(at, limit)| *limit == if at == number { 8 } else { 10 }));
        assert!(left(&limiter, 7).iter().zip(fours).all(|(left, four)| *left <= four));
    }
}

#[test]
fn one_limit_is_forgiven_and_no_other() {
    for number in [1, 2, 4, 5] {
        let (limiter, _) = several(every(10));
        assert!(limiter.check_n(&7, 4).is_allowed());
        limiter.reconfigure_limit(number, every(10)[number], Reset).unwrap();
        let mut expected = [6; 7];
        expected[number] = 10;
        assert_eq!(left(&limiter, 7), expected, "{number}");
    }
}

#[test]
fn a_cost_that_was_never_possible_becomes_so_and_the_other_way_round() {
    let (limiter, _) = several([bucket(1, 5), bucket(1, 9)]);
    assert!(limiter.check_n(&7, 6).is_never());
    limiter.reconfigure([bucket(1, 7), bucket(1, 9)], Additive).unwrap();
    assert!(limiter.check_n(&7, 6).is_allowed());
    limiter.reconfigure_limit(1, bucket(1, 2), Additive).unwrap();
    let never = limiter.check_n(&8, 3);
    assert_eq!((never.is_never(), never.refused_by()), (true, Some(1)));
    assert!(limiter.check_n(&8, 2).is_allowed());
}

/// What cannot be done to one limit is done to none.
#[test]
fn a_change_that_one_limit_refuses_changes_none() {
    let (limiter, _) = several(every(10));
    assert!(limiter.check_n(&7, 4).is_allowed());
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
        match limiter.reconfigure(quotas, inherit) {
            Err(BuildError::CannotInherit { field: named } | BuildError::OutOfRange { field: named, .. }) => {
                assert_eq!(named, field);
            }
            result => panic!("{field}: {result:?}"),
        }
    }
    assert_eq!(
        limiter.reconfigure(other.into_iter().skip(1), Additive),
        Err(BuildError::CannotInherit { field: "limits" })
    );
    let outside = limiter.reconfigure_limit(7, other[0], Additive);
    assert_eq!(outside, Err(BuildError::OutOfRange { field: "number", value: 7, min: 0, max: 6 }));
    assert_eq!((left(&limiter, 7), limits(&limiter.peek(&7))), (vec![6; 7], vec![10; 7]));
    limiter.reconfigure(other, Additive).unwrap();
    assert_eq!(limits(&limiter.peek(&7)), [10, 12, 12, 12, 12, 12, 12]);
}

#[test]
fn a_decision_keeps_the_numbers_of_the_quotas_that_took_it() {
    let (limiter, _) = several([bucket(1, 10), bucket(1, 20)]);
    let decision = limiter.check_n(&7, 4);
    limiter.reconfigure([bucket(1, 100), bucket(1, 200)], Reset).unwrap();
    assert_eq!((limits(&decision), decision.remaining()), (vec![10, 20], 6));
}

#[test]
fn a_refund_after_a_change_is_as_one_before_it() {
    let (limiter, _) = several([bucket(1, 10), bucket(1, 20)]);
    assert!(limiter.check_n(&7, 4).is_allowed());
    let taken = limiter.check_n(&7, 3);
    limiter.reconfigure([bucket(1, 20), bucket(1, 40)], Proportional).unwrap();
    assert_eq!(limiter.refund(taken), 3);
    assert_eq!(left(&limiter, 7), [12, 32]);
    let kept = limiter.check_n(&7, 2);
    limiter.reconfigure([bucket(1, 20), bucket(1, 40)], AsIs).unwrap();
    assert!(limiter.check(&7).is_allowed());
    assert_eq!(limiter.refund(kept), 0, "the key was charged under the new quotas");
    assert_eq!(left(&limiter, 7), [9, 29]);
}

#[test]
fn a_reset_after_a_change_forgives_every_limit() {
    let (limiter, _) = several(every(10));
    assert!(limiter.check_n(&7, 10).is_allowed());
    limiter.reconfigure(every(9), Additive).unwrap();
    assert_eq!(left(&limiter, 7), [0; 7]);
    assert!(limiter.reset(&7));
    assert_eq!((left(&limiter, 7), limiter.len()), (vec![9; 7], 0));
}

#[test]
fn keys_that_owe_over_a_change_are_counted() {
    let (limiter, clock) = several([bucket(1, 10), bucket(1, 20)]);
    for key in 0..50 {
        assert!(limiter.check_n(&key, 10).is_allowed());
    }
    limiter.reconfigure([bucket(1, 20), bucket(1, 40)], Additive).unwrap();
    assert_eq!(limiter.len(), 50);
    assert!((0..50).all(|key| left(&limiter, key) == [10, 30]));
    clock.advance(Duration::from_secs(10));
    assert_eq!(limiter.len(), 0);
}

/// Two limits of which one takes much room for each change: it speaks for both.
#[test]
fn changes_without_end_are_an_error_and_not_a_mistake() {
    let slow = TokenBucket::new(Rate::per_day(1)).burst(100);
    let (limiter, _) = several([bucket(10, 10), slow]);
    assert!(limiter.check_n(&7, 9).is_allowed());
    let changes = (0..10_000).take_while(|_| match limiter.reconfigure([bucket(10, 10), slow], AsIs) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error, BuildError::ChangedTooOften);
            false
        }
    });
    let changes = changes.count();
    assert!((100..=1_025).contains(&changes), "{changes}");
    assert_eq!((left(&limiter, 7), left(&limiter, 8)), (vec![1, 91], vec![10, 100]));
    assert!(limiter.check(&7).is_allowed() && !limiter.check(&7).is_allowed());
}

/// A version reaches a second ahead; who comes later raises it, whichever of the limits asks first.
#[test]
fn time_goes_on_for_every_limit_between_and_after_changes() {
    let quotas = [bucket(1, 3), TokenBucket::new(Rate::per_hour(1_000_003)).burst(2_000)];
    let window = FixedWindow::new(Rate::per_minute(5));
    let (limiter, clock) = several([quotas[0].into(), quotas[1].into(), Quota::from(window)]);
    for minute in 1..=20 {
        assert_eq!((0..9).filter(|_| limiter.check(&7).is_allowed()).count(), 3, "minute {minute}");
        clock.set(at(minute * 60 * SECOND - SECOND));
        assert_eq!((0..9).filter(|_| limiter.check(&7).is_allowed()).count(), 2, "minute {minute}");
        let wait = limiter.check_n(&7, 2).retry_after();
        clock.set(at(minute * 60 * SECOND));
        assert_eq!(wait, Some(Duration::from_secs(1)), "minute {minute}");
        if minute % 3 == 0 {
            limiter.reconfigure_limit(0, bucket(1, 3), Reset).unwrap();
        } else {
            clock.set(at(minute * 60 * SECOND + 2 * SECOND));
        }
    }
}

/// A clock that does something once, in the middle of whoever reads it.
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

/// Whichever limit is asked for more time first, the change has ended it for all.
#[test]
fn a_check_that_the_change_overtakes_is_decided_by_the_old_quotas_alone() {
    for known in [false, true] {
        let quotas = |rate, bursts: [u64; 2]| bursts.map(|burst| TokenBucket::new(rate).burst(burst));
        let clock = Arc::new(Hooked { time: ManualClock::new(), hook: Mutex::new(None) });
        let builder = MultiLimiter::<u64>::builder(quotas(Rate::per_second(7), [10, 20]));
        let limiter = Arc::new(builder.clock(clock.clone()).build().unwrap());
        assert!(!known || limiter.check(&7).is_allowed());
        let (changes, time) = (limiter.clone(), clock.time.clone());
        *clock.hook.lock().unwrap() = Some(Box::new(move || {
            changes.reconfigure(quotas(Rate::per_day(1), [11, 21]), Additive).unwrap();
            time.set(at(8 * SECOND));
        }));
        let decision = limiter.check_n(&7, 8);
        assert!(decision.is_allowed(), "{known}");
        let remaining = 2 - u64::from(known);
        assert_eq!((limits(&decision), decision.remaining()), (vec![10, 20], remaining), "{known}");
        // It counts as if it had come before the change, and is not paid by the old rate since.
        let after = limiter.peek_n_at(&7, 0, limiter.now());
        let left: Vec<u64> = after.parts().map(|part| part.remaining()).collect();
        assert!(left[0] <= 3 && left[1] <= 13, "{known}: {left:?}");
    }
}
