//! The binary `tollgate`; everything else is in the library.

use std::process::ExitCode;

#[cfg(feature = "serve")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tollgate_cli::run()
}
