//! Why a saved limiter, or the settings beside it, could not be restored.

use std::error::Error;
use std::fmt;
use std::io;

use crate::error::BuildError;

/// Why a limiter could not be restored, or a file of several: a layer, rules. Nothing was built.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, RestoreError, TokenBucket};
///
/// let builder = Limiter::builder(TokenBucket::new(Rate::per_second(10))).per::<str>();
/// let error = builder.restore(&b"# my settings"[..]).unwrap_err();
/// assert!(matches!(error, RestoreError::Foreign { .. }));
/// assert_eq!(error.to_string(), "this is not a saved limiter");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoreError {
    /// The input could not be read.
    Io(io::Error),
    /// The input does not begin as such a file does.
    Foreign {
        /// What was to be restored: `"a saved limiter"`.
        expected: &'static str,
    },
    /// The input was saved by a version of this crate that writes another format.
    Version {
        /// The format's number.
        found: u32,
        /// The only one that this version of the crate reads.
        known: u32,
    },
    /// The input ends too soon.
    Truncated,
    /// The input is damaged: a checksum is wrong, or the bytes that it guards make no sense.
    Corrupt,
    /// The limiter was saved under another setting. Where that is a quota,
    /// [`restore_changed`](crate::Builder::restore_changed) may continue it.
    Differs {
        /// Which setting, as it is called in the API.
        field: String,
        /// Its value in the saved limiter.
        saved: String,
        /// Its value in the builder.
        given: String,
    },
    /// The table is smaller than the saved one, and some keys' debts do not fit.
    NoRoom {
        /// How many keys were saved.
        keys: u64,
        /// The builder's `max_keys`.
        max_keys: usize,
    },
    /// The limiter could not be built.
    Build(BuildError),
    /// What limiters were saved with, or are to be restored for, cannot be used: a layer, rules.
    Settings(Box<dyn Error + Send + Sync>),
}

impl RestoreError {
    /// Whether the input cannot be read beyond this: so neither can what follows in the file. After
    /// any other error of a limiter, the input goes on behind it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        use RestoreError::{Corrupt, Foreign, Io, Truncated, Version};
        matches!(self, Io(_) | Foreign { .. } | Version { .. } | Truncated | Corrupt)
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file could not be read: {error}"),
            Self::Foreign { expected } => write!(f, "this is not {expected}"),
            Self::Version { found, known } => {
                write!(f, "it was saved in format {found}, but only format {known} is known here")
            }
            Self::Truncated => write!(f, "the file ends too soon"),
            Self::Corrupt => write!(f, "the file is damaged"),
            Self::Differs { field, saved, given } => {
                write!(f, "{field} is {given}, but was {saved} when the limiter was saved")
            }
            Self::NoRoom { keys, max_keys } => write!(
                f,
                "{keys} keys were saved, and max_keys is {max_keys}, which has no room for their debts: raise it"
            ),
            Self::Build(error) => error.fmt(f),
            Self::Settings(error) => error.fmt(f),
        }
    }
}

impl Error for RestoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Build(error) => Some(error),
            Self::Settings(error) => Some(&**error),
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
