//! How the limits of a response become headers.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderName, HeaderValue};

use super::items::Item;
use super::others::{strictest, tells_of_limits};
use super::sink::KnownText;
#[cfg(feature = "rules")]
use super::value_buffers::write_value;
use super::{
    HeaderSink, HeaderStyle, HeaderStyles, LONGEST_WAIT, LimitState, MAX_SF_INTEGER, ValueText,
    retry_after_seconds, seconds_up, whole_seconds,
};

pub(super) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(super) const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
pub(super) const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const X_USED: HeaderName = HeaderName::from_static("x-ratelimit-used");
pub(super) const X_RESOURCE: HeaderName = HeaderName::from_static("x-ratelimit-resource");
const X_RETRY_AFTER: HeaderName = HeaderName::from_static("x-ratelimit-retry-after");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
pub(super) const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The limits of one response, as they become headers.
pub(crate) struct Written<I> {
    pub(crate) styles: HeaderStyles,
    pub(crate) items: I,
    /// The Unix time of the decision.
    pub(crate) unix_time: Option<Duration>,
    /// Whether limit headers that a response has already give way to these, however strict.
    pub(crate) only_ours: bool,
}

/// The value of `RateLimit-Policy`.
pub(crate) enum Policy<'p> {
    None,
    Value(HeaderValue),
    #[cfg_attr(not(feature = "rules"), expect(dead_code, reason = "only rules of a file are known"))]
    Known(&'p KnownText),
}

#[cfg(feature = "rules")]
impl Policy<'_> {
    /// The value; `None` if there is none.
    pub(crate) fn value(self) -> Option<HeaderValue> {
        match self {
            Self::None => None,
            Self::Value(value) => Some(value),
            // A copy: all cores would share the counter of a value's references.
            Self::Known(text) => write_value(|into| ValueText::of_header(into).known(text)),
        }
    }
}

impl From<Option<HeaderValue>> for Policy<'_> {
    fn from(value: Option<HeaderValue>) -> Self {
        value.map_or(Self::None, Self::Value)
    }
}

impl<'i, I: Iterator<Item = Item<'i>> + Clone> Written<I> {
    /// Adds the headers to a response that is written this long after the decision. One that has
    /// limit headers keeps them, and gets none of these, if they tell a stricter limit; else it
    /// loses them.
    pub(crate) fn write(self, headers: &mut impl HeaderSink, policy: Policy<'_>, elapsed: Duration) {
        let others = headers.names(tells_of_limits);
        if (!others.is_empty() || headers.has(&RETRY_AFTER))
            && !self.takes_the_place(headers, &others, elapsed)
        {
            return;
        }
        let tightest = |item: &Item<'_>| (item.state.remaining, Reverse(item.state.reset), item.state.limit);
        let items = self.items.clone().filter(Item::has_reset);
        self.write_showing(headers, policy, elapsed, || items.min_by_key(tightest));
    }

