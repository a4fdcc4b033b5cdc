//! Why a saved layer could not be restored, and what of it was not.

use std::error::Error;
use std::fmt;
use std::io;

use crate::BuildError;

/// Why a layer could not be restored. Nothing was built.
///
/// # Examples
///
/// ```
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{RestoreError, Rule, TollgateLayer};
///
/// let rule = Rule::new("api", [TokenBucket::new(Rate::per_second(10))]);
/// let error = TollgateLayer::builder().rule(rule).restore(&b"# my settings"[..]).unwrap_err();
/// assert!(matches!(error, RestoreError::Foreign));
/// assert_eq!(error.to_string(), "this is not a saved layer");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The input could not be read.
    Io(io::Error),
    /// The input does not begin as a saved layer does.
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
    Corrupt {
        /// The rule in whose part this was found. Without it, the damage is elsewhere, or only the
        /// checksum shows it.
        rule: Option<String>,
    },
    /// The layer could not be built.
    Build(BuildError),
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the saved layer could not be read: {error}"),
            Self::Foreign => write!(f, "this is not a saved layer"),
            Self::Version { found, known } => {
                write!(f, "the layer was saved in format {found}, but only format {known} is known here")
            }
            Self::Truncated => write!(f, "the saved layer ends too soon"),
            Self::Corrupt { rule: None } => write!(f, "the saved layer is damaged"),
            Self::Corrupt { rule: Some(rule) } => write!(f, "the saved layer is damaged at rule {rule:?}"),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl Error for RestoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Build(error) => error.source(),
            _ => None,
        }
    }
}

impl From<BuildError> for RestoreError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl From<io::Error> for RestoreError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Truncated } else { Self::Io(error) }
    }
}

/// Saved debts that a restored layer begins without: see
/// [`Builder::restore`](crate::Builder::restore). Its display says what is forgotten, and why.
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
