//! Why rules were not exchanged.

use std::fmt;

use tollgate::BuildError;

use crate::set::{Conflict, Hindrance, OfLimit, SetError};

/// Why rules did not come into force. The old ones stay.
///
/// # Examples
///
/// See [`LiveRules::exchange`](crate::LiveRules::exchange).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExchangeError {
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

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(error) => error.fmt(f),
            Self::Forgets(conflicts) => {
                for (number, conflict) in conflicts.iter().enumerate() {
                    write!(f, "{}{conflict}", if number == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            Self::Change { rule, error } => write!(f, "rule `{rule}`: {}", OfLimit(error)),
        }
    }
}

impl std::error::Error for ExchangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Set(error) => Some(error),
            Self::Change { error, .. } => Some(error),
            Self::Forgets(_) => None,
        }
    }
}

impl From<SetError> for ExchangeError {
    fn from(error: SetError) -> Self {
        Self::Set(error)
    }
}

impl From<Hindrance> for ExchangeError {
    fn from(hindrance: Hindrance) -> Self {
        match hindrance {
            Hindrance::Build(error) => Self::Set(error),
            Hindrance::Conflicts(conflicts) => Self::Forgets(conflicts),
        }
    }
}
