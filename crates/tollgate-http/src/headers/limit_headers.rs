//! The rate limit headers of one response, kept from the decision until the response.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::items::{Item, Items, encode};
use super::value_buffers::{number, write_bytes, write_value};
use super::{HeaderStyle, HeaderStyles, LimitState, MAX_SF_INTEGER, retry_after_seconds, seconds_up};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_USED: HeaderName = HeaderName::from_static("x-ratelimit-used");
const X_RESOURCE: HeaderName = HeaderName::from_static("x-ratelimit-resource");
const X_RETRY_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-retry-after");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The rate limit headers of one response.
///
/// For the limits of one rule, [`QuotaPolicies::headers`](crate::QuotaPolicies::headers) makes
/// them; [`new`](Self::new) is for several rules, and for limits that another process decides.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use http::HeaderMap;
/// use tollgate_http::{HeaderStyle, HeaderStyles, LimitHeaders, LimitState};
///
/// let styles = HeaderStyles::from_iter([HeaderStyle::Ietf]);
/// let state = LimitState { limit: 10, remaining: 0, reset: Duration::from_millis(5_300) };
/// let mut headers = HeaderMap::new();
/// let mut response = LimitHeaders::new(styles, || None, |items| items.add("shared", state));
/// // The request took two seconds:
/// response.write(&mut headers, Duration::from_secs(2));
/// assert_eq!(headers["ratelimit"], "\"shared\";r=0;t=4");
/// ```
#[derive(Debug, Default)]
pub struct LimitHeaders {
    styles: HeaderStyles,
    /// The limits. They become text when the response is written, since their resets run.
    items: Bytes,
    /// The value of `RateLimit-Policy`.
    policy: Option<HeaderValue>,
    /// The Unix time of the decision.
    unix_time: Option<Duration>,
}

/// Collects the states of the limits that decided a request, for [`LimitHeaders::new`].
pub struct HeaderItems<'t>(&'t mut BytesMut);

impl HeaderItems<'_> {
    /// Adds the state of one limit. The name is written as it is, so it must not contain quotes,
    /// backslashes or control characters.
    #[inline]
    pub fn add(&mut self, name: &str, state: LimitState) {
        encode(self.0, name, state);
    }
}

impl LimitHeaders {
    /// Makes the headers of the limits that `add_items` adds. `policy` returns their
    /// `RateLimit-Policy` and runs only if the styles need it.
    pub fn new(
        styles: HeaderStyles,
        policy: impl FnOnce() -> Option<HeaderValue>,
        add_items: impl FnOnce(&mut HeaderItems<'_>),
    ) -> Self {
        let items =
            if styles.is_empty() { None } else { write_bytes(|text| add_items(&mut HeaderItems(text))) };
        let policy = if styles.has(HeaderStyle::Ietf) { policy() } else { None };
        Self { styles, items: items.unwrap_or_default(), policy, unix_time: None }
    }

    /// Sets the Unix time of the decision, for styles that
    /// [show Unix times](HeaderStyles::show_unix_time). By default, the system's time when the
    /// headers are written counts.
    ///
    /// A server that adds the time of its limiter's clock to a constant shows an instant always in
    /// the same second. Two readings of the system's time may round it to two.
    #[must_use]
    pub fn unix_time(self, decided_at: Duration) -> Self {
        Self { unix_time: Some(decided_at), ..self }
    }

    /// Returns whether there are no headers to write.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.styles.is_empty()
    }

    /// Adds the headers to a response that is written this long after the decision. Headers that
    /// the response already has stay.
    pub fn write(&mut self, headers: &mut HeaderMap, elapsed: Duration) {
        let tightest = |item: &Item<'_>| (item.state.remaining, Reverse(item.state.reset), item.state.limit);
        self.write_showing(headers, elapsed, |items| items.filter(Item::has_reset).min_by_key(tightest));
    }

