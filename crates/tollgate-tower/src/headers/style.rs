//! Which headers a response gets.

/// A family of headers. Any of them can be combined; none is fine too.
///
/// `Retry-After` is on every refusal that waiting would help, whatever the styles. A header that the inner service has
/// set stays as it is, and those that are read together with it are not added: they would tell of another limit.
///
/// Times are in whole seconds, rounded up. *Limit* is the most that can be admitted at once (burst, capacity, or the
/// window's limit), *remaining* what is left of that, *reset* the time until all of it is there again; of a refused
/// request, the time until it would be admitted. Where several limits decide, the styles that have room for one show
/// the tightest; of a refused request, the one with the longest wait.
///
/// # Examples
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{KeyBy, RateLimitLayer, Rule, Style};
///
/// let layer = RateLimitLayer::builder()
///     .rule(Rule::new("api", [TokenBucket::new(Rate::per_second(10))]).key(KeyBy::everyone()))
///     .headers([Style::Ietf, Style::XRateLimit])
///     .build()?;
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Style {
    /// `RateLimit: "api";r=19;t=1` and `RateLimit-Policy: "api";q=20;w=2`, the structured fields of
    /// draft-ietf-httpapi-ratelimit-headers (-08 and later; still a draft), one item for each limit. `q` is the limit
    /// and `w` the time in which all of it comes back: `q / w` is the rate in the long run. A refusal shows the limits
    /// that refuse.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining`, and `X-RateLimit-Reset` in seconds from now.
    XRateLimit,
    /// The same with `X-RateLimit-Reset` in Unix time. When both are asked for, the seconds from now win.
    XRateLimitEpoch,
    /// `X-RateLimit-Retry-After` on refusals, in seconds from now.
    XRateLimitRetryAfter,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, of the draft's revisions up to -06.
    RateLimitTrio,
}

/// A set of styles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Styles(u8);

impl Styles {
    pub(crate) fn has(self, style: Style) -> bool {
        self.0 & (1 << style as u8) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Style> for Styles {
    fn from_iter<I: IntoIterator<Item = Style>>(styles: I) -> Self {
        Self(styles.into_iter().fold(0, |set, style| set | 1 << style as u8))
    }
}
