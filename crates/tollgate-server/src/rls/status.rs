//! What the rules say of a descriptor, as its status.

use std::borrow::Cow;
use std::time::Duration;

use tollgate::{CountPolicy, Quota};
use tollgate_http::LONGEST_WAIT;
use tollgate_rules::{Limit, Limits, Line, Rule, Ruling, Verdict};

use super::proto::{Code, DescriptorStatus, RateLimit, Unit};
use crate::clock::ServerClock;

/// What rules say of a descriptor whose request Envoy cannot hold.
pub(super) struct Judged<'v> {
    /// Where the request does not pass, some of these refuse.
    pub(super) lines: Cow<'v, [Line]>,
    /// Whether it may go on now.
    pub(super) passes: bool,
    rules: &'v [Rule],
}

impl<'v> Judged<'v> {
    /// Judges a verdict. A look (`is_look`) at a limit that counts its refusals and is used up is
    /// refused: hits that came late may have gone beyond it.
    pub(super) fn of(verdict: &'v Verdict<'_, ServerClock>, is_look: bool) -> Self {
        let (lines, rules) = (verdict.lines(), verdict.rules());
        let wait =
            |line: &Line| (is_look && !line.is_shadow && is_used_up(rules, line)).then_some(line.more_after);
        if !verdict.is_admitted() || lines.iter().all(|line| wait(line).is_none()) {
            return Self { lines: lines.into(), passes: verdict.is_admitted(), rules };
        }
        let refused = |line: &Line| {
            let mut own = *line;
            if let Some(wait) = wait(line) {
                (own.ruling, own.retry_after) = (Ruling::Refused, Some(wait));
            }
            own
        };
        Self { lines: lines.iter().map(refused).collect(), passes: false, rules }
    }

    /// The line of which a status tells: that which refuses longest, or else that with the least
    /// left of a limit by time.
    pub(super) fn told(&self) -> Option<&Line> {
        let enforced = || self.lines.iter().filter(|line| !line.is_shadow);
        if !self.passes {
            let refuses = enforced().rev().filter(|line| line.ruling != Ruling::Admitted);
            return refuses.max_by_key(|line| (line.ruling, line.retry_after));
        }
        let limited = enforced().filter(|line| line.number.is_some());
        limited.min_by_key(|line| line.remaining).or_else(|| enforced().next())
    }

    /// The descriptor's status. Its client is told to come back so much later as `jitter` says of
    /// the line of which it tells.
    pub(super) fn status(&self, jitter: impl FnOnce(&Line) -> Duration) -> DescriptorStatus {
        let later =
            |wait: Duration, line| if wait.is_zero() { wait } else { wait.saturating_add(jitter(line)) };
        let code = if self.passes { Code::Ok } else { Code::OverLimit };
        let Some(line) = self.told() else { return of(code) };
        let current_limit = current_limit(self.rules, line);
        if self.passes {
            return DescriptorStatus {
                current_limit,
                limit_remaining: u32::try_from(line.remaining).unwrap_or(u32::MAX),
                duration_until_reset: line.number.map(|_| seconds_up(later(line.reset_after, line))),
                ..of(code)
            };
        }
        let wait = line.retry_after.map(|wait| wait.max(Duration::from_nanos(1)));
        let wait = wait.map(|wait| seconds_up(later(wait, line)));
        DescriptorStatus { current_limit, duration_until_reset: wait, ..of(code) }
    }
}

/// Whether nothing is left of a limit that counts the requests that it refuses.
fn is_used_up(rules: &[Rule], line: &Line) -> bool {
    let quota = line.number.and_then(|number| quotas(rules, line).nth(number));
    line.remaining == 0 && quota.is_some_and(|quota| quota.count_policy() == CountPolicy::All)
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

/// The limits of a line's rule, or of its tier.
fn limits<'r>(rules: &'r [Rule], line: &Line) -> &'r Limits {
    let rule = &rules[line.rule];
    line.tier.map_or(&rule.limits, |tier| &rule.tiers[tier].limits)
}

/// Those by time, as lines number them.
fn quotas<'r>(rules: &'r [Rule], line: &Line) -> impl Iterator<Item = &'r Quota> {
    let each = if let Limits::Each(each) = limits(rules, line) { &**each } else { &[] };
    each.iter().filter_map(|limit| if let Limit::Quota(quota) = limit { Some(quota) } else { None })
}

/// The limit that a line shows: its count and period, and the rule's name. `None` if the rule has
/// no limit by time.
fn current_limit(rules: &[Rule], line: &Line) -> Option<RateLimit> {
    let name = String::from(&*rules[line.rule].name);
    if matches!(limits(rules, line), Limits::Block) {
        return Some(RateLimit { requests_per_unit: 0, unit: Unit::Unknown.into(), name });
    }
    let rate = quotas(rules, line).nth(line.number.unwrap_or_default())?.rate();
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

/// Whole seconds, rounded up: Envoy ignores parts of a second.
pub(super) fn seconds_up(time: Duration) -> prost_types::Duration {
    let time = time.min(LONGEST_WAIT);
    prost_types::Duration { seconds: (time.as_secs() + u64::from(time.subsec_nanos() > 0)) as i64, nanos: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_has_its_unit_or_none() {
        let day = 24 * 3600;
        for (seconds, expected) in [
            (1, Unit::Second),
            (60, Unit::Minute),
            (3600, Unit::Hour),
            (day, Unit::Day),
            (7 * day, Unit::Week),
            (30 * day, Unit::Month),
            (365 * day, Unit::Year),
            (2, Unit::Unknown),
            (59, Unit::Unknown),
            (28 * day, Unit::Unknown),
            (366 * day, Unit::Unknown),
        ] {
            let period = Duration::from_secs(seconds);
            assert_eq!(unit(period), expected, "{period:?}");
            assert_eq!(unit(period + Duration::from_nanos(1)), Unit::Unknown, "{period:?} and more");
        }
        assert_eq!(unit(Duration::from_millis(100)), Unit::Unknown);
    }

    #[test]
    fn units_have_the_numbers_of_envoy() {
        let all = [
            Unit::Unknown,
            Unit::Second,
            Unit::Minute,
            Unit::Hour,
            Unit::Day,
            Unit::Month,
            Unit::Year,
            Unit::Week,
        ];
        assert_eq!(all.map(i32::from), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
