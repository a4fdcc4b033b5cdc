//! The styles of rate limit headers.

/// A style of rate limit headers. A server may use any combination of them, or none.
///
/// With any style or none, a refusal has `Retry-After` if the request would be admitted later. If
/// the inner service has set limit headers of its own, in any style, the stricter limit of both is
/// told, and the other one not at all: see [`LimitHeaders::write`](crate::LimitHeaders::write).
///
/// Times are in whole seconds, rounded up, and count from when the response is written. *Limit* is
/// the most that can be admitted at once (burst, capacity, or the window's limit), *remaining* is
/// how much is left of the limit, and *reset* is the time until more of it is available; zero if
/// the whole limit is. For a refused request, *reset* is the time until it would be admitted. So a
/// response and the refusal after it show the same instant, or the refusal a later one.
///
/// A style that has room for one limit shows the limit with the least remaining, and of those with
/// equally little the one with the longest reset: it refuses first. For a refused request, it shows
/// the limit with the longest wait.
///
/// # Examples
///
/// ```
/// use tollgate_http::{HeaderStyle, HeaderStyles};
///
/// let styles = HeaderStyles::from_iter([HeaderStyle::Ietf, HeaderStyle::XRateLimit]);
/// assert!(!styles.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `RateLimit: "api";r=19;t=1` and `RateLimit-Policy: "api";q=20;w=2`: the structured fields of
    /// draft-ietf-httpapi-ratelimit-headers (-08 to -11; still a draft), one item for each limit.
    /// `q / w` is the long-term rate, in seconds. `q` is the limit if all of it comes back in whole
    /// seconds, and else the units of `w` seconds. A refusal has `RateLimit-Policy` of all limits,
    /// and `RateLimit` of those that refuse.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining`, and `X-RateLimit-Reset` in seconds from now.
    XRateLimit,
    /// As [`XRateLimit`](Self::XRateLimit), with `X-RateLimit-Reset` in Unix time. With both
    /// styles, `X-RateLimit-Reset` is in seconds from now.
    XRateLimitEpoch,
    /// As [`XRateLimitEpoch`](Self::XRateLimitEpoch), with GitHub's `X-RateLimit-Used`, the limit
    /// without what remains, and `X-RateLimit-Resource`, the limit's name.
    GitHub,
    /// `X-RateLimit-Retry-After` on refusals, in seconds from now.
    XRateLimitRetryAfter,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, of the draft's revisions up
    /// to -06.
    RateLimitTrio,
}

/// A set of [`HeaderStyle`]s, collected from an iterator. The default is none.
///
/// # Examples
///
/// ```
/// use tollgate_http::{HeaderStyle, HeaderStyles};
///
/// assert!(HeaderStyles::default().is_empty());
/// assert!(!HeaderStyles::from_iter([HeaderStyle::Ietf]).is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderStyles(u8);

impl HeaderStyles {
    #[inline]
    pub(super) fn has(self, style: HeaderStyle) -> bool {
        self.0 & (1 << style as u8) != 0
    }

    /// Returns whether one of the styles shows Unix times: see
    /// [`LimitHeaders::unix_time`](crate::LimitHeaders::unix_time).
    #[must_use]
    #[inline]
    pub fn show_unix_time(self) -> bool {
        self.has(HeaderStyle::XRateLimitEpoch) || self.has(HeaderStyle::GitHub)
    }

    /// Returns whether one of the styles has room for one limit only.
    #[inline]
    pub(super) fn show_one(self) -> bool {
        self.show_unix_time() || self.has(HeaderStyle::XRateLimit) || self.has(HeaderStyle::RateLimitTrio)
    }

    /// Returns whether there is no style.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<HeaderStyle> for HeaderStyles {
    fn from_iter<I: IntoIterator<Item = HeaderStyle>>(styles: I) -> Self {
        Self(styles.into_iter().fold(0, |set, style| set | 1 << style as u8))
    }
}
