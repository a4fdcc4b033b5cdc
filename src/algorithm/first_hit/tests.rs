//! The ticks of a first-hit rule: how fine they are, how long they last, and their errors; and what
//! a change and a restart make of a key's place in its interval.

use std::time::Duration;

use super::*;
use crate::algorithm::{Carry, Inherit, Moment, Numbers, Order, Payload, Rule, Taken, Verdict};
use crate::ring::Ring;
use crate::time::{Reading, Shift, Timestamp};

const SECOND: u64 = 1_000_000_000;

fn window(limit: u64, nanos: u64) -> FirstHit {
    FixedWindow::new(Rate::new(limit, Duration::from_nanos(nanos))).from_first_hit()
}

fn bucket(count: u64, nanos: u64, burst: u64) -> FirstHit {
    TokenBucket::new(Rate::new(count, Duration::from_nanos(nanos))).burst(burst).from_first_hit()
}

fn rule(quota: FirstHit) -> FirstHitRule {
    FirstHit::compile(&[quota], 0).expect("it fits").remove(0)
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn charged(rule: &FirstHitRule, payload: Payload, now: u64, cost: u64) -> Payload {
    match rule.decide(payload, Ring::NONE, rule.moment(at(now)), cost) {
        Verdict::Allow(payload) => payload,
        verdict => panic!("{rule:?}: {verdict:?}"),
    }
}

fn left(rule: &FirstHitRule, payload: Payload, now: u64) -> u64 {
    rule.remaining(payload, Ring::NONE, at(now))
}

/// A change from `old` at `since`, whose horizon ended there.
fn changed(old: FirstHitRule, new: FirstHit, since: u64) -> FirstHitRule {
    let change = Change { inherits: &[Inherit::AsIs], since, until: since };
    FirstHit::recompile(&[new], 0, &[old], change).expect("there is room").remove(0)
}

/// The payload of the newer version for one of the older.
fn converted(old: &FirstHitRule, payload: Payload, new: &FirstHitRule, since: u64) -> Payload {
    new.owing(old.debt(payload, old.moment(at(since))))
}

#[test]
fn small_limits_count_every_nanosecond() {
    for quota in [window(1, 1), window(3, 7), bucket(7, 1, 7), bucket(7, 60 * SECOND, 700)] {
        assert_eq!(rule(quota).tick(), 1, "{quota}");
    }
    assert_eq!(rule(window(100, 60 * SECOND)).tick(), 32);
    assert_eq!(rule(bucket(100, 60 * SECOND, 500)).tick(), 16);
}

/// From the first nanosecond of a tick and from the last.
#[test]
fn an_interval_is_too_long_by_less_than_two_ticks() {
    let (minute, odd) = (60 * SECOND, 999_999_937);
    let quotas = [window(100, minute), window(2_000_000, odd), bucket(1_000, odd, 3_000), window(3, odd)];
    for quota in quotas {
        let (rule, period) = (rule(quota), quota.rate().period_nanos());
        assert!(rule.tick() <= period / 1_000, "{rule:?}");
        for charge in [0, 1, rule.tick() - 1, rule.tick(), 77 * SECOND + 1] {
            let payload = charged(&rule, Payload(0), charge, quota.rate().count());
            let ends = charge + rule.reset_after(payload, Ring::NONE, at(charge));
            assert!((charge + period..charge + period + 2 * rule.tick()).contains(&ends), "{rule:?}");
            assert!(rule.tick() > 1 || ends == charge + period, "{rule:?}");
            assert_eq!(left(&rule, payload, ends), rule.limit());
            assert_eq!(left(&rule, payload, ends - 1), rule.limit() - quota.rate().count());
        }
    }
}

#[test]
fn the_clock_runs_for_ten_years_and_then_stands_still() {
    for quota in [window(1, UPTIME), window(100, SECOND), bucket(5, 3_600 * SECOND, 100_000)] {
        let rule = rule(quota);
        let last = rule.last();
        assert!(last >= UPTIME, "{rule:?}");
        let payload = charged(&rule, Payload(0), last, rule.limit());
        assert!(payload.0 <= rule.top(last) && rule.top(last) < 1 << 62, "{rule:?}");
        assert_eq!(left(&rule, payload, u64::MAX), 0, "{rule:?}");
        assert_eq!(rule.retry_after(payload, Ring::NONE, at(last), 1), u64::MAX, "{rule:?}");
    }
}

/// The error names the number that is wrong and the largest that fits.
#[test]
fn a_count_without_room_is_an_error_with_its_range() {
    for quota in [window(1_000_000, 1_000_000), bucket(1_000_000, 1_000_000, 1), window(4_000_000, SECOND)] {
        let Err(BuildError::OutOfRange { field: "rate.count", value, min: 1, max }) =
            FirstHit::compile(&[quota], 0)
        else {
            panic!("{quota} fits")
        };
        assert_eq!(value, u128::from(quota.rate().count()));
        let of = |count| match quota.0 {
            Of::FixedWindow(_) => window(count, quota.rate().period_nanos()),
            Of::TokenBucket(_) => bucket(count, quota.rate().period_nanos(), 1),
        };
        let largest = u64::try_from(max).expect("a count");
        assert!(FirstHit::compile(&[of(largest)], 0).is_ok(), "{quota}: {largest}");
        assert!(FirstHit::compile(&[of(largest + 1)], 0).is_err(), "{quota}: {largest}");
    }
    for (quota, wrong) in [
        (window(0, SECOND), "rate.count"),
        (window(1, UPTIME + 1), "rate.period"),
        (bucket(1, SECOND, 0), "burst"),
        (bucket(1, SECOND, UPTIME / SECOND + 1), "burst"),
    ] {
        let error = FirstHit::compile(&[quota], 0).map(drop);
        assert!(matches!(error, Err(BuildError::OutOfRange { field, .. }) if field == wrong), "{error:?}");
    }
    let mixed = FirstHit::compile(&[window(1, SECOND), bucket(1, SECOND, 1)], 0).map(drop);
    assert_eq!(mixed, Err(BuildError::TiersDiffer { field: "algorithm" }));
}

/// Otherwise a limiter whose quota is set again and again would never admit the key.
#[test]
fn a_change_keeps_the_place_in_the_interval() {
    for quota in [window(3, 10 * SECOND), bucket(2, 10 * SECOND, 6), window(100, 10 * SECOND)] {
        let mut rule = rule(quota);
        let limit = rule.limit();
        let mut payload = charged(&rule, Payload(0), SECOND, limit);
        let due = SECOND + rule.retry_after(payload, Ring::NONE, at(SECOND), 1);
        for since in [2, 3, 7, 10].map(|second| second * SECOND + 1) {
            let next = changed(rule, quota, since);
            payload = converted(&rule, payload, &next, since);
            assert!(payload.0 > rule.top(since), "{next:?}");
            rule = next;
            assert_eq!(left(&rule, payload, since), 0, "{rule:?}");
        }
        let wait = rule.retry_after(payload, Ring::NONE, at(10 * SECOND + 1), 1);
        let late = (10 * SECOND + 1 + wait).checked_sub(due).expect("it is not early");
        assert!(late <= 10 * rule.tick(), "{rule:?}: {late}");
    }
}

/// A key that has nothing available has nothing of a larger quota either, at any place in its
/// interval.
#[test]
fn a_proportional_change_scales_whole_units() {
    let (old, since) = (rule(bucket(2, 10 * SECOND, 6)), 9 * SECOND);
    let payload = charged(&old, Payload(0), 0, 6);
    let half = charged(&old, Payload(0), 0, 3);
    let change = Change { inherits: &[Inherit::Proportional], since, until: since };
    let new = FirstHit::recompile(&[bucket(20, 10 * SECOND, 60)], 0, &[old], change).expect("there is room");
    let step = crate::algorithm::change::Step {
        inherit: Inherit::Proportional,
        old: old.unit(),
        new: new[0].unit(),
    };
    for (payload, available) in [(payload, 0), (half, 30), (Payload(0), 60)] {
        let payload = new[0].owing(step.of(old.debt(payload, old.moment(at(since)))));
        assert_eq!(left(&new[0], payload, since), available);
        if available == 0 {
            assert_eq!(left(&new[0], payload, 10 * SECOND + 100), 20, "at the end of its interval");
        }
    }
}

#[test]
fn a_restart_keeps_the_place_in_the_interval() {
    for quota in [window(3, 10 * SECOND), bucket(2, 10 * SECOND, 6), bucket(100, 10 * SECOND, 300)] {
        let rule = rule(quota);
        let payload = charged(&rule, Payload(0), 100 * SECOND + 5, rule.limit());
        let due = rule.retry_after(payload, Ring::NONE, at(104 * SECOND), 1);
        for zero in [0, 7, 3 * SECOND, 500 * SECOND] {
            let reading = |at| Reading { at, unix: 1_000 * SECOND };
            let shift = Shift::between(reading(104 * SECOND), reading(zero));
            let carried = rule.carry(payload.0, &rule, shift);
            assert_eq!(left(&rule, carried, zero), 0, "{rule:?}");
            let wait = rule.retry_after(carried, Ring::NONE, at(zero), 1);
            assert!((due..due + 2 * rule.tick()).contains(&wait), "{rule:?}: {wait} for {due}");
        }
    }
}

/// The refills since have paid as many units as were left of both requests.
#[test]
fn a_refund_after_a_full_bucket_gives_back_nothing() {
    let rule = rule(bucket(1, 10, 10));
    let first = charged(&rule, Payload(0), 0, 5);
    let second = charged(&rule, first, 0, 5);
    let taken = |charged, cost| Taken { charged, since: rule.moment(at(0)), cost };
    let refund = rule.refund(second, taken(first, 5), rule.moment(at(0)), Order::Kept).expect("all of it");
    // The bucket is full at 50, and its next interval begins there.
    let third = charged(&rule, refund.payload, 50, 5);
    let late: Moment = rule.moment(at(50));
    assert_eq!(rule.refund(third, taken(second, 5), late, Order::Lost), None);
    let refund = rule.refund(third, taken(second, 5), rule.moment(at(20)), Order::Lost);
    assert_eq!(refund.map(|refund| refund.units), Some(3), "two of its five are paid");
}
