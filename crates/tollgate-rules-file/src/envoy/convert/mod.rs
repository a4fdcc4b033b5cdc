//! Envoy's descriptors as rules in TOML, as far as rules can say them.
//!
//! A rule meets every descriptor that *contains* its entries, in any order. A descriptor of the
//! file means its own entries alone, in their order. The rules are equal for the keys that the
//! files name: each rule leaves out the values that the walk finds first (`except`), and the
//! entries of the file's descriptors with more keys. Other meanings are told as differences.

mod paths;
mod write;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::limit::EnvoyLimit;
use super::trie::EnvoyConfig;
use crate::file::{Code, Memory, Problem, read};
use paths::{Paths, Step};
use write::{comment, list, quote};

/// The most rules of a file, and the most values in it: more cannot be read.
const MOST_RULES: usize = 10_000;
const MOST_VALUES: usize = 1_000_000;
/// The most characters of a rule's name.
const LONGEST_NAME: usize = 64;
/// The most characters of an entry's key in a condition.
const LONGEST_KEY: usize = 256;

const HEADER: &str = "\
# Made by `tollgate rules convert` from files of envoyproxy/ratelimit: docs/how-to/envoy.md.
#
# The rules decide as those files do for descriptors whose entries have the keys of a descriptor in
# the files, each once, in its order, with a value. Other descriptors have no limit there; here those
# have one that contain all entries of a rule.
version = 1
";

/// The name of the store in the rules.
const STORE: &str = "shared";

const STORE_HEADER: &str = "\
# All processes that read these rules share their counts. A store counts no hits of a descriptor that
# it refuses, which Envoy's service does: behind one of several hits, fewer may pass.
";

/// Rules that decide as Envoy's files, and where they do not.
///
/// # Examples
///
/// See [`EnvoyConfig::convert`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Converted {
    /// A rules file in TOML. What it cannot say stands in comments.
    pub toml: String,
    /// What it cannot say. Errors: some calls are decided differently. Warnings: none are.
    pub differences: Vec<Problem>,
}

impl EnvoyConfig {
    /// Writes the limits as rules in TOML.
    ///
    /// The text can be read by [`read`](crate::read()), unless a difference says that it is too
    /// large.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_rules_file::{EnvoyConfig, Memory, SameDomain, read};
    ///
    /// let yaml = "\
    /// domain: messaging
    /// descriptors:
    ///   - key: to_number
    ///     value: '2061234567'
    ///   - key: to_number
    ///     rate_limit: { unit: day, requests_per_unit: 100 }
    /// ";
    /// let source = Memory::new("messaging.yaml", yaml);
    /// let reading = EnvoyConfig::read(&["messaging.yaml"], SameDomain::Refuse, &source);
    /// let config = reading.into_rules().unwrap();
    ///
    /// let converted = config.convert();
    /// assert!(converted.differences.is_empty());
    /// let rule = r#"
    /// [[rule]] # messaging.yaml:5
    /// name = "messaging.to_number"
    /// match = { domain = "messaging", entry = { "to_number" = "*" } }
    /// except = [{ entry = { "to_number" = ["2061234567"] } }]
    /// key = ["entry.to_number"]
    /// limits = "fixed-window:100/d,count=all"
    /// "#;
    /// assert!(converted.toml.ends_with(rule), "{}", converted.toml);
    /// let rules = read("rules.toml", &Memory::new("rules.toml", converted.toml));
    /// assert!(rules.rules().is_some());
    /// ```
    #[must_use]
    pub fn convert(&self) -> Converted {
        self.converted(None)
    }

    /// [`convert`](Self::convert), where the rules keep their counts in the store at an address, as
    /// `url` of [`[stores]`](tollgate_rules::StoreServer) has it: all processes that read them
    /// share them. A store counts no hits of a descriptor that it refuses. An address that is none
    /// is a difference.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_rules_file::{EnvoyConfig, Memory, SameDomain};
    ///
    /// let limit = "{ unit: hour, requests_per_unit: 10 }";
    /// let yaml = format!("domain: d\ndescriptors: [{{ key: k, rate_limit: {limit} }}]");
    /// let source = Memory::new("d.yaml", yaml);
    /// let reading = EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source);
    /// let config = reading.into_rules().unwrap();
    /// let converted = config.convert_to_store("redis://10.0.0.7");
    /// assert!(converted.differences.is_empty());
    /// assert!(converted.toml.ends_with("limits = \"fixed-window:10/h\"\nstore = \"shared\"\n"));
    /// ```
    #[must_use]
    pub fn convert_to_store(&self, address: &str) -> Converted {
        self.converted(Some(address))
    }

