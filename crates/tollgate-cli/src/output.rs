//! What a command prints: its result on standard output.

use std::io::{self, Write};

use crate::failure::Failure;

/// Prints a command's result.
///
/// # Errors
///
/// When standard output cannot be written.
pub(crate) fn print_result(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::writing("the result"))
}
