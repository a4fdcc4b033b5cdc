//! The atomics of what the loom models check: `deny.rs` and `lease/permits.rs`.
//!
//! `loom-tests/tests/remote.rs` compiles those two files by themselves, with loom's atomics here.

pub(crate) use std::sync::atomic;
