//! What rules must see of a request, and which rules a log can decide.

use std::collections::BTreeSet;

use tollgate_logs::{Part, Wanted};
use tollgate_rules::{Attribute, Conditions, Cost, Key, Limit, Limits, Mode, Rule};

use super::map::Map;

/// The parts that rules need of every record, in the order in which a log's reader gives them. The
/// client and the duration are the first, whether a rule needs them or not.
#[derive(Debug)]
pub(crate) struct WantedParts {
    wanted: Vec<Wanted>,
    maps: Vec<Map>,
    /// Whether it is assumed how long requests last.
    assumes_duration: bool,
}

/// Where the client stands among the wanted parts.
pub(super) const CLIENT: usize = 0;
/// Where the duration stands.
pub(super) const DURATION: usize = 1;

impl WantedParts {
    pub(super) fn new(maps: &[Map], assumes_duration: bool) -> Self {
        let mut parts = Self { wanted: Vec::new(), maps: maps.to_vec(), assumes_duration };
        parts.index(Part::Client);
        parts.index(Part::Duration);
        if maps.iter().any(|map| map.part == Part::Settles) {
            parts.index(Part::Settles);
        }
        parts
    }

    /// The index of a part, which is wanted from now on.
    pub(super) fn index(&mut self, part: Part) -> usize {
        if let Some(index) = self.wanted.iter().position(|wanted| wanted.part == part) {
            return index;
        }
        let map = self.maps.iter().find(|map| map.part == part);
        let (field, unit) = (map.map(|map| map.field.clone()), map.and_then(|map| map.unit));
        self.wanted.push(Wanted { part, field, unit });
        self.wanted.len() - 1
    }

    pub(crate) fn as_slice(&self) -> &[Wanted] {
        &self.wanted
    }

    /// The mappings that no rule has a use for.
    pub(super) fn unused(&self) -> impl Iterator<Item = &Map> {
        self.maps.iter().filter(|map| self.wanted.iter().all(|wanted| wanted.part != map.part))
    }
}

/// What a rule needs.
#[derive(Debug)]
pub(super) struct Needs {
    /// Of each attribute that it uses, the index among the wanted parts.
    parts: Vec<(Attribute, usize)>,
    /// The wanted part with the status, if only some responses are charged.
    status: Option<usize>,
    /// Whether it must know how long requests last.
    duration: bool,
    /// Why no log can decide it.
    never: Option<&'static str>,
}

impl Needs {
    pub(super) fn of(rule: &Rule, wanted: &mut WantedParts) -> Self {
        let never = (rule.mode == Mode::Off).then_some("its mode is off");
        let duration = has_in_flight(rule) && !wanted.assumes_duration;
        let parts = attributes(rule).into_iter().map(|attribute| {
            let index = wanted.index(part_of(&attribute));
            (attribute, index)
        });
        let parts = parts.collect();
        let status = rule.charge_if.as_ref().map(|_| wanted.index(Part::Status));
        Self { parts, status, duration, never }
    }

    /// Why the rule is not decided, if a log has only the wanted parts that `found` says.
    pub(super) fn reason(&self, found: &[bool], wanted: &[Wanted]) -> Option<String> {
        if let Some(never) = self.never {
            return Some(never.to_owned());
        }
        let is_found = |index: usize| found.get(index).copied().unwrap_or(false);
        if self.duration && !is_found(DURATION) {
            return Some(NO_DURATION.to_owned());
        }
        let missing = self.parts.iter().filter(|(_, index)| !is_found(*index));
        let mut names: Vec<String> = missing.clone().map(|(attribute, _)| attribute.to_string()).collect();
        let mut parts: BTreeSet<usize> = missing.map(|(_, index)| *index).collect();
        if let Some(status) = self.status.filter(|&status| !is_found(status)) {
            names.push("status".to_owned());
            parts.insert(status);
        }
        let hints: Vec<String> =
            parts.iter().map(|&index| format!("--map {}=FIELD", wanted[index].part)).collect();
        match names.len() {
            0 => None,
            1 => Some(format!("{} is not in this log ({})", names[0], hints.join(" "))),
            _ => Some(format!("{} are not in this log ({})", names.join(", "), hints.join(" "))),
        }
    }
}

/// Why limits of requests in flight are not decided.
const NO_DURATION: &str =
    "in-flight: this log does not say how long requests last (--map duration=FIELD or --lasts TIME)";

fn has_in_flight(rule: &Rule) -> bool {
    let limits = std::iter::once(&rule.limits).chain(rule.tiers.iter().map(|tier| &tier.limits));
    let is_in_flight = |limit: &Limit| matches!(limit, Limit::InFlight { .. });
    limits.into_iter().any(|limits| matches!(limits, Limits::Each(each) if each.iter().any(is_in_flight)))
}

/// The attributes that a rule uses anywhere, each once.
fn attributes(rule: &Rule) -> BTreeSet<Attribute> {
    let cases: &[_] = if let Cost::Cases(cases) = &rule.cost { cases } else { &[] };
    let conditions: Vec<&Conditions> = rule
        .applies
        .iter()
        .chain(&rule.except)
        .chain(rule.tiers.iter().flat_map(|tier| &tier.applies))
        .chain(cases.iter().flat_map(|case| &case.applies))
        .collect();
    let used = conditions.iter().flat_map(|conditions| &conditions.0).map(|condition| &condition.attribute);
    let mut attributes: BTreeSet<Attribute> = used.cloned().collect();
    if let Key::Attributes(key) = &rule.key {
        attributes.extend(key.iter().cloned());
    }
    if let Cost::From { attribute, .. } = &rule.cost {
        attributes.insert(attribute.clone());
    }
    attributes
}

/// The part of a request that has an attribute.
fn part_of(attribute: &Attribute) -> Part {
    match attribute.plain() {
        Attribute::Method => Part::Method,
        Attribute::Host => Part::Host,
        Attribute::Path | Attribute::Route | Attribute::Query(_) | Attribute::Capture(_) => Part::Target,
        Attribute::Client => Part::Client,
        Attribute::Header(name) => Part::Header(name.to_string()),
        Attribute::Cookie(_) => Part::Header("cookie".to_owned()),
        Attribute::Label(name) => Part::Label(name.to_string()),
        Attribute::Domain => Part::Domain,
        Attribute::Entry(name) => Part::Entry(name.to_string()),
        Attribute::Transformed(..) => unreachable!("a plain attribute is not transformed"),
    }
}
