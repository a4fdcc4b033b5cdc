//! The tables on standard output.

use std::fmt::Write;

use crate::machine::Machine;
use crate::measure::{Outcome, Score, Spread, Unit, first_beside};
use crate::targets::Verdict;
use crate::workloads::Effort;

/// The percentiles of latencies in tables.
pub(crate) const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Returns the origin of the figures.
pub(crate) fn head(machine: &Machine, effort: Effort) -> String {
    let load = machine.load.map_or_else(String::new, |load| format!(", load {load} before"));
    let note =
        if effort.is_quick { "\nQuick: a test that all contestants work, not a measurement.\n" } else { "" };
    let order = if effort.is_alone { "each contestant alone" } else { "in turns" };
    format!(
        "{}, {} threads{load}; medians of {} passes, {order}, with quartiles\n{note}",
        machine.processor, machine.threads, effort.passes
    )
}

/// Returns the table of one workload. The last column is the ratio of the first contestant's
/// figures to each other's, in the same order (in turns or alone).
pub(crate) fn table(outcome: &Outcome) -> String {
    let mut text = String::new();
    let first = outcome.scores.first();
    let by = first.map_or_else(String::new, |first| format!("{} / it", first.name));
    let _ =
        writeln!(text, "\n{:<44} {:>13}   quartiles             {by}", outcome.workload, outcome.unit.name());
    for score in &outcome.scores {
        let Spread { low, median, high } = score.spread();
        let beside = first_beside(outcome.scores.iter().map(|score| &*score.name), &score.name);
        let beside = beside.filter(|&beside| beside != score.name).and_then(|beside| outcome.score(beside));
        let ratio = beside.map(|beside| beside.ratio_to(score));
        let ratio = ratio.map_or_else(String::new, ratio_text);
        let spread = format!("{low:.1} .. {high:.1}");
        let _ = writeln!(
            text,
            "  {:<42} {median:>13.1}   {spread:<20}  {ratio:<22}{}{}",
            score.name,
            admitted(score),
            waited(score)
        );
    }
    if outcome.unit == Unit::NanosAtP999 {
        text.push_str(&percentiles(outcome));
    }
    text
}

/// Returns the share of admitted checks, unless it is none or all.
fn admitted(score: &Score) -> String {
    let (admitted, asked) = score.admitted;
    if score.is_floor || admitted == 0 || admitted == asked {
        return String::new();
    }
    format!("   admitted {:.1} %", admitted as f64 / asked as f64 * 100.0)
}

/// Returns the share of time without a processor, if the contestant was disturbed.
fn waited(score: &Score) -> String {
    if !score.is_disturbed() {
        return String::new();
    }
    format!("   {:.0} % without a processor", score.waited_share() * 100.0)
}

/// Returns the latencies of all passes together.
fn percentiles(outcome: &Outcome) -> String {
    let named = PERCENTILES.map(|percentile| format!("{:>11}", format!("p{percentile}"))).concat();
    let mut text = format!("  {:<42}{named}{:>11}\n", "all passes, ns", "max");
    for score in &outcome.scores {
        let Some(latencies) = &score.latencies else { continue };
        let of = |percentile: f64| format!("{:>11}", latencies.value_at_percentile(percentile));
        let figures = PERCENTILES.map(of).concat();
        let _ = writeln!(text, "  {:<42}{figures}{:>11}", score.name, latencies.max());
    }
    text
}

/// Returns the verdicts of the targets.
pub(crate) fn targets(verdicts: &[Verdict]) -> String {
    let mut text = format!("\n{:<5} {:<28} {:<29} what\n", "", "measured", "target");
    for verdict in verdicts {
        let result = if verdict.is_met { "pass" } else { "MISS" };
        let measured = verdict.measured.map_or_else(|| "not measured".to_owned(), ratio_text);
        let workload = verdict.target.workload;
        let disturbed = if verdict.is_disturbed { "   (disturbed)" } else { "" };
        let _ = writeln!(
            text,
            "{result:<5} {measured:<28} {:<29} {workload}: {}{disturbed}",
            verdict.bound, verdict.what
        );
    }
    let missed = verdicts.iter().filter(|verdict| !verdict.is_met).count();
    let _ = writeln!(text, "{missed} of {} missed", verdicts.len());
    text
}

fn ratio_text(Spread { low, median, high }: Spread) -> String {
    format!("{median:.2} ({low:.2} .. {high:.2})")
}
