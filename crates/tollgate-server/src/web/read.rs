//! From JSON to a type of ours.

use serde::Deserialize;

use super::answer::{Answer, problem_at};
use super::pointer::pointer_at;

/// The longest text of an error that is told: it may repeat a part of the body.
const LONGEST: usize = 200;

/// Reads JSON. An error says where it is.
pub(crate) fn read_json<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Box<Answer>> {
    // Once for all texts, many bytes at a time. If not, the reader says where it is no UTF-8.
    let read = match str::from_utf8(body) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(body),
    };
    read.map_err(|error| Box::new(refuse(body, &error)))
}

#[cold]
fn refuse(body: &[u8], error: &serde_json::Error) -> Answer {
    let mut detail = error.to_string();
    if let Some((end, _)) = detail.char_indices().nth(LONGEST) {
        detail.truncate(end);
    }
    problem_at(&pointer_at(body, error.line(), error.column()), &detail)
}
