//! Rules with closures, as rules that are data and the closures that tell their labels.

use std::collections::HashSet;
use std::time::Duration;

use tollgate::{Quota, WhenFull};
use tollgate_http::QuotaPolicies;
use tollgate_rules::{
    Attribute, Ban, Condition, Conditions, Cost, Key, Limits, Mode, OnBackendError, Rule as Data, Rules,
    Tier, Values,
};
use tollgate_rules::{Limit as DataLimit, MissingKey as DataMissingKey};

use super::closures::{Closures, Label};
use super::{LONGEST_BAN, Limit, MAX_NAME_LEN, MAX_RULES, MissingKey, Rule};
use crate::BuildError;

/// Rules as data, and the closures of each, by its index.
pub(crate) type Compiled = (Rules, Box<[Closures]>);

/// Limits of a rule, of a tier, or of a key.
pub(crate) fn limits_of(limits: &[Limit]) -> Limits {
    let limit = |limit: &Limit| match limit {
        Limit::Quota(quota) => DataLimit::Quota(*quota),
        Limit::InFlight(most) => DataLimit::InFlight { most: *most, ttl: None },
    };
    Limits::Each(limits.iter().map(limit).collect())
}

/// The name of the tier of a key that has limits of its own. Tiers of requests have numbers.
fn own_tier(key: &[u8]) -> Box<str> {
    let hex = key.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once(OWN_TIER.to_owned()).chain(hex).collect::<String>().into()
}

/// What the name of the tier of a key's own limits begins with.
pub(crate) const OWN_TIER: &str = "key:";

impl Rule {
    /// Validates the rules of a layer.
    pub(crate) fn compile(mut rules: Vec<Self>) -> Result<Compiled, BuildError> {
        if !(1..=MAX_RULES).contains(&rules.len()) {
            return Err(BuildError::RuleCount { given: rules.len() });
        }
        rules.iter().try_for_each(Self::validate)?;
        let mut names = HashSet::new();
        for name in rules.iter().flat_map(Self::names) {
            if !names.insert(name.clone()) {
                return Err(BuildError::DuplicateName { name });
            }
        }
        // Headers name those of this process first.
        rules.sort_by_key(|rule| rule.backend.is_some());
        let (data, closures) = rules.into_iter().enumerate().map(|(index, rule)| rule.split(index)).unzip();
        let closures: Vec<Closures> = closures;
        let mut rules = Rules::of(data);
        // Each limit is checked by itself.
        rules.memory_budget = usize::MAX;
        Ok((rules, closures.into()))
    }

    fn validate(&self) -> Result<(), BuildError> {
        let rule = || self.name.clone();
        let mut keys = HashSet::new();
        if !self.overrides.iter().all(|(key, _)| keys.insert(key)) {
            return Err(BuildError::DuplicateKey { rule: rule() });
        }
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        if !(1..=MAX_NAME_LEN).contains(&self.name.len()) || !self.name.bytes().all(is_legal) {
            return Err(BuildError::RuleName { given: rule() });
        }
        let has_log = |limit: &Limit| matches!(limit, Limit::Quota(Quota::SlidingLog(_)));
        if self.cost_from.is_some() && self.all_limits().flatten().any(has_log) {
            return Err(BuildError::CostFromOfLog { rule: rule() });
        }
        let other_setting = self.setting_of_own_limits();
        match (&self.quota_of, &self.backend, other_setting) {
            (Some(_), _, Some(setting)) => {
                return Err(BuildError::PerRequestSetting { rule: rule(), setting });
            }
            (None, Some(_), Some(setting)) => {
                return Err(BuildError::BackendSetting { rule: rule(), setting });
            }
            _ => {}
        }
        if let Some(given) = self.ban
            && !(Duration::from_nanos(1)..=LONGEST_BAN).contains(&given)
        {
            return Err(BuildError::BanDuration { rule: rule(), given });
        }
        self.validate_in_flight()
    }

    /// All limits are quotas, or each is one of requests in flight.
    fn validate_in_flight(&self) -> Result<(), BuildError> {
        if !self.counts_in_flight() {
            return Ok(());
        }
        let settings = [
            (self.charge_if.is_some(), "charge_if"),
            (self.cost_from.is_some(), "cost_from"),
            (self.ban.is_some(), "ban"),
            (self.when_full == WhenFull::Allow, "when_full"),
        ];
        if let Some((_, setting)) = settings.into_iter().find(|(is_set, _)| *is_set) {
            return Err(BuildError::InFlightSetting { rule: self.name.clone(), setting });
        }
        match self.all_limits().all(|limits| matches!(limits, [Limit::InFlight(_)])) {
            true => Ok(()),
            false => Err(BuildError::MixedLimits { rule: self.name.clone() }),
        }
    }

