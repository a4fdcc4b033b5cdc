//! The rate limit headers of a response.

mod interned;
mod limit_headers;
mod style;
mod value_buffers;

pub(crate) use interned::interned;
pub(crate) use limit_headers::{HeaderItems, LimitHeaders, LimitState, MAX_SF_INTEGER, join};
pub use style::HeaderStyle;
pub(crate) use style::HeaderStyles;

use std::time::Duration;

/// Returns whole seconds, rounded up, so that a client that waits them is not early.
pub(crate) fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
