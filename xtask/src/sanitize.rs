//! `cargo xtask sanitize`: the engine's tests under the compiler's sanitizers, which see what `unsafe` and threads really
//! do.
//!
//! AddressSanitizer has no wrong alarms here, but for what a test leaks on purpose (`xtask/leaks.txt`). ThreadSanitizer
//! needs a standard library that is built under it: otherwise it does not see the order that `Arc` and channels make.

use std::path::Path;
use std::process::Command;

use crate::step::{Step, works};
use crate::test::Plan;

/// The only machines that the compiler's sanitizers and our tests have both been seen on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Both, each with its own target folder: the flags differ.
pub(crate) fn everything() -> Vec<Plan> {
    if !works("cargo +nightly --version") {
        return vec![Plan::Missing(
            "sanitize",
            "sanitizers need a nightly toolchain: rustup toolchain install nightly",
        )];
    }
    // The sanitizer's own memory is not what that test measures.
    let addresses = format!(
        "cargo +nightly test -p tollgate --all-features --target {TARGET} --target-dir target/asan --lib --tests -- \
         --skip memory_is_what_the_documentation_says"
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
         --test behaviour -- stress:: growth:: several:: in_flight:: lease:: reconfigure:: save::"
    );
    plans.push(Plan::Run(Step::new("threads", &threads).with("RUSTFLAGS", "-Zsanitizer=thread")));
    plans
}

/// Whether nightly's standard library can be built.
fn has_rust_src() -> bool {
    let output = Command::new("rustc").args(["+nightly", "--print", "sysroot"]).output();
    let sysroot = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    sysroot.is_ok_and(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/Cargo.lock").exists())
}
