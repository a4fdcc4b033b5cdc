//! The rate limit headers of one response, kept from the decision until the response.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::value_buffers::{number, write_value};
use super::{HeaderStyle, HeaderStyles, LimitState, MAX_SF_INTEGER, retry_after_seconds, seconds_up};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
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
/// let state = LimitState { limit: 10, remaining: 7, reset: Duration::from_millis(300) };
/// let mut headers = HeaderMap::new();
/// LimitHeaders::new(styles, || None, |items| items.add("shared", state)).write(&mut headers);
/// assert_eq!(headers["ratelimit"], "\"shared\";r=7;t=1");
/// ```
#[derive(Debug, Default)]
pub struct LimitHeaders {
    styles: HeaderStyles,
    /// The limit for the styles that have room for one limit only.
    representative: Option<LimitState>,
    /// The value of `RateLimit`.
    ratelimit: Option<HeaderValue>,
    /// The value of `RateLimit-Policy`.
    policy: Option<HeaderValue>,
}

/// Collects the states of the limits that decided a request, for [`LimitHeaders::new`].
pub struct HeaderItems<'t> {
    styles: HeaderStyles,
    /// The value of `RateLimit`.
    text: &'t mut BytesMut,
    tightest: Option<LimitState>,
}

impl HeaderItems<'_> {
    /// Adds the state of one limit. The name is written as it is, so it must not contain quotes,
    /// backslashes or control characters.
    pub fn add(&mut self, name: &str, state: LimitState) {
        let LimitState { limit, remaining, reset } = state;
        if self.tightest.is_none_or(|tightest| (remaining, limit) < (tightest.remaining, tightest.limit)) {
            self.tightest = Some(state);
        }
        if self.styles.has(HeaderStyle::Ietf) {
            push_item(self.text, "\"");
            self.text.extend_from_slice(name.as_bytes());
            for (key, value) in [("\";r=", remaining), (";t=", seconds_up(reset))] {
                self.text.extend_from_slice(key.as_bytes());
                let mut digits = itoa::Buffer::new();
                self.text.extend_from_slice(digits.format(value.min(MAX_SF_INTEGER)).as_bytes());
            }
        }
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
        let mut representative = None;
        let ratelimit = write_value(|text| {
            let mut items = HeaderItems { styles, text, tightest: None };
            add_items(&mut items);
            representative = items.tightest;
        });
        let policy = if styles.has(HeaderStyle::Ietf) { policy() } else { None };
        Self { styles, representative, ratelimit, policy }
    }

    /// Replaces the limit for the styles that have room for one limit only. In a refusal it is the
    /// limit of `Retry-After`, which may not be the tightest.
    pub(super) fn with_representative(self, representative: Option<LimitState>) -> Self {
        Self { representative, ..self }
    }

    /// Returns whether there are no headers to write.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.styles.is_empty()
    }

    /// Adds the headers to a response. Headers that the response already has stay.
    pub fn write(&mut self, headers: &mut HeaderMap) {
        if let Some(ratelimit) = self.ratelimit.take() {
            // Clients read `RateLimit` with `RateLimit-Policy`, so ours must not be next to the
            // policy of the inner service.
            let no_other_policy = match self.policy.take() {
                None => !headers.contains_key(&RATELIMIT_POLICY),
                policy => put(headers, RATELIMIT_POLICY, policy),
            };
            if no_other_policy && !put(headers, RATELIMIT, Some(ratelimit)) {
                headers.remove(&RATELIMIT_POLICY);
            }
        }
        let Some(LimitState { limit, remaining, reset }) = self.representative else { return };
        let (delta, epoch) =
            (self.styles.has(HeaderStyle::XRateLimit), self.styles.has(HeaderStyle::XRateLimitEpoch));
        if delta || epoch {
            let reset = if delta { seconds_up(reset) } else { unix_time_after(reset) };
            put_all(headers, [(X_LIMIT, limit), (X_REMAINING, remaining), (X_RESET, reset)]);
        }
        if self.styles.has(HeaderStyle::RateLimitTrio) {
            put_all(headers, [(LIMIT, limit), (REMAINING, remaining), (RESET, seconds_up(reset))]);
        }
    }

    /// Adds the headers to the response to a refusal, with `Retry-After` and `Cache-Control:
    /// no-store`. Headers that the response already has stay.
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
        self.write(headers);
    }
}

/// Adds a header unless the response has it already. Returns whether it was added.
fn put(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) -> bool {
    match value {
        // Fails if the inner service has used up all 32,768 headers. Then the header is left out.
        Some(value) if !headers.contains_key(&name) => headers.try_insert(name, value).is_ok(),
        _ => false,
    }
}

/// Adds all headers, or none if the response has one of them, because clients read them together.
fn put_all(headers: &mut HeaderMap, fields: [(HeaderName, u64); 3]) {
    if !fields.iter().any(|(name, _)| headers.contains_key(name)) {
        for (name, value) in fields {
            put(headers, name, number(value));
        }
    }
}

/// Returns a list of items as a header value. `None` if there are no items.
pub(super) fn join<'l>(items: impl Iterator<Item = &'l str>) -> Option<HeaderValue> {
    write_value(|text| items.for_each(|item| push_item(text, item)))
}

/// Appends an item, or its beginning, to a list.
fn push_item(text: &mut BytesMut, item: &str) {
    if !text.is_empty() {
        text.extend_from_slice(b", ");
    }
    text.extend_from_slice(item.as_bytes());
}

fn unix_time_after(after: Duration) -> u64 {
    seconds_up(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(after))
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
        limit_headers(&styles, &[("a", 7), ("b", 3)]).write(&mut headers);
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
            .write(&mut headers);
        assert!(!headers.contains_key(RATELIMIT));
    }

    #[test]
    fn an_epoch_reset_is_in_the_future_unless_deltas_win() {
        let mut headers = HeaderMap::new();
        limit_headers(&[HeaderStyle::XRateLimitEpoch], &[("a", 7)]).write(&mut headers);
        let epoch: u64 = headers[X_RESET].to_str().unwrap().parse().unwrap();
        assert!((1..=3).contains(&(epoch - unix_time_after(Duration::ZERO) + 1)), "{epoch}");
        let mut headers = HeaderMap::new();
        limit_headers(&[HeaderStyle::XRateLimitEpoch, HeaderStyle::XRateLimit], &[("a", 7)])
            .write(&mut headers);
        assert_eq!(headers[X_RESET], "2");
    }

    #[test]
    fn integers_stay_within_those_of_structured_fields() {
        let state = LimitState { limit: u64::MAX, remaining: u64::MAX, reset: Duration::MAX };
        let mut headers = HeaderMap::new();
        let styles = HeaderStyles::from_iter([HeaderStyle::Ietf]);
        LimitHeaders::new(styles, || None, |items| items.add("v", state)).write(&mut headers);
        assert_eq!(headers[RATELIMIT], "\"v\";r=999999999999999;t=999999999999999");
        assert!(!headers.contains_key(RATELIMIT_POLICY));
    }
}
