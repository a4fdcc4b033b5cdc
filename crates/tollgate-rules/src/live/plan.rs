//! What an exchange would do.

use std::fmt;

use tollgate::Clock;

use crate::live::{ExchangeError, LiveRules};
use crate::rule::{Rule, Rules};
use crate::set::{Hindrance, Succession};

/// What an exchange would do to a rule: see [`LiveRules::plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RulePlan {
    /// The rule's name: of the new rules, or of the old ones if it would be gone.
    pub rule: Box<str>,
    /// What would become of it.
    pub change: PlannedChange,
}

/// What would become of a rule. Its [`Display`](fmt::Display) is a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlannedChange {
    /// It stays as it is.
    Same,
    /// It is another, and keeps its state.
    Changed,
    /// Its limits get other numbers: each key keeps what the rule's `inherit` says.
    Numbers,
    /// It is another and forgets its state, as its `forget` allows.
    Forgets,
    /// It is new, or comes back: with its state, if that is still kept.
    New,
    /// It is gone. Its state is kept for an hour.
    Gone,
}

impl<C: Clock + Clone + 'static> LiveRules<C> {
    /// Works out what [`exchange`](Self::exchange) would do with these rules now, and does nothing:
    /// the new rules in their order, then those that would be gone.
    ///
    /// **Cost.** That of an exchange: limiters are built and matchers compiled, and dropped.
    ///
    /// # Errors
    ///
    /// [`ExchangeError`], as the exchange's.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{LiveRules, PlannedChange, Rules};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let rules = |limits: &str| -> Rules {
    ///     let rule = format!("{{ name = 'all', key = 'everyone', {limits} }}");
    ///     let text = format!("version = 1\nrule = [{rule}]");
    ///     read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap()
    /// };
    /// let live = LiveRules::new(rules("limits = '10/s'"), [0; 32], ManualClock::new())?;
    /// let plan = live.plan(rules("limits = '20/s'"))?;
    /// assert_eq!((&*plan[0].rule, plan[0].change), ("all", PlannedChange::Numbers));
    /// assert_eq!(live.status().generation, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan(&self, rules: Rules) -> Result<Vec<RulePlan>, ExchangeError> {
        let parked = self.inner.parked();
        let (old, wanted) = (self.rules(), rules.clone());
        let Succession { changes, .. } = Succession::plan(rules, &old, &parked)?;
        let mut strict = wanted.clone();
        strict.rules.iter_mut().for_each(|rule| rule.forget = false);
        let forgotten = match Succession::plan(strict, &old, &parked) {
            Err(Hindrance::Conflicts(conflicts)) => conflicts,
            Ok(_) | Err(Hindrance::Build(_)) => Vec::new(),
        };
        let before = &old.rules().rules;
        let named = |name: &str| before.iter().find(|rule| &*rule.name == name);
        let is_wanted = |name: &str| wanted.rules.iter().any(|rule| &*rule.name == name);
        // As a succession does: once renamed, the file may go on to say so.
        let predecessor = |rule: &Rule| {
            let was = rule.was.as_deref().filter(|was| !is_wanted(was));
            was.and_then(named).or_else(|| named(&rule.name))
        };
        let change = |rule: &Rule| match predecessor(rule) {
            None => PlannedChange::New,
            Some(old) if old == rule => PlannedChange::Same,
            Some(_) if forgotten.iter().any(|conflict| conflict.rule == rule.name) => PlannedChange::Forgets,
            Some(_) if changes.iter().any(|change| change.rule == rule.name) => PlannedChange::Numbers,
            Some(_) => PlannedChange::Changed,
        };
        let plan = |rule: &Rule| RulePlan { rule: rule.name.clone(), change: change(rule) };
        let kept: Vec<_> = wanted.rules.iter().filter_map(predecessor).map(|rule| &rule.name).collect();
        let gone = before.iter().filter(|old| !kept.contains(&&old.name));
        let gone = gone.map(|rule| RulePlan { rule: rule.name.clone(), change: PlannedChange::Gone });
        Ok(wanted.rules.iter().map(plan).chain(gone).collect())
    }
}

impl fmt::Display for PlannedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "stays as it is",
            Self::Changed => "changes, and keeps its state",
            Self::Numbers => "gets other numbers, and its keys keep their debts",
            Self::Forgets => "changes, and its keys' debts are forgotten",
            Self::New => "is new, or comes back",
            Self::Gone => "is gone, and its state kept for an hour",
        })
    }
}
