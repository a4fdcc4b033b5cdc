//! Of every rule, why it concerns a request or does not.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;

use super::condition::{All, PathMatch, Side, Test, Wanted};
use super::found::{Concerned, Found, Judged};
use super::judge::Judgement;
use super::rule::{Compiled, Part};
use super::values::Texts;
use super::{Matcher, replace};
use crate::request::{Form, MAX_VALUE, Request, Seen, Source};

/// Whether a rule concerns a request, and why. [`Matcher::explain`](crate::Matcher::explain)
/// returns one for every rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The rule's index in [`Rules::rules`](crate::Rules::rules).
    pub rule: usize,
    /// The rule's name.
    pub name: Box<str>,
    /// Whether it concerns the request.
    #[serde(flatten)]
    pub why: Why,
}

/// Why a rule concerns a request, or does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It concerns the request.
    Concerns {
        /// The parts of the key, in the order of the rule. None for `everyone`.
        key: Vec<KeyPart>,
        /// The index of the tier whose limits apply; `None`: the rule's own.
        tier: Option<usize>,
        /// The name of that tier.
        tier_name: Option<Box<str>>,
        /// What the request costs. 0 only looks.
        cost: u64,
        /// Whether a part of the key is missing and the rule refuses such requests.
        is_refused_without_key: bool,
    },
    /// It would, but another rule replaces it.
    Replaced {
        /// The name of that rule.
        by: Box<str>,
    },
    /// Its mode is off.
    Off,
    /// No conditions of its `match` hold.
    Unmatched {
        /// Of each alternative, the first condition that does not hold.
        reasons: Vec<Reason>,
    },
    /// Conditions of its `except` hold.
    Excepted {
        /// These.
        reasons: Vec<Reason>,
    },
    /// A part of its key is absent, and it does not concern such requests.
    WithoutKey {
        /// The parts of the key, in the order of the rule.
        key: Vec<KeyPart>,
    },
}

/// A part of a key, as a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeyPart {
    /// The attribute's name.
    pub attribute: Box<str>,
    /// Its value, with bytes that are not UTF-8 replaced; `None`: it is missing.
    pub value: Option<Box<str>>,
}

/// A condition, and what it was held to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// The attribute's name.
    pub attribute: Box<str>,
    /// The values that the request has, as the condition compares them: of a path, one for each
    /// reading. Bytes that are not UTF-8 are replaced.
    pub seen: Vec<Box<str>>,
    /// The values that the condition wants, in the order in which they are sorted: at most 16.
    pub wanted: Vec<Box<str>>,
    /// How many more it wants.
    pub wanted_more: usize,
    /// Whether the condition relaxes, so that it compares the request exactly and all readings and
    /// values must fit. Else it restricts: paths are compared folded, and one that fits is enough.
    pub is_strict: bool,
}

/// The most values that a reason says.
const MOST_WANTED: usize = 16;

