//! A rule that was judged, with its limits.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tollgate::Quota;

use super::engine::Engine;
use super::{ChargeIf, Cost, LONGEST_NAME, Limits, MOST_RULES, Missing, Rule, SharedClock, Test};
use crate::backend::{Fallback, Remote};
use crate::meter::Meter;
use crate::{BuildError, Head, KeyBuf, KeyBy};

/// A rule as requests meet it.
pub(crate) struct Compiled {
    pub(crate) name: Box<str>,
    pub(crate) shadow: bool,
    pub(crate) max_wait: Duration,
    pub(crate) charge_if: Option<ChargeIf>,
    pub(crate) source: Source,
    pub(crate) meter: Meter,
    tiers: Box<[Test]>,
    /// The place of each such key's limits.
    overrides: HashMap<Box<[u8]>, usize>,
    key: KeyBy,
    missing: Missing,
    when: Option<Test>,
    skip: Option<Test>,
    cost: Option<Cost>,
}

/// Who decides.
pub(crate) enum Source {
    /// The rule's own limits, those of its tiers, and those of single keys, in this order.
    Here(Box<[Limits]>),
    /// A backend.
    There(Box<Remote<Limits>>),
}

impl Source {
    /// The limits of this place; those that stand in for a backend are the only ones there.
    pub(crate) fn limits(&self, place: usize) -> &Limits {
        match self {
            Self::Here(limits) => &limits[place],
            Self::There(remote) => match &remote.on_error {
                Fallback::Limit(limits) => limits,
                _ => unreachable!("a rule without limits refuses by none"),
            },
        }
    }
}

/// What a rule wants to know of a request.
pub(crate) enum Ask<'k> {
    /// Nothing: it is not concerned.
    Nothing,
    /// It has no key, and is refused for that.
    NoKey,
    Limit(Asked<'k>),
}

/// A question to a rule's limits.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) cost: u64,
    /// Which of the rule's limits.
    pub(crate) limits: usize,
}

impl Compiled {
    /// Finds the request's key, which is written into `key`, and the limits that it meets.
    #[inline]
    pub(crate) fn ask<'k>(&self, head: &Head<'_>, key: &'k mut KeyBuf) -> Ask<'k> {
        let is = |test: &Option<Test>| test.as_ref().map(|test| test(*head));
        if is(&self.when) == Some(false) || is(&self.skip) == Some(true) {
            return Ask::Nothing;
        }
        key.clear();
        self.key.write(head, key);
        let key = key.as_bytes();
        if key.is_empty() {
            self.meter.keyless();
            match self.missing {
                Missing::Share => {}
                Missing::Refuse => return Ask::NoKey,
                Missing::Pass => return Ask::Nothing,
            }
        }
        let cost = self.cost.as_ref().map_or(1, |cost| cost(*head));
        Ask::Limit(Asked { limits: self.place(key, head), key, cost })
    }

    fn place(&self, key: &[u8], head: &Head<'_>) -> usize {
        let tier = || self.tiers.iter().position(|tier| tier(*head)).map_or(0, |tier| tier + 1);
        if self.overrides.is_empty() { tier() } else { self.override_of(key).unwrap_or_else(tier) }
    }

    /// Its name, and those by which responses tell its limits apart. Its tiers' may be the same: a request meets only the
    /// ones or the others.
    fn names(&self) -> HashSet<&str> {
        let limits = match &self.source {
            Source::Here(limits) => &**limits,
            Source::There(remote) => match &remote.on_error {
                Fallback::Limit(limits) => std::slice::from_ref(limits),
                _ => &[],
            },
        };
        let of_limits = limits.iter().flat_map(Limits::names).map(|name| &**name);
        [&*self.name].into_iter().chain(of_limits).collect()
    }

    /// The place of a tier's limits; the rule's own are tier 0.
    pub(crate) fn tier(&self, number: usize) -> Option<usize> {
        (number <= self.tiers.len()).then_some(number)
    }