    /// Returns a setting that only works with limits that the rule itself has.
    fn setting_of_own_limits(&self) -> Option<&'static str> {
        let settings = [
            (!self.tiers.is_empty(), "tier"),
            (!self.overrides.is_empty(), "for_key"),
            (self.cost_from.is_some(), "cost_from"),
            (self.ban.is_some(), "ban"),
        ];
        settings.into_iter().find_map(|(is_set, name)| is_set.then_some(name))
    }

    /// The limits of the rule, of its tiers, and of single keys.
    pub(super) fn all_limits(&self) -> impl Iterator<Item = &[Limit]> {
        let of_tiers = self.tiers.iter().map(|(_, limits)| &limits[..]);
        let of_keys = self.overrides.iter().map(|(_, limits)| &limits[..]);
        std::iter::once(&self.limits[..]).chain(of_tiers).chain(of_keys)
    }

    /// The names of the rule and of its limits, each once: tiers may share names, because a request
    /// meets only one of them.
    fn names(&self) -> HashSet<String> {
        let own = self.all_limits().map(|limits| {
            let quota = |limit: &Limit| if let Limit::Quota(quota) = limit { Some(*quota) } else { None };
            limits.iter().filter_map(quota).collect::<Vec<Quota>>()
        });
        let local = match &self.backend {
            Some((_, OnBackendError::LimitLocally(quotas))) => Some(quotas.clone()),
            _ => None,
        };
        let names = |quotas: Vec<Quota>| QuotaPolicies::new(&self.name, &quotas).names().to_vec();
        let of_limits = own.chain(local).flat_map(names).map(String::from);
        of_limits.chain([self.name.clone()]).collect()
    }

    /// The rule as data, and its closures.
    fn split(self, index: usize) -> (Data, Closures) {
        let label = |label: Label| Attribute::Label(label.name(index));
        let holds = |of: Label| {
            let values = Values { any: true, ..Values::default() };
            vec![Conditions(vec![Condition { attribute: label(of), values }])]
        };
        let (limits, passes_failures) = match &self.backend {
            _ if self.quota_of.is_some() => (Limits::PerRequest, false),
            Some((_, on_error)) => (Limits::Elsewhere, *on_error != OnBackendError::Refuse),
            None => (limits_of(&self.limits), false),
        };
        let key = if self.key.is_some() { Key::Attributes(vec![label(Label::Key)]) } else { Key::Everyone };
        let mut data = Data::new(self.name.as_str(), key, limits);
        if self.when.is_some() {
            data.applies = holds(Label::When);
        }
        if self.skip.is_some() {
            data.except = holds(Label::Skip);
        }
        if self.cost.is_some() || self.cost_from.is_some() {
            data.cost = Cost::From { attribute: label(Label::Cost), default: 1 };
        }
        data.missing = match self.missing_key {
            MissingKey::Share => DataMissingKey::Share,
            MissingKey::Refuse => DataMissingKey::Refuse,
            MissingKey::Skip => DataMissingKey::Pass,
        };
        data.mode = if self.shadow { Mode::Shadow } else { Mode::Enforce };
        data.ban = self.ban.map(Ban);
        data.max_wait = (self.max_wait < Duration::MAX).then_some(self.max_wait);
        (data.max_keys, data.when_full) = (self.max_keys, self.when_full);
        let mut predicates = Vec::new();
        for (number, (predicate, limits)) in self.tiers.into_iter().enumerate() {
            let (name, applies) = ((number + 1).to_string().into(), holds(Label::Tier(number)));
            data.tiers.push(Tier { name, applies, limits: limits_of(&limits), max_keys: None });
            predicates.push(predicate);
        }
        let mut own_tiers = std::collections::HashMap::new();
        for (key, limits) in self.overrides {
            let name = own_tier(&key);
            let (limits, max_keys) = (limits_of(&limits), Some(1));
            data.tiers.push(Tier { name: name.clone(), applies: Vec::new(), limits, max_keys });
            own_tiers.insert(key.into(), name);
        }
        data.tier_named_by = (!own_tiers.is_empty()).then(|| label(Label::OwnTier));
        let backend = self.backend.map(|(backend, on_error)| {
            let limits = match on_error {
                OnBackendError::LimitLocally(quotas) => {
                    Some(Limits::Each(quotas.into_iter().map(DataLimit::Quota).collect()))
                }
                OnBackendError::Allow => Some(Limits::Unlimited),
                OnBackendError::Refuse => None,
            };
            let applies = holds(Label::Failed);
            let tier = |limits| Tier { name: FALLBACK.into(), applies, limits, max_keys: None };
            data.tiers.extend(limits.map(tier));
            backend
        });
        let closures = Closures {
            name: data.name.clone(),
            key: self.key,
            when: self.when,
            skip: self.skip,
            tiers: predicates.into(),
            own_tiers,
            cost: self.cost,
            quota_of: self.quota_of,
            charge_if: self.charge_if,
            cost_from: self.cost_from,
            max_wait_with_body: self.max_wait_with_body,
            backend,
            passes_failures,
        };
        (data, closures)
    }
}

/// The name of the tier that decides when a backend has failed.
const FALLBACK: &str = "fallback";
