//! The state file: saved while serving, and restored at the start.
//!
//! | file | what |
//! |------|------|
//! | `begin` | restores the state, and puts the rules of today in force |
//! | `file` | the file: whole, or not there |
//! | `lock` | one server for each file |
//! | `keeper` | saves every minute, and at the end |
//! | `error` | the errors of a state file |
//!
//! ```text
//!   magic: 8 | version: u32 | rules, their debts and bans
//!   | whether there are counts: u8 | counts of files of envoyproxy/ratelimit
//!   | debts of CL.THROTTLE
//! ```
//!
//! The parts are what [`LiveRules::save`](tollgate_rules::LiveRules::save),
//! [`EnvoySet::save`](tollgate_rules_file::EnvoySet::save) and
//! [`Limiter::save`](tollgate::Limiter::save) write; each ends where it says, with
//! checksums. The last may be left unread where it has no room, so nothing follows it.

mod begin;
mod error;
mod file;
mod keeper;
mod lock;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;

pub(crate) use begin::{Begun, begin};
pub use error::StateError;
pub(crate) use file::save as save_now;
pub(crate) use keeper::Keeper;
pub(crate) use lock::StateLock;

/// What became of the state file, for metrics.
#[derive(Debug, Default)]
pub(crate) struct StateReport {
    /// How many rules began without the state that they had.
    pub(crate) forgotten_rules: AtomicU64,
    /// How often a save failed.
    pub(crate) failed_saves: AtomicU64,
    /// When state was last saved, in seconds of Unix time; 0: never.
    pub(crate) saved_at: AtomicU64,
}
