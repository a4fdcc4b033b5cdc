//! The promises of the algorithms, checked by brute force on the engine's admissions.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tollgate::{Limiter, ManualClock, Timestamp};
use tollgate_testing::limits::Kind;

use super::answers::UPTIME;
use super::config;
use super::draw;
use super::script::{Action, Case, Script};

/// Runs `judge` on cases that the engine accepts.
fn for_each(
    cases: u32,
    strategy: impl Strategy<Value = Case>,
    judge: impl Fn(&Case) -> Result<(), TestCaseError>,
) {
    let judged = TestRunner::new(config(cases)).run(&strategy, |case| judge(&case));
    if let Err(broken) = judged {
        panic!("{broken}");
    }
}

/// Returns how much of a unit may be admitted early, in units of `1/period`: a grain if the rate
/// needs grains.
fn early(case: &Case, script: &Script) -> u128 {
    script.resolution.grains.map_or(0, |grains| u128::from(case.limit.period.div_ceil(grains)))
}

/// Returns the times and costs of the admissions of one key, in order.
fn admitted(case: &Case) -> Vec<(u64, u64)> {
    let Some(script) = case.script() else { return Vec::new() };
    let builder = Limiter::builder(case.limit.quota()).memory_budget(usize::MAX);
    let limiter = builder.clock(ManualClock::new()).build().unwrap();
    let mut admitted = Vec::new();
    for line in script.lines.iter().filter(|line| line.key == 0) {
        let Action::Check(cost) = line.action else { continue };
        if limiter.account(()).at(Timestamp::from_nanos(line.at)).check_n(cost).is_allowed() {
            admitted.push((line.at, cost));
        }
    }
    admitted
}

#[test]
fn a_refused_request_passes_exactly_after_retry_after() {
    for kind in Kind::ALL {
        for_each(80, draw::case(kind), |case| {
            let Some(script) = case.script() else { return Ok(()) };
            let builder = Limiter::builder(case.limit.quota()).memory_budget(usize::MAX);
            let limiter = builder.clock(ManualClock::new()).build().unwrap();
            for line in script.lines.iter().filter(|line| line.key == 0) {
                let Action::Check(cost) = line.action else { continue };
                let Some(wait) =
                    limiter.account(()).at(Timestamp::from_nanos(line.at)).check_n(cost).retry_after()
                else {
                    continue;
                };
                let then = Timestamp::from_nanos(line.at) + wait;
                if then.as_nanos() > UPTIME {
                    continue;
                }
                let sooner = Timestamp::from_nanos(then.as_nanos() - 1);
                prop_assert!(
                    limiter.account(()).at(then).peek_n(cost).is_allowed(),
                    "{line}: refused after {wait:?}"
                );
                prop_assert!(
                    !limiter.account(()).at(sooner).peek_n(cost).is_allowed(),
                    "{line}: passes before {wait:?}"
                );
            }
            Ok(())
        });
    }
}

#[test]
fn more_is_available_exactly_after_more_after() {
    for kind in Kind::ALL {
        for_each(80, draw::case(kind), |case| {
            let Some(script) = case.script() else { return Ok(()) };
            let builder = Limiter::builder(case.limit.quota()).memory_budget(usize::MAX);
            let limiter = builder.clock(ManualClock::new()).build().unwrap();
            for line in script.lines.iter().filter(|line| line.key == 0) {
                let Action::Check(cost) = line.action else { continue };
                let decision = limiter.account(()).at(Timestamp::from_nanos(line.at)).check_n(cost);
                let (remaining, more) = (decision.remaining(), decision.more_after());
                prop_assert_eq!(more.is_zero(), remaining == decision.limit(), "{}", line);
                let then = Timestamp::from_nanos(line.at) + more;
                if more.is_zero() || then.as_nanos() > UPTIME {
                    continue;
                }
                let sooner = Timestamp::from_nanos(then.as_nanos() - 1);
                prop_assert!(
                    limiter.account(()).at(then).peek_n(remaining + 1).is_allowed(),
                    "{line}: not after {more:?}"
                );
                prop_assert!(
                    !limiter.account(()).at(sooner).peek_n(remaining + 1).is_allowed(),
                    "{line}: before {more:?}"
                );
            }
            Ok(())
        });
    }
}

