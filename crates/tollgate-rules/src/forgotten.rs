//! What restored rules begin without.

use std::fmt;

use tollgate::RestoreError;

/// Saved debts that restored rules begin without. Its display says which, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotRestored {
    /// The rule, or the composite key of a limit of Envoy.
    pub rule: Box<str>,
    /// Which of its limits.
    pub limits: SavedLimits,
    /// Names what has changed.
    pub error: RestoreError,
}

impl NotRestored {
    /// The limits of a rule for which the engine's restore failed: they are forgotten.
    ///
    /// # Errors
    ///
    /// The same error, if it tells of [damage](RestoreError::is_damage): nothing else of the saved
    /// state can be read either.
    pub fn of(rule: Box<str>, limits: SavedLimits, error: RestoreError) -> Result<Self, RestoreError> {
        if error.is_damage() { Err(error) } else { Ok(Self { rule, limits, error }) }
    }
}

/// Which limits of a rule were saved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SavedLimits {
    /// The rule's own.
    Own,
    /// Those of the tier of this name.
    Tier(Box<str>),
    /// Its bans.
    Bans,
    /// The counts of a limit of Envoy, by its composite key.
    Counts,
}

impl fmt::Display for NotRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, limits, error } = self;
        match limits {
            SavedLimits::Own => write!(f, "rule `{rule}`: its debts are forgotten: {error}"),
            SavedLimits::Tier(tier) => {
                write!(f, "rule `{rule}`, tier `{tier}`: its debts are forgotten: {error}")
            }
            SavedLimits::Bans => write!(f, "rule `{rule}`: its bans are forgotten: {error}"),
            SavedLimits::Counts => write!(f, "limit `{rule}`: its counts are forgotten: {error}"),
        }
    }
}