    fn converted(&self, store: Option<&str>) -> Converted {
        let named = |limit: &EnvoyLimit| Some((limit.domain.clone(), limit.name.clone()?));
        let named = self.limits.iter().filter_map(named).collect();
        let mut toml = HEADER.to_owned();
        if let Some(address) = store {
            toml += &format!("\n{STORE_HEADER}[stores.{STORE}]\nurl = {}\n", quote(address));
        }
        let has_store = store.is_some();
        let mut converter = Converter { toml, has_store, named, ..Converter::default() };
        let mut too_much = |message: String| {
            converter.differences.push(Problem::at(("", 0, 0), Code::TooMuch, message, None));
        };
        let paths = if self.limits.len() > MOST_RULES {
            too_much(format!("{} limits: a rules file has at most {MOST_RULES} rules", self.limits.len()));
            None
        } else {
            Some(Paths::of(self)).filter(|paths| {
                if paths.is_too_much() {
                    too_much("too many values beside one another: a rules file has a million at most".into());
                }
                !paths.is_too_much()
            })
        };
        for limit in &self.limits {
            if let Some(paths) = &paths {
                converter.limit(paths, limit, paths.steps(limit));
            }
        }
        let Converter { toml, mut differences, .. } = converter;
        let reading = read("rules.toml", &Memory::new("rules.toml", &*toml));
        differences.extend(reading.problems().iter().filter(|problem| !problem.is_warning()).cloned());
        Converted { toml, differences }
    }
}

#[derive(Default)]
struct Converter {
    toml: String,
    has_store: bool,
    differences: Vec<Problem>,
    /// The names of limits, each with its domain.
    named: HashSet<(Arc<str>, Box<str>)>,
    /// The names of all rules, and how often each was wanted.
    names: HashSet<String>,
    wanted: HashMap<String, usize>,
    /// The values of all conditions.
    values: usize,
}

