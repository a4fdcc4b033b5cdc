//! What can be wrong with a configuration, and with a reservation.

use std::error::Error;
use std::fmt;

use tollgate_rules::AddressError;

use crate::Failed;

/// Why a connection or a limiter could not be built.
///
/// # Examples
///
/// ```
/// use tollgate_redis::{BuildError, Redis};
///
/// let error = Redis::builder("http://10.0.0.7").deadline(std::time::Duration::ZERO);
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// assert!(matches!(error.build().await, Err(BuildError::OutOfRange { field: "deadline", .. })));
/// # });
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// A number is outside of what the store can represent exactly.
    OutOfRange {
        /// Which number, as it is called in the API.
        field: &'static str,
        /// The number given. Durations are in nanoseconds.
        value: u128,
        /// The smallest that is accepted here.
        min: u128,
        /// The largest that is accepted here, given the other settings.
        max: u128,
    },
    /// The store does not have this setting.
    Unsupported {
        /// The setting, as it is called in the API.
        setting: &'static str,
    },
    /// The store cannot represent the rate exactly, and
    /// [`exact`](crate::LimiterBuilder::exact) forbids a lower one.
    NotExact {
        /// The largest burst with which this rate is exact; 0 if there is none.
        max_burst: u64,
    },
    /// The name of a limit or the prefix of the keys is empty, too long, or has characters other
    /// than `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`.
    Name {
        /// The name given.
        name: String,
    },
    /// The address is not one of a store.
    Address(AddressError),
    /// A node's own limiters, for when the store fails, cannot have their share of the quotas:
    /// [`OnFailure::Local`](crate::OnFailure::Local).
    Local(tollgate::BuildError),
    /// The store refused the user or the script: a wrong password, or no right to run scripts.
    Refused(Failed),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { field, value, min, max } => {
                write!(f, "{field} is {value}, but must be between {min} and {max}")?;
                let is_time = ["period", "deadline", "ttl"].iter().any(|time| field.ends_with(time));
                if is_time { write!(f, " nanoseconds") } else { Ok(()) }
            }
            Self::Unsupported { setting } => write!(f, "the store has no {setting}: leave it out"),
            Self::NotExact { max_burst } => write!(
                f,
                "the store cannot represent this rate exactly with a burst of more than {max_burst}: lower the burst, or accept a rate that is lower by less than a millionth"
            ),
            Self::Name { name } => write!(
                f,
                "{name:?} is not a name: it needs 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'"
            ),
            Self::Address(error) => error.fmt(f),
            Self::Local(error) => write!(f, "the limits of this node alone: {error}"),
            Self::Refused(failed) => write!(f, "the store refused the first script: {failed}"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(failed) => Some(failed),
            Self::Local(error) => Some(error),
            Self::Address(error) => Some(error),
            _ => None,
        }
    }
}

/// `Ok` if `value` lies within `min..=max`.
pub(crate) fn within(field: &'static str, value: u128, min: u128, max: u128) -> Result<(), BuildError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(BuildError::OutOfRange { field, value, min, max }) }
}

/// Why there is no answer to a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReserveError {
    /// The limiter has several limits, or one that counts in windows: only a single bucket has
    /// reservations.
    NoTurns,
    /// The store gave no answer.
    Failed(Failed),
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTurns => {
                f.write_str("only a limiter of one token bucket or leaky bucket has reservations")
            }
            Self::Failed(failed) => failed.fmt(f),
        }
    }
}

impl Error for ReserveError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoTurns => None,
            Self::Failed(failed) => Some(failed),
        }
    }
}

impl From<Failed> for ReserveError {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}