    /// Adds the headers to the response to a refusal, with `Retry-After` and `Cache-Control:
    /// no-store`, right after the decision. Headers that the response already has stay.
    ///
    /// `retry_after` is that of the [`Refusal`](crate::Refusal): it is rounded up to whole seconds,
    /// at least 1.
    pub fn write_refusal(&mut self, headers: &mut HeaderMap, retry_after: Option<Duration>) {
        put(headers, CACHE_CONTROL, Some(HeaderValue::from_static("no-store")));
        if let Some(seconds) = retry_after.map(retry_after_seconds) {
            put(headers, RETRY_AFTER, number(seconds));
            if self.styles.has(HeaderStyle::XRateLimitRetryAfter) {
                put(headers, X_RETRY_AFTER, number(seconds));
            }
        }
        // The first of those with the longest reset.
        let slowest = |item: &Item<'_>| Reverse(item.state.reset);
        self.write_showing(headers, Duration::ZERO, |items| {
            items.filter(Item::has_reset).min_by_key(slowest)
        });
    }

    /// Adds the headers. `shown` chooses the limit for the styles that have room for one only.
    fn write_showing(
        &mut self,
        headers: &mut HeaderMap,
        elapsed: Duration,
        shown: impl for<'i> FnOnce(Items<'i>) -> Option<Item<'i>>,
    ) {
        let items = Items::new(&self.items);
        if self.styles.has(HeaderStyle::Ietf) {
            // Clients read `RateLimit` with `RateLimit-Policy`, so ours must not be next to the
            // policy of the inner service.
            let no_other_policy = match self.policy.take() {
                None => !headers.contains_key(&RATELIMIT_POLICY),
                policy => put(headers, RATELIMIT_POLICY, policy),
            };
            if no_other_policy
                && !put(headers, RATELIMIT, ratelimit(items.clone(), elapsed))
                && headers.contains_key(&RATELIMIT)
            {
                headers.remove(&RATELIMIT_POLICY);
            }
        }
        let Some(Item { name, state: LimitState { limit, remaining, reset } }) = shown(items) else { return };
        let after = seconds_up(reset.saturating_sub(elapsed));
        let github = self.styles.has(HeaderStyle::GitHub);
        if github || self.styles.has(HeaderStyle::XRateLimit) || self.styles.has(HeaderStyle::XRateLimitEpoch)
        {
            let epoch = || match self.unix_time {
                Some(decided_at) => seconds_up(decided_at.saturating_add(reset)),
                None => seconds_up(unix_now().saturating_add(reset.saturating_sub(elapsed))),
            };
            let reset = if self.styles.has(HeaderStyle::XRateLimit) { after } else { epoch() };
            let fields = [(X_LIMIT, limit), (X_REMAINING, remaining), (X_RESET, reset)];
            if !github {
                put_all(headers, fields);
            } else if ![X_USED, X_RESOURCE].iter().any(|name| headers.contains_key(name))
                && put_all(headers, fields)
            {
                put(headers, X_USED, number(limit.saturating_sub(remaining)));
                put(headers, X_RESOURCE, write_value(|text| text.extend_from_slice(name)));
            }
        }
        if self.styles.has(HeaderStyle::RateLimitTrio) {
            put_all(headers, [(LIMIT, limit), (REMAINING, remaining), (RESET, after)]);
        }
    }
}

/// Returns the value of `RateLimit`.
fn ratelimit(items: Items<'_>, elapsed: Duration) -> Option<HeaderValue> {
    write_value(|text| {
        for item in items {
            let LimitState { remaining, reset, .. } = item.state;
            push_item(text, b"\"");
            text.extend_from_slice(item.name);
            let after = item.has_reset().then(|| (";t=", seconds_up(reset.saturating_sub(elapsed))));
            for (key, value) in [("\";r=", remaining)].into_iter().chain(after) {
                text.extend_from_slice(key.as_bytes());
                let mut digits = itoa::Buffer::new();
                text.extend_from_slice(digits.format(value.min(MAX_SF_INTEGER)).as_bytes());
            }
        }
    })
}

/// Adds a header unless the response has it already. Returns whether it was added.
fn put(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) -> bool {
    // Both fail if the inner service has used up all 32,768 headers. Then the header is left out.
    match (value, headers.try_entry(name)) {
        (Some(value), Ok(Entry::Vacant(vacant))) => vacant.try_insert(value).is_ok(),
        _ => false,
    }
}

/// Adds all headers, or none if the response has one of them, because clients read them together.
/// Returns whether they were added.
fn put_all(headers: &mut HeaderMap, fields: [(HeaderName, u64); 3]) -> bool {
    if fields.iter().any(|(name, _)| headers.contains_key(name)) {
        return false;
    }
    fields.into_iter().all(|(name, value)| put(headers, name, number(value)))
}

