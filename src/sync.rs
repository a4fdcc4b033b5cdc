//! The one door to atomics: the standard library's, or loom's under `--cfg loom`.
//!
//! Everything concurrent in the crate imports from here, so the code that loom explores is the code that runs.

#[cfg(not(loom))]
pub(crate) use std::sync::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::Mutex;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

/// A counter that no decision reads: never loom's, which would explore every order of counting.
pub(crate) use std::sync::atomic::{AtomicU64 as Tally, Ordering as TallyOrdering};

/// For the models in `edges`.
#[cfg(loom)]
pub(crate) use loom::{model, model::Builder, thread::spawn};
