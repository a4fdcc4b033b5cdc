//! How a refused request is answered.

use std::time::Duration;

/// How a refused request is answered, as far as a rule (`refuse`) or the file (`[answer]`) says so.
/// What a rule leaves out, the file decides; what both leave out is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The status, 400 to 599; `None`: 429.
    pub status: Option<u16>,
    /// The form of a body that the server writes itself; `None`: a problem.
    pub format: Option<BodyFormat>,
    /// The body's text, in place of one that the server writes.
    pub body: Option<Box<str>>,
    /// The type of `body`.
    pub content_type: Option<Box<str>>,
    /// Further headers: names and values.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The headers that describe the limits; `None`: [`HeaderStyle::Ietf`].
    pub styles: Option<Vec<HeaderStyle>>,
    /// The most that is added at random to `Retry-After`; `None`: nothing.
    pub jitter: Option<Duration>,
}

/// The form of a refusal's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyFormat {
    /// `application/problem+json` (RFC 9457).
    Problem,
    /// `application/json`.
    Json,
    /// `text/plain`.
    Text,
}

/// Headers that describe the limits of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers).
    Ietf,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, in seconds from now.
    XRateLimit,
    /// The same, with the reset in Unix time.
    XRateLimitEpoch,
    /// `X-RateLimit-Retry-After` of refusals, in seconds from now.
    XRateLimitRetryAfter,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`.
    Trio,
}
