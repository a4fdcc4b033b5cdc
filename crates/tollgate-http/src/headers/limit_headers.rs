//! The rate limit headers of one response, kept from the decision until the response.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;

use super::items::{Items, encode};
use super::value_buffers::write_bytes;
use super::written::Written;
use super::{HeaderSink, HeaderStyle, HeaderStyles, LimitState};

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
    only_ours: bool,
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
        Self { styles, items: items.unwrap_or_default(), policy, unix_time: None, only_ours: false }
    }

    /// Has these headers take the place of those that a response has already, also if those tell a
    /// stricter limit: see [`write`](Self::write).
    #[must_use]
    pub fn only_ours(self) -> Self {
        Self { only_ours: true, ..self }
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

    /// Adds the headers to a response that is written this long after the decision.
    ///
    /// If it has limit headers already, as of a service that limits, too, its client would read
    /// both as one limit. So the stricter limit is told whole, in its own headers, and the other
    /// one not at all: that which leaves less, or as much for longer. A response with `Retry-After`
    /// leaves nothing until then.
    pub fn write(&mut self, headers: &mut impl HeaderSink, elapsed: Duration) {
        let policy = self.policy.take().into();
        self.written().write(headers, policy, elapsed);
    }

    /// Adds the headers to the response to a refusal, with `Retry-After` and `Cache-Control:
    /// no-store`, right after the decision. Headers that the response already has stay.
    ///
    /// `retry_after` is that of the [`Refusal`](crate::Refusal): it is rounded up to whole seconds,
    /// at least 1.
    pub fn write_refusal(&mut self, headers: &mut impl HeaderSink, retry_after: Option<Duration>) {
        let policy = self.policy.take().into();
        self.written().write_refusal(headers, policy, retry_after);
    }

    fn written(&self) -> Written<Items<'_>> {
        let Self { styles, unix_time, only_ours, .. } = *self;
        Written { styles, items: Items::new(&self.items), unix_time, only_ours }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::CACHE_CONTROL;

    use super::super::written::{
        RATELIMIT, RATELIMIT_POLICY, RESET, X_LIMIT, X_REMAINING, X_RESET, X_RESOURCE, unix_now,
    };
    use super::*;

    const POLICY: &str = "\"p\";q=10;w=1";

    /// Headers of limits with these names and this much remaining.
    fn limit_headers(styles: &[HeaderStyle], limits: &[(&str, u64)]) -> LimitHeaders {
        let policy = || HeaderValue::from_str(&vec![POLICY; limits.len()].join(", ")).ok();
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

    /// The other limit leaves less, as much for longer, as much, more, or a text that is no number.
    #[test]
    fn the_stricter_of_two_limits_is_told_whole() {
        let theirs = |remaining: &str, reset: &str, retry_after: &str| {
            let value = |text: &str| HeaderValue::from_str(text).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(RATELIMIT, value(&format!("\"inner\";r={remaining};t={reset}")));
            headers.insert(RATELIMIT_POLICY, value("\"inner\";q=9;w=1"));
            headers.insert(X_REMAINING, value(remaining));
            headers.insert("x-ratelimit-scope", value("all"));
            if !retry_after.is_empty() {
                headers.insert("retry-after", value(retry_after));
            }
            headers
        };
        let styles = [HeaderStyle::Ietf, HeaderStyle::RateLimitTrio];
        for (remaining, reset, retry_after, stays) in [
            ("6", "1", "", true),
            ("7", "3", "", true),
            ("7", "2", "", false),
            ("8", "9", "", false),
            ("?", "9", "", false),
            ("8", "9", "1", true),
        ] {
            let mut headers = theirs(remaining, reset, retry_after);
            let before = headers.clone();
            // Of another limit of ours more is left.
            limit_headers(&styles, &[("a", 7), ("b", 9)]).write(&mut headers, Duration::ZERO);
            if stays {
                assert_eq!(headers, before);
                let mut headers = before;
                limit_headers(&styles, &[("a", 7)]).only_ours().write(&mut headers, Duration::ZERO);
                assert_eq!(headers[RATELIMIT], "\"a\";r=7;t=2", "by choice");
                continue;
            }
            assert_eq!(headers[RATELIMIT], "\"a\";r=7;t=2, \"b\";r=9;t=2");
            assert_eq!(headers["ratelimit-remaining"], "7");
            assert_eq!(headers.len(), 5, "and their policy, limit and reset: {headers:?}");
        }
        // Both refuse, and ours for longer: also after its client was told to come back.
        let mut headers = theirs("0", "1", "1");
        limit_headers(&styles, &[("a", 0)]).write(&mut headers, Duration::ZERO);
        assert_eq!((&headers["retry-after"], headers.len()), (&HeaderValue::from_static("2"), 6));
        // A limit of which nothing is shown, or that is not there, takes no place.
        for mut ours in [limit_headers(&[], &[("a", 0)]), limit_headers(&styles, &[])] {
            let mut headers = theirs("8", "9", "");
            ours.write(&mut headers, Duration::ZERO);
            assert_eq!(headers, theirs("8", "9", ""));
        }
    }

    #[test]
    fn values_without_a_policy_leave_no_other_policy() {
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT_POLICY, HeaderValue::from_static("\"inner\";q=1;w=1"));
        // The limit of a backend has no policy.
        LimitHeaders { policy: None, ..limit_headers(&[HeaderStyle::Ietf], &[("there", 7)]) }
            .write(&mut headers, Duration::ZERO);
        assert!(headers.contains_key(RATELIMIT) && !headers.contains_key(RATELIMIT_POLICY));
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
    fn numbers_stay_within_what_clients_read() {
        let reset = Duration::from_nanos(u64::MAX - 1);
        let state = LimitState { limit: u64::MAX, remaining: u64::MAX, reset };
        let shown = |style, refused| {
            let mut headers = HeaderMap::new();
            let styles = HeaderStyles::from_iter([style]);
            let mut limits = LimitHeaders::new(styles, || None, |items| items.add("v", state));
            limits = limits.unix_time(Duration::from_secs(2_000_000_000));
            match refused {
                false => limits.write(&mut headers, Duration::ZERO),
                true => limits.write_refusal(&mut headers, Some(reset)),
            }
            headers
        };
        let headers = shown(HeaderStyle::Ietf, true);
        assert_eq!(headers[RATELIMIT], "\"v\";r=999999999999999;t=2147483647");
        assert_eq!(headers["retry-after"], "2147483647");
        assert!(!headers.contains_key(RATELIMIT_POLICY));
        assert_eq!(shown(HeaderStyle::XRateLimit, false)[X_RESET], "2147483647");
        assert_eq!(shown(HeaderStyle::RateLimitTrio, true)[RESET], "2147483647");
        assert_eq!(shown(HeaderStyle::XRateLimitEpoch, true)[X_RESET], "4147483647");
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
        assert_eq!((headers.len(), &headers[X_RESOURCE]), (5, &HeaderValue::from_static("core")));
    }
}
