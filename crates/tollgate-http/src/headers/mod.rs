//! The rate limit headers of a response.

mod interned;
mod items;
mod limit_headers;
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

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const MAX_SF_INTEGER: u64 = 999_999_999_999_999;

/// Returns whole seconds, rounded up, so that a client that waits them is not early.
pub(crate) fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// Returns the seconds of `Retry-After`: rounded up, and at least 1.
pub(crate) fn retry_after_seconds(wait: Duration) -> u64 {
    seconds_up(wait).max(1)
}
