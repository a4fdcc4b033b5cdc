//! One rule, asked by its name for a key that the caller has: there is no request.

use std::fmt;

use tollgate::Clock;

use crate::address::{canonical, write_key};
use crate::rule::{Attribute, Cost, Key, Mode, Rule};
use crate::set::scratch::Scratch;
use crate::set::{Ask, RuleSet, Verdict};

/// A question to one rule: see [`RuleSet::ask_rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskRule<'r> {
    /// The rule's name.
    pub name: &'r str,
    /// The key. A rule whose key is `client` alone takes the text of an IP address and nothing
    /// else, and counts it with that client's requests; one for `everyone` has one key for any
    /// value here. Other keys are their bytes: a key of one part is counted with the requests that
    /// have it.
    pub key: &'r [u8],
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
    /// The rule's key is `client`, and this is no IP address.
    NoAddress {
        /// The key, or its beginning.
        key: Box<str>,
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
    /// request: bans, limits of requests in flight, queues, the rule's mode. A key without bytes is
    /// a missing one, but for a rule whose key is `client`.
    ///
    /// **Cost.** As of a request, and a search among the names.
    ///
    /// # Errors
    ///
    /// [`AskRuleError`]: there is no such rule, or the key is no address where it must be one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{AskRule, Memory, RuleSet, Scratch, read};
    ///
    /// let text = "version = 1\nrule = [{ name = 'each', key = 'label.user', limits = '2/min' }]";
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let set = RuleSet::new(rules, ManualClock::new())?;
    /// let mut scratch = Scratch::default();
    /// let ada = AskRule { name: "each", key: b"ada", cost: Some(2), is_peek: false };
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
        let client = match &rule.key {
            Key::Attributes(parts) if **parts == [Attribute::Client] => Some(address(ask.key)?),
            _ => None,
        };
        let cost = ask.cost.unwrap_or_else(|| usual_cost(&rule.cost));
        scratch.clear();
        let key = scratch.found.set_one(number, cost);
        match client {
            Some(client) => write_key(canonical(client), self.rules().clients.ipv6_prefix, key),
            None if rule.key == Key::Everyone => {}
            None => {
                key.extend_from_slice(ask.key);
                self.matcher.spell(number, key);
            }
        }
        let is_missing = rule.key != Key::Everyone && key.is_empty();
        scratch.found.end_one(is_missing.then_some(rule.missing));
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

fn address(key: &[u8]) -> Result<std::net::IpAddr, AskRuleError> {
    let address = std::str::from_utf8(key).ok().and_then(|text| text.parse().ok());
    address.ok_or_else(|| {
        let key = String::from_utf8_lossy(&key[..key.len().min(SHOWN)]).into();
        AskRuleError::NoAddress { key }
    })
}

impl fmt::Display for AskRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => f.write_str("no such rule"),
            Self::NoAddress { key } => write!(f, "{key:?} is no IP address, which the rule's key is"),
        }
    }
}

impl std::error::Error for AskRuleError {}
