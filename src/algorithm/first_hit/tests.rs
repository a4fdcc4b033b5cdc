//! The ticks of a window from the first hit: how fine they are, how long they last, and their
//! errors; and what a change and a restart make of a key's place in its window.

use std::time::Duration;

use super::*;
use crate::algorithm::change::Step;
use crate::algorithm::{Carry, Inherit, Numbers, Payload, Ranged, Rule, Verdict};
use crate::rate::Rate;
use crate::ring::Ring;
use crate::time::{Reading, Shift, Timestamp};

const SECOND: u64 = 1_000_000_000;

fn window(limit: u64, nanos: u64) -> FirstHit {
    FixedWindow::new(Rate::new(limit, Duration::from_nanos(nanos))).from_first_hit()
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
    let change = Transition { inherits: &[Inherit::AsIs], since, until: since };
    FirstHit::recompile(&[new], 0, &[old], change).expect("there is room").remove(0)
}

/// The payload of the newer version for one of the older.
fn converted(old: &FirstHitRule, payload: Payload, new: &FirstHitRule, since: u64) -> Payload {
    new.owing(old.debt(payload, old.moment(at(since))))
}

#[test]
fn small_limits_count_every_nanosecond() {
    for quota in [window(1, 1), window(3, 7), window(3, 60 * SECOND)] {
        assert_eq!(rule(quota).tick(), 1, "{quota}");
    }
    assert_eq!(rule(window(100, 60 * SECOND)).tick(), 32);
}

/// From the first nanosecond of a tick and from the last.
#[test]
fn a_window_is_too_long_by_less_than_two_ticks() {
    let (minute, odd) = (60 * SECOND, 999_999_937);
    for quota in [window(100, minute), window(2_000_000, odd), window(3, odd)] {
        let (rule, period) = (rule(quota), quota.0.rate.period_nanos());
        assert!(rule.tick() <= period / 1_000, "{rule:?}");
        for charge in [0, 1, rule.tick() - 1, rule.tick(), 77 * SECOND + 1] {
            let payload = charged(&rule, Payload(0), charge, rule.limit());
            let ends = charge + rule.reset_after(payload, Ring::NONE, at(charge));
            assert!((charge + period..charge + period + 2 * rule.tick()).contains(&ends), "{rule:?}");
            assert!(rule.tick() > 1 || ends == charge + period, "{rule:?}");
            assert_eq!(left(&rule, payload, ends), rule.limit());
            assert_eq!(left(&rule, payload, ends - 1), 0);
        }
    }
}

#[test]
fn the_clock_runs_for_ten_years_and_then_stands_still() {
    for quota in [window(1, UPTIME), window(100, SECOND)] {
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
    for quota in [window(1_000_000, 1_000_000), window(4_000_000, SECOND)] {
        let Err(BuildError::OutOfRange { field: "rate.count", value, min: 1, max }) =
            FirstHit::compile(&[quota], 0)
        else {
            panic!("{quota} fits")
        };
        assert_eq!(value, u128::from(quota.0.rate.count()));
        let of = |count| window(count, quota.0.rate.period_nanos());
        let largest = u64::try_from(max).expect("a count");
        assert!(FirstHit::compile(&[of(largest)], 0).is_ok(), "{quota}: {largest}");
        assert!(FirstHit::compile(&[of(largest + 1)], 0).is_err(), "{quota}: {largest}");
    }
    for (quota, wrong) in [(window(0, SECOND), "rate.count"), (window(1, UPTIME + 1), "rate.period")] {
        let error = FirstHit::compile(&[quota], 0).map(drop);
        assert!(matches!(error, Err(BuildError::OutOfRange { field, .. }) if field == wrong), "{error:?}");
    }
}

/// Otherwise a limiter whose quota is set again and again would never admit the key.
#[test]
fn a_change_keeps_the_place_in_the_window() {
    for quota in [window(3, 10 * SECOND), window(100, 10 * SECOND)] {
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

/// What a key has after a change of its limit, it has until the same window ends.
#[test]
fn a_change_of_the_limit_keeps_the_windows_end() {
    let since = 7 * SECOND;
    for (limit, inherit, known) in [
        (1_000, Inherit::AsIs, 40),
        (1_000, Inherit::Proportional, 400),
        (1_000, Inherit::Additive, 940),
        (10, Inherit::AsIs, 10),
        (10, Inherit::Proportional, 4),
        (10, Inherit::Additive, 0),
    ] {
        let old = rule(window(100, 10 * SECOND));
        let payload = charged(&old, Payload(0), 0, 60);
        let new = changed(old, window(limit, 10 * SECOND), since);
        let step = Step { inherit, old: old.unit(), new: new.unit() };
        let payload = new.owing(step.of(old.debt(payload, old.moment(at(since)))));
        assert_eq!(left(&new, payload, since), known, "{inherit:?} to {limit}");
        let ends = since + new.reset_after(payload, Ring::NONE, at(since));
        let most = 10 * SECOND + 2 * old.tick() + 2 * new.tick();
        assert!(known == limit || (10 * SECOND..=most).contains(&ends), "{inherit:?} to {limit}: {ends}");
    }
}

#[test]
fn a_restart_keeps_the_place_in_the_window() {
    for quota in [window(3, 10 * SECOND), window(300, 10 * SECOND)] {
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
