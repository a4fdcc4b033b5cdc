//! Which rules may concern a request: by one condition of each alternative of their `match`, the
//! one that the fewest rules share. What it finds is judged; what it leaves out concerns nothing.

use std::collections::HashMap;

use super::condition::{Paths, Test, Wanted};
use super::pattern::{Stack, Trie};
use super::rule::Compiled;
use super::values::{Networks, Texts};
use crate::request::{Form, HOST, METHOD, Seen, Source};
use crate::rule::Mode;

/// Rules by a value that a request must have for them.
#[derive(Debug)]
pub(super) struct Index {
    /// Rules that no value leaves out.
    always: Vec<u32>,
    paths: Trie,
    texts: Vec<BySource>,
    clients: Networks<Vec<u32>>,
}

type ByText = HashMap<Box<[u8]>, Vec<u32>, ahash::RandomState>;

#[derive(Debug)]
struct BySource {
    source: Source,
    exact: ByText,
    /// By `.example.com`, for `*.example.com`. Of hosts only.
    suffixes: ByText,
}

/// A value that a condition wants, as the index finds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value<'t> {
    Path(Box<[u8]>),
    Text(&'t Source, &'t [u8]),
    Client(ipnet::IpNet),
}

/// How many alternatives share a value, and so how many are judged where a request has it.
type Shares<'t> = HashMap<Value<'t>, u32, ahash::RandomState>;

/// A condition on the method, on parts of a path without texts, or on all addresses leaves out
/// little: as if so many rules shared it.
const BROAD: u32 = 1 << 30;

/// Returns the glob `*.example.com` as `.example.com`.
fn suffix<'g>(source: &Source, glob: &'g [u8]) -> Option<&'g [u8]> {
    let suffix = glob.strip_prefix(b"*").filter(|suffix| suffix.first() == Some(&b'.'))?;
    (*source == Source::Read(HOST) && !suffix.contains(&b'*')).then_some(suffix)
}

/// Calls `each` with each value of a condition. Returns `false` if it can hold without any of them.
fn values<'t>(test: &'t Test, each: &mut dyn FnMut(Value<'t>)) -> bool {
    match &test.wanted {
        Wanted::Paths(Paths { any: true, .. }) | Wanted::Clients { any: true, .. } => false,
        Wanted::Paths(paths) => {
            paths.patterns.iter().for_each(|pattern| each(Value::Path(pattern.shape().0)));
            true
        }
        Wanted::Clients { networks, .. } => {
            networks.networks().into_iter().for_each(|network| each(Value::Client(network)));
            true
        }
        Wanted::Texts(Texts { any, exact, globs, digests, restricting, has_scheme: _ }) => {
            let are_found = globs.iter().all(|glob| suffix(&test.source, glob).is_some());
            if *any || !digests.is_empty() || !are_found {
                return false;
            }
            let texts = exact.iter().chain(restricting).chain(globs);
            texts.for_each(|text| each(Value::Text(&test.source, text)));
            true
        }
    }
}

/// Returns by how many alternatives the most common value of a condition is shared; `None`: the
/// condition can hold without any.
fn share(test: &Test, shares: &Shares<'_>) -> Option<u32> {
    let mut most = match &test.wanted {
        Wanted::Texts(_) if test.source == Source::Read(METHOD) => BROAD,
        Wanted::Paths(paths) if paths.patterns.iter().any(|pattern| !pattern.shape().1) => BROAD,
        _ => 0,
    };
    let is_found = values(test, &mut |value| {
        let is_broad = matches!(value, Value::Client(network) if network.prefix_len() == 0);
        let shared = if is_broad { BROAD } else { shares.get(&value).copied().unwrap_or(0) };
        most = most.max(shared);
    });
    is_found.then_some(most)
}

impl Index {
    pub(super) fn new(rules: &[Compiled], form: Form) -> Self {
        let asked = || (0..).zip(rules).filter(|(_, rule)| rule.mode != Mode::Off);
        let mut shares = Shares::default();
        for (_, rule) in asked() {
            for test in rule.applies.iter().flat_map(|all| &all.0) {
                values(test, &mut |value| *shares.entry(value).or_default() += 1);
            }
        }
        let mut index = Self {
            always: Vec::new(),
            paths: Trie::new(form),
            texts: Vec::new(),
            clients: Networks::default(),
        };
        let mut sources = HashMap::new();
        for (number, rule) in asked() {
            let mut is_always = rule.applies.is_empty();
            for all in &rule.applies {
                let shared = |test| Some((share(test, &shares)?, test));
                match all.0.iter().filter_map(shared).min_by_key(|(shared, _)| *shared) {
                    Some((_, test)) => index.insert(test, number, &mut sources),
                    None => is_always = true,
                }
            }
            if is_always {
                index.always.push(number);
            }
        }
        index
    }

    fn insert(&mut self, test: &Test, rule: u32, sources: &mut HashMap<Source, usize>) {
        match &test.wanted {
            Wanted::Paths(paths) => {
                paths.patterns.iter().for_each(|pattern| self.paths.insert(pattern, rule));
            }
            Wanted::Clients { networks, .. } => {
                networks.networks().into_iter().for_each(|network| self.clients.entry(network).push(rule));
            }
            Wanted::Texts(texts) => {
                let at = *sources.entry(test.source.clone()).or_insert(self.texts.len());
                if at == self.texts.len() {
                    let source = test.source.clone();
                    let (exact, suffixes) = Default::default();
                    self.texts.push(BySource { source, exact, suffixes });
                }
                let by = &mut self.texts[at];
                for text in texts.exact.union(&texts.restricting) {
                    by.exact.entry(text.clone()).or_default().push(rule);
                }
                for suffix in texts.globs.iter().filter_map(|glob| suffix(&test.source, glob)) {
                    by.suffixes.entry(suffix.into()).or_default().push(rule);
                }
            }
        }
    }

    /// Writes the rules that may concern a request, each once and in order.
    pub(super) fn find(&self, seen: &Seen<'_>, stack: &mut Stack, rules: &mut Vec<u32>) {
        rules.clear();
        rules.extend(&self.always);
        if seen.has_more_readings() {
            rules.extend(self.paths.all());
        } else {
            for reading in seen.readings() {
                self.paths.visit(seen.path(reading), stack, |rule| rules.push(rule));
            }
        }
        for BySource { source, exact, suffixes } in &self.texts {
            if seen.may_be_any(source) {
                rules.extend(exact.values().chain(suffixes.values()).flatten());
                continue;
            }
            seen.values(source, &mut |value, _| {
                rules.extend(exact.get(value).into_iter().flatten());
                if !suffixes.is_empty() {
                    let dots = value.iter().enumerate().filter(|(_, byte)| **byte == b'.');
                    let found = dots.filter_map(|(at, _)| suffixes.get(&value[at..]));
                    rules.extend(found.flatten());
                }
            });
        }
        if self.clients.len() > 0
            && let Some(client) = seen.client()
        {
            rules.extend(self.clients.containing(client).flatten());
        }
        // Those that no value leaves out are in order.
        if rules.len() > self.always.len() {
            rules.sort_unstable();
            rules.dedup();
        }
    }
}
