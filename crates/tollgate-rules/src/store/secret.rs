//! Texts that are never shown.

use std::fmt;

/// A text that is never shown, such as a password: it has no display, and its debug output is
/// `***`.
///
/// # Examples
///
/// ```
/// use tollgate_rules::Secret;
///
/// let password = Secret::new("hunter2");
/// assert_eq!(format!("{password:?}"), "***");
/// assert_eq!(password.reveal(), "hunter2");
/// ```
///
/// ```compile_fail,E0277
/// println!("{}", tollgate_rules::Secret::new("hunter2"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Box<str>);

impl Secret {
    /// A secret text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, to send it to whom it is meant for.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
