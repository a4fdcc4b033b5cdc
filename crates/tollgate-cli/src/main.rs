//! `tollgate`: rate limits tried on real traffic. All of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::run()
}
