//! The fault of a text, and the part of the text that its message shows.

use std::ops::Range;

use tollgate_rules::WrongValue;

use crate::file::problem::Code;

/// A wrong part of a text.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// In bytes of the text.
    pub(crate) span: Range<usize>,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Wrong {
    /// All of `text` is wrong.
    pub(crate) fn all(text: &str, code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { span: 0..text.len(), code, message: message.into(), hint: Some(hint.into()) }
    }

    /// The text is none that the field takes.
    pub(crate) fn bad(text: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::all(text, Code::BadText, message, hint)
    }
}

impl From<WrongValue> for Wrong {
    fn from(wrong: WrongValue) -> Self {
        let code = if wrong.is_malformed { Code::BadText } else { Code::BadValue };
        Self { span: wrong.span, code, message: wrong.message, hint: Some(wrong.hint) }
    }
}

/// The longest text that a message repeats.
pub(crate) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() == text.len() { format!("{text:?}") } else { format!("{short:?}...") }
}
