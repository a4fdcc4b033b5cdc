//! The binary `tollgate`; everything else is in the library.

use std::process::ExitCode;

// That of musl has one lock for all threads.
#[cfg(all(feature = "serve", target_env = "musl"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tollgate_cli::run()
}
