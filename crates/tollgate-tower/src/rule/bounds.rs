//! The bounds of a rule's settings.

use std::time::Duration;

/// The most rules of one layer.
pub(crate) const MAX_RULES: usize = 8;
/// The most bytes of a rule's name.
pub(crate) const MAX_NAME_LEN: usize = 64;
/// The longest ban: what the engine can count, ten years of 365.25 days.
pub(crate) const LONGEST_BAN: Duration = Duration::from_secs(10 * 31_557_600);
