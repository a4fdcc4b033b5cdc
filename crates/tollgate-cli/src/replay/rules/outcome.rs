//! All that a replay by rules shows, and its JSON.

use serde_json::{Value, json};
use tollgate_rules::{Replaces, Rule};

use super::counts::{Counts, RuleCounts};
use crate::by_rules::{Judge, RequestLog, limits_text, mode_text};
use crate::reading::ReadSummary;
use crate::report::KeyTally;

/// All that a finished replay shows.
pub(super) struct Outcome<'a> {
    /// The rules file.
    pub(super) file: String,
    pub(super) judge: &'a Judge,
    pub(super) log: &'a RequestLog,
    pub(super) counts: &'a Counts,
    pub(super) read: &'a ReadSummary,
}

/// A key of a rule with its refusals.
pub(super) struct RefusedKey<'a> {
    pub(super) rule: &'a str,
    pub(super) key: String,
    pub(super) tally: KeyTally,
}

impl Outcome<'_> {
    /// The rules that the log decides, with their counts.
    pub(super) fn decided(&self) -> impl Iterator<Item = (&Rule, &RuleCounts)> {
        let rules = self.judge.rules().rules.iter().zip(&self.counts.rules).enumerate();
        rules.filter(|(index, _)| self.judge.reason(*index).is_none()).map(|(_, rule)| rule)
    }

    /// The rules that it does not, with the reasons.
    pub(super) fn undecided(&self) -> impl Iterator<Item = (&Rule, &str)> {
        let rules = self.judge.rules().rules.iter().enumerate();
        rules.filter_map(|(index, rule)| Some((rule, self.judge.reason(index)?)))
    }

    /// The most refused keys of all rules, most refused first.
    pub(super) fn top_refused(&self, top: usize) -> Vec<RefusedKey<'_>> {
        let mut keys: Vec<(usize, &[u8], KeyTally)> = Vec::new();
        for (index, counts) in self.counts.rules.iter().enumerate() {
            let refused = counts.keys.top_refused(top).into_iter();
            keys.extend(refused.map(|(key, tally)| (index, key, tally)));
        }
        keys.sort_by_key(|(_, _, tally)| std::cmp::Reverse(tally.denied));
        keys.truncate(top);
        let keys = keys.into_iter().map(|(index, key, tally)| RefusedKey {
            rule: &self.judge.rules().rules[index].name,
            key: self.judge.key_text(index, key, &self.log.clients),
            tally,
        });
        keys.collect()
    }

    /// What the user should know before believing the figures.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.log.notes();
        notes.extend(self.judge.notes(self.log));
        if self.counts.without_client > 0 && !self.counts.clients.is_empty() {
            let without = crate::report::figures::counted(self.counts.without_client, "request");
            notes.push(format!("{without} without a client"));
        }
        let decided: Vec<&str> = self.decided().map(|(rule, _)| &*rule.name).collect();
        for (rule, _) in self.undecided().filter(|(rule, _)| rule.mode != tollgate_rules::Mode::Off) {
            let replaced = match &rule.replaces {
                Replaces::Named(named) => {
                    named.iter().map(|name| &**name).filter(|name| decided.contains(name)).collect()
                }
                Replaces::All => decided.clone(),
                Replaces::None => Vec::new(),
            };
            if !replaced.is_empty() {
                notes.push(format!(
                    "`{}` is not decided, and would replace {} for some requests: there they may refuse too much",
                    rule.name,
                    replaced.join(", ")
                ));
            }
        }
        notes
    }

    /// The outcome as one JSON object.
    pub(super) fn json(&self, top: usize) -> Value {
        let Self { counts, read, .. } = self;
        let time = &self.log.time;
        let seconds = read.elapsed.as_secs_f64();
        let rule = |(index, rule): (usize, &Rule)| {
            let mut object = json!({
                "name": *rule.name,
                "mode": mode_text(rule.mode),
                "limits": limits_text(&rule.limits),
            });
            match self.judge.reason(index) {
                Some(reason) => object["not_decided"] = json!(reason),
                None => {
                    let counts = &counts.rules[index];
                    object["concerned"] = json!(counts.concerned);
                    object["refused"] = json!(counts.refused);
                    object["keys"] = json!(counts.keys.len());
                    object["keys_refused"] = json!(counts.keys.refused());
                    object["refused_of_top_10_keys"] = json!(counts.top_ten());
                }
            }
            object
        };
        let key = |refused: &RefusedKey<'_>| {
            json!({
                "rule": refused.rule,
                "key": refused.key,
                "requests": refused.tally.requests,
                "refused": refused.tally.denied,
            })
        };
        json!({
            "version": 1,
            "rules_file": self.file,
            "requests": counts.requests(),
            "admitted": counts.admitted,
            "refused": counts.refused,
            "unmatched": counts.unmatched,
            "clients": counts.clients.len(),
            "clients_refused": counts.clients_refused().len(),
            "malformed": read.totals.malformed,
            "out_of_order": time.out_of_order(),
            "first_t_ns": time.span().map(|(first, _)| first),
            "last_t_ns": time.span().map(|(_, last)| last),
            "elapsed_s": (seconds * 1e6).round() / 1e6,
            "lines_per_s": (read.totals.lines as f64 / seconds.max(1e-9)).round(),
            "rules": self.judge.rules().rules.iter().enumerate().map(rule).collect::<Vec<_>>(),
            "top_refused": self.top_refused(top).iter().map(key).collect::<Vec<_>>(),
            "notes": self.notes(),
        })
    }
}