impl Converter {
    fn limit(&mut self, paths: &Paths<'_>, limit: &EnvoyLimit, steps: &[Step<'_>]) {
        if steps.iter().any(|step| step.is_shadowed) {
            let what = "never found: `*` stands before it";
            self.toml += &format!("\n# {}\n# {what}\n", comment(&place(limit)));
            return;
        }
        let more = match self.said(paths, limit, steps) {
            Ok(more) => more,
            Err(why) => {
                self.toml += &format!("\n# {}\n# NOT CONVERTED: {}\n", comment(&place(limit)), comment(&why));
                return self.differs(limit, Code::Unsupported, why, "keep Envoy's file for this domain");
            }
        };
        self.toml += &format!("\n[[rule]] # {}\n", comment(&place(limit)));
        self.apart(limit);
        let entries: Vec<_> =
            steps.iter().map(|step| format!("{} = {}", quote(step.key), quote(step.fits.text()))).collect();
        let mut except: Vec<_> = steps
            .iter()
            .filter(|step| !step.before.is_empty())
            .map(|step| format!("{{ entry = {{ {} = {} }} }}", quote(step.key), list(&step.before)))
            .collect();
        except.extend(more.iter().map(|key| format!("{{ entry = {{ {} = \"*\" }} }}", quote(key))));
        let keys: Vec<_> = steps
            .iter()
            .filter(|step| step.counts_values)
            .map(|step| format!("entry.{}", step.key))
            .collect();
        let name = self.name(&limit.composite);
        self.toml += &format!("name = {}\n", quote(&name));
        self.toml += &format!(
            "match = {{ domain = {}, entry = {{ {} }} }}\n",
            quote(&limit.domain),
            entries.join(", ")
        );
        if !except.is_empty() {
            self.toml += &format!("except = [{}]\n", except.join(", "));
        }
        let key = if keys.is_empty() { "\"everyone\"".into() } else { list(&keys) };
        self.toml += &format!("key = {key}\n");
        let quota = if self.has_store { limit.window() } else { limit.quota_text() };
        let store = quota.as_ref().filter(|_| self.has_store).map(|_| STORE);
        let limits = match (limit.unit, quota) {
            (None, _) => "unlimited".into(),
            (Some(_), None) => "block".into(),
            (Some(_), Some(quota)) => quota,
        };
        self.toml += &format!("limits = {}\n", quote(&limits));
        if let Some(store) = store {
            self.toml += &format!("store = {}\n", quote(store));
        }
        if limit.shadow {
            self.toml += "mode = \"shadow\"\n";
        }
    }

    /// The keys that tell the file's longer descriptors apart; or why no rule says the limit.
    fn said<'p>(
        &mut self,
        paths: &'p Paths<'_>,
        limit: &EnvoyLimit,
        steps: &[Step<'_>],
    ) -> Result<BTreeSet<&'p str>, String> {
        if limit.quota_mode {
            return Err("`quota_mode` refuses a call only together: rules see each descriptor alone".into());
        }
        let keys: BTreeSet<&str> = steps.iter().map(|step| step.key).collect();
        if keys.len() < steps.len() {
            return Err("a key stands twice in the descriptor: a rule sees each key once".into());
        }
        if let Some(key) = keys.iter().find(|key| key.chars().count() > LONGEST_KEY) {
            return Err(format!(
                "the key has {} characters, and may have {LONGEST_KEY}",
                key.chars().count()
            ));
        }
        let texts = steps.iter().flat_map(|step| step.before.iter().copied().chain([step.fits.text()]));
        if let Some(text) = texts.chain([&*limit.domain]).find(|text| is_special(text)) {
            return Err(format!("{text:?} has another meaning in a rule's condition"));
        }
        if limit.domain.contains('*') {
            return Err("`*` in the domain's name would be a wildcard".into());
        }
        let more = paths.more(&limit.domain, steps, &keys)?;
        self.values += steps.iter().map(|step| 1 + step.before.len()).sum::<usize>() + more.len();
        if self.values > MOST_VALUES {
            return Err(format!("the conditions have more than {MOST_VALUES} values"));
        }
        Ok(more)
    }

    /// Tells what the rule leaves out of the limit.
    fn apart(&mut self, limit: &EnvoyLimit) {
        let is_named = |name: &str| self.named.contains(&(limit.domain.clone(), name.into()));
        let replaced: Vec<_> =
            limit.replaces.iter().map(|name| &**name).filter(|name| is_named(name)).collect();
        if !replaced.is_empty() {
            let names = comment(&replaced.join(", "));
            self.toml += &format!("# NOT CONVERTED: replaces {names} in other descriptors of a call\n");
            let message = format!("`replaces` of {names}: rules see each descriptor of a call alone");
            self.differs(limit, Code::Unsupported, message, "the limits apply all the same");
        }
        if limit.metadata.is_some() {
            self.toml += "# without its metadata\n";
            self.differs(
                limit,
                Code::Ignored,
                "`metadata` is in no rule".into(),
                "no decision depends on it",
            );
        }
    }

    fn differs(&mut self, limit: &EnvoyLimit, code: Code, message: String, hint: &str) {
        let place = (&*limit.file, limit.line, 1);
        self.differences.push(Problem::at(place, code, message, Some(hint.into())));
    }

    /// A name that no other rule has.
    fn name(&mut self, composite: &str) -> String {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        let wanted: String =
            composite.chars().map(|c| if is_part(c) { c } else { '-' }).take(LONGEST_NAME).collect();
        let times = self.wanted.entry(wanted.clone()).or_default();
        let mut name = wanted.clone();
        while !self.names.insert(name.clone()) {
            *times += 1;
            let end = format!("-{}", *times + 1);
            name = format!("{}{end}", &wanted[..wanted.len().min(LONGEST_NAME - end.len())]);
        }
        name
    }
}

/// Whether a condition reads a text as a list's name or a digest.
fn is_special(text: &str) -> bool {
    text.starts_with('@') || text.starts_with("sha256:")
}

fn place(limit: &EnvoyLimit) -> String {
    format!("{}:{}", limit.file, limit.line)
}
