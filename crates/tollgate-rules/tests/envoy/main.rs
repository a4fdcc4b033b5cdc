//! Files of envoyproxy/ratelimit: what they mean, their mistakes, and the same as rules.

mod bad;
mod convert;
mod hostile;
mod walk;

use tollgate_rules::{EnvoyConfig, EnvoyLimit, Memory, Reading, SameDomain};

/// Reads `text` as `envoy.yaml`.
fn reading(text: impl Into<Vec<u8>>) -> Reading<EnvoyConfig> {
    EnvoyConfig::read(&["envoy.yaml"], SameDomain::Refuse, &Memory::new("envoy.yaml", text))
}

/// The configuration of a text without errors.
fn config(text: &str) -> EnvoyConfig {
    reading(text).into_rules().unwrap_or_else(|reading| panic!("{text}\n{reading}"))
}

/// A file of the domain `d` with these descriptors.
fn domain(descriptors: &str) -> String {
    format!("domain: d\ndescriptors:\n{descriptors}")
}

/// The limit of a descriptor of the domain `d`, and its key.
fn find<'c>(config: &'c EnvoyConfig, entries: &[(&str, &str)]) -> Option<(&'c EnvoyLimit, Vec<u8>)> {
    let mut key = Vec::new();
    let limit = config.find("d", entries.iter().copied(), &mut key)?;
    Some((limit, key))
}

/// The codes of the problems, with the line and the wrong text of each.
fn found(text: &str) -> Vec<(&'static str, usize, String)> {
    let reading = reading(text);
    let part = |line: usize, column: usize, len: usize| {
        let line = text.split('\n').nth(line.wrapping_sub(1)).unwrap_or_default();
        line.chars().skip(column.saturating_sub(1)).take(len).collect()
    };
    let problems = reading.problems().iter();
    problems
        .map(|problem| (problem.code.as_str(), problem.line, part(problem.line, problem.column, problem.len)))
        .collect()
}
