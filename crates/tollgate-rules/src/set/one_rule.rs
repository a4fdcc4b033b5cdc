//! One rule, asked by its name for a key that the caller has: there is no request.

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
    /// The key. A rule whose key is `client` alone takes the text of an address, and counts it
    /// with that client's requests; one for `everyone` has one key for any value here. Other keys
    /// are their bytes: a key of one part is counted with the requests that have it.
    pub key: &'r [u8],
    /// What it costs; `None`: what the rule says. Of costs by conditions that is the highest.
    pub cost: Option<u64>,
    /// Whether nothing is to be charged, and no key banned.
    pub is_peek: bool,
}

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
    /// Asks one rule about a key, as if a request had come that only this rule concerns. `None`: no
    /// rule has this name, or its mode is off.
    ///
    /// Its conditions are not asked, nor are its tiers: [`Rule::limits`] apply. All else is as of a
    /// request: bans, limits of requests in flight, queues, the rule's mode. A key without bytes is
    /// a missing one.
    ///
    /// **Cost.** As of a request, and a search among the names.
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
    /// assert!(set.ask_rule(AskRule { name: "other", ..ada }, &mut scratch).is_none());
    /// # Ok::<(), tollgate_rules::SetError>(())
    /// ```
    pub fn ask_rule<'s>(&'s self, ask: AskRule<'_>, scratch: &'s mut Scratch) -> Option<Verdict<'s, C>> {
        self.decide_rule(ask, scratch).then(|| self.verdict(scratch))
    }

    /// Asks one rule, and leaves the decision in `scratch`. `false`: there is no such rule.
    pub(crate) fn decide_rule(&self, ask: AskRule<'_>, scratch: &mut Scratch) -> bool {
        let Some((number, rule)) = self.numbered(ask.name) else { return false };
        let cost = ask.cost.unwrap_or_else(|| usual_cost(&rule.cost));
        scratch.clear();
        let key = scratch.found.set_one(number, cost);
        match &rule.key {
            Key::Everyone => {}
            Key::Attributes(parts) => match (&**parts, address(ask.key)) {
                ([Attribute::Client], Some(client)) => {
                    write_key(canonical(client), self.rules().clients.ipv6_prefix, key);
                }
                _ => key.extend_from_slice(ask.key),
            },
        }
        let is_missing = rule.key != Key::Everyone && key.is_empty();
        scratch.found.end_one(is_missing.then_some(rule.missing));
        self.decide_found(Ask { cost, is_peek: ask.is_peek, ..Ask::default() }, scratch);
        true
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

fn address(text: &[u8]) -> Option<std::net::IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
