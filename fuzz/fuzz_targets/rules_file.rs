//! Any bytes as a rules file, a file that it includes and a list: rules, or errors that point into
//! the text.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use tollgate_rules::{Limits, Rules};
use tollgate_rules_file::{Code, Memory, Problem, read};

/// What separates the three files in an input.
const BETWEEN: &[u8] = b"\n----\n";

fuzz_target!(|bytes: &[u8]| {
    let mut files = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
        files.push(&rest[..at]);
        rest = &rest[at + BETWEEN.len()..];
    }
    files.push(rest);
    let file = |number: usize| files.get(number).copied().unwrap_or_default();
    let source = Memory::new("rules.toml", file(0))
        .file("rules.d/more.toml", file(1))
        .file("list.txt", file(2))
        .variable("LIST", String::from_utf8_lossy(file(2)));
    let reading = read("rules.toml", &source);
    for problem in reading.problems() {
        points_into(
            problem,
            &[("rules.toml", file(0)), ("rules.d/more.toml", file(1)), ("list.txt", file(2))],
        );
        assert!(!problem.to_string().contains('\u{1b}'), "{problem}");
        assert!(problem.draw(true).len() < 10_000, "{problem}");
    }
    let has_error = reading.problems().iter().any(|problem| !problem.is_warning());
    assert_eq!(reading.rules().is_none(), has_error, "{reading}");
    assert_eq!(read("rules.toml", &source).problems(), reading.problems());
    if let Some(rules) = reading.rules() {
        are_sound(rules);
    }
});

fn points_into(problem: &Problem, files: &[(&str, &[u8])]) {
    assert_ne!(problem.code, Code::Internal, "{problem}");
    if problem.line == 0 {
        return;
    }
    let (_, bytes) = files.iter().find(|(name, _)| **name == *problem.file).expect("a file that was read");
    let text = String::from_utf8_lossy(bytes);
    let line = text.split('\n').nth(problem.line - 1).expect("a line of the file");
    assert!(problem.column - 1 + problem.len <= line.chars().count(), "{problem:?}");
}

fn are_sound(rules: &Rules) {
    let names: BTreeSet<_> = rules.rules.iter().map(|rule| &rule.name).collect();
    assert_eq!(names.len(), rules.rules.len());
    for rule in &rules.rules {
        let tiers = rule.tiers.iter().map(|tier| &tier.limits);
        for limits in tiers.chain([&rule.limits]) {
            assert!(!matches!(limits, Limits::Each(limits) if limits.is_empty() || limits.len() > 8));
        }
        assert!(rule.applies.iter().chain(&rule.except).all(|conditions| !conditions.0.is_empty()));
        assert!((1..=64).contains(&rule.name.len()));
    }
    for test in &rules.tests {
        assert!(test.steps.is_sorted_by_key(|step| step.at));
    }
}
