//! The rate limit headers of a response.

mod interned;
mod items;
mod limit_headers;
mod others;
mod policy_history;
mod quota_policies;
mod sink;
mod state;
mod style;
mod unix_zero;
mod value_buffers;
mod written;

#[cfg(feature = "rules")]
pub(crate) use items::Item;
pub use limit_headers::{HeaderItems, LimitHeaders};
pub use quota_policies::QuotaPolicies;
#[cfg(feature = "rules")]
pub(crate) use sink::KnownText;
pub use sink::{HeaderJson, HeaderSink, ValueText};
pub use state::LimitState;
pub use style::{HeaderStyle, HeaderStyles};
pub use unix_zero::UnixZero;
#[cfg(feature = "rules")]
pub(crate) use written::{Policy, Written};

use std::time::Duration;

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS};
use http::{HeaderMap, HeaderValue};

/// What a page in a browser may read beside what any page may: all that describes a limit.
const EXPOSED: &str = "Retry-After, RateLimit, RateLimit-Policy, RateLimit-Limit, RateLimit-Remaining, \
    RateLimit-Reset, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-RateLimit-Retry-After";

/// Lets a page of another origin that may read a response (`Access-Control-Allow-Origin`) read the
/// headers that describe limits, too.
pub fn expose_limits(headers: &mut HeaderMap) {
    if headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const MAX_SF_INTEGER: u64 = 999_999_999_999_999;

/// The longest wait that a client is told: the seconds that 32 bits hold, which clients read them
/// into (68 years). A debt that takes longer to pay has a longer one.
pub const LONGEST_WAIT: Duration = Duration::from_secs(i32::MAX as u64);

/// Returns a wait in whole seconds, rounded up, so that a client that waits them is not early.
pub(crate) fn seconds_up(wait: Duration) -> u64 {
    whole_seconds(wait.min(LONGEST_WAIT))
}

/// Returns whole seconds, rounded up.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// Returns the seconds of `Retry-After`: rounded up, and at least 1.
pub(crate) fn retry_after_seconds(wait: Duration) -> u64 {
    seconds_up(wait).max(1)
}
