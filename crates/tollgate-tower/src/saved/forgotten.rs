//! What a restored layer begins without.

use std::fmt;

/// Saved debts that a restored layer begins without: see
/// [`Builder::restore`](crate::Builder::restore). Its display names them, and says why.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotRestored {
    /// No rule of the layer has this name.
    Rule {
        /// The name.
        rule: String,
    },
    /// The rule no longer has these limits.
    Limits {
        /// The rule.
        rule: String,
        /// The limits that it had.
        limits: SavedLimits,
    },
    /// The debts have no exact meaning under the new limits, or no room.
    Changed {
        /// The rule.
        rule: String,
        /// The limits.
        limits: SavedLimits,
        /// Names what has changed.
        error: tollgate::RestoreError,
    },
    /// The rule's limits [came with each request](crate::Rule::per_request). Such debts are never
    /// saved.
    PerRequest {
        /// The rule.
        rule: String,
    },
}

/// Which limits of a rule were saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedLimits {
    /// The limits of a [tier](crate::Rule::tier), by its number. Tier 0 is the rule's own limits.
    Tier(usize),
    /// The [limits of one key](crate::Rule::for_key). The key is not told, because keys are often
    /// secrets.
    Key,
    /// The [bans](crate::Rule::ban).
    Bans,
    /// The local limits of a rule whose [backend](crate::Rule::backend) fails.
    Fallback,
}

impl NotRestored {
    /// Whether it says that this rule is gone.
    pub(super) fn is_of_rule(&self, name: &str) -> bool {
        matches!(self, Self::Rule { rule } if rule == name)
    }
}

impl fmt::Display for NotRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule } => write!(f, "no rule is called {rule:?} now, so its debts are forgotten"),
            Self::Limits { rule, limits } => {
                write!(f, "rule {rule:?} has no {limits} now, so the debts there are forgotten")
            }
            Self::Changed { rule, limits, error } => {
                write!(f, "rule {rule:?}: the debts to its {limits} are forgotten: {error}")
            }
            Self::PerRequest { rule } => {
                write!(f, "rule {rule:?}: debts to limits that come with each request are not saved")
            }
        }
    }
}

impl fmt::Display for SavedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tier(0) => write!(f, "limits"),
            Self::Tier(tier) => write!(f, "tier {tier}"),
            Self::Key => write!(f, "limits of that key"),
            Self::Bans => write!(f, "bans"),
            Self::Fallback => write!(f, "local limits"),
        }
    }
}
