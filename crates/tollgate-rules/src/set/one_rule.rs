//! One rule, asked by its name for a key that the caller has: there is no request.

use std::fmt;

use tollgate::Clock;

use crate::matcher::NoKey;
use crate::rule::{Attribute, Cost, Key, Limits, Mode, Rule};
use crate::set::scratch::Scratch;
use crate::set::{Ask, RuleSet, Verdict};

/// A question to one rule: see [`RuleSet::ask_rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskRule<'r> {
    /// The rule's name.
    pub name: &'r str,
    /// A value for each part of the rule's key, in its order: as requests have it, and counted with
    /// those that do, however it is spelled. Of `client` it is the text of an IP address; of `path`
    /// a path without a query; of `query.NAME` the decoded value. One without bytes is missing. A
    /// rule for `everyone` has one key for any values here.
    pub key: &'r [&'r [u8]],
    /// What it costs; `None`: what the rule says. Of costs by conditions that is the highest.
    pub cost: Option<u64>,
    /// Whether nothing is to be charged, and no key banned.
    pub is_peek: bool,
}

/// Why a rule was not asked. Nothing is charged then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskRuleError {
    /// No rule has this name, or its mode is off.
    NoRule,
    /// The rule's limit comes with each request: see [`Limits::PerRequest`].
    PerRequest,
    /// There are more or fewer values than the rule's key has parts.
    Parts {
        /// The parts, as the file names them.
        parts: Box<str>,
    },
    /// A part of the rule's key is the pattern that a path matched, or what matched `{name}` in it:
    /// only a request tells.
    Pattern {
        /// The part, as the file names it.
        part: Box<str>,
    },
    /// A part of the rule's key is `client`, and this is no IP address.
    NoAddress {
        /// The value, or its beginning.
        key: Box<str>,
    },
    /// No request has this value: it is too long, a path with `?` or `#`, a cookie with `;`, or two
    /// parts of the key are the same and the values differ.
    NoValue {
        /// The part, as the file names it.
        part: Box<str>,
    },
}

/// How much of a key an error shows, in bytes.
const SHOWN: usize = 64;

impl<C> RuleSet<C> {
    /// The rule of this name, unless its mode is off.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.numbered(name).map(|(_, rule)| rule)
    }

    fn numbered(&self, name: &str) -> Option<(usize, &Rule)> {
        let at = self.by_name.binary_search_by(|rule| (*self.rules().rules[*rule].name).cmp(name)).ok()?;
        let number = self.by_name[at];
        let rule = &self.rules().rules[number];
        (rule.mode != Mode::Off).then_some((number, rule))
    }
}

/// The numbers of rules, sorted by their names.
pub(super) fn by_name(rules: &[Rule]) -> Box<[usize]> {
    let mut numbers: Vec<usize> = (0..rules.len()).collect();
    numbers.sort_unstable_by(|one, other| rules[*one].name.cmp(&rules[*other].name));
    numbers.into()
}

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Asks one rule about a key, as if a request had come that only this rule concerns.
    ///
    /// Its conditions are not asked, nor are its tiers: [`Rule::limits`] apply. All else is as of a
    /// request: bans, limits of requests in flight, queues, the rule's mode.
    ///
    /// **Cost.** As of a request, and a search among the names.
    ///
    /// # Errors
    ///
    /// [`AskRuleError`]: there is no such rule, or no request has such a key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{AskRule, RuleSet, Scratch};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let text = "version = 1\nrule = [{ name = 'each', key = 'label.user', limits = '2/min' }]";
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let set = RuleSet::new(rules, ManualClock::new())?;
    /// let mut scratch = Scratch::default();
    /// let ada = AskRule { name: "each", key: &[b"ada"], cost: Some(2), is_peek: false };
    /// assert!(set.ask_rule(ada, &mut scratch).unwrap().is_admitted());
    /// assert!(!set.ask_rule(ada, &mut scratch).unwrap().is_admitted());
    /// assert!(set.ask_rule(AskRule { name: "other", ..ada }, &mut scratch).is_err());
    /// # Ok::<(), tollgate_rules::SetError>(())
    /// ```
    pub fn ask_rule<'s>(
        &'s self,
        ask: AskRule<'_>,
        scratch: &'s mut Scratch,
    ) -> Result<Verdict<'s, C>, AskRuleError> {
        self.decide_rule(ask, scratch)?;
        Ok(self.verdict(scratch))
    }

    /// Asks one rule, and leaves the decision in `scratch`.
    pub(crate) fn decide_rule(&self, ask: AskRule<'_>, scratch: &mut Scratch) -> Result<(), AskRuleError> {
        let (number, rule) = self.numbered(ask.name).ok_or(AskRuleError::NoRule)?;
        if rule.limits == Limits::PerRequest {
            return Err(AskRuleError::PerRequest);
        }
        let cost = ask.cost.unwrap_or_else(|| usual_cost(&rule.cost));
        scratch.clear();
        let found = self.matcher.find_one(number, cost, ask.key, &mut scratch.found);
        found.map_err(|no_key| error(no_key, rule, ask.key))?;
        self.decide_found(Ask { cost, is_peek: ask.is_peek, ..Ask::default() }, scratch);
        Ok(())
    }
}

/// What the rule says that a request costs of which nothing is known.
fn usual_cost(cost: &Cost) -> u64 {
    match cost {
        Cost::Fixed(cost) => *cost,
        Cost::From { default, .. } => *default,
        Cost::Cases(cases) => cases.iter().map(|case| case.is).fold(1, u64::max),
    }
}

/// What a rule's key lacks.
fn error(no_key: NoKey, rule: &Rule, key: &[&[u8]]) -> AskRuleError {
    let Key::Attributes(parts) = &rule.key else { return AskRuleError::NoRule };
    let named = |parts: &[Attribute]| parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let part = |number: usize| named(&parts[number..=number]).into();
    match no_key {
        NoKey::Count => AskRuleError::Parts { parts: named(parts).into() },
        NoKey::Pattern(number) => AskRuleError::Pattern { part: part(number) },
        NoKey::Address(number) => {
            let key = &key[number][..key[number].len().min(SHOWN)];
            AskRuleError::NoAddress { key: String::from_utf8_lossy(key).into() }
        }
        NoKey::Value(number) => AskRuleError::NoValue { part: part(number) },
        NoKey::Unusable => AskRuleError::NoValue { part: named(parts).into() },
    }
}

impl fmt::Display for AskRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => f.write_str("no such rule"),
            Self::PerRequest => f.write_str("the rule's limit comes with each request: ask by a request"),
            Self::Parts { parts } => write!(f, "the rule's key needs a value for each of {parts}"),
            Self::Pattern { part } => {
                write!(f, "only a request tells {part}, which is in the rule's key: ask over HTTP or gRPC")
            }
            Self::NoAddress { key } => write!(f, "{key:?} is no IP address, which the rule's key is"),
            Self::NoValue { part } => write!(f, "no request has this value of {part}"),
        }
    }
}

impl std::error::Error for AskRuleError {}
