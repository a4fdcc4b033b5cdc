//! A rule, and what its fields are to each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tollgate::{BuildError, Inherit, Limiter, Quota};
use toml::de::DeTable;

use super::settings::mode;
use super::store::Stores;
use super::{Reader, boxed, each, inner, integer, number, tables, text};
use crate::file::fields::{MOST_KEYS, MOST_PARTS, MOST_TIERS};
use crate::file::files::Place;
use crate::file::problem::Code;
use crate::file::text::{attribute, limit, value};
use tollgate_rules::{
    Attribute, Ban, Cost, CostCase, Key, Limit, Limits, MissingKey, Mode, Park, Replaces, Rule, Tier,
};

/// A day in nanoseconds.
const DAY: u128 = 86_400_000_000_000;

/// A rule, and where its parts stand.
#[derive(Debug)]
pub(in crate::file) struct Placed {
    pub(in crate::file) rule: Rule,
    /// Whether the rule is all that its text says. If not, something was reported.
    pub(in crate::file) is_whole: bool,
    /// Its heading.
    pub(in crate::file) at: Place,
    /// The values of its fields.
    fields: BTreeMap<Box<str>, Range<usize>>,
    /// Each limit.
    limits: Vec<Range<usize>>,
    /// The heading and each limit of each tier.
    tiers: Vec<(Range<usize>, Vec<Range<usize>>)>,
    /// Each name of `replaces`.
    replaces: Vec<Range<usize>>,
}

impl Placed {
    /// Whether its text has this field.
    pub(in crate::file) fn says(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// Where a field stands, or the heading.
    pub(in crate::file) fn field(&self, name: &str) -> Place {
        let span = self.fields.get(name).cloned();
        self.place(span.unwrap_or(self.at.span.clone()))
    }

    pub(in crate::file) fn tier(&self, number: usize) -> Place {
        self.place(self.tiers[number].0.clone())
    }

    /// Where each limit of the rule and its tiers stands.
    pub(in crate::file) fn each_limit(&self) -> impl Iterator<Item = (&Limit, Place)> {
        let tiers = self.rule.tiers.iter().zip(&self.tiers).map(|(tier, (_, spans))| (&tier.limits, spans));
        let all = std::iter::once((&self.rule.limits, &self.limits)).chain(tiers);
        let limits = all.filter_map(|(limits, spans)| match limits {
            Limits::Each(limits) => Some(limits.iter().zip(spans)),
            Limits::Unlimited | Limits::Block | Limits::PerRequest | Limits::Elsewhere => None,
        });
        limits.flatten().map(|(limit, span)| (limit, self.place(span.clone())))
    }

    /// The names of `replaces`, and where they stand.
    pub(in crate::file) fn replaced(&self) -> impl Iterator<Item = (&str, Place)> {
        let names = if let Replaces::Named(names) = &self.rule.replaces { &names[..] } else { &[] };
        names.iter().zip(&self.replaces).map(|(name, span)| (&**name, self.place(span.clone())))
    }

    fn place(&self, span: Range<usize>) -> Place {
        Place { file: self.at.file, span }
    }
}

impl Reader<'_, '_> {
    /// Reads a rule; `None` if it has no name. Other required fields that are missing or wrong
    /// get a value that is never used, so that names and circles are checked all the same.
    pub(in crate::file) fn rule(
        &mut self,
        table: &DeTable<'_>,
        at: Range<usize>,
        default: Mode,
        stores: &Stores,
    ) -> Option<Placed> {
        let applies = self.conditions(table, "match");
        let except = self.conditions(table, "except");
        let limits = self.limits(table);
        let tiers = self.tiers(table);
        let replaces = self.replaces(table);
        let cost = self.cost(table);
        let ban = self.ban(table);
        let max_wait = self.positive(table, "max_wait");
        let refuse = inner(table, "refuse").map(|table| self.answer(table)).unwrap_or_default();
        let park = self.park(table);
        let key = self.key(table);
        let store = self.store(table, stores);
        let is_whole = store.is_ok()
            && key.is_some()
            && limits.0.is_some()
            && tiers.len() == super::tables(table, "tier").count();
        let mut rule =
            Rule::new(boxed(table, "name")?, key.unwrap_or(Key::Everyone), limits.0.unwrap_or(Limits::Block));
        rule.was = boxed(table, "was");
        (rule.applies, rule.except) = (applies, except);
        rule.missing = match text(table, "missing") {
            Some("refuse") => MissingKey::Refuse,
            Some("pass") => MissingKey::Pass,
            _ => MissingKey::Share,
        };
        rule.tiers = tiers.iter().map(|(tier, ..)| tier.clone()).collect();
        rule.cost = cost;
        rule.mode = mode(table).unwrap_or(default);
        rule.replaces = replaces.0;
        rule.charge_if = inner(table, "charge_if").and_then(|table| table.get("status")).map(|status| {
            let statuses = each(status).filter_map(|status| u16::try_from(integer(status)?).ok());
            statuses.collect::<BTreeSet<_>>().into_iter().collect()
        });
        (rule.ban, rule.max_wait) = (ban, max_wait);
        (rule.refuse, rule.park) = (refuse, park);
        rule.inherit = match text(table, "inherit") {
            Some("as-is") => Inherit::AsIs,
            Some("proportional") => Inherit::Proportional,
            _ => Inherit::Additive,
        };
        rule.forget = table.get("forget").and_then(|value| value.get_ref().as_bool()).unwrap_or_default();
        rule.max_keys = number(table, "max_keys");
        rule.store = store.unwrap_or_default();
        let placed = Placed {
            is_whole,
            rule,
            at: self.place(at),
            fields: table.iter().map(|(key, value)| (key.get_ref().as_ref().into(), value.span())).collect(),
            limits: limits.1,
            tiers: tiers.into_iter().map(|(_, at, limits)| (at, limits)).collect(),
            replaces: replaces.1,
        };
        if is_whole {
            self.fits(&placed);
            self.fits_store(&placed);
        }
        Some(placed)
    }

