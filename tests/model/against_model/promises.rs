//! What the algorithms promise, looked for by brute force in what the engine admitted.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use tollgate::{GlobalLimiter, ManualClock, Timestamp};

use super::answers::UPTIME;
use super::config;
use super::draw::{self, SORTS, Sort};
use super::limit::Kind;
use super::script::{Action, Case, Script};

/// Runs `judge` on cases of `sort` that the engine accepts.
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

/// How much of a unit may pass early, in shares of `1/period`: a grain, if units drip in grains.
fn early(case: &Case, script: &Script) -> u128 {
    script.resolution.grains.map_or(0, |grains| u128::from(case.limit.period.div_ceil(grains)))
}

/// When how much was admitted to one key, in order.
fn admitted(case: &Case) -> Vec<(u64, u64)> {
    let Some(script) = case.script() else { return Vec::new() };
    let builder = GlobalLimiter::builder(case.limit.quota()).memory_budget(usize::MAX);
    let limiter = builder.clock(ManualClock::new()).build().unwrap();
    let mut admitted = Vec::new();
    for line in script.lines.iter().filter(|line| line.key == 0) {
        let Action::Check(cost) = line.action else { continue };
        if limiter.check_n_at(cost, Timestamp::from_nanos(line.at)).is_allowed() {
            admitted.push((line.at, cost));
        }
    }
    admitted
}

#[test]
fn a_refused_request_passes_when_it_was_told_and_not_a_nanosecond_sooner() {
    for sort in SORTS {
        for_each(80, draw::case(sort), |case| {
            let Some(script) = case.script() else { return Ok(()) };
            let builder = GlobalLimiter::builder(case.limit.quota()).memory_budget(usize::MAX);
            let limiter = builder.clock(ManualClock::new()).build().unwrap();
            for line in script.lines.iter().filter(|line| line.key == 0) {
                let Action::Check(cost) = line.action else { continue };
                let Some(wait) = limiter.check_n_at(cost, Timestamp::from_nanos(line.at)).retry_after()
                else {
                    continue;
                };
                let then = Timestamp::from_nanos(line.at) + wait;
                if then.as_nanos() > UPTIME {
                    continue;
                }
                let sooner = Timestamp::from_nanos(then.as_nanos() - 1);
                prop_assert!(limiter.peek_n_at(cost, then).is_allowed(), "{line}: refused after {wait:?}");
                prop_assert!(!limiter.peek_n_at(cost, sooner).is_allowed(), "{line}: passes before {wait:?}");
            }
            Ok(())
        });
    }
}

#[test]
fn no_interval_of_a_bucket_holds_more_than_its_burst_and_its_rate() {
    for sort in [Sort::TokenBucket, Sort::Meter, Sort::Queue] {
        for_each(150, draw::greed(sort), |case| {
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
fn a_bucket_that_starts_with_less_admits_no_more_than_that_and_its_rate() {
    for_each(150, draw::greed(Sort::TokenBucket), |case| {
        let Kind::TokenBucket { burst, initial } = case.limit.kind else { unreachable!("asked for buckets") };
        let Some(script) = case.script() else { return Ok(()) };
        let (count, period) = (u128::from(case.limit.count), u128::from(case.limit.period));
        let early = early(case, &script);
        let mut sum = 0;
        for (at, cost) in admitted(case) {
            sum += u128::from(cost);
            let bound = u128::from(initial.unwrap_or(burst)) * period + u128::from(at) * count + early;
            prop_assert!(sum * period <= bound, "{sum} by {at}");
        }
        Ok(())
    });
}

#[test]
fn a_clock_that_steps_back_gives_a_bucket_no_more_than_the_time_it_reached() {
    for_each(200, draw::case(Sort::TokenBucket), |case| {
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
fn no_window_of_a_log_or_of_sub_windows_holds_more_than_the_limit() {
    for sort in [Sort::Log, Sort::SubWindows] {
        for_each(200, draw::greed(sort), |case| {
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
    for_each(200, draw::greed(Sort::Queue), |case| {
        let Some(script) = case.script() else { return Ok(()) };
        let builder = GlobalLimiter::builder(case.limit.quota()).clock(ManualClock::new());
        let limiter = builder.build().unwrap();
        let (count, period) = (u128::from(case.limit.count), u128::from(case.limit.period));
        let early = early(case, &script);
        let mut before: Option<(u128, u128)> = None;
        for line in &script.lines {
            let Action::Check(cost @ 1..) = line.action else { continue };
            let decision = limiter.check_n_at(cost, Timestamp::from_nanos(line.at));
            if !decision.is_allowed() {
                continue;
            }
            let departure = u128::from(line.at) + decision.delay().as_nanos();
            if departure > u128::from(UPTIME) {
                break;
            }
            if let Some((last, weight)) = before {
                // Departures are whole nanoseconds, rounded up: the distance can lose less than one.
                let distance = (departure + 1 - last) * count + early;
                prop_assert!(distance > weight * period, "{line}: {departure} after {last}");
            }
            before = Some((departure, cost.into()));
        }
        Ok(())
    });
}
