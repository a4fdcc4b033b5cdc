//! What the stores of rules have counted.

use crate::Counts;

/// What the limits of a rule, or of its tier, have counted in their store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreCounts {
    /// The rule's name.
    pub rule: Box<str>,
    /// The tier's name, if they are a tier's limits.
    pub tier: Option<Box<str>>,
    /// The store's address, without user and password.
    pub store: String,
    /// Whether the rule is in shadow mode.
    pub is_shadow: bool,
    /// The counts, since the rules first named these limits.
    pub counts: Counts,
}
