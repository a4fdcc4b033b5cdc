//! From the nodes of one file to its domain's descriptors.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::SameDomain;
use super::fields::{DESCRIPTOR, FILE, Fields, RATE_LIMIT, REPLACED, Reader};
use super::limit::{EnvoyLimit, EnvoyUnit};
use super::trie::{Descriptor, EnvoyConfig, Level, LevelId, Siblings};
use super::yaml::NodeId;
use crate::file::{Code, LONGEST_VALUE, Place, limit_of, nearest, quoted};

/// The most bytes of all composite keys.
const MOST_COMPOSITES: usize = 64 << 20;

/// What has been read of all files so far.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) config: EnvoyConfig,
    /// The key and value of each descriptor of a level, glued as in composite keys.
    glued: HashSet<(LevelId, Box<str>)>,
    /// The bytes of all composite keys.
    bytes: usize,
    /// The first file of each domain.
    files: BTreeMap<Box<str>, Arc<str>>,
    /// The replaced names of each domain, and where they stand.
    replaced: Vec<(Arc<str>, Box<str>, Place)>,
}

impl Loaded {
    fn new_level(&mut self) -> LevelId {
        self.config.levels.push(Level::default());
        LevelId(self.config.levels.len() - 1)
    }

    /// The replaced names that no limit of their domain has, and where they stand.
    pub(super) fn unknown(&self) -> Vec<(&str, &Place)> {
        let names: HashSet<(&str, &str)> = self
            .config
            .limits
            .iter()
            .filter_map(|limit| Some((&*limit.domain, limit.name.as_deref()?)))
            .collect();
        let unknown = self.replaced.iter().filter(|(domain, name, _)| !names.contains(&(domain, name)));
        unknown.map(|(_, name, place)| (&**name, place)).collect()
    }
}

impl Reader<'_, '_> {
    /// Reads the file's domain into `loaded`.
    pub(super) fn file(&mut self, name: &Arc<str>, same: SameDomain, loaded: &mut Loaded) {
        let Some(root) = self.yaml.root().filter(|root| !self.yaml.is_null(*root)) else {
            let place = Place { file: self.file, span: 0..0 };
            let message = "the file is empty: it has no `domain`";
            self.files.add(&place, Code::MissingField, message, Some("domain: NAME"));
            return;
        };
        let Some(fields) = self.fields(root, &FILE) else { return };
        let domain = self.text(&fields, "domain");
        if domain.is_none() {
            self.missing(root, &fields, "domain", "the file has no `domain`", "domain: NAME");
        }
        // Without a name all the rest is checked all the same.
        let domain: Arc<str> = domain.unwrap_or_default().into();
        let known = loaded.files.get(&*domain).filter(|_| !domain.is_empty()).cloned();
        let level = match loaded.config.domains.get(&*domain) {
            Some(level) if known.is_some() && same == SameDomain::Merge => *level,
            _ => loaded.new_level(),
        };
        match (known, fields.get("domain")) {
            (Some(first), Some(at)) if same == SameDomain::Refuse => {
                let message = format!("the domain {} is there twice", quoted(&domain));
                self.add(
                    at,
                    Code::NameTwice,
                    message,
                    &format!("{first} has it, too: it can be merged if asked to"),
                );
            }
            _ if !domain.is_empty() => {
                loaded.config.domains.insert((&*domain).into(), level);
                loaded.files.entry((&*domain).into()).or_insert_with(|| Arc::clone(name));
            }
            _ => {}
        }
        let around = Around { domain: &domain, file: name, level, composite: &domain };
        self.descriptors(&fields, &around, loaded);
    }

    /// Reports a required field that is missing or empty. Of a wrong or misspelt one it is known.
    fn missing(&mut self, id: NodeId, fields: &Fields, name: &'static str, message: &str, hint: &str) {
        let span = match fields.get(name) {
            Some(at) if self.yaml.is_null(at) || self.yaml.text(at) == Some("") => self.span(at),
            None if !fields.is_meant(name) => {
                let start = self.span(id).start;
                start..start
            }
            _ => return,
        };
        self.files.add(&Place { file: self.file, span }, Code::MissingField, message, Some(hint));
    }

    fn descriptors(&mut self, fields: &Fields, around: &Around<'_>, loaded: &mut Loaded) {
        for id in self.list(fields, "descriptors") {
            self.descriptor(id, around, loaded);
        }
    }

