//! Why rules did not come into force.

use std::fmt;

use tollgate::BuildError;

use crate::file::Reading;
use crate::set::{Conflict, OfLimit, SetError};
use crate::trial::TestFailure;

/// Why rules did not come into force. The old ones stay.
///
/// # Examples
///
/// See [`LiveRules::reload`](crate::LiveRules::reload).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The file has mistakes, or cannot be read.
    File(Box<Reading>),
    /// Tests in the file fail.
    Tests(Vec<TestFailure>),
    /// No limiters can be built.
    Set(SetError),
    /// Debts would be forgotten.
    Forgets(Vec<Conflict>),
    /// A limit was changed too often for now. Try again later.
    Change {
        /// The rule.
        rule: Box<str>,
        /// What the limiter says.
        error: BuildError,
    },
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |f: &mut fmt::Formatter<'_>, lines: &mut dyn Iterator<Item = &dyn fmt::Display>| {
            for (number, line) in lines.enumerate() {
                write!(f, "{}{line}", if number == 0 { "" } else { "\n" })?;
            }
            Ok(())
        };
        match self {
            Self::File(reading) => reading.fmt(f),
            Self::Tests(failures) => lines(f, &mut failures.iter().map(|failure| failure as _)),
            Self::Set(error) => error.fmt(f),
            Self::Forgets(conflicts) => lines(f, &mut conflicts.iter().map(|conflict| conflict as _)),
            Self::Change { rule, error } => write!(f, "rule `{rule}`: {}", OfLimit(error)),
        }
    }
}

impl std::error::Error for ReloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Set(error) => Some(error),
            Self::Change { error, .. } => Some(error),
            Self::File(_) | Self::Tests(_) | Self::Forgets(_) => None,
        }
    }
}

impl From<SetError> for ReloadError {
    fn from(error: SetError) -> Self {
        Self::Set(error)
    }
}
