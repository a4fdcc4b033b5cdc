//! The names and the policies of limits that decide together, and their headers.

use std::time::Duration;

use http::HeaderValue;
use tollgate::{MultiDecision, Quota};

use super::limit_headers::join;
use super::policy_history::PolicyHistory;
use super::{HeaderItems, HeaderStyles, LimitHeaders, LimitState, MAX_SF_INTEGER, seconds_up};

/// The limits of a rule as headers show them: the name and the `RateLimit-Policy` of each.
///
/// One limit has the name of its rule. Several limits are named by rule and period: `api/s`,
/// `api/h`.
///
/// # Examples
///
/// The headers of a server that calls the engine itself:
///
/// ```
/// use http::HeaderMap;
/// use tollgate::{FixedWindow, ManualClock, MultiLimiter, Quota, Rate, TokenBucket};
/// use tollgate_http::{HeaderStyle, HeaderStyles, QuotaPolicies};
///
/// let bucket = TokenBucket::new(Rate::per_second(10));
/// let quotas: [Quota; 2] = [bucket.into(), FixedWindow::new(Rate::per_hour(500)).into()];
/// let limiter: MultiLimiter<str, _> =
///     MultiLimiter::builder(quotas.iter().copied()).clock(ManualClock::new()).build()?;
/// let policies = QuotaPolicies::new("api", &quotas);
/// let styles = HeaderStyles::from_iter([HeaderStyle::Ietf, HeaderStyle::XRateLimit]);
///
/// let mut headers = HeaderMap::new();
/// policies.headers(styles, &limiter.check("alice")).write(&mut headers);
/// assert_eq!(headers["ratelimit"], r#""api/s";r=9;t=1, "api/h";r=499;t=3600"#);
/// assert_eq!(headers["ratelimit-policy"], r#""api/s";q=10;w=1, "api/h";q=500;w=3600"#);
/// assert_eq!(headers["x-ratelimit-remaining"], "9");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct QuotaPolicies {
    /// The name of each limit in headers, by the limit's number.
    names: Box<[Box<str>]>,
    items: PolicyHistory,
}

impl QuotaPolicies {
    /// Names the limits of a rule, in the order in which the limiter has them. The name is written
    /// as it is, so it must not contain quotes, backslashes or control characters.
    #[must_use]
    pub fn new(rule: &str, quotas: &[Quota]) -> Self {
        let mut names: Vec<Box<str>> = Vec::with_capacity(quotas.len());
        for (number, quota) in quotas.iter().enumerate() {
            let mut name =
                if quotas.len() == 1 { rule.to_owned() } else { format!("{rule}/{}", period(quota)) };
            if names.iter().any(|other| **other == *name) {
                name = format!("{name}-{}", number + 1);
            }
            names.push(name.into());
        }
        Self { items: PolicyHistory::new(policy_items(&names, quotas)), names: names.into() }
    }

    /// Makes the policies of other quotas current. The names stay, even if a period changes.
    /// Callers must exclude one another: of two concurrent changes, one would be lost.
    ///
    /// **Cost.** The policies of each change stay in memory until this is dropped, because readers
    /// borrow them without a lock.
    pub fn change(&self, quotas: &[Quota]) {
        self.items.change(policy_items(&self.names, quotas));
    }

    /// Returns the names of the limits, by their numbers.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Returns the headers of a decision by these limits. After a refusal, they show the limits
    /// that refuse, and the styles that have room for one limit show the one with the longest wait.
    #[must_use]
    pub fn headers(&self, styles: HeaderStyles, decision: &MultiDecision<'_>) -> LimitHeaders {
        if decision.is_allowed() {
            let policy = || Self::header_of_all([self].into_iter());
            return LimitHeaders::new(styles, policy, |items| self.add_items(decision, items));
        }
        let refuses = decision.parts().filter(|limit| limit.refuses());
        let mask = refuses.fold(0, |mask, limit| mask | 1 << limit.number());
        let slowest = decision.parts().nth(decision.refused_by().unwrap_or(0));
        let policy = || self.header_of(mask);
        LimitHeaders::new(styles, policy, |items| self.add_items(decision, items))
            .with_representative(slowest.map(|limit| LimitState::from(&limit)))
    }

