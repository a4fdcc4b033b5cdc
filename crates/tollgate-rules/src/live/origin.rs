//! What rules were read from.

use std::fmt;
use std::sync::Arc;

/// What rules were read from. Of rules that a program makes a hash is enough, also `[0; 32]`.
///
/// # Examples
///
/// ```
/// use tollgate_rules::Origin;
///
/// assert_eq!(Origin::from([7; 32]), Origin { hash: [7; 32], text: None });
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// A hash of it, which tells whether it changed.
    pub hash: [u8; 32],
    /// All of it, in any form in which the next process can read the same rules: see
    /// [`LiveRules::restore`](crate::LiveRules::restore). `None`: they cannot be saved.
    pub text: Option<Arc<[u8]>>,
}

impl From<[u8; 32]> for Origin {
    fn from(hash: [u8; 32]) -> Self {
        Self { hash, text: None }
    }
}

impl fmt::Debug for Origin {
    /// Without the text, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("hash", &self.hash).finish_non_exhaustive()
    }
}
