//! `--report`: writes the outcome as a page.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::outcome::Outcome;
use crate::failure::Failure;
use crate::report::{self, KeyRow, Report, Timeline};

/// Writes the page to `path`.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn write(path: &Path, outcome: &Outcome, top: usize) -> Result<(), Failure> {
    let counts = &outcome.counts;
    let most_denied = counts.top_denied(top);
    let names: Vec<_> = most_denied.iter().map(|(key, _)| String::from_utf8_lossy(key)).collect();
    let rows: Vec<_> =
        names.iter().zip(&most_denied).map(|(key, (_, tally))| KeyRow { key, tally: *tally }).collect();
    let empty = Timeline::new();
    let page = report::render(&Report {
        command: &command_line(),
        generated_unix_ns: now(),
        limits: &outcome.limits,
        rules: &[],
        undecided: &[],
        requests: counts.requests(),
        allowed: counts.allowed,
        denied: counts.denied,
        keys: counts.tallies.len() as u64,
        malformed: outcome.read.totals.malformed,
        out_of_order: counts.time.out_of_order(),
        first_t_ns: counts.time.span().map(|(first, _)| first),
        last_t_ns: counts.time.span().map(|(_, last)| last),
        timeline: counts.timeline.as_ref().unwrap_or(&empty),
        top: &rows,
        refused_keys: &counts.tallies.refused(),
    });
    std::fs::write(path, page).map_err(Failure::writing(path.display().to_string()))
}

pub(super) fn now() -> Option<u64> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_epoch.as_nanos()).ok()
}

/// The command line, quoted for a shell.
pub(super) fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|argument| quoted(&argument.to_string_lossy()));
    std::iter::once("tollgate".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn an_argument_is_quoted_where_a_shell_would_misread_it() {
        assert_eq!(quoted("token-bucket:60/min,burst=20"), "token-bucket:60/min,burst=20");
        assert_eq!(quoted("my log"), "'my log'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
