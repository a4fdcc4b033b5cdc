//! What was decided, as the response will tell it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::slab::{cut, number};
use super::{Style, Styles, seconds_up};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_RETRY_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-retry-after");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
pub(crate) const LARGEST_INTEGER: u64 = 999_999_999_999_999;

/// The numbers of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    /// Until all is there again; of a refused request, until it would be admitted.
    pub(crate) reset: Duration,
}

/// What a response will say of its limits.
#[derive(Debug, Default)]
pub(crate) struct Note {
    styles: Styles,
    tightest: Option<Numbers>,
    ietf: Option<HeaderValue>,
    policy: Option<HeaderValue>,
}

/// Collects what the limits of a request show.
pub(crate) struct Showing<'t> {
    styles: Styles,
    /// The items of `RateLimit`.
    text: &'t mut BytesMut,
    tightest: Option<Numbers>,
}

impl Showing<'_> {
    /// One limit, by its name.
    pub(crate) fn limit(&mut self, name: &str, numbers: Numbers) {
        let Numbers { limit, remaining, reset } = numbers;
        if self.tightest.is_none_or(|tightest| (remaining, limit) < (tightest.remaining, tightest.limit)) {
            self.tightest = Some(numbers);
        }
        if self.styles.has(Style::Ietf) {
            list(self.text, "\"");
            self.text.extend_from_slice(name.as_bytes());
            for (key, value) in [("\";r=", remaining), (";t=", seconds_up(reset))] {
                self.text.extend_from_slice(key.as_bytes());
                let mut digits = itoa::Buffer::new();
                self.text.extend_from_slice(digits.format(value.min(LARGEST_INTEGER)).as_bytes());
            }
        }
    }
}

impl Note {
    /// A note of all the limits that `show` shows, and of how they announce themselves.
    pub(crate) fn of(
        styles: Styles,
        policy: impl FnOnce() -> Option<HeaderValue>,
        show: impl FnOnce(&mut Showing<'_>),
    ) -> Self {
        let mut tightest = None;
        let ietf = cut(|text| {
            let mut showing = Showing { styles, text, tightest: None };
            show(&mut showing);
            tightest = showing.tightest;
        });
        let policy = if styles.has(Style::Ietf) { policy() } else { None };
        Self { styles, tightest, ietf, policy }
    }

    /// Shows this limit where there is room for one: of a refusal the one whose wait is told, which may not be the
    /// tightest.
    pub(crate) fn in_short(self, limit: Option<Numbers>) -> Self {
        Self { tightest: limit, ..self }
    }

    /// Whether it says nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.styles.is_empty()
    }

    /// Puts the note into a response's headers, but for those that are there already.
    pub(crate) fn write(&mut self, headers: &mut HeaderMap) {
        if let Some(ietf) = self.ietf.take() {
            // Values of ours belong to no policy of theirs, nor ours to values of theirs.
            let announced = match self.policy.take() {
                None => !headers.contains_key(&RATELIMIT_POLICY),
                policy => put(headers, RATELIMIT_POLICY, policy),
            };
            if announced && !put(headers, RATELIMIT, Some(ietf)) {
                headers.remove(&RATELIMIT_POLICY);
            }
        }
        let Some(Numbers { limit, remaining, reset }) = self.tightest else { return };
        let (delta, epoch) = (self.styles.has(Style::XRateLimit), self.styles.has(Style::XRateLimitEpoch));
        if delta || epoch {
            let reset = if delta { seconds_up(reset) } else { unix(reset) };
            put_all(headers, [(X_LIMIT, limit), (X_REMAINING, remaining), (X_RESET, reset)]);
        }
        if self.styles.has(Style::RateLimitTrio) {
            put_all(headers, [(LIMIT, limit), (REMAINING, remaining), (RESET, seconds_up(reset))]);
        }
    }

    /// The same for a refusal, with how long to wait, and that nobody is to keep it.
    pub(crate) fn write_refusal(&mut self, headers: &mut HeaderMap, retry_after: Option<u64>) {
        put(headers, CACHE_CONTROL, Some(HeaderValue::from_static("no-store")));
        if let Some(seconds) = retry_after {
            put(headers, RETRY_AFTER, number(seconds));
            if self.styles.has(Style::XRateLimitRetryAfter) {
                put(headers, X_RETRY_AFTER, number(seconds));
            }
        }
        self.write(headers);
    }
}

/// Whether it was not there. What was there stays.
fn put(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) -> bool {
    match value {
        // `Err`: the inner service has used up all 32,768 headers. It goes without.
        Some(value) if !headers.contains_key(&name) => headers.try_insert(name, value).is_ok(),
        _ => false,
    }
}

