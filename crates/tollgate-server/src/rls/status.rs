//! What the rules say of a descriptor, as its status.

use std::time::Duration;

use tollgate_rules::{Limit, Limits, Line, Rule, Ruling, Verdict};

use super::proto::{Code, DescriptorStatus, RateLimit, Unit};
use crate::core::ServerClock;

/// Whether the request of a verdict may go on now. One that would have to wait in a queue may not:
/// Envoy cannot hold it.
pub(super) fn passes(verdict: &Verdict<'_, ServerClock>) -> bool {
    verdict.is_admitted() && verdict.delay().is_zero()
}

/// The line of which a status tells: that which refuses longest or waits longest, or else that with
/// the least left of a limit by time.
pub(super) fn told(verdict: &Verdict<'_, ServerClock>) -> Option<Line> {
    let enforced = || verdict.lines().iter().filter(|line| !line.is_shadow);
    let line = if !verdict.is_admitted() {
        let refuses = enforced().rev().filter(|line| line.ruling != Ruling::Admitted);
        refuses.max_by_key(|line| (line.ruling, line.retry_after))
    } else if !verdict.delay().is_zero() {
        enforced().rev().max_by_key(|line| line.delay)
    } else {
        let limited = enforced().filter(|line| line.number.is_some());
        limited.min_by_key(|line| line.remaining).or_else(|| enforced().next())
    };
    line.copied()
}

/// The status of a descriptor. It is refused, or would have to wait, exactly if it does not
/// [pass](passes).
pub(super) fn status(verdict: &Verdict<'_, ServerClock>) -> DescriptorStatus {
    let Some(line) = told(verdict) else { return of(Code::Ok) };
    if passes(verdict) {
        return DescriptorStatus {
            current_limit: current_limit(verdict.rules(), &line),
            limit_remaining: u32::try_from(line.remaining).unwrap_or(u32::MAX),
            duration_until_reset: line.number.map(|_| seconds_up(line.reset_after)),
            ..of(Code::Ok)
        };
    }
    let wait = if verdict.is_admitted() { Some(line.delay) } else { line.retry_after };
    DescriptorStatus {
        current_limit: current_limit(verdict.rules(), &line),
        duration_until_reset: wait.map(|wait| seconds_up(wait.max(Duration::from_nanos(1)))),
        ..of(Code::OverLimit)
    }
}

/// A status without a limit.
pub(super) fn of(code: Code) -> DescriptorStatus {
    DescriptorStatus {
        code: code.into(),
        current_limit: None,
        limit_remaining: 0,
        duration_until_reset: None,
    }
}

/// The limit that a line shows: its count and period, and the rule's name. `None` if the rule has
/// no limit by time.
fn current_limit(rules: &[Rule], line: &Line) -> Option<RateLimit> {
    let rule = &rules[line.rule];
    let limits = line.tier.map_or(&rule.limits, |tier| &rule.tiers[tier].limits);
    let name = String::from(&*rule.name);
    let each = match limits {
        Limits::Each(each) => each,
        Limits::Block => return Some(RateLimit { requests_per_unit: 0, unit: Unit::Unknown.into(), name }),
        Limits::Unlimited => return None,
    };
    let mut quotas = each.iter().filter_map(|limit| match limit {
        Limit::Quota(quota) => Some(quota.rate()),
        Limit::InFlight { .. } => None,
    });
    let rate = quotas.nth(line.number.unwrap_or_default())?;
    let requests_per_unit = u32::try_from(rate.count()).unwrap_or(u32::MAX);
    Some(RateLimit { requests_per_unit, unit: unit(rate.period()).into(), name })
}

/// The unit of a period. Envoy shows no window of others.
fn unit(period: Duration) -> Unit {
    const DAY: u64 = 24 * 60 * 60;
    match (period.as_secs(), period.subsec_nanos()) {
        (1, 0) => Unit::Second,
        (60, 0) => Unit::Minute,
        (3_600, 0) => Unit::Hour,
        (DAY, 0) => Unit::Day,
        (seconds, 0) if seconds == 7 * DAY => Unit::Week,
        (seconds, 0) if seconds == 30 * DAY => Unit::Month,
        (seconds, 0) if seconds == 365 * DAY => Unit::Year,
        _ => Unit::Unknown,
    }
}

/// Whole seconds, rounded up: Envoy ignores what is below a second.
pub(super) fn seconds_up(time: Duration) -> prost_types::Duration {
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    // The longest that a protocol buffer's duration may be: 10,000 years.
    prost_types::Duration { seconds: seconds.min(315_576_000_000) as i64, nanos: 0 }
}
