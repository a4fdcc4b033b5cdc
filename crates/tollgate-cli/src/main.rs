//! The binary `tollgate`; everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::run()
}