    /// The limits of a rule or tier, and where each stands.
    fn limits(&mut self, table: &DeTable<'_>) -> (Option<Limits>, Vec<Range<usize>>) {
        let Some(value) = table.get("limits") else { return (None, Vec::new()) };
        let spans = each(value).map(|value| value.span()).collect();
        if value.get_ref().is_array() {
            let limits =
                each(value).map(|value| self.parsed(value, limit::limit)).collect::<Option<Vec<_>>>();
            return (limits.filter(|limits| !limits.is_empty()).map(Limits::Each), spans);
        }
        (self.parsed(value, limit::limits), spans)
    }

    fn tiers(&mut self, table: &DeTable<'_>) -> Vec<(Tier, Range<usize>, Vec<Range<usize>>)> {
        let mut tiers: Vec<(Tier, _, _)> = Vec::new();
        for (table, at) in tables(table, "tier").take(MOST_TIERS) {
            let applies = self.conditions(table, "match");
            let (limits, spans) = self.limits(table);
            let (Some(name), Some(limits)) = (boxed(table, "name"), limits) else { continue };
            if tiers.iter().any(|(tier, ..)| tier.name == name) {
                let message = format!("the rule has two tiers `{name}`");
                let span = table.get("name").map_or(at.clone(), |value| value.span());
                self.add(span, Code::NameTwice, message, "state is kept by name: each needs its own");
            }
            tiers.push((Tier { name, applies, limits, max_keys: None }, at, spans));
        }
        tiers
    }

    fn key(&mut self, table: &DeTable<'_>) -> Option<Key> {
        let value = table.get("key")?;
        if value.get_ref().as_str() == Some("everyone") {
            return Some(Key::Everyone);
        }
        let mut attributes = Vec::new();
        for value in each(value).take(MOST_PARTS) {
            let attribute = self.parsed(value, attribute::key_part)?;
            if attributes.contains(&attribute) {
                let message = format!("`{attribute}` is in the key twice");
                self.add(value.span(), Code::BadValue, message, "each attribute once");
            }
            self.has_pattern(table, attribute.plain(), value.span());
            attributes.push(attribute);
        }
        (!attributes.is_empty()).then_some(Key::Attributes(attributes))
    }

