//! Signals, and what systemd is told.
//!
//! | file | what |
//! |------|------|
//! | `signals` | what a signal asks for |
//! | `systemd` | ready, reloading, stopping; the watchdog |

mod signals;
mod systemd;

pub use signals::{Asked, Signals};
pub use systemd::Systemd;
