//! Errors in the text of a quota: the wrong part, its position, and the expected text.

use std::fmt;

/// An error: the text is not a [`Quota`](crate::Quota), or not a [`Rate`](crate::Rate).
///
/// Its display names the wrong part and the expected text, and shows an example.
///
/// # Examples
///
/// ```
/// use tollgate::{ParseQuotaError, Quota};
///
/// let error: ParseQuotaError = "leaky-bucket:10/s,mode=drip".parse::<Quota>().unwrap_err();
/// assert_eq!((error.offset(), error.found()), (23, "drip"));
/// assert_eq!(error.expected(), ["queue", "meter"]);
/// assert_eq!(error.hint(), "leaky-bucket:10/s,capacity=20,queue");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuotaError {
    offset: usize,
    found: Box<str>,
    complaint: &'static str,
    expected: &'static [&'static str],
    hint: &'static str,
}

impl ParseQuotaError {
    /// The byte offset of the wrong part in the text.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The wrong part. Empty where something is missing.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.found
    }

    /// The expected text: words to write, or a description.
    #[must_use]
    pub fn expected(&self) -> &'static [&'static str] {
        self.expected
    }

    /// A correct example, which shows the part that was wrong.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        self.hint
    }
}

impl fmt::Display for ParseQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}, expected ", self.found, self.complaint)?;
        for (index, word) in self.expected.iter().enumerate() {
            let before = match index {
                0 => "",
                _ if index + 1 == self.expected.len() => " or ",
                _ => ", ",
            };
            write!(f, "{before}{word}")?;
        }
        write!(f, " (e.g. {})", self.hint)
    }
}

impl std::error::Error for ParseQuotaError {}

/// A wrong part of a text, before the parser knows which text it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem<'t> {
    part: &'t str,
    /// The message after the part: "is no rate".
    complaint: &'static str,
    expected: &'static [&'static str],
}

impl<'t> Problem<'t> {
    pub(super) const fn new(
        part: &'t str,
        complaint: &'static str,
        expected: &'static [&'static str],
    ) -> Self {
        Self { part, complaint, expected }
    }

    /// The error about `text`. The part is a slice of it.
    pub(super) fn of(self, text: &str, hint: &'static str) -> ParseQuotaError {
        let Self { part, complaint, expected } = self;
        let offset = part.as_ptr().addr() - text.as_ptr().addr();
        ParseQuotaError { offset, found: part.into(), complaint, expected, hint }
    }
}