    /// A descriptor and those in it. It is at most 64 levels deep.
    fn descriptor(&mut self, id: NodeId, around: &Around<'_>, loaded: &mut Loaded) {
        let Some(fields) = self.fields(id, &DESCRIPTOR) else { return };
        let (key, value) = (self.text(&fields, "key"), self.text(&fields, "value"));
        let at = fields.get("key").unwrap_or(id);
        match &key {
            None => self.missing(id, &fields, "key", "the descriptor has no `key`", "key: NAME"),
            Some(key) if key.contains('*') => {
                self.add(at, Code::Unsupported, "`*` in a `key`", "wildcards stand in `value`");
            }
            Some(_) => {}
        }
        let glued = [key.as_deref(), value.as_deref()].into_iter().flatten().collect::<Vec<_>>().join("_");
        let composite = format!("{}.{glued}", around.composite);
        if composite.len() > LONGEST_VALUE {
            let message = format!("the domain, keys and values have {} bytes", composite.len());
            self.add(id, Code::TooMuch, message, &format!("at most {LONGEST_VALUE}"));
            return;
        }
        let is_new = loaded.glued.insert((around.level, glued.into()));
        if key.is_some() && !is_new {
            let message = format!("duplicate descriptor composite key {}", quoted(&composite));
            self.add(at, Code::NameTwice, message, "each key and value once in its level");
        }
        let has_wildcard = value.as_deref().is_some_and(|value| value.contains('*'));
        let shares = self.is_on(&fields, "share_threshold");
        if let Some(at) = shares.filter(|_| !has_wildcard) {
            let hint = "it shares the limit of all values that a `*` fits";
            self.add(at, Code::Unfit, "`share_threshold` of a value without `*`", hint);
        }
        let limit = self.limit(id, &fields, &composite, around, loaded);
        let inner = fields.get("descriptors").map(|_| loaded.new_level());
        if let Some(level) = inner {
            self.descriptors(&fields, &Around { level, composite: &composite, ..*around }, loaded);
        }
        let Some(key) = key else { return };
        let counts_values = if has_wildcard { shares.is_none() } else { value.is_none() };
        let descriptor = Descriptor { limit, inner, counts_values };
        let siblings: &mut Siblings = loaded.config.levels[around.level.0].by_key.entry(key).or_default();
        match value {
            None => siblings.bare = Some(descriptor),
            Some(value) => {
                if has_wildcard && is_new {
                    siblings.patterns.push(value.clone());
                }
                siblings.exact.insert(value, descriptor);
            }
        }
    }

    /// The number of the descriptor's limit, if it has one.
    fn limit(
        &mut self,
        id: NodeId,
        fields: &Fields,
        composite: &str,
        around: &Around<'_>,
        loaded: &mut Loaded,
    ) -> Option<usize> {
        let shadow = self.is_on(fields, "shadow_mode");
        let quota = self.is_on(fields, "quota_mode");
        for name in ["detailed_metric", "value_to_metric"] {
            if let Some(at) = self.is_on(fields, name).filter(|_| self.told.insert(name)) {
                let message = format!("`{name}` changes nothing (told once a file)");
                self.add(at, Code::Ignored, message, "metrics have no values of entries");
            }
        }
        let metadata = self.object(fields, "metadata");
        let rate_limit = fields.get("rate_limit");
        let Some(at) = rate_limit.filter(|at| !self.yaml.is_null(*at)) else {
            let metadata = metadata.and(fields.get("metadata"));
            let meaningless = [("shadow_mode", shadow), ("quota_mode", quota), ("metadata", metadata)];
            for (name, at) in meaningless.into_iter().filter_map(|(name, at)| Some((name, at?))) {
                let message = format!("`{name}` of a descriptor without `rate_limit` means nothing");
                self.add(at, Code::Ignored, message, "it is not passed on to the descriptors in it");
            }
            if let Some(at) = rate_limit {
                let hint = "a mapping of unit, requests_per_unit";
                self.add(at, Code::Ignored, "an empty `rate_limit` is no limit", hint);
            }
            return None;
        };
        let found = self.fields(at, &RATE_LIMIT)?;
        let name = self.text(&found, "name");
        let replaces = self.replaces(&found, name.as_deref(), around.domain, loaded);
        let requests_per_unit = self.number(&found, "requests_per_unit");
        let unit = self.unit(at, &found);
        loaded.bytes += composite.len();
        if loaded.bytes > MOST_COMPOSITES {
            if loaded.bytes - composite.len() <= MOST_COMPOSITES {
                let message = "the composite keys of all limits are too long";
                self.add(id, Code::TooMuch, message, "at most 64 MiB");
            }
            return None;
        }
        let index = loaded.config.limits.len();
        let line = self.files.line(&Place { file: self.file, span: self.span(id) });
        let (domain, file) = (Arc::clone(around.domain), Arc::clone(around.file));
        let composite = composite.into();
        let limit = EnvoyLimit {
            index,
            domain,
            composite,
            name,
            requests_per_unit,
            unit,
            shadow: shadow.is_some(),
            quota_mode: quota.is_some(),
            replaces,
            metadata,
            file,
            line,
        };
        if let Some(Err(wrong)) = limit.quota_text().map(|text| limit_of(&text)) {
            self.add(at, Code::BadLimit, wrong.message, "");
        }
        loaded.config.limits.push(limit);
        Some(index)
    }

