//! Which values a condition can have.

use std::fmt;
use std::ops::Range;

use crate::rule::Attribute;

/// The longest value that is read, in bytes. A longer one is missing.
pub(crate) const MAX_VALUE: usize = 4096;

/// A value that no condition on the attribute can have, or that no request has: the rule would
/// concern nothing, and so limit nothing.
///
/// # Examples
///
/// See [`Attribute::check_value`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrongValue {
    /// The part of the value that is wrong, in bytes.
    pub span: Range<usize>,
    /// Whether the value has not even the form of one.
    pub is_malformed: bool,
    /// The mistake, in words.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl WrongValue {
    fn new(span: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { span, is_malformed: true, message: message.into(), hint: hint.into() }
    }

    /// A value that has the form of one.
    fn unmet(span: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { is_malformed: false, ..Self::new(span, message, hint) }
    }
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.hint)
    }
}

impl std::error::Error for WrongValue {}

impl Attribute {
    /// Checks a value of a condition on this attribute: that a request can have it.
    ///
    /// # Errors
    ///
    /// [`WrongValue`] of a method, host or path. Other attributes have any value.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_rules::Attribute;
    ///
    /// assert!(Attribute::Path.check_value("/users/{id}").is_ok());
    /// let wrong = Attribute::Path.check_value("/users/../{id}").unwrap_err();
    /// assert_eq!((wrong.span.clone(), wrong.is_malformed), (7..9, false));
    /// ```
    pub fn check_value(&self, text: &str) -> Result<(), WrongValue> {
        let check = match self {
            Self::Method => method,
            Self::Host => host,
            Self::Path => path,
            _ => return Ok(()),
        };
        if text.len() > MAX_VALUE {
            let message = format!("the text has {} bytes", text.len());
            return Err(WrongValue::new(0..text.len(), message, format!("at most {MAX_VALUE}")));
        }
        check(text)
    }
}

fn method(text: &str) -> Result<(), WrongValue> {
    // The characters of a token (RFC 9110).
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if !text.is_empty() && text.chars().all(is_token) {
        return Ok(());
    }
    // As much of it as a message repeats.
    let short: String = text.chars().take(60).collect();
    let dots = if short.len() == text.len() { "" } else { "..." };
    Err(WrongValue::new(0..text.len(), format!("{short:?}{dots} is no method"), "such as POST"))
}

fn host(text: &str) -> Result<(), WrongValue> {
    let all = 0..text.len();
    let is_v6 = text.starts_with('[') && text.find(']') == Some(text.len() - 1);
    if text.is_empty() {
        return Err(WrongValue::new(all, "the host is empty", "such as api.example.com"));
    }
    if !text.is_ascii() {
        return Err(WrongValue::unmet(all, "a host is ASCII", "its form with xn--"));
    }
    if text.ends_with('.') {
        return Err(WrongValue::unmet(all, "a host is compared without its last dot", "take it off"));
    }
    match text.find([':', '/']) {
        Some(at) if !is_v6 => {
            let hint = "such as api.example.com or *.example.com";
            Err(WrongValue::new(at..text.len(), "a host has no port, scheme or path", hint))
        }
        _ => Ok(()),
    }
}

/// A pattern of paths: `/users/{id}`, `/users/*`, `/static/**`, or `*` for any path.
fn path(text: &str) -> Result<(), WrongValue> {
    if text == "*" {
        return Ok(());
    }
    let wrong = |span, message: &str, hint: &str| Err(WrongValue::new(span, message, hint));
    let Some(rest) = text.strip_prefix('/') else {
        return wrong(0..text.len(), "a path begins with `/`", "such as /users/{id}");
    };
    if let Some(at) = text.find(['?', '#']) {
        return wrong(at..text.len(), "a path has no query", "use a condition on query.NAME");
    }
    let mut at = 1;
    let mut names = Vec::new();
    for segment in rest.split('/') {
        let span = at..at + segment.len();
        at = span.end + 1;
        let is_last = span.end == text.len();
        if segment == "**" && !is_last {
            return wrong(span, "`**` stands before the end", "`**` is the last part, for any rest");
        }
        if let "*" | "**" = segment {
            continue;
        }
        if let Some((part, hint)) = unmatched(segment, is_last) {
            let span = span.start + part.start..span.start + part.end;
            let message = "no request's path has this: paths are compared in their normal form";
            return Err(WrongValue::unmet(span, message, hint));
        }
        let Some(inner) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            if segment.contains(['*', '{', '}']) {
                return wrong(
                    span,
                    "a part is a text, `*`, or `{name}`",
                    "such as /files/{name} or /files/**",
                );
            }
            continue;
        };
        let is_start = inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !is_start || !inner.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
            return wrong(span, "the name in `{}` is wrong", "a letter, then letters, digits, _ and -");
        }
        if names.contains(&inner) {
            let message = format!("`{{{inner}}}` is there twice");
            return Err(WrongValue::unmet(span, message, "each `{name}` once"));
        }
        names.push(inner);
    }
    Ok(())
}

/// A part of a pattern's segment that no normal path has (RFC 3986, section 6), and what to write.
fn unmatched(segment: &str, is_last: bool) -> Option<(Range<usize>, String)> {
    if let "." | ".." = segment {
        return Some((0..segment.len(), "the path without dots".into()));
    }
    if segment.is_empty() && !is_last {
        return Some((0..0, "each `/` once".into()));
    }
    for (at, c) in segment.char_indices() {
        let rest = &segment[at..];
        if !c.is_ascii_graphic() {
            let bytes = rest[..c.len_utf8()].bytes();
            return Some((at..at + c.len_utf8(), bytes.map(|byte| format!("%{byte:02X}")).collect()));
        }
        let code = rest.strip_prefix('%').and_then(|hex| u8::from_str_radix(hex.get(..2)?, 16).ok());
        let plain = code.map(char::from).filter(|c| c.is_ascii_alphanumeric() || "-._~".contains(*c));
        if let Some(plain) = plain {
            return Some((at..at + 3, format!("{plain}")));
        }
    }
    None
}
