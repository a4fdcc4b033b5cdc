//! Rules files: what they mean, their mistakes, their warnings and their schema.

mod cookbook;
mod errors;
mod hints;
mod hostile;
mod lint;
mod schema;

use tollgate_rules::Rules;
use tollgate_rules_file::{Memory, Problem, Reading, read};

/// Reads `text` as `rules.toml`.
fn reading(text: &str) -> Reading {
    read("rules.toml", &Memory::new("rules.toml", text))
}

/// The rules of a text without mistakes.
fn rules(text: &str) -> Rules {
    reading(text).into_rules().unwrap_or_else(|reading| panic!("{text}\n{reading}"))
}

/// A rule that is complete, with further fields.
fn rule(name: &str, fields: &str) -> String {
    let mut text = format!("[[rule]]\nname = \"{name}\"\n{fields}\n");
    for (field, value) in [("key", "everyone"), ("limits", "10/s")] {
        let line = format!("{field} =");
        if !fields.lines().any(|found| found.starts_with(&line)) {
            text += &format!("{line} \"{value}\"\n");
        }
    }
    text
}

/// The problems of a file with these rules.
fn problems(rules: &[String]) -> Vec<Problem> {
    reading(&format!("version = 1\n{}", rules.concat())).problems().to_vec()
}

/// The codes of the problems, with the wrong text that each points at.
fn found(text: &str) -> Vec<(&'static str, String)> {
    let part = |problem: &Problem| {
        let line = text.split('\n').nth(problem.line.wrapping_sub(1)).unwrap_or_default();
        line.chars().skip(problem.column.saturating_sub(1)).take(problem.len).collect()
    };
    reading(text).problems().iter().map(|problem| (problem.code.as_str(), part(problem))).collect()
}
