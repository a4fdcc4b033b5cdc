//! The server's log: lines on standard error.

use std::io::{IsTerminal, stderr};
use std::str::FromStr;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// How the crates begin whose lines are the server's own.
const OURS: &str = "tollgate";

/// Which lines are logged: `LEVEL[,CRATE=LEVEL]...`. Of other crates, only those that are named: a
/// client could fill the log with what they say of its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    targets: Targets,
    names_others: bool,
}

impl FromStr for Logged {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let ours = level(parts.next().unwrap_or_default())?;
        let mut logged = Self { targets: Targets::new().with_target(OURS, ours), names_others: false };
        for part in parts {
            let Some((name, of)) = part.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                return Err(format!("{part:?} is not CRATE=LEVEL, as in debug,h2=debug"));
            };
            logged.targets = logged.targets.with_target(name, level(of)?);
            logged.names_others = true;
        }
        Ok(logged)
    }
}

fn level(text: &str) -> Result<Level, String> {
    match text {
        "error" => Ok(Level::ERROR),
        "warn" => Ok(Level::WARN),
        "info" => Ok(Level::INFO),
        "debug" => Ok(Level::DEBUG),
        _ => Err(format!("{text:?} is none of error, warn, info and debug")),
    }
}

/// Begins to log. What systemd's journal records has its time already.
pub(crate) fn begin(logged: &Logged) {
    let lines = fmt::layer().with_writer(stderr).with_target(logged.names_others);
    let lines = lines.with_ansi(stderr().is_terminal());
    let to = tracing_subscriber::registry().with(logged.targets.clone());
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        to.with(lines.without_time()).init();
    } else {
        to.with(lines).init();
    }
}
