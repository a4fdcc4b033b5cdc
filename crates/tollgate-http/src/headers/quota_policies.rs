//! The names and the policies of limits that decide together, and their headers.

use http::HeaderValue;
use tollgate::{Decision, Quota, Rate};

use super::policy_history::PolicyHistory;
use super::value_buffers::write_value;
use super::{HeaderStyles, LimitHeaders, LimitState, MAX_SF_INTEGER, ValueText};

const NANOS: u128 = 1_000_000_000;

/// How many times longer than the time of the limit a policy's time may be, to be exact.
const MAX_STRETCH: u128 = 16;

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
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate::{FixedWindow, Limiter, ManualClock, Quota, Rate, TokenBucket};
/// use tollgate_http::{HeaderStyle, HeaderStyles, QuotaPolicies};
///
/// let bucket = TokenBucket::new(Rate::per_second(10));
/// let quotas: [Quota; 2] = [bucket.into(), FixedWindow::new(Rate::per_hour(500)).into()];
/// let limiter = Limiter::builder(quotas).per::<str>().clock(ManualClock::new()).build()?;
/// let policies = QuotaPolicies::new("api", &quotas);
/// let styles = HeaderStyles::from_iter([HeaderStyle::Ietf, HeaderStyle::XRateLimit]);
///
/// let mut headers = HeaderMap::new();
/// policies.headers(styles, &limiter.check("alice")).write(&mut headers, Duration::ZERO);
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
        Self { items: PolicyHistory::new(policy_items(&names, quotas), rates(quotas)), names: names.into() }
    }

    /// Makes the policies of other quotas current. The names stay, even if a period changes.
    /// Callers must exclude one another: of two concurrent changes, one would be lost.
    ///
    /// **Cost.** The policies of each change stay in memory until this is dropped, because readers
    /// borrow them without a lock.
    pub fn change(&self, quotas: &[Quota]) {
        self.items.change(policy_items(&self.names, quotas), rates(quotas));
    }

    /// Returns the names of the limits, by their numbers.
    #[must_use]
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Returns the current rate of a limit by its number. `None` if there is no such limit.
    #[must_use]
    pub fn rate(&self, number: usize) -> Option<Rate> {
        self.items.rate(number)
    }

    /// Returns the headers of a decision by these limits: the policies of all, and the states of
    /// all; after a refusal, the states of those that refuse.
    #[must_use]
    pub fn headers<const N: usize>(&self, styles: HeaderStyles, decision: &Decision<'_, N>) -> LimitHeaders {
        let admitted = decision.is_allowed();
        LimitHeaders::new(
            styles,
            || self.items.header(),
            |items| {
                for limit in decision.parts().filter(|limit| admitted || limit.refuses()) {
                    items.add(&self.names[limit.number()], LimitState::from(&limit));
                }
            },
        )
    }

    /// Returns `RateLimit-Policy` of all limits of these rules. `None` if there are none.
    pub fn header_of_all<'p>(rules: impl Iterator<Item = &'p Self> + Clone) -> Option<HeaderValue> {
        let mut first = rules.clone();
        match (first.next(), first.next()) {
            (None, _) => None,
            (Some(only), None) => only.items.header(),
            _ => write_value(|text| Self::write_all(rules, &mut ValueText::of_header(text))),
        }
    }

    /// Writes the policies of several rules.
    pub(crate) fn write_all<'p>(rules: impl Iterator<Item = &'p Self>, text: &mut ValueText<'_>) {
        text.list(rules, Self::write);
    }

    /// Writes the policies of one rule.
    fn write(&self, text: &mut ValueText<'_>) {
        text.list(self.names.iter().zip(self.items.items()), |(name, item), text| {
            // An item begins with the name in quotes.
            text.quoted(name.as_bytes());
            text.plain(item.as_bytes().get(name.len() + 2..).unwrap_or_default());
        });
    }
}

fn rates(quotas: &[Quota]) -> Vec<Rate> {
    quotas.iter().map(Quota::rate).collect()
}

/// Returns the `RateLimit-Policy` item of each limit.
fn policy_items(names: &[Box<str>], quotas: &[Quota]) -> Vec<String> {
    let item = |(name, quota): (_, &Quota)| {
        let (units, seconds) = units_and_seconds(quota);
        format!("\"{name}\";q={};w={}", units.min(MAX_SF_INTEGER), seconds.min(MAX_SF_INTEGER))
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

/// Returns the units that come back in a whole number of seconds, and that number: the limit if all
/// of it comes back in whole seconds; else the units of at least as long a time.
///
/// Their quotient is the rate, rounded down if no time of up to [`MAX_STRETCH`] times as many
/// seconds has a whole number of units.
fn units_and_seconds(quota: &Quota) -> (u64, u64) {
    let (count, period) = (u128::from(quota.rate().count().max(1)), quota.rate().period().as_nanos().max(1));
    // The time of the limit is `limit * period / count` nanoseconds.
    let seconds = (u128::from(quota.limit()) * period).div_ceil(count * NANOS).max(1);
    let per_period = count * NANOS;
    // The times with a whole number of units are the multiples of this.
    let exact = seconds.next_multiple_of(period / gcd(period, per_period));
    let seconds = if exact <= seconds * MAX_STRETCH { exact } else { seconds };
    let saturate = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    (saturate(seconds * per_period / period), saturate(seconds))
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, TokenBucket};

    use super::*;

    fn policy_items_of(quotas: &[Quota]) -> Vec<String> {
        QuotaPolicies::new("api", quotas).items.items().map(str::to_owned).collect()
    }

    #[test]
    fn the_quotient_of_a_policy_is_the_rate() {
        let bucket = |rate, burst| Quota::from(TokenBucket::new(rate).burst(burst));
        let every = |count, millis| Rate::new(count, Duration::from_millis(millis));
        for (quota, policy) in [
            (bucket(Rate::per_second(10), 20), "q=20;w=2"),
            (bucket(Rate::per_hour(3), 3), "q=3;w=3600"),
            // Not in whole seconds: 2.5 s, 10 ms, 300 ms, 7.5 s, 100 ms.
            (bucket(Rate::per_second(10), 25), "q=30;w=3"),
            (bucket(Rate::per_second(100), 1), "q=100;w=1"),
            (LeakyBucket::queue(Rate::per_second(10)).capacity(3).into(), "q=10;w=1"),
            (bucket(every(2, 15_000), 1), "q=2;w=15"),
            (FixedWindow::new(every(5, 100)).into(), "q=50;w=1"),
            // 1,000,000 in 7 s; and one in 999.999999 s has no such time.
            (bucket(Rate::new(1, Duration::from_micros(7)), 1), "q=1000000;w=7"),
            (bucket(Rate::new(1, Duration::from_micros(999_999_999)), 1), "q=1;w=1000"),
        ] {
            assert_eq!(policy_items_of(&[quota]), [format!("\"api\";{policy}")], "{quota}");
        }
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
                "\"api/7000ns\";q=1000000;w=7",
                "\"api/h-5\";q=2000;w=3600"
            ]
        );
    }
}
