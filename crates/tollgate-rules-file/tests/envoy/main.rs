//! Files of envoyproxy/ratelimit: what they mean, their mistakes, the same as rules, and calls that
//! are decided by them.

mod bad;
mod calls;
mod convert;
mod hostile;
mod model;
mod reload;
mod stored;
mod together;
mod walk;

use tollgate::ManualClock;
use tollgate_rules_file::{
    EnvoyAnswer, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoyDescriptor, EnvoyHandle, EnvoyLimit, EnvoySet,
    EnvoyUnit, Memory, Reading, SameDomain,
};

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

/// A descriptor of a call.
#[derive(Clone, Debug, Default)]
struct Call {
    entries: Vec<(String, String)>,
    hits: Option<u64>,
    limit: Option<(u32, Option<EnvoyUnit>)>,
}

impl EnvoyDescriptor for Call {
    fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (&**key, &**value))
    }

    fn hits_addend(&self) -> Option<u64> {
        self.hits
    }

    fn limit(&self) -> Option<(u32, Option<EnvoyUnit>)> {
        self.limit
    }
}

/// A descriptor with these entries.
fn call(entries: &[(&str, &str)]) -> Call {
    let entries = entries.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Call { entries, ..Call::default() }
}

/// A descriptor that has so many hits.
fn hits(entries: &[(&str, &str)], hits: u64) -> Call {
    Call { hits: Some(hits), ..call(entries) }
}

/// A set of the descriptors of a domain `d`, and its clock.
fn set(descriptors: &str, charge: EnvoyCharge) -> (EnvoySet<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let set = EnvoySet::new(config(&domain(descriptors)), charge, 1_000, clock.clone());
    (set.expect("it can be built"), clock)
}

/// Decides calls of a domain `d`.
struct Asker(EnvoyHandle<ManualClock>, EnvoyAnswer);

impl Asker {
    fn of(set: &EnvoySet<ManualClock>) -> Self {
        Self(set.handle(), EnvoyAnswer::default())
    }

    /// The overall code, and the code and what remains of each descriptor.
    fn ask(&mut self, call: &[Call]) -> (EnvoyCode, Vec<(EnvoyCode, u32)>) {
        let code = self.0.decide("d", call, 0, &mut self.1).expect("the call means something");
        let statuses = self.1.statuses().iter().map(|status| (status.code, status.remaining));
        (code, statuses.collect())
    }

    /// The code and what remains of the only descriptor.
    fn one(&mut self, call: Call) -> (EnvoyCode, u32) {
        self.ask(&[call]).1[0]
    }
}
