//! `cargo xtask sanitize`: the engine's tests under the compiler's sanitizers, which find errors of
//! `unsafe` code and of threads.
//!
//! AddressSanitizer ignores the memory that tests leak on purpose (`xtask/leaks.txt`).
//! ThreadSanitizer needs an instrumented standard library: otherwise it misses the ordering of
//! `Arc` and channels and reports false races.

use std::path::Path;
use std::process::Command;

use crate::step::{Plan, Step, succeeds};

/// The only target on which the sanitizers were tried.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Returns the steps of both sanitizers, each with its own target folder, because their flags
/// differ.
pub(crate) fn everything() -> Vec<Plan> {
    if !succeeds("cargo +nightly --version") {
        return vec![Plan::Missing(
            "sanitize",
            "sanitizers need a nightly toolchain: rustup toolchain install nightly",
        )];
    }
    // The skipped test measures memory, to which the sanitizer adds its own.
    let addresses = format!(
        "cargo +nightly test -p tollgate --all-features --target {TARGET} --target-dir target/asan --lib --tests -- \
         --skip memory_matches_the_documentation"
    );
    let addresses = Step::new("addresses", &addresses).with("RUSTFLAGS", "-Zsanitizer=address");
    let addresses = addresses.with("LSAN_OPTIONS", "suppressions=xtask/leaks.txt");
    let mut plans = vec![Plan::Run(addresses)];
    if !has_rust_src() {
        plans.push(Plan::Missing(
            "threads",
            "it needs rust-src: rustup component add rust-src --toolchain nightly",
        ));
        return plans;
    }
    let threads = format!(
        "cargo +nightly test -p tollgate -Zbuild-std --target {TARGET} --target-dir target/tsan --test threads \
         --test behaviour --test crossings -- threads_of_all_verbs stress:: growth:: several:: in_flight:: lease:: change:: save::"
    );
    plans.push(Plan::Run(Step::new("threads", &threads).with("RUSTFLAGS", "-Zsanitizer=thread")));
    plans
}

/// Returns whether the sources of the nightly standard library are installed.
fn has_rust_src() -> bool {
    let output = Command::new("rustc").args(["+nightly", "--print", "sysroot"]).output();
    let sysroot = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    sysroot.is_ok_and(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/Cargo.lock").exists())
}