impl Matcher {
    /// Returns of every rule whether it concerns the request, and else why not. By the same judge
    /// as [`find`](Self::find), without the index.
    ///
    /// # Cost
    ///
    /// Judges all rules, and allocates.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_rules::{Matcher, PlainRequest};
    /// # use tollgate_rules_file::{Memory, read};
    /// # let text = "version = 1\nrule = [\
    /// #     { name = 'a', match.path = '/a/**', key = 'everyone', limits = '1/s' }]";
    /// # let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// use tollgate_rules::Why;
    ///
    /// let matcher = Matcher::new(&rules)?;
    /// let request = PlainRequest { target: Some("/B/".into()), ..PlainRequest::default() };
    /// let explanation = &matcher.explain(&request)[0];
    /// let Why::Unmatched { reasons } = &explanation.why else { panic!("{explanation:?}") };
    /// assert_eq!((&*reasons[0].seen[0], &*reasons[0].wanted[0]), ("/b", "/a/**"));
    /// # Ok::<(), tollgate_rules::CompileError>(())
    /// ```
    pub fn explain(&self, request: &dyn Request) -> Vec<Explanation> {
        let Found { keys, buffers, judged, stack, .. } = &mut Found::default();
        buffers.read(request, &self.names);
        let seen = Seen::new(request, buffers, self.form, self.ipv6_prefix);
        let mut all = Vec::new();
        for (rule, compiled) in self.rules.iter().enumerate() {
            let why = match compiled.judge(rule, &seen, keys, stack) {
                Judgement::Off => Why::Off,
                Judgement::Unmatched => {
                    let side = compiled.side();
                    let failing = |all: &All| Some(reason(all.judge(&seen, side, stack).err()?, &seen, side));
                    Why::Unmatched { reasons: compiled.applies.iter().filter_map(failing).collect() }
                }
                Judgement::Excepted(all) => {
                    let side = compiled.side().opposite();
                    Why::Excepted { reasons: all.0.iter().map(|test| reason(test, &seen, side)).collect() }
                }
                Judgement::WithoutKey(path) => Why::WithoutKey { key: compiled.parts(&seen, path) },
                Judgement::Concerns(found, path) => {
                    let Concerned { tier, cost, is_refused_without_key, .. } = found.concerned;
                    let tier_name = tier.map(|tier| compiled.tiers[tier].name.clone());
                    judged.push(found);
                    let key = compiled.parts(&seen, path);
                    Why::Concerns { key, tier, tier_name, cost, is_refused_without_key }
                }
            };
            all.push(Explanation { rule, name: compiled.name.clone(), why });
        }
        replace::mark(&self.rules, judged, &mut Vec::new());
        for Judged { concerned, replaced_by, .. } in judged {
            if let Some(by) = replaced_by {
                all[concerned.rule].why = Why::Replaced { by: self.rules[*by as usize].name.clone() };
            }
        }
        all
    }
}

impl Compiled {
    /// Returns the parts of the key as texts.
    fn parts(&self, seen: &Seen<'_>, path: Option<PathMatch<'_>>) -> Vec<KeyPart> {
        let part = |part: &Part| {
            let mut bytes = Vec::new();
            let is_there = part.write(seen, path, &mut bytes).is_ok();
            let value = match (&part.source, seen.client()) {
                (Source::Client, Some(client)) => group(client, seen.ipv6_prefix),
                _ => text(&bytes),
            };
            KeyPart { attribute: part.attribute.to_string().into(), value: is_there.then_some(value) }
        };
        self.key.iter().map(part).collect()
    }
}

/// Returns the address or network that is one client.
fn group(client: IpAddr, ipv6_prefix: u8) -> Box<str> {
    match IpNet::new(client, ipv6_prefix) {
        Ok(network) if client.is_ipv6() && ipv6_prefix < 128 => network.trunc().to_string().into(),
        _ => client.to_string().into(),
    }
}

fn text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_VALUE)]).into()
}

/// Says what a condition was held to.
fn reason(test: &Test, seen: &Seen<'_>, side: Side) -> Reason {
    let mut had = Vec::new();
    match &test.source {
        Source::Path => {
            let form = if side == Side::Relaxes { Form::Exact } else { seen.form };
            for path in seen.readings() {
                had.push(text(seen.bytes(if form == Form::Exact { &path.exact } else { &path.lower })));
            }
        }
        Source::Client => had.extend(seen.client().map(|client| client.to_string().into())),
        source => seen.values(source, &mut |value, _| had.push(text(value))),
    }
    let (any, count, some): (bool, usize, Vec<Box<str>>) = match &test.wanted {
        Wanted::Paths(paths) => {
            let some = paths.patterns.iter().take(MOST_WANTED).map(|pattern| pattern.text().into());
            (paths.any, paths.patterns.len(), some.collect())
        }
        Wanted::Clients { any, networks } => {
            let some = networks.networks().into_iter().take(MOST_WANTED);
            (*any, networks.len(), some.map(|network| network.to_string().into()).collect())
        }
        Wanted::Texts(Texts { any, exact, globs, digests, .. }) => {
            let digest = |digest: &[u8; 32]| {
                let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("sha256:{hex}").into()
            };
            let texts = exact.iter().chain(globs).map(|bytes| text(bytes));
            let some = texts.chain(digests.iter().map(digest)).take(MOST_WANTED).collect();
            (*any, exact.len() + globs.len() + digests.len(), some)
        }
    };
    let (wanted, count) = if any { (vec!["*".into()], 1) } else { (some, count) };
    Reason {
        attribute: test.attribute.to_string().into(),
        seen: had,
        wanted_more: count - wanted.len(),
        wanted,
        is_strict: side == Side::Relaxes,
    }
}