/// All of them, or none where one is there already: each is read beside the others.
fn put_all(headers: &mut HeaderMap, fields: [(HeaderName, u64); 3]) {
    if !fields.iter().any(|(name, _)| headers.contains_key(name)) {
        for (name, value) in fields {
            put(headers, name, number(value));
        }
    }
}

/// A list of these items; `None` when there are none.
pub(crate) fn join<'l>(items: impl Iterator<Item = &'l str>) -> Option<HeaderValue> {
    cut(|text| items.for_each(|item| list(text, item)))
}

/// Begins the next item of a list.
fn list(text: &mut BytesMut, item: &str) {
    if !text.is_empty() {
        text.extend_from_slice(b", ");
    }
    text.extend_from_slice(item.as_bytes());
}

fn unix(after: Duration) -> u64 {
    seconds_up(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "\"p\";q=10;w=1";

    /// A note of limits with these names, and with so much left.
    fn note(styles: &[Style], limits: &[(&str, u64)]) -> Note {
        let policy = || join(limits.iter().map(|_| POLICY));
        Note::of(styles.iter().copied().collect(), policy, |showing| {
            for &(name, remaining) in limits {
                showing.limit(name, Numbers { limit: 10, remaining, reset: Duration::from_millis(1_001) });
            }
        })
    }

    #[test]
    fn several_limits_are_one_list_and_the_tightest_stands_for_all() {
        let styles = [Style::Ietf, Style::XRateLimit, Style::RateLimitTrio];
        let mut headers = HeaderMap::new();
        note(&styles, &[("a", 7), ("b", 3)]).write(&mut headers);
        assert_eq!(headers["ratelimit"], "\"a\";r=7;t=2, \"b\";r=3;t=2");
        assert_eq!(headers["ratelimit-policy"], "\"p\";q=10;w=1, \"p\";q=10;w=1");
        assert_eq!(
            (&headers["x-ratelimit-remaining"], &headers["ratelimit-remaining"]),
            (&"3".parse().unwrap(), &"3".parse().unwrap())
        );
        assert_eq!(headers["x-ratelimit-reset"], "2");
    }

    #[test]
    fn what_the_inner_service_said_stays() {
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT_POLICY, HeaderValue::from_static("\"inner\";q=1;w=1"));
        headers.insert(X_RESET, HeaderValue::from_static("1"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
        note(&[Style::Ietf, Style::XRateLimit], &[("a", 7)]).write_refusal(&mut headers, Some(1));
        assert!(!headers.contains_key(RATELIMIT), "a value of ours would belong to no policy of theirs");
        assert_eq!(
            (headers.get_all(X_RESET).iter().count(), &headers[X_RESET]),
            (1, &HeaderValue::from_static("1"))
        );
        assert!(!headers.contains_key(X_LIMIT) && !headers.contains_key(X_REMAINING), "of another limit");
        assert_eq!(headers[CACHE_CONTROL], "private");
    }

    #[test]
    fn values_without_a_policy_of_their_own_stand_beside_no_policy_of_the_inner_service() {
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT_POLICY, HeaderValue::from_static("\"inner\";q=1;w=1"));
        // As a backend's are: nobody announces its limits.
        Note { policy: None, ..note(&[Style::Ietf], &[("there", 7)]) }.write(&mut headers);
        assert!(!headers.contains_key(RATELIMIT));
    }

    #[test]
    fn an_epoch_is_later_than_now_and_a_delta_wins_over_it() {
        let mut headers = HeaderMap::new();
        note(&[Style::XRateLimitEpoch], &[("a", 7)]).write(&mut headers);
        let epoch: u64 = headers[X_RESET].to_str().unwrap().parse().unwrap();
        assert!((1..=3).contains(&(epoch - unix(Duration::ZERO) + 1)), "{epoch}");
        let mut headers = HeaderMap::new();
        note(&[Style::XRateLimitEpoch, Style::XRateLimit], &[("a", 7)]).write(&mut headers);
        assert_eq!(headers[X_RESET], "2");
    }

    #[test]
    fn integers_stay_within_what_a_structured_field_can_hold() {
        let numbers = Numbers { limit: u64::MAX, remaining: u64::MAX, reset: Duration::MAX };
        let mut headers = HeaderMap::new();
        let styles = Styles::from_iter([Style::Ietf]);
        Note::of(styles, || None, |showing| showing.limit("v", numbers)).write(&mut headers);
        assert_eq!(headers[RATELIMIT], "\"v\";r=999999999999999;t=999999999999999");
        assert!(!headers.contains_key(RATELIMIT_POLICY));
    }
}