    /// A capture and a route need a pattern of the rule's paths.
    fn has_pattern(&mut self, rule: &DeTable<'_>, attribute: &Attribute, span: Range<usize>) {
        let paths = || tables(rule, "match").filter_map(|(table, _)| table.get("path")).flat_map(each);
        match attribute {
            Attribute::Capture(name) => {
                let has = |path: &super::Value<'_>| {
                    let path = path.get_ref().as_str().unwrap_or_default();
                    path.starts_with('@') || value::captures(path).any(|capture| *capture == **name)
                };
                if !paths().any(has) {
                    let message = format!("no path of the rule has a part `{{{name}}}`");
                    self.add(span, Code::Unfit, message, format!("match.path = \"/files/{{{name}}}\""));
                }
            }
            Attribute::Route if paths().next().is_none() => {
                let message = "`route` is the pattern of a path, and the rule has none";
                self.add(span, Code::Unfit, message, "key = \"path\", or match.path = \"/users/{id}\"");
            }
            _ => {}
        }
    }

    fn cost(&mut self, table: &DeTable<'_>) -> Cost {
        let Some(value) = table.get("cost") else { return Cost::Fixed(1) };
        if let Some(fixed) = integer(value) {
            return Cost::Fixed(fixed);
        }
        if let Some(from) = value.get_ref().as_table() {
            let attribute = from.get("from").and_then(|value| self.parsed(value, attribute::cost_from));
            let default = number(from, "default").unwrap_or(1);
            return attribute.map_or(Cost::Fixed(1), |attribute| Cost::From { attribute, default });
        }
        let mut cases = Vec::new();
        for (case, _) in tables(table, "cost") {
            let applies = self.conditions(case, "match");
            cases.extend(number(case, "is").map(|is| CostCase { applies, is }));
        }
        Cost::Cases(cases)
    }

    fn ban(&mut self, table: &DeTable<'_>) -> Option<Ban> {
        let ban = self.positive(table, "ban").filter(|ban| !ban.is_zero())?;
        if let (Err(error), Some(value)) = (Ban(ban).check(), table.get("ban")) {
            let message = match error {
                BuildError::OutOfRange { field: "rate.period", max, .. } => {
                    format!("a ban lasts {} days at most", max / DAY)
                }
                error => format!("the ban cannot be kept: {error}"),
            };
            self.add(value.span(), Code::BadValue, message, "such as 1d");
        }
        Some(Ban(ban))
    }

    /// What the rule keeps of the requests that it refuses.
    fn park(&mut self, table: &DeTable<'_>) -> Option<Park> {
        let given = inner(table, "park");
        if text(table, "on_refusal") != Some("park") {
            if let Some(value) = table.get("park") {
                let message = "`park` means nothing: the rule answers what it refuses";
                self.add(value.span(), Code::Unfit, message, "on_refusal = \"park\"");
            }
            return None;
        }
        let mut park = Park::default();
        let Some(given) = given else { return Some(park) };
        park.headers = given.get("headers").map(|names| {
            let names = each(names).filter_map(|name| name.get_ref().as_str());
            names.map(|name| name.to_ascii_lowercase().into()).collect()
        });
        park.requests = number(given, "requests").unwrap_or(park.requests);
        park.requests_per_key = number(given, "requests_per_key").unwrap_or(park.requests_per_key);
        park.bytes = number(given, "bytes").unwrap_or(park.bytes);
        park.bytes_per_key = number(given, "bytes_per_key").unwrap_or(park.bytes_per_key);
        park.body = number(given, "body").unwrap_or(park.body);
        park.age = self.positive(given, "age").unwrap_or(park.age);
        park.tries = number(given, "tries").unwrap_or(park.tries);
        park.retry = self.positive(given, "retry").unwrap_or(park.retry);
        Some(park)
    }

