//! Names, and how long a text may be.

use super::wrong::Wrong;
use crate::file::problem::Code;

/// The longest value of an attribute: a longer one is missing in a request.
pub(crate) const LONGEST_VALUE: usize = 4096;

pub(super) fn longest(text: &str, most: usize) -> Result<(), Wrong> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Wrong::bad(text, format!("the text has {} bytes", text.len()), format!("at most {most}")))
}

/// The most characters of a name.
const LONGEST_NAME: usize = 64;

pub(in crate::file) fn name(text: &str) -> Result<(), Wrong> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    let hint = "1 to 64 of A-Z, a-z, 0-9, - _ . : /";
    if let Some((at, wrong)) = text.char_indices().find(|(_, c)| !is_part(*c)) {
        let span = at..at + wrong.len_utf8();
        let message = format!("{wrong:?} is in no name");
        return Err(Wrong { span, code: Code::BadText, message, hint: Some(hint.into()) });
    }
    match text.len() {
        0 => Err(Wrong::bad(text, "the name is empty", hint)),
        1..=LONGEST_NAME => Ok(()),
        length => Err(Wrong::bad(text, format!("the name has {length} characters"), hint)),
    }
}
