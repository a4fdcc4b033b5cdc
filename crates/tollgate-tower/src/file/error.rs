//! Why a layer with rules in a file cannot be built.

use std::error::Error;
use std::{fmt, io};

use tollgate_rules_file::ReloadError;

/// Why a [`RulesLayer`](crate::RulesLayer) cannot be built.
///
/// Its [`Debug`](fmt::Debug) is its [`Display`](fmt::Display), so that a `main` that returns it
/// shows the mistakes of the file with their lines.
///
/// # Examples
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate_tower::{RulesError, RulesLayer};
///
/// let error = RulesLayer::watch("missing.toml", |peer: &SocketAddr| Some(peer.ip())).unwrap_err();
/// assert!(matches!(error, RulesError::Rules(_)));
/// assert!(error.to_string().contains("missing.toml"));
/// ```
#[non_exhaustive]
pub enum RulesError {
    /// The file cannot be read or has mistakes, a test in it fails, or there is no memory for its
    /// limits.
    Rules(ReloadError),
    /// A rule keeps its counts in a store, and the feature `stores` is off.
    NoStores,
    /// The operating system refuses the thread that watches the file.
    Thread(io::Error),
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(error) => write!(f, "the rules cannot be used\n\n{error}"),
            Self::NoStores => f.write_str("a rule has a `store`: this needs the feature `stores`"),
            Self::Thread(error) => write!(f, "no thread can watch the rules: {error}"),
        }
    }
}

impl fmt::Debug for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for RulesError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rules(error) => error.source(),
            Self::NoStores => None,
            Self::Thread(error) => error.source(),
        }
    }
}

impl From<ReloadError> for RulesError {
    fn from(error: ReloadError) -> Self {
        Self::Rules(error)
    }
}
