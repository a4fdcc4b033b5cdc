//! The server's log: lines on standard error.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::fmt;

/// Which lines are logged.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Level {
    /// What needs an operator
    Error,
    /// What an operator should know
    Warn,
    /// Starts, reloads and ends, too
    Info,
    /// Each connection that fails, and each save
    Debug,
}

/// Begins to log. What systemd's journal records has its time already.
pub(crate) fn begin(level: Level) {
    let most = match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
    };
    let lines = fmt().with_max_level(most).with_writer(stderr).with_target(false);
    let lines = lines.with_ansi(stderr().is_terminal());
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        lines.without_time().init();
    } else {
        lines.init();
    }
}