    /// The unit of a limit; `None` if it is unlimited or wrong.
    fn unit(&mut self, at: NodeId, found: &Fields) -> Option<EnvoyUnit> {
        let is_unlimited = self.flag(found, "unlimited")?;
        let text = self.text(found, "unit");
        let is_meant =
            |unit: &EnvoyUnit| text.as_deref().is_some_and(|text| unit.word().eq_ignore_ascii_case(text));
        let unit = EnvoyUnit::ALL.into_iter().find(is_meant);
        let (place, number) = (found.get("unit"), found.get("requests_per_unit"));
        if is_unlimited {
            if let (Some(_), Some(at)) = (unit, place) {
                self.add(at, Code::Unfit, "an unlimited limit has a `unit`", "take one of them out");
                return None;
            }
            for (name, at) in [("unit", place), ("requests_per_unit", number)] {
                if let Some(at) = at.filter(|at| !self.yaml.is_null(*at)) {
                    let message = format!("`{name}` of an unlimited limit means nothing");
                    self.add(at, Code::Ignored, message, "");
                }
            }
            return None;
        }
        let words = EnvoyUnit::ALL.map(EnvoyUnit::word);
        match (place.zip(text), unit) {
            (Some((at, text)), None) => {
                let near = nearest(&text, words.into_iter());
                let hint = near.map_or_else(|| words.join(", "), |near| format!("did you mean `{near}`?"));
                self.add(at, Code::BadText, format!("{} is no unit of time", quoted(&text)), &hint);
            }
            (None, None) => {
                let hint = format!("unit: one of {}", words.join(", "));
                self.missing(at, found, "unit", "the limit has no `unit`", &hint);
            }
            (_, Some(_)) if number.is_none() && !found.is_meant("requests_per_unit") => {
                let message = "no `requests_per_unit`: the limit is 0, and refuses all";
                self.add(at, Code::RefusesAll, message, "requests_per_unit: 0 says so without a warning");
            }
            (_, Some(_)) => {}
        }
        unit
    }

    /// The names that a limit replaces.
    fn replaces(
        &mut self,
        found: &Fields,
        own: Option<&str>,
        domain: &Arc<str>,
        loaded: &mut Loaded,
    ) -> Vec<Box<str>> {
        let mut names = Vec::new();
        for id in self.list(found, "replaces") {
            let Some(fields) = self.fields(id, &REPLACED) else { continue };
            let hint = "another limit's name";
            match (self.text(&fields, "name"), fields.get("name")) {
                (Some(name), Some(at)) if own == Some(&*name) => {
                    self.add(at, Code::Circle, "the limit replaces its own name", hint);
                }
                (Some(name), Some(at)) => {
                    let place = Place { file: self.file, span: self.span(at) };
                    loaded.replaced.push((Arc::clone(domain), name.clone(), place));
                    names.push(name);
                }
                _ => self.missing(id, &fields, "name", "an entry of `replaces` has no `name`", hint),
            }
        }
        names
    }
}

/// Where a descriptor stands.
#[derive(Clone, Copy)]
struct Around<'a> {
    domain: &'a Arc<str>,
    file: &'a Arc<str>,
    level: LevelId,
    composite: &'a str,
}
