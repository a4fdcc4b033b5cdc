//! Why saved rules could not be restored, and what of them was not.

use std::error::Error;
use std::fmt;
use std::io;

/// Why saved rules could not be restored. Nothing was built.
///
/// # Examples
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{LiveRules, RestoreError, Rules};
///
/// let read = |_: &[u8]| Ok(Rules::default());
/// let error = LiveRules::restore(&b"version = 1"[..], ManualClock::new(), read).unwrap_err();
/// assert!(matches!(error, RestoreError::Foreign));
/// assert_eq!(error.to_string(), "these are no saved rules");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The input could not be read.
    Io(io::Error),
    /// The input does not begin as saved rules do.
    Foreign,
    /// The input was saved by a version of this crate that writes another format.
    Version {
        /// The format's number.
        found: u32,
        /// The only one that this version of the crate reads.
        known: u32,
    },
    /// The input ends too soon.
    Truncated,
    /// The input is damaged: the checksum is wrong, or the bytes make no sense.
    Corrupt,
    /// The saved rules are in order, but this version of the crate does not take them.
    Rules(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the saved rules could not be read: {error}"),
            Self::Foreign => write!(f, "these are no saved rules"),
            Self::Version { found, known } => {
                write!(f, "the rules were saved in format {found}, but only format {known} is known here")
            }
            Self::Truncated => write!(f, "the saved rules end too soon"),
            Self::Corrupt => write!(f, "the saved rules are damaged"),
            Self::Rules(error) => write!(f, "the saved rules are not taken any more: {error}"),
        }
    }
}

impl Error for RestoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Rules(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}

/// Saved debts that restored rules begin without. Its display says which, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotRestored {
    /// The rule, or the composite key of a limit of Envoy.
    pub rule: Box<str>,
    /// Which of its limits.
    pub limits: SavedLimits,
    /// Names what has changed.
    pub error: tollgate::RestoreError,
}

impl NotRestored {
    /// The limits of a rule for which the engine's restore failed: they are forgotten.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Corrupt`]: the error tells of damage, so that nothing else of the saved
    /// state can be trusted either.
    pub fn of(
        rule: Box<str>,
        limits: SavedLimits,
        error: tollgate::RestoreError,
    ) -> Result<Self, RestoreError> {
        if error.is_damage() { Err(RestoreError::Corrupt) } else { Ok(Self { rule, limits, error }) }
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
