//! What two rules files decide differently, as text and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::changes::{Changes, Moved, Tally};
use crate::by_rules::{Judge, Trial};
use crate::columns::{Columns, Side, ascii_spaces, printable};
use crate::report::figures::{counted, grouped, percent};

/// How wide a key may be.
const KEY_WIDTH: usize = 40;

/// A comparison of two files on a log.
pub(super) struct Outcome<'a> {
    /// The names of the old and the new file.
    pub(super) files: &'a [String; 2],
    pub(super) trial: &'a Trial<2>,
    pub(super) changes: &'a Changes,
    /// The names of the logs.
    pub(super) sources: &'a [String],
    pub(super) top: usize,
}

impl Outcome<'_> {
    /// Newly refused, and newly admitted, each with the file whose rules refuse.
    fn moved(&self) -> [(&'static str, &Moved, usize); 2] {
        [("newly refused", &self.changes.refused, 1), ("newly admitted", &self.changes.admitted, 0)]
    }

    fn name(&self, file: usize, rule: usize) -> &str {
        &self.trial.judges[file].rules().rules[rule].name
    }

    fn key(&self, file: usize, rule: usize, key: &[u8]) -> String {
        self.trial.judges[file].key_text(rule, key, &self.trial.log.clients)
    }

    /// The rules of a file that are not decided, with the reasons.
    fn undecided<'j>(&self, judge: &'j Judge) -> impl Iterator<Item = (&'j str, &'j str)> {
        let rules = judge.rules().rules.iter().enumerate();
        rules.filter_map(|(index, rule)| Some((&*rule.name, judge.reason(index)?)))
    }

    /// The outcome as one JSON object.
    pub(super) fn json(&self) -> Value {
        let tally = |tally: Tally| {
            let mut first = json!({"line": tally.first.1});
            if self.sources.len() > 1 {
                first["file"] = json!(self.sources.get(tally.first.0));
            }
            (tally.requests, first)
        };
        let moved = |(_, moved, file): (&str, &Moved, usize)| {
            let rules = moved.rules().into_iter().map(|(rule, counted)| {
                let (requests, first) = tally(counted);
                json!({"rule": self.name(file, rule), "requests": requests, "first": first})
            });
            let keys = moved.keys(self.top).into_iter().map(|(rule, key, counted)| {
                let (requests, first) = tally(counted);
                json!({
                    "rule": self.name(file, rule),
                    "key": self.key(file, rule, key),
                    "requests": requests,
                    "first": first,
                })
            });
            json!({
                "requests": moved.requests,
                "by_rule": rules.collect::<Vec<_>>(),
                "by_key": keys.collect::<Vec<_>>(),
            })
        };
        let undecided = |judge: &Judge| -> Vec<Value> {
            self.undecided(judge).map(|(rule, reason)| json!({"rule": rule, "reason": reason})).collect()
        };
        let time = &self.trial.log.time;
        let [refused, admitted] = self.moved().map(moved);
        let [old, new] = &self.trial.judges;
        json!({
            "version": 1,
            "old": self.files[0],
            "new": self.files[1],
            "requests": self.changes.requests(),
            "first_t_ns": time.span().map(|(first, _)| first),
            "last_t_ns": time.span().map(|(_, last)| last),
            "both_admitted": self.changes.both_admitted,
            "both_refused": self.changes.both_refused,
            "newly_refused": refused,
            "newly_admitted": admitted,
            "not_decided": {"old": undecided(old), "new": undecided(new)},
        })
    }
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (changes, requests) = (self.changes, self.changes.requests());
        let [old, new] = self.files;
        writeln!(f, "{old} -> {new}: {}\n", counted(requests, "request"))?;
        let mut facts = Columns::new([Side::Left, Side::Right, Side::Left]);
        for (name, count) in [
            ("admitted by both", changes.both_admitted),
            ("refused by both", changes.both_refused),
            ("newly refused", changes.refused.requests),
            ("newly admitted", changes.admitted.requests),
        ] {
            facts.row([name.to_owned(), grouped(count), ascii_spaces(percent(count, requests))]);
        }
        write!(f, "{facts}")?;
        for (name, moved, file) in self.moved() {
            if moved.requests > 0 {
                self.section(f, name, moved, file)?;
            }
        }
        for (judge, file) in self.trial.judges.iter().zip(self.files) {
            let mut columns = Columns::new([Side::Left, Side::Left]);
            for (rule, reason) in self.undecided(judge) {
                columns.row([rule.to_owned(), reason.to_owned()]);
            }
            let text = columns.to_string();
            if !text.is_empty() {
                write!(f, "\nNot decided, of {file}\n{text}")?;
            }
        }
        Ok(())
    }
}

impl Outcome<'_> {
    fn section(&self, f: &mut fmt::Formatter<'_>, name: &str, moved: &Moved, file: usize) -> fmt::Result {
        let line = |tally: Tally| match self.sources {
            [] | [_] => tally.first.1.to_string(),
            sources => format!("{}:{}", sources.get(tally.first.0).map_or("", String::as_str), tally.first.1),
        };
        let mut name = name.to_owned();
        name[..1].make_ascii_uppercase();
        let mut columns = Columns::new([Side::Left, Side::Left, Side::Right, Side::Right]);
        columns.row([
            format!("{name}, by"),
            "key".to_owned(),
            "requests".to_owned(),
            "first line".to_owned(),
        ]);
        for (rule, tally) in moved.rules() {
            columns.row([
                self.name(file, rule).to_owned(),
                String::new(),
                grouped(tally.requests),
                line(tally),
            ]);
        }
        for (rule, key, tally) in moved.keys(self.top) {
            let key = printable(self.key(file, rule, key).as_bytes(), KEY_WIDTH);
            columns.row([self.name(file, rule).to_owned(), key, grouped(tally.requests), line(tally)]);
        }
        write!(f, "\n{columns}")
    }
}
