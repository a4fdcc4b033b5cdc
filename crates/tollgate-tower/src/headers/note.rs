//! What was decided, as the response will tell it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use http::header::{CACHE_CONTROL, Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::slab::{cut, digits, number};
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
const LARGEST_INTEGER: u64 = 999_999_999_999_999;

/// What one limit shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'l> {
    pub(crate) name: &'l str,
    pub(crate) numbers: Numbers,
}

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

impl Note {
    /// A note of all these limits, and of how they announce themselves.
    pub(crate) fn of<'l>(
        styles: Styles,
        shown: impl Iterator<Item = Shown<'l>>,
        policy: impl FnOnce() -> Option<HeaderValue>,
    ) -> Self {
        let mut note = Self { styles, ..Self::default() };
        if styles.is_empty() {
            return note;
        }
        let mut tightest: Option<Numbers> = None;
        let shown = shown.inspect(|one| match tightest {
            Some(Numbers { remaining, limit, .. })
                if (remaining, limit) <= (one.numbers.remaining, one.numbers.limit) => {}
            _ => tightest = Some(one.numbers),
        });
        if styles.has(Style::Ietf) {
            note.ietf = cut(|text| shown.for_each(|one| write_item(one, text)));
            note.policy = policy();
        } else {
            shown.for_each(drop);
        }
        note.tightest = tightest;
        note
    }

    /// Puts the note into a response's headers, but for those that are there already.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        if let Some(ietf) = self.ietf {
            // Values of ours belong to no policy of theirs, nor ours to values of theirs.
            let announced = match self.policy {
                Some(policy) => put(headers, RATELIMIT_POLICY, || Some(policy)),
                None => !headers.contains_key(&RATELIMIT_POLICY),
            };
            if announced && !put(headers, RATELIMIT, || Some(ietf)) {
                headers.remove(&RATELIMIT_POLICY);
            }
        }
        let Some(Numbers { limit, remaining, reset }) = self.tightest else { return };
        let (delta, epoch) = (self.styles.has(Style::XRateLimit), self.styles.has(Style::XRateLimitEpoch));
        if delta || epoch {
            put(headers, X_LIMIT, || number(limit));
            put(headers, X_REMAINING, || number(remaining));
            put(headers, X_RESET, || number(if delta { seconds_up(reset) } else { unix(reset) }));
        }
        if self.styles.has(Style::RateLimitTrio) {
            put(headers, LIMIT, || number(limit));
            put(headers, REMAINING, || number(remaining));
            put(headers, RESET, || number(seconds_up(reset)));
        }
    }

    /// The same for a refusal, with how long to wait, and that nobody is to keep it.
    pub(crate) fn write_refusal(self, headers: &mut HeaderMap, retry_after: Option<u64>) {
        put(headers, CACHE_CONTROL, || Some(HeaderValue::from_static("no-store")));
        if let Some(seconds) = retry_after {
            put(headers, RETRY_AFTER, || number(seconds));
            if self.styles.has(Style::XRateLimitRetryAfter) {
                put(headers, X_RETRY_AFTER, || number(seconds));
            }
        }
        self.write(headers);
    }
}

/// Whether it was not there.
fn put(headers: &mut HeaderMap, name: HeaderName, value: impl FnOnce() -> Option<HeaderValue>) -> bool {
    // `Err`: the inner service has used up all 32,768 headers. It goes without.
    if let Ok(Entry::Vacant(free)) = headers.try_entry(name)
        && let Some(value) = value()
    {
        return free.try_insert(value).is_ok();
    }
    false
}

fn write_item(Shown { name, numbers, .. }: Shown<'_>, text: &mut BytesMut) {
    list(text, "\"");
    text.extend_from_slice(name.as_bytes());
    for (key, value) in [(&b"\";r="[..], numbers.remaining), (b";t=", seconds_up(numbers.reset))] {
        text.extend_from_slice(key);
        digits(value.min(LARGEST_INTEGER), |digits| text.extend_from_slice(digits));
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

    fn shown(name: &'static str, remaining: u64) -> Shown<'static> {
        let numbers = Numbers { limit: 10, remaining, reset: Duration::from_millis(1_001) };
        Shown { name, numbers }
    }

    #[test]
    fn several_limits_are_one_list_and_the_tightest_stands_for_all() {
        let styles = Styles::from_iter([Style::Ietf, Style::XRateLimit, Style::RateLimitTrio]);
        let mut headers = HeaderMap::new();
        Note::of(styles, [shown("a", 7), shown("b", 3)].into_iter(), || join([POLICY; 2].into_iter()))
            .write(&mut headers);
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
        let styles = Styles::from_iter([Style::Ietf, Style::XRateLimit]);
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT_POLICY, HeaderValue::from_static("\"inner\";q=1;w=1"));
        headers.insert(X_LIMIT, HeaderValue::from_static("1"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
        Note::of(styles, [shown("a", 7)].into_iter(), || join([POLICY].into_iter()))
            .write_refusal(&mut headers, Some(1));
        assert!(!headers.contains_key(RATELIMIT), "a value of ours would belong to no policy of theirs");
        assert_eq!(
            (headers.get_all(X_LIMIT).iter().count(), &headers[X_LIMIT]),
            (1, &HeaderValue::from_static("1"))
        );
        assert_eq!(headers[CACHE_CONTROL], "private");
        assert_eq!(headers[X_REMAINING], "7");
    }

    #[test]
    fn an_epoch_is_later_than_now_and_a_delta_wins_over_it() {
        let mut headers = HeaderMap::new();
        Note::of(Styles::from_iter([Style::XRateLimitEpoch]), [shown("a", 7)].into_iter(), || {
            join([POLICY].into_iter())
        })
        .write(&mut headers);
        let epoch: u64 = headers[X_RESET].to_str().unwrap().parse().unwrap();
        assert!((1..=3).contains(&(epoch - unix(Duration::ZERO) + 1)), "{epoch}");
        let mut headers = HeaderMap::new();
        let both = Styles::from_iter([Style::XRateLimitEpoch, Style::XRateLimit]);
        Note::of(both, [shown("a", 7)].into_iter(), || join([POLICY].into_iter())).write(&mut headers);
        assert_eq!(headers[X_RESET], "2");
    }

    #[test]
    fn integers_stay_within_what_a_structured_field_can_hold() {
        let numbers = Numbers { limit: u64::MAX, remaining: u64::MAX, reset: Duration::MAX };
        let mut headers = HeaderMap::new();
        let vast = Shown { name: "v", numbers };
        Note::of(Styles::from_iter([Style::Ietf]), [vast].into_iter(), || None).write(&mut headers);
        assert_eq!(headers[RATELIMIT], "\"v\";r=999999999999999;t=999999999999999");
        assert!(!headers.contains_key(RATELIMIT_POLICY));
    }
}
