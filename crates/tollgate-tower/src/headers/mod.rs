//! What a response says of the limits.

mod interned;
mod note;
mod slab;
mod style;

pub(crate) use interned::interned;
pub(crate) use note::{LARGEST_INTEGER, Note, Numbers, Showing, join};
pub use style::Style;
pub(crate) use style::Styles;

use std::time::Duration;

/// Whole seconds, rounded up: who waits them does not come too early.
pub(crate) fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}
