//! Limits that are charged together, and how they announce themselves.

use std::time::Duration;

use http::HeaderValue;
use tollgate::{MultiDecision, MultiLimiter, Part, Quota};

use super::SharedClock;
use crate::headers::{Numbers, Shown, interned, join, seconds_up};

/// The limits of a rule, of one of its tiers, or of one key.
pub(crate) struct Limits {
    pub(crate) limiter: MultiLimiter<[u8], SharedClock>,
    /// The number of the first that may make a request wait.
    pub(crate) queue: Option<usize>,
    /// What `RateLimit-Policy` says of all of them.
    policy: Option<HeaderValue>,
    /// In the order in which the limits were given.
    names: Box<[Named]>,
}

/// One limit's name, and what `RateLimit-Policy` says of it.
struct Named {
    name: Box<str>,
    policy: Box<str>,
}

impl Limits {
    pub(crate) fn new(rule: &str, quotas: &[Quota], limiter: MultiLimiter<[u8], SharedClock>) -> Self {
        let mut names: Vec<Named> = Vec::with_capacity(quotas.len());
        for (number, quota) in quotas.iter().enumerate() {
            let mut name =
                if quotas.len() == 1 { rule.to_owned() } else { format!("{rule}/{}", period(quota)) };
            if names.iter().any(|other| *other.name == *name) {
                name = format!("{name}-{}", number + 1);
            }
            let policy = format!("\"{name}\";q={};w={}", quota.limit(), window(quota));
            names.push(Named { name: name.into(), policy: policy.into() });
        }
        let all: Vec<&str> = names.iter().map(|named| &*named.policy).collect();
        let policy = interned(&all.join(", "));
        Self { limiter, queue: quotas.iter().position(Quota::is_queue), policy, names: names.into() }
    }

    /// The name of a limit by its number.
    pub(crate) fn name(&self, number: usize) -> &str {
        &self.names[number].name
    }

    /// What each limit shows of a decision; of a refusal, those that refuse.
    pub(crate) fn shown<'d>(&'d self, decision: &'d MultiDecision<'_>) -> impl Iterator<Item = Shown<'d>> {
        self.telling(decision).map(|(part, named)| Shown { name: &named.name, numbers: numbers(&part) })
    }

    /// How the limits that refuse a request announce themselves; those of an admitted one all do.
    pub(crate) fn policy_of(&self, decision: &MultiDecision<'_>) -> Option<HeaderValue> {
        join(self.telling(decision).map(|(_, named)| &*named.policy))
    }

    /// How all of the limits announce themselves.
    pub(crate) fn policy(&self) -> Option<HeaderValue> {
        self.policy.clone()
    }

    /// The same, limit by limit.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|named| &*named.policy)
    }

    fn telling<'d>(&'d self, decision: &'d MultiDecision<'_>) -> impl Iterator<Item = (Part<'d>, &'d Named)> {
        let admitted = decision.is_allowed();
        decision.parts().zip(&self.names).filter(move |(part, _)| admitted || part.refuses())
    }
}

fn numbers(part: &Part<'_>) -> Numbers {
    let reset = part.retry_after().unwrap_or_else(|| part.reset_after());
    Numbers { limit: part.limit(), remaining: part.remaining(), reset }
}

/// The period as it is written in rates: `s`, `min`, `h`, `d`, `10s`.
fn period(quota: &Quota) -> String {
    let rate = quota.rate().to_string();
    match rate.split_once('/') {
        Some((_, period)) if period.is_ascii() => period.to_owned(),
        // The standard library writes microseconds with a Greek letter.
        _ => format!("{}ns", quota.rate().period().as_nanos()),
    }
}

/// The seconds, rounded up, in which all of the limit comes back.
fn window(quota: &Quota) -> u64 {
    let rate = quota.rate();
    let nanos =
        rate.period().as_nanos().saturating_mul(quota.limit().into()) / u128::from(rate.count().max(1));
    seconds_up(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate::{FixedWindow, LeakyBucket, ManualClock, Rate, TokenBucket};

    use super::*;

    fn policies(quotas: &[Quota]) -> Vec<String> {
        let clock: SharedClock = Arc::new(ManualClock::new());
        let limiter = MultiLimiter::builder(quotas.iter().copied()).clock(clock).build().unwrap();
        Limits::new("api", quotas, limiter).names.iter().map(|named| named.policy.to_string()).collect()
    }

    #[test]
    fn a_policy_says_the_limit_and_the_seconds_in_which_it_comes_back() {
        assert_eq!(
            policies(&[TokenBucket::new(Rate::per_second(10)).burst(25).into()]),
            ["\"api\";q=25;w=3"]
        );
        assert_eq!(
            policies(&[LeakyBucket::queue(Rate::per_second(10)).capacity(3).into()]),
            ["\"api\";q=3;w=1"]
        );
    }

    #[test]
    fn several_limits_are_told_apart_by_their_periods() {
        let rates = [
            Rate::per_second(10),
            Rate::per_hour(1_000),
            Rate::new(5, Duration::from_secs(10)),
            Rate::new(1, Duration::from_micros(7)),
            Rate::per_hour(2_000),
        ];
        assert_eq!(
            policies(&rates.map(|rate| FixedWindow::new(rate).into())),
            [
                "\"api/s\";q=10;w=1",
                "\"api/h\";q=1000;w=3600",
                "\"api/10s\";q=5;w=10",
                "\"api/7000ns\";q=1;w=1",
                "\"api/h-5\";q=2000;w=3600"
            ]
        );
    }
}
