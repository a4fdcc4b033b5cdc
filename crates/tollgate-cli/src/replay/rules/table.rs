//! The outcome of a replay by rules as text.

use std::fmt;

use super::counts::RuleCounts;
use super::outcome::Outcome;
use crate::by_rules::mode_text;
use crate::columns::{Columns, Side, ascii_spaces, printable};
use crate::report::calendar::CalendarTime;
use crate::report::figures::{counted, grouped, percent};
use tollgate_rules::Rule;

/// How wide a key may be.
const KEY_WIDTH: usize = 40;

/// The table: what each rule decides, then all together.
pub(super) struct Table<'a> {
    pub(super) outcome: &'a Outcome<'a>,
    pub(super) title: &'a str,
    pub(super) top: usize,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outcome, counts) = (self.outcome, self.outcome.counts);
        let requests = counts.requests();
        writeln!(f, "{} under {}\n", self.title, outcome.file)?;
        writeln!(f, "  {}{}", counted(requests, "request"), self.period())?;
        let plain = |part, whole| ascii_spaces(percent(part, whole));
        let (clients, hit) = (counts.clients.len() as u64, counts.clients_refused().len() as u64);
        write!(
            f,
            "  refused by some rule: {} ({})",
            grouped(counts.refused),
            plain(counts.refused, requests)
        )?;
        if clients > 0 {
            write!(f, ", {} of {} ({})", grouped(hit), counted(clients, "client"), plain(hit, clients))?;
        }
        writeln!(
            f,
            "\n  concerned by no rule: {} ({})\n",
            grouped(counts.unmatched),
            plain(counts.unmatched, requests)
        )?;
        self.rules(f)?;
        self.keys(f)
    }
}

impl Table<'_> {
    /// The first and the last time.
    fn period(&self) -> String {
        let Some((first, last)) = self.outcome.log.time.span() else { return String::new() };
        let text = |t: u64| {
            let CalendarTime { year, month, day, .. } = CalendarTime::at(t);
            format!("{year}-{month:02}-{day:02} {}", CalendarTime::at(t).clock(1_000_000_000))
        };
        format!(", {} to {} UTC", text(first), text(last))
    }

    fn rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let right = std::iter::repeat_n(Side::Right, 6);
        let mut columns = Columns::new([Side::Left, Side::Left].into_iter().chain(right));
        columns.row(
            ["rule", "mode", "concerned", "refused", "share", "keys", "hit", "top 10 have"]
                .map(str::to_owned),
        );
        for (rule, counts) in self.outcome.decided() {
            columns.row(row(rule, counts));
        }
        if self.outcome.decided().next().is_some() {
            write!(f, "{columns}")?;
        }
        let mut undecided = Columns::new([Side::Left, Side::Left]);
        for (rule, reason) in self.outcome.undecided() {
            undecided.row([rule.name.to_string(), format!("not decided: {reason}")]);
        }
        write!(f, "{undecided}")
    }

    fn keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.outcome.top_refused(self.top);
        if keys.is_empty() {
            return Ok(());
        }
        let mut columns = Columns::new([Side::Left, Side::Left, Side::Right, Side::Right, Side::Right]);
        columns.row(["Most refused keys", "rule", "requests", "refused", "share"].map(str::to_owned));
        for refused in keys {
            let tally = refused.tally;
            columns.row([
                printable(refused.key.as_bytes(), KEY_WIDTH),
                refused.rule.to_owned(),
                grouped(tally.requests),
                grouped(tally.denied),
                ascii_spaces(percent(tally.denied, tally.requests)),
            ]);
        }
        write!(f, "\n{columns}")
    }
}

fn row(rule: &Rule, counts: &RuleCounts) -> [String; 8] {
    let plain = |part, whole| ascii_spaces(percent(part, whole));
    let hit = counts.keys.refused() as u64;
    let top = if counts.refused > 0 { plain(counts.top_ten(), counts.refused) } else { String::new() };
    [
        rule.name.to_string(),
        mode_text(rule.mode).to_owned(),
        grouped(counts.concerned),
        grouped(counts.refused),
        plain(counts.refused, counts.concerned),
        grouped(counts.keys.len() as u64),
        grouped(hit),
        top,
    ]
}