    /// Adds each limit's state to headers; after a refusal, only the limits that refuse.
    #[inline]
    pub fn add_items(&self, decision: &MultiDecision<'_>, items: &mut HeaderItems<'_>) {
        let admitted = decision.is_allowed();
        decision.parts().filter(|limit| admitted || limit.refuses()).for_each(|limit| {
            items.add(&self.names[limit.number()], LimitState::from(&limit));
        });
    }

    /// Returns `RateLimit-Policy` of the limits whose bit is set in `mask`, by their numbers.
    /// `None` if there are none.
    #[must_use]
    pub fn header_of(&self, mask: u64) -> Option<HeaderValue> {
        let items = self.items.items().enumerate().filter(|(number, _)| mask & (1 << number) != 0);
        join(items.map(|(_, item)| item))
    }

    /// Returns `RateLimit-Policy` of all limits of these rules. `None` if there are none.
    pub fn header_of_all<'p>(mut rules: impl Iterator<Item = &'p Self>) -> Option<HeaderValue> {
        match (rules.next(), rules.next()) {
            (Some(only), None) => only.items.header(),
            (first, second) => {
                let all = first.into_iter().chain(second).chain(rules);
                join(all.flat_map(|policies| policies.items.items()))
            }
        }
    }
}

/// Returns the `RateLimit-Policy` item of each limit.
fn policy_items(names: &[Box<str>], quotas: &[Quota]) -> Vec<String> {
    let item = |(name, quota): (_, &Quota)| {
        format!("\"{name}\";q={};w={}", quota.limit().min(MAX_SF_INTEGER), window_seconds(quota))
    };
    names.iter().zip(quotas).map(item).collect()
}

/// Returns the period as rates write it: `s`, `min`, `h`, `d`, `10s`.
fn period(quota: &Quota) -> String {
    let rate = quota.rate().to_string();
    match rate.split_once('/') {
        Some((_, period)) if period.is_ascii() => period.to_owned(),
        // The standard library writes microseconds with a Greek letter, illegal in a rule's name.
        _ => format!("{}ns", quota.rate().period().as_nanos()),
    }
}

/// Returns the seconds, rounded up, in which the whole limit comes back.
fn window_seconds(quota: &Quota) -> u64 {
    let rate = quota.rate();
    let nanos =
        rate.period().as_nanos().saturating_mul(quota.limit().into()) / u128::from(rate.count().max(1));
    seconds_up(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).max(1)
}

#[cfg(test)]
mod tests {
    use tollgate::{FixedWindow, LeakyBucket, Rate, TokenBucket};

    use super::*;

    fn policy_items_of(quotas: &[Quota]) -> Vec<String> {
        QuotaPolicies::new("api", quotas).items.items().map(str::to_owned).collect()
    }

    #[test]
    fn a_policy_has_its_limit_and_its_window_in_seconds() {
        assert_eq!(
            policy_items_of(&[TokenBucket::new(Rate::per_second(10)).burst(25).into()]),
            ["\"api\";q=25;w=3"]
        );
        assert_eq!(
            policy_items_of(&[LeakyBucket::queue(Rate::per_second(10)).capacity(3).into()]),
            ["\"api\";q=3;w=1"]
        );
    }

    #[test]
    fn a_policy_stays_within_the_integers_of_structured_fields() {
        let vast = TokenBucket::new(Rate::per_second(1_000_000_000)).burst(10_000_000_000_000_000);
        assert_eq!(policy_items_of(&[vast.into()]), ["\"api\";q=999999999999999;w=10000000"]);
    }

    #[test]
    fn the_names_of_several_limits_end_with_their_periods() {
        let rates = [
            Rate::per_second(10),
            Rate::per_hour(1_000),
            Rate::new(5, Duration::from_secs(10)),
            Rate::new(1, Duration::from_micros(7)),
            Rate::per_hour(2_000),
        ];
        assert_eq!(
            policy_items_of(&rates.map(|rate| FixedWindow::new(rate).into())),
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
