//! What a command says beside its result: notes on standard error.

use std::io::{self, Write};

/// Prints a line on standard error. A failure to do so has nowhere to be reported.
pub(crate) fn print_note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
