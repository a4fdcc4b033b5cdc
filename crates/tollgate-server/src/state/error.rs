//! The errors of a state file.

use std::fmt;
use std::io;

use tollgate::RestoreError;

/// An error of a state file.
#[derive(Debug)]
#[non_exhaustive]
pub enum StateError {
    /// It cannot be read, or never be written.
    Io(io::Error),
    /// Another server saves to it.
    InUse {
        /// The number of its process, if that is known.
        holder: Option<u32>,
    },
    /// It is no state file, is of another version, or is damaged.
    Restore(RestoreError),
    /// Something follows its end.
    Longer,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::InUse { holder } => {
                write!(f, "another server")?;
                if let Some(holder) = holder {
                    write!(f, ", process {holder},")?;
                }
                write!(f, " saves to it: end that one first, or give this one a file of its own")
            }
            Self::Restore(error) => write!(f, "it is not taken: {error}"),
            Self::Longer => write!(f, "it is damaged: something follows its end"),
        }
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Restore(error) => Some(error),
            Self::InUse { .. } | Self::Longer => None,
        }
    }
}

impl From<io::Error> for StateError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<RestoreError> for StateError {
    fn from(error: RestoreError) -> Self {
        Self::Restore(error)
    }
}
