//! Why the rules of a file did not come into force.

use std::fmt;

use tollgate_rules::{ExchangeError, SetError};

use crate::file::Reading;
use crate::trial::TestFailure;

/// Why the rules of a file did not come into force. The old ones stay.
///
/// # Examples
///
/// See [`LiveFile::reload`](crate::LiveFile::reload).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReloadError {
    /// The file has mistakes, or cannot be read.
    File(Box<Reading>),
    /// Tests in the file fail.
    Tests(Vec<TestFailure>),
    /// The rules are in order, and cannot be put in place of those in force.
    Exchange(ExchangeError),
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(reading) => reading.fmt(f),
            Self::Tests(failures) => {
                for (number, failure) in failures.iter().enumerate() {
                    write!(f, "{}{failure}", if number == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            Self::Exchange(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Its display is that of this one.
            Self::Exchange(error) => error.source(),
            Self::File(_) | Self::Tests(_) => None,
        }
    }
}

impl From<ExchangeError> for ReloadError {
    fn from(error: ExchangeError) -> Self {
        Self::Exchange(error)
    }
}

impl From<SetError> for ReloadError {
    fn from(error: SetError) -> Self {
        Self::Exchange(error.into())
    }
}
