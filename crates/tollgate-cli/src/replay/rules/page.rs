//! `--report` under rules: writes the outcome as a page. Its keys are clients.

use std::cmp::Reverse;
use std::path::Path;

use tollgate_rules::Mode;

use super::outcome::Outcome;
use crate::by_rules::mode_text;
use crate::failure::Failure;
use crate::replay::page::{command_line, now};
use crate::report::{self, KeyRow, KeyTally, Report, Timeline};

/// Writes the page to `path`.
///
/// # Errors
///
/// When the file cannot be written.
pub(super) fn write(path: &Path, outcome: &Outcome<'_>, top: usize) -> Result<(), Failure> {
    let counts = outcome.counts;
    let mut most_denied: Vec<(usize, KeyTally)> = counts.clients.iter().copied().enumerate().collect();
    most_denied.retain(|(_, tally)| tally.denied > 0);
    most_denied.sort_by_key(|(_, tally)| Reverse(tally.denied));
    most_denied.truncate(top);
    let text = |number: usize| String::from_utf8_lossy(outcome.log.clients.text(number));
    let names: Vec<_> = most_denied.iter().map(|(number, _)| text(*number)).collect();
    let clients: Vec<_> =
        names.iter().zip(&most_denied).map(|(key, (_, tally))| KeyRow { key, tally: *tally }).collect();
    let titles: Vec<_> = outcome
        .decided()
        .map(|(rule, _)| match rule.mode {
            Mode::Enforce => rule.name.to_string(),
            mode => format!("{} ({})", rule.name, mode_text(mode)),
        })
        .collect();
    let rules: Vec<_> = outcome
        .decided()
        .zip(&titles)
        .map(|((_, counts), key)| {
            let tally = KeyTally { requests: counts.concerned, denied: counts.refused };
            KeyRow { key, tally }
        })
        .collect();
    let undecided: Vec<_> = outcome.undecided().map(|(rule, reason)| (&*rule.name, reason)).collect();
    let time = &outcome.log.time;
    let empty = Timeline::new();
    let page = report::render(&Report {
        command: &command_line(),
        generated_unix_ns: now(),
        limits: std::slice::from_ref(&outcome.file),
        rules: &rules,
        undecided: &undecided,
        requests: counts.requests(),
        allowed: counts.admitted,
        denied: counts.refused,
        keys: counts.clients.len() as u64,
        malformed: outcome.read.totals.malformed,
        out_of_order: time.out_of_order(),
        first_t_ns: time.span().map(|(first, _)| first),
        last_t_ns: time.span().map(|(_, last)| last),
        timeline: counts.timeline.as_ref().unwrap_or(&empty),
        top: &clients,
        refused_keys: &counts.clients_refused(),
    });
    std::fs::write(path, page).map_err(Failure::writing(path.display().to_string()))
}