    /// The place of a key's own limits.
    pub(crate) fn override_of(&self, key: &[u8]) -> Option<usize> {
        self.overrides.get(key).copied()
    }

    /// Whether a request may have to wait for this rule's decision, or to be remembered after it.
    pub(crate) fn may_hold(&self) -> bool {
        match &self.source {
            Source::There(_) => true,
            Source::Here(limits) => self.charge_if.is_some() || limits.iter().any(Limits::may_queue),
        }
    }
}

impl Rule {
    /// Judges the rules of a layer and reserves what they need.
    pub(crate) fn compile(rules: Vec<Self>, clock: &SharedClock) -> Result<Box<[Compiled]>, BuildError> {
        if !(1..=MOST_RULES).contains(&rules.len()) {
            return Err(BuildError::Rules { given: rules.len() });
        }
        for Self { name, overrides, .. } in &rules {
            let mut keys = HashSet::new();
            if !overrides.iter().all(|(key, _)| keys.insert(key)) {
                return Err(BuildError::SameKey { rule: name.clone() });
            }
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
            if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(plain) {
                return Err(BuildError::Name { given: name.clone() });
            }
        }
        let mut compiled =
            rules.into_iter().map(|rule| rule.judge(clock)).collect::<Result<Box<[_]>, _>>()?;
        let mut names = HashSet::new();
        if let Some(name) = compiled.iter().flat_map(Compiled::names).find(|name| !names.insert(*name)) {
            return Err(BuildError::SameName { name: name.to_owned() });
        }
        // A backend gives nothing back: it is asked when everybody else has admitted the request.
        compiled.sort_by_key(|rule| matches!(rule.source, Source::There(_)));
        Ok(compiled)
    }

    fn judge(mut self, clock: &SharedClock) -> Result<Compiled, BuildError> {
        let source = match self.remote.take() {
            Some(remote) => {
                if let Some(setting) = self.setting_of_limits() {
                    return Err(BuildError::Remote { rule: self.name, setting });
                }
                let remote = remote.try_map(|quotas| self.limits(&quotas, self.max_keys, clock))?;
                Source::There(Box::new(remote))
            }
            None => {
                let several = [&self.quotas].into_iter().chain(self.tiers.iter().map(|(_, quotas)| quotas));
                let shared = several.map(|quotas| self.limits(quotas, self.max_keys, clock));
                let own = self.overrides.iter().map(|(_, quotas)| self.limits(quotas, Some(1), clock));
                Source::Here(shared.chain(own).collect::<Result<_, _>>()?)
            }
        };
        let first_override = 1 + self.tiers.len();
        let keys = self.overrides.into_iter().map(|(key, _)| key.into_boxed_slice());
        Ok(Compiled {
            meter: Meter::new(&self.name, self.shadow),
            name: self.name.into(),
            shadow: self.shadow,
            max_wait: self.max_wait,
            charge_if: self.charge_if,
            source,
            tiers: self.tiers.into_iter().map(|(test, _)| test).collect(),
            overrides: keys.zip(first_override..).collect(),
            key: self.key,
            missing: self.missing,
            when: self.when,
            skip: self.skip,
            cost: self.cost,
        })
    }

    /// A setting that a backend knows nothing of.
    fn setting_of_limits(&self) -> Option<&'static str> {
        let settings = [
            (!self.tiers.is_empty(), "tier"),
            (!self.overrides.is_empty(), "for_key"),
            (self.charge_if.is_some(), "charge_if"),
        ];
        settings.into_iter().find_map(|(is_set, name)| is_set.then_some(name))
    }

    fn limits(
        &self,
        quotas: &[Quota],
        max_keys: Option<usize>,
        clock: &SharedClock,
    ) -> Result<Limits, BuildError> {
        let engine = Engine::new(quotas, max_keys, self.when_full, clock.clone())
            .map_err(|error| BuildError::Limit { rule: self.name.clone(), error })?;
        Ok(Limits::new(&self.name, quotas, engine))
    }
}