/// Returns a list of items as a header value. `None` if there are no items.
pub(super) fn join<'l>(items: impl Iterator<Item = &'l str>) -> Option<HeaderValue> {
    write_value(|text| items.for_each(|item| push_item(text, item.as_bytes())))
}

/// Appends an item, or its beginning, to a list.
fn push_item(text: &mut BytesMut, item: &[u8]) {
    if !text.is_empty() {
        text.extend_from_slice(b", ");
    }
    text.extend_from_slice(item);
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "\"p\";q=10;w=1";

    /// Headers of limits with these names and this much remaining.
    fn limit_headers(styles: &[HeaderStyle], limits: &[(&str, u64)]) -> LimitHeaders {
        let policy = || join(limits.iter().map(|_| POLICY));
        LimitHeaders::new(styles.iter().copied().collect(), policy, |items| {
            for &(name, remaining) in limits {
                items.add(name, LimitState { limit: 10, remaining, reset: Duration::from_millis(1_001) });
            }
        })
    }

    #[test]
    fn several_limits_are_one_list_and_the_tightest_is_shown() {
        let styles = [HeaderStyle::Ietf, HeaderStyle::XRateLimit, HeaderStyle::RateLimitTrio];
        let mut headers = HeaderMap::new();
        limit_headers(&styles, &[("a", 7), ("b", 3)]).write(&mut headers, Duration::ZERO);
        assert_eq!(headers["ratelimit"], "\"a\";r=7;t=2, \"b\";r=3;t=2");
        assert_eq!(headers["ratelimit-policy"], "\"p\";q=10;w=1, \"p\";q=10;w=1");
        assert_eq!(
            (&headers["x-ratelimit-remaining"], &headers["ratelimit-remaining"]),
            (&"3".parse().unwrap(), &"3".parse().unwrap())
        );
        assert_eq!(headers["x-ratelimit-reset"], "2");
    }

    #[test]
    fn headers_of_the_inner_service_stay() {
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT_POLICY, HeaderValue::from_static("\"inner\";q=1;w=1"));
        headers.insert(X_RESET, HeaderValue::from_static("1"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
        limit_headers(&[HeaderStyle::Ietf, HeaderStyle::XRateLimit], &[("a", 7)])
            .write_refusal(&mut headers, Some(Duration::from_secs(1)));
        assert!(!headers.contains_key(RATELIMIT), "our value would be read with the inner policy");
        assert_eq!(
            (headers.get_all(X_RESET).iter().count(), &headers[X_RESET]),
            (1, &HeaderValue::from_static("1"))
        );
        assert!(
            !headers.contains_key(X_LIMIT) && !headers.contains_key(X_REMAINING),
            "they would describe another limit"
        );
        assert_eq!(headers[CACHE_CONTROL], "private");
    }

    #[test]
    fn values_without_a_policy_yield_to_an_inner_policy() {
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT_POLICY, HeaderValue::from_static("\"inner\";q=1;w=1"));
        // The limit of a backend has no policy.
        LimitHeaders { policy: None, ..limit_headers(&[HeaderStyle::Ietf], &[("there", 7)]) }
            .write(&mut headers, Duration::ZERO);
        assert!(!headers.contains_key(RATELIMIT));
    }

    #[test]
    fn an_epoch_reset_is_in_the_future_unless_deltas_win() {
        let mut headers = HeaderMap::new();
        limit_headers(&[HeaderStyle::XRateLimitEpoch], &[("a", 7)]).write(&mut headers, Duration::ZERO);
        let epoch: u64 = headers[X_RESET].to_str().unwrap().parse().unwrap();
        assert!((1..=3).contains(&(epoch - unix_now().as_secs())), "{epoch}");
        let mut headers = HeaderMap::new();
        limit_headers(&[HeaderStyle::XRateLimitEpoch, HeaderStyle::XRateLimit], &[("a", 7)])
            .write(&mut headers, Duration::ZERO);
        assert_eq!(headers[X_RESET], "2");
    }

    #[test]
    fn integers_stay_within_those_of_structured_fields() {
        let reset = Duration::from_nanos(u64::MAX - 1);
        let state = LimitState { limit: u64::MAX, remaining: u64::MAX, reset };
        let mut headers = HeaderMap::new();
        let styles = HeaderStyles::from_iter([HeaderStyle::Ietf]);
        LimitHeaders::new(styles, || None, |items| items.add("v", state)).write(&mut headers, Duration::ZERO);
        assert_eq!(headers[RATELIMIT], "\"v\";r=999999999999999;t=18446744074");
        assert!(!headers.contains_key(RATELIMIT_POLICY));
    }

    /// A limit named by its numbers.
    fn add(items: &mut HeaderItems<'_>, limit: u64, remaining: u64, reset: Duration) {
        items.add(&format!("{limit}/{remaining}"), LimitState { limit, remaining, reset });
    }

    #[test]
    fn of_equally_little_remaining_the_longest_reset_is_shown() {
        let styles = [HeaderStyle::XRateLimit, HeaderStyle::RateLimitTrio];
        for reversed in [false, true] {
            let mut limits = [
                (1, 0, Duration::from_millis(10)),
                (3, 0, Duration::from_secs(2_359)),
                (2, 1, Duration::MAX),
            ];
            if reversed {
                limits.reverse();
            }
            let mut headers = HeaderMap::new();
            LimitHeaders::new(
                styles.into_iter().collect(),
                || None,
                |items| {
                    limits.iter().for_each(|&(limit, remaining, reset)| add(items, limit, remaining, reset));
                },
            )
            .write(&mut headers, Duration::ZERO);
            for style in ["x-ratelimit", "ratelimit"] {
                assert_eq!(headers[format!("{style}-limit")], "3");
                assert_eq!(headers[format!("{style}-reset")], "2359");
            }
        }
    }

    #[test]
    fn resets_are_those_at_the_time_of_writing() {
        let styles = [
            HeaderStyle::Ietf,
            HeaderStyle::XRateLimit,
            HeaderStyle::XRateLimitEpoch,
            HeaderStyle::RateLimitTrio,
        ];
        for (elapsed, reset) in [(0, "6"), (1, "6"), (1_000, "5"), (5_499, "1"), (5_500, "0"), (9_000, "0")] {
            let mut headers = HeaderMap::new();
            LimitHeaders::new(
                styles.into_iter().collect(),
                || None,
                |items| {
                    add(items, 10, 0, Duration::from_millis(5_500));
                },
            )
            .write(&mut headers, Duration::from_millis(elapsed));
            assert_eq!(headers[RATELIMIT], format!("\"10/0\";r=0;t={reset}"));
            assert_eq!(
                (&headers[X_RESET], &headers[RESET]),
                (&reset.parse().unwrap(), &reset.parse().unwrap())
            );
        }
    }

    #[test]
    fn the_epoch_of_a_reset_stays_however_late() {
        for elapsed in [0, 4_000, 9_000] {
            let mut headers = HeaderMap::new();
            let styles = HeaderStyles::from_iter([HeaderStyle::XRateLimitEpoch]);
            LimitHeaders::new(styles, || None, |items| add(items, 10, 0, Duration::from_millis(5_500)))
                .unix_time(Duration::from_millis(1_000_400))
                .write(&mut headers, Duration::from_millis(elapsed));
            assert_eq!(headers[X_RESET], "1006");
        }
    }

    #[test]
    fn github_headers_name_the_limit_and_count_what_is_used() {
        let styles = HeaderStyles::from_iter([HeaderStyle::GitHub]);
        let mut limit = LimitHeaders::new(
            styles,
            || None,
            |items| {
                items.add("core", LimitState { limit: 60, remaining: 58, reset: Duration::from_secs(7) });
            },
        )
        .unix_time(Duration::from_secs(1_700_000_000));
        let mut headers = HeaderMap::new();
        limit.write(&mut headers, Duration::ZERO);
        let mut shown: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        shown.sort_unstable();
        assert_eq!(
            shown,
            [
                ("x-ratelimit-limit", "60"),
                ("x-ratelimit-remaining", "58"),
                ("x-ratelimit-reset", "1700000007"),
                ("x-ratelimit-resource", "core"),
                ("x-ratelimit-used", "2")
            ]
        );
        let mut headers = HeaderMap::from_iter([(X_RESOURCE, HeaderValue::from_static("inner"))]);
        limit.write(&mut headers, Duration::ZERO);
        assert_eq!(headers.len(), 1, "they would describe another limit");
    }
}