    fn replaces(&mut self, table: &DeTable<'_>) -> (Replaces, Vec<Range<usize>>) {
        let Some(value) = table.get("replaces") else { return (Replaces::None, Vec::new()) };
        let names: Vec<Box<str>> =
            each(value).filter_map(|value| value.get_ref().as_str()).map(Into::into).collect();
        if !names.iter().any(|name| **name == *"*") {
            return (Replaces::Named(names), each(value).map(|value| value.span()).collect());
        }
        if names.len() > 1 {
            self.add(
                value.span(),
                Code::Unfit,
                "`*` replaces all rules, and stands alone",
                "replaces = [\"*\"]",
            );
        }
        (Replaces::All, Vec::new())
    }

    /// Reports fields that mean nothing beside the others.
    fn fits(&mut self, placed: &Placed) {
        let Rule { limits, tiers, ban, max_wait, charge_if, max_keys, park, .. } = &placed.rule;
        let limited = || std::iter::once(limits).chain(tiers.iter().map(|tier| &tier.limits));
        let is_limited = limited().any(|limits| matches!(limits, Limits::Each(_)));
        let parks = park.is_some();
        if parks && ban.is_some() {
            let message = "a rule that parks what it refuses cannot ban its key";
            self.files.add(&placed.field("ban"), Code::Unfit, message, Some("another rule for the ban"));
        }
        for (name, given) in
            [("ban", ban.is_some()), ("charge_if", charge_if.is_some()), ("on_refusal", parks)]
        {
            if given && !is_limited {
                let place = placed.field(name);
                let message = format!("`{name}` means nothing: the rule has no limit that is used up");
                self.files.add(&place, Code::Unfit, message, Some("limits = \"10/s\", for example"));
            }
        }
        let is_queue =
            |limit: &Limit| matches!(limit, Limit::Quota(quota) if quota.to_string().contains("queue"));
        // Of a rule with a store, `fits_store` says that there is no queue.
        let is_kept_here = placed.rule.store.is_none();
        if max_wait.is_some() && is_kept_here && !placed.each_limit().any(|(limit, _)| is_queue(limit)) {
            let message = "`max_wait` means nothing: no limit of the rule is a queue";
            let hint = Some("limits = \"leaky-bucket:10/s,capacity=20,queue\"");
            self.files.add(&placed.field("max_wait"), Code::Unfit, message, hint);
        }
        if let Cost::Fixed(cost) = placed.rule.cost {
            let is_too_small = |limit: &Limit| match limit {
                Limit::Quota(quota) => quota.limit() < cost,
                Limit::InFlight { most, .. } => *most < cost,
            };
            if tiers.is_empty() && placed.each_limit().any(|(limit, _)| is_too_small(limit)) {
                let message = format!("every request costs {cost}, which is more than a whole limit");
                let hint = Some("limits = \"block\", if all are to be refused");
                self.files.add(&placed.field("cost"), Code::Unfit, message, hint);
            }
        }
        // A number out of range was reported.
        let in_range = max_keys.filter(|keys| *keys > 0 && *keys as u64 <= MOST_KEYS);
        let Some(max_keys) = in_range else { return };
        let wrong = placed.each_limit().find_map(|(limit, _)| match limit {
            Limit::Quota(quota) => memory(*quota, Some(max_keys)).err(),
            Limit::InFlight { .. } => None,
        });
        if let Some(error) = wrong {
            let hint = Some("fewer keys, or another algorithm");
            self.files.add(&placed.field("max_keys"), Code::BadLimit, error, hint);
        }
    }
}

/// The bytes that a limit may take, or why it cannot be built.
pub(in crate::file) fn memory(quota: Quota, max_keys: Option<usize>) -> Result<usize, String> {
    let builder = Limiter::builder(quota).per::<[u8]>();
    let builder = if let Some(keys) = max_keys { builder.max_keys(keys) } else { builder };
    builder.memory().map_err(|error| error.to_string())
}