#[test]
fn no_interval_exceeds_the_burst_and_the_rate() {
    for kind in [Kind::Bucket, Kind::Meter, Kind::Queue] {
        for_each(150, draw::greed(kind), |case| {
            let Some(script) = case.script() else { return Ok(()) };
            let (count, period) = (u128::from(case.limit.count), u128::from(case.limit.period));
            let early = early(case, &script);
            let history = admitted(case);
            for (first, &(start, _)) in history.iter().enumerate() {
                let mut sum = 0;
                for &(at, cost) in &history[first..] {
                    sum += u128::from(cost);
                    let bound =
                        u128::from(case.limit.most()) * period + u128::from(at - start) * count + early;
                    prop_assert!(sum * period <= bound, "{sum} between {start} and {at}");
                }
            }
            Ok(())
        });
    }
}

#[test]
fn no_interval_exceeds_the_initial_tokens_and_the_rate() {
    for_each(150, draw::greed(Kind::Bucket), |case| {
        let Some(script) = case.script() else { return Ok(()) };
        let (count, period) = (u128::from(case.limit.count), u128::from(case.limit.period));
        let early = early(case, &script);
        let mut sum = 0;
        for (at, cost) in admitted(case) {
            sum += u128::from(cost);
            let bound = u128::from(case.limit.initial.unwrap_or(case.limit.burst)) * period
                + u128::from(at) * count
                + early;
            prop_assert!(sum * period <= bound, "{sum} by {at}");
        }
        Ok(())
    });
}

#[test]
fn a_clock_that_steps_back_adds_no_tokens() {
    for_each(200, draw::case(Kind::Bucket), |case| {
        let Some(script) = case.script() else { return Ok(()) };
        if script.lines.iter().any(|line| matches!(line.action, Action::Reset)) {
            return Ok(());
        }
        let (count, period) = (u128::from(case.limit.count), u128::from(case.limit.period));
        let early = early(case, &script);
        let (mut sum, mut latest) = (0, 0);
        for (at, cost) in admitted(case) {
            sum += u128::from(cost);
            latest = at.max(latest);
            let bound = u128::from(case.limit.most()) * period + u128::from(latest) * count + early;
            prop_assert!(sum * period <= bound, "{sum} by {latest}");
        }
        Ok(())
    });
}

#[test]
fn no_window_of_a_log_exceeds_the_limit() {
    for kind in [Kind::Log, Kind::SubWindows] {
        for_each(200, draw::greed(kind), |case| {
            let history = admitted(case);
            for (first, &(start, _)) in history.iter().enumerate() {
                let window = history[first..].iter().take_while(|(at, _)| at - start < case.limit.period);
                let sum: u64 = window.map(|(_, cost)| cost).sum();
                prop_assert!(sum <= case.limit.count, "{sum} from {start} on");
            }
            Ok(())
        });
    }
}

#[test]
fn departures_of_a_queue_keep_their_distance_and_their_order() {
    for_each(200, draw::greed(Kind::Queue), |case| {
        let Some(script) = case.script() else { return Ok(()) };
        let builder = Limiter::builder(case.limit.quota()).clock(ManualClock::new());
        let limiter = builder.build().unwrap();
        let (count, period) = (u128::from(case.limit.count), u128::from(case.limit.period));
        let early = early(case, &script);
        let mut before: Option<(u128, u128)> = None;
        for line in &script.lines {
            let Action::Check(cost @ 1..) = line.action else { continue };
            let decision = limiter.account(()).at(Timestamp::from_nanos(line.at)).check_n(cost);
            if !decision.is_allowed() {
                continue;
            }
            let departure = u128::from(line.at) + decision.delay().as_nanos();
            if departure > u128::from(UPTIME) {
                break;
            }
            if let Some((last, weight)) = before {
                // Departures are rounded up to whole nanoseconds, so a distance may be up to one
                // nanosecond too short.
                let distance = (departure + 1 - last) * count + early;
                prop_assert!(distance > weight * period, "{line}: {departure} after {last}");
            }
            before = Some((departure, cost.into()));
        }
        Ok(())
    });
}