    /// Removes the limit headers of these names, unless they are to stay. Returns whether ours are
    /// to be written.
    #[cold]
    fn takes_the_place(
        &self,
        headers: &mut impl HeaderSink,
        others: &[HeaderName],
        elapsed: Duration,
    ) -> bool {
        let left = |item: Item<'_>| {
            let reset =
                if item.has_reset() { item.state.reset.saturating_sub(elapsed) } else { Duration::ZERO };
            (item.state.remaining, Reverse(seconds_up(reset)))
        };
        // None: we would write nothing.
        let Some(ours) = self.items.clone().map(left).min().filter(|_| !self.styles.is_empty()) else {
            return false;
        };
        let theirs = strictest(headers).filter(|_| !self.only_ours);
        if theirs.is_some_and(|theirs| theirs < ours) {
            return false;
        }
        others.iter().for_each(|name| headers.remove(name));
        // The service refuses, and ours lasts longer.
        if theirs.is_some() && headers.has(&RETRY_AFTER) {
            headers.set_value(RETRY_AFTER, HeaderValue::from(ours.1.0.max(1)));
        }
        true
    }

    /// Adds the headers to the response to a refusal, right after the decision.
    pub(crate) fn write_refusal(
        self,
        headers: &mut impl HeaderSink,
        policy: Policy<'_>,
        retry_after: Option<Duration>,
    ) {
        headers.add_value(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after.map(retry_after_seconds) {
            headers.add(RETRY_AFTER, |text| text.number(seconds));
            if self.styles.has(HeaderStyle::XRateLimitRetryAfter) {
                headers.add(X_RETRY_AFTER, |text| text.number(seconds));
            }
        }
        // The first of those with the longest reset.
        let slowest = |item: &Item<'_>| Reverse(item.state.reset);
        let items = self.items.clone().filter(Item::has_reset);
        self.write_showing(headers, policy, Duration::ZERO, || items.min_by_key(slowest));
    }

    /// Adds the headers. `shown` returns the limit for the styles that have room for one only.
    fn write_showing(
        self,
        headers: &mut impl HeaderSink,
        policy: Policy<'_>,
        elapsed: Duration,
        shown: impl FnOnce() -> Option<Item<'i>>,
    ) {
        let Self { styles, items, unix_time, .. } = self;
        if styles.has(HeaderStyle::Ietf) {
            // Clients read `RateLimit` with `RateLimit-Policy`, so ours must not be next to the
            // policy of the inner service.
            let no_other_policy = match policy {
                Policy::None => !headers.has(&RATELIMIT_POLICY),
                Policy::Value(policy) => headers.add_value(RATELIMIT_POLICY, policy),
                Policy::Known(policy) => headers.add(RATELIMIT_POLICY, |text| text.known(policy)),
            };
            if no_other_policy
                && !headers.add(RATELIMIT, |text| {
                    text.list(items.clone(), |item, text| write_item(text, item, elapsed));
                })
                && headers.has(&RATELIMIT)
            {
                headers.remove(&RATELIMIT_POLICY);
            }
        }
        if !styles.show_one() {
            return;
        }
        let Some(Item { name, state: LimitState { limit, remaining, reset } }) = shown() else { return };
        let after = seconds_up(reset.saturating_sub(elapsed));
        let github = styles.has(HeaderStyle::GitHub);
        if github || styles.has(HeaderStyle::XRateLimit) || styles.has(HeaderStyle::XRateLimitEpoch) {
            let epoch = || match unix_time {
                Some(decided_at) => whole_seconds(decided_at.saturating_add(reset.min(LONGEST_WAIT))),
                None => {
                    let left = reset.min(LONGEST_WAIT).saturating_sub(elapsed);
                    whole_seconds(unix_now().saturating_add(left))
                }
            };
            let reset = if styles.has(HeaderStyle::XRateLimit) { after } else { epoch() };
            let fields = [(X_LIMIT, limit), (X_REMAINING, remaining), (X_RESET, reset)];
            if !github {
                put_all(headers, fields);
            } else if ![X_USED, X_RESOURCE].iter().any(|name| headers.has(name)) && put_all(headers, fields) {
                headers.add(X_USED, |text| text.number(limit.saturating_sub(remaining)));
                headers.add(X_RESOURCE, |text| text.plain(name));
            }
        }
        if styles.has(HeaderStyle::RateLimitTrio) {
            put_all(headers, [(LIMIT, limit), (REMAINING, remaining), (RESET, after)]);
        }
    }
}

/// Writes an item of `RateLimit`.
fn write_item(text: &mut ValueText<'_>, item: Item<'_>, elapsed: Duration) {
    let LimitState { remaining, reset, .. } = item.state;
    text.quoted(item.name);
    text.plain(b";r=");
    text.number(remaining.min(MAX_SF_INTEGER));
    if item.has_reset() {
        text.plain(b";t=");
        text.number(seconds_up(reset.saturating_sub(elapsed)));
    }
}

/// Adds all headers, or none if the response has one of them, because clients read them together.
/// Returns whether they were added.
fn put_all(headers: &mut impl HeaderSink, fields: [(HeaderName, u64); 3]) -> bool {
    if fields.iter().any(|(name, _)| headers.has(name)) {
        return false;
    }
    fields.into_iter().all(|(name, value)| headers.add(name, |text| text.number(value)))
}

pub(super) fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
