//! Signals, and what systemd is told.
//!
//! | file | what |
//! |------|------|
//! | `signals` | what a signal asks for |
//! | `systemd` | ready, reloading, stopping; the watchdog |

mod signals;
#[cfg(test)]
mod soak;
mod systemd;

pub(crate) use signals::Asked;
pub use signals::Signals;
pub(crate) use systemd::Systemd;
