//! How rules take over the limiters of the rules before them.
//!
//! A rule keeps its state by its name, or by the name that it had before. Limits whose numbers stay
//! are shared by both generations. Where numbers change, the limiter is shared, too, and the change
//! is left for the exchange: see [`Change`]. What would forget debts is a [`Conflict`]. A rule that
//! is gone is [parked](super::parked), and comes back by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tollgate::{BuildError, Clock, Inherit, Limiter, ManualClock, Quota};

use crate::rule::{Limits, Rule, Rules, Tier};
use crate::set::allowance::{
    Allowance, Current, CurrentAtOnce, Kind, Limited, Rank, Room, Shared, max_keys, parts,
};
use crate::set::at_once::AtOnce;
use crate::set::ban::Bans;
use crate::set::conflict::{Cause, Conflict};
use crate::set::parked::Parked;
use crate::set::{RuleSet, SetError};

/// Rules that take over the limiters of those before them, once the changes are made.
pub(crate) struct Succession<C> {
    pub(crate) set: RuleSet<C>,
    pub(crate) changes: Vec<Change<C>>,
    /// The rules that are taken over, by their indices: first all old ones, then the parked.
    pub(crate) taken: BTreeSet<usize>,
}

/// A rule before the change, with its limiters.
pub(super) struct Before<'p, C> {
    pub(super) rule: &'p Rule,
    pub(super) limited: &'p Limited<C>,
}

/// Why rules do not take over.
pub(crate) enum Hindrance {
    Build(SetError),
    Conflicts(Vec<Conflict>),
}

/// Other numbers for a limiter that is shared by two generations.
pub(crate) struct Change<C> {
    pub(crate) rule: Box<str>,
    of: Of<C>,
}

enum Of<C> {
    Quotas { shared: Arc<Shared<C>>, old: Box<[Quota]>, new: Box<[Quota]>, inherit: Inherit },
    AtOnce { shared: Arc<AtOnce>, old: u64, new: u64 },
    Bans { bans: Arc<Bans<C>>, old: std::time::Duration, new: std::time::Duration },
}

impl<C: Clock> Change<C> {
    /// Checks that the new numbers can be made current, and taken back.
    pub(crate) fn check(&self) -> Result<(), BuildError>
    where
        C: 'static,
    {
        match &self.of {
            Of::Quotas { shared, new, inherit, .. } => shared
                .own()
                .map_or(Ok(()), |limiter| limiter.change().to(new.to_vec()).inherit(*inherit).check()),
            // Any limit that a file may have.
            Of::AtOnce { .. } => Ok(()),
            Of::Bans { bans, new, .. } => bans.check_change(*new),
        }
    }

    /// Makes the new numbers current.
    pub(crate) fn make(&self) -> Result<(), BuildError>
    where
        C: 'static,
    {
        match &self.of {
            Of::Quotas { shared, new, inherit, .. } => shared
                .own()
                .map_or(Ok(()), |limiter| limiter.change().to(new.to_vec()).inherit(*inherit).apply()),
            Of::AtOnce { shared, new, .. } => shared.limiter.set_limit(*new),
            Of::Bans { bans, new, .. } => bans.change(*new),
        }
    }

    /// Makes the old numbers current again. Debts that a smaller limit has cut off count as the
    /// whole limit, so that none is forgiven.
    pub(crate) fn undo(&self) -> Result<(), BuildError>
    where
        C: 'static,
    {
        match &self.of {
            Of::Quotas { shared, old, new, .. } => {
                let is_smaller = old.iter().zip(new).any(|(old, new)| new.limit() < old.limit());
                let Some(limiter) = shared.own() else { return Ok(()) };
                let strictly = |inherit| limiter.change().to(old.to_vec()).inherit(inherit).apply();
                match is_smaller {
                    true => strictly(Inherit::AsIs).or_else(|_| strictly(Inherit::Additive)),
                    false => strictly(Inherit::Additive),
                }
            }
            Of::AtOnce { shared, old, .. } => shared.limiter.set_limit(*old),
            Of::Bans { bans, old, .. } => bans.change(*old),
        }
    }
}

/// The rules of both generations.
struct Plan<'p, C> {
    old: &'p RuleSet<C>,
    changes: Vec<Change<C>>,
    conflicts: Vec<Conflict>,
}

impl<C: Clock + Clone + 'static> Succession<C> {
    /// Works out which rule takes over what. Changes nothing.
    pub(crate) fn plan(rules: Rules, old: &RuleSet<C>, parked: &Parked<C>) -> Result<Self, Hindrance> {
        super::memory::check(&rules).map_err(Hindrance::Build)?;
        let olds = old.rules.rules.iter().zip(&old.limited);
        let before: Vec<Before<'_, C>> =
            olds.map(|(rule, limited)| Before { rule, limited }).chain(parked.rules()).collect();
        let (live, gone) = before.split_at(old.limited.len());
        let by_name = |befores: &[Before<'_, C>], first: usize| -> BTreeMap<Box<str>, usize> {
            befores.iter().zip(first..).map(|(before, index)| (before.rule.name.clone(), index)).collect()
        };
        let (olds, parked) = (by_name(live, 0), by_name(gone, live.len()));
        let news: BTreeSet<&str> = rules.rules.iter().map(|rule| &*rule.name).collect();
        let predecessor = |rule: &Rule| {
            // Once renamed, the file may go on to say so.
            let was = rule.was.as_ref().filter(|was| !news.contains(&***was));
            let of = |names: &BTreeMap<Box<str>, usize>| was.and_then(|was| names.get(was)).copied();
            let gone = || of(&parked).or_else(|| parked.get(&rule.name).copied());
            of(&olds).or_else(|| olds.get(&rule.name).copied()).or_else(gone)
        };
        let predecessors: Vec<Option<usize>> = rules.rules.iter().map(predecessor).collect();
        let taken: BTreeSet<usize> = predecessors.iter().flatten().copied().collect();
        let mut plan = Plan { old, changes: Vec::new(), conflicts: Vec::new() };
        let mut limited = Vec::new();
        for (rule, predecessor) in rules.rules.iter().zip(&predecessors) {
            let Some(index) = *predecessor else {
                plan.seems_renamed(rule, &taken);
                limited.push(Limited::new(rule, &old.clock).map_err(Hindrance::Build)?);
                continue;
            };
            let own = olds.get(&rule.name).filter(|own| !taken.contains(own));
            if let Some(own) = own {
                plan.is_displaced(rule, &before[*own], before[index].rule);
            }
            limited.push(plan.succeed(rule, &before[index]).map_err(Hindrance::Build)?);
        }
        let Plan { changes, conflicts, .. } = plan;
        if !conflicts.is_empty() {
            return Err(Hindrance::Conflicts(conflicts));
        }
        let set = RuleSet::of(rules, limited, old.clock.clone()).map_err(Hindrance::Build)?;
        Ok(Self { set, changes, taken })
    }
}

impl<C: Clock + Clone + 'static> Plan<'_, C> {
    /// Reports a rule that has the key and the limits of one that is gone: its debts would be
    /// forgotten.
    fn seems_renamed(&mut self, rule: &Rule, taken: &BTreeSet<usize>) {
        if rule.forget {
            return;
        }
        let is_same = |old: &Rule| {
            let is_limited = std::iter::once(&old.limits)
                .chain(old.tiers.iter().map(|tier| &tier.limits))
                .any(|limits| matches!(limits, Limits::Each(_)));
            is_limited
                && is_same_place(old, rule)
                && old.key == rule.key
                && old.limits == rule.limits
                && old.tiers == rule.tiers
        };
        let gone = self.old.rules.rules.iter().enumerate().filter(|(index, _)| !taken.contains(index));
        let twin = gone.filter(|(_, old)| is_same(old)).map(|(index, old)| (index, old.name.clone())).next();
        if let Some((index, was)) = twin {
            let keys_in_debt = self.old.limited[index].keys_in_debt();
            self.conflicts.push(Conflict {
                rule: rule.name.clone(),
                tier: None,
                cause: Cause::Renamed { was },
                keys_in_debt,
            });
        }
    }

    /// Reports a rule that takes the state of another one, and whose own no rule takes.
    fn is_displaced(&mut self, rule: &Rule, own: &Before<'_, C>, was: &Rule) {
        if !rule.forget && own.limited.has_state() {
            let (keys_in_debt, was) = (own.limited.keys_in_debt(), was.name.clone());
            let cause = Cause::Displaced { was };
            self.conflicts.push(Conflict { rule: rule.name.clone(), tier: None, cause, keys_in_debt });
        }
    }

    /// The rule with the limiters of an old one, and with new ones where that is allowed.
    fn succeed(&mut self, rule: &Rule, before: &Before<'_, C>) -> Result<Limited<C>, SetError> {
        let Before { rule: before, limited: old } = *before;
        let cause = if !is_same_place(before, rule) {
            Some(Cause::Store)
        } else if before.key != rule.key {
            Some(Cause::Key)
        } else if max_keys(before) != max_keys(rule) {
            Some(Cause::MaxKeys)
        } else if before.when_full != rule.when_full {
            Some(Cause::WhenFull)
        } else {
            None
        };
        if let Some(cause) = cause {
            if !rule.forget {
                let keys_in_debt = old.keys_in_debt();
                self.conflicts.push(Conflict { rule: rule.name.clone(), tier: None, cause, keys_in_debt });
            }
            return Limited::new(rule, &self.old.clock);
        }
        if rule.store.is_some() {
            // The store keeps the counts by the names of rules and tiers.
            return Limited::new(rule, &self.old.clock);
        }
        for (number, tier) in before.tiers.iter().enumerate() {
            let allowance = &old.allowances[number + 1];
            let is_gone = !rule.tiers.iter().any(|other| other.name == tier.name);
            if is_gone && !rule.forget && allowance.has_state() {
                self.conflicts.push(Conflict {
                    rule: rule.name.clone(),
                    tier: Some(tier.name.clone()),
                    cause: Cause::TierRemoved,
                    keys_in_debt: allowance.keys_in_debt(),
                });
            }
        }
        let mut allowances = vec![self.allowance(rule, None, &rule.limits, Some(&old.allowances[0]))?];
        for tier in &rule.tiers {
            let number = before.tiers.iter().position(|other| other.name == tier.name);
            let old = number.map(|number| &old.allowances[number + 1]);
            allowances.push(self.allowance(rule, Some(tier), &tier.limits, old)?);
        }
        let bans = self.bans(rule, old)?;
        Ok(Limited::of(rule, allowances.into(), bans))
    }

    fn allowance(
        &mut self,
        rule: &Rule,
        tier: Option<&Tier>,
        limits: &Limits,
        old: Option<&Allowance<C>>,
    ) -> Result<Allowance<C>, SetError> {
        let clock = &self.old.clock;
        let name = || tier.map(|tier| tier.name.clone());
        let fail = |error| SetError::Limit { rule: rule.name.clone(), tier: name(), error };
        let new = || Allowance::new(limits, Room::of(rule, tier), clock).map_err(fail);
        let Some(old) = old.filter(|old| old.has_state()) else { return new() };
        let kind = match limits {
            Limits::Each(_) | Limits::PerRequest => Kind::Each,
            Limits::Unlimited => Kind::Unlimited,
            Limits::Block => Kind::Block,
            Limits::Elsewhere => Kind::Stored,
        };
        let fits = match limits {
            Limits::PerRequest => old.is_per_request(),
            Limits::Each(_) => !old.is_per_request(),
            Limits::Unlimited | Limits::Block | Limits::Elsewhere => true,
        };
        let (quotas, at_once) = match limits {
            Limits::Each(limits) => parts(limits),
            // The limiters stay for the time when the limits come back.
            _ if fits => return Ok(Allowance { kind, ..old.share() }),
            _ => Default::default(),
        };
        let fits = match fits {
            true => old.fits(&quotas, at_once.len(), rule.inherit),
            false => Err(Cause::Limit(BuildError::CannotInherit { field: "algorithm" })),
        };
        match fits {
            Err(cause) if !rule.forget => {
                self.conflicts.push(Conflict {
                    rule: rule.name.clone(),
                    tier: name(),
                    cause,
                    keys_in_debt: old.keys_in_debt(),
                });
                return Ok(Allowance { kind, ..old.share() });
            }
            Err(_) => return new(),
            Ok(()) => {}
        }
        let mut shared = Allowance { kind, ..old.share() };
        if let Some(current) = &mut shared.quotas
            && current.quotas != quotas
        {
            let of = Of::Quotas {
                shared: Arc::clone(&current.shared),
                old: current.quotas.clone(),
                new: quotas.clone(),
                inherit: rule.inherit,
            };
            self.changes.push(Change { rule: rule.name.clone(), of });
            *current = Current::new(Arc::clone(&current.shared), quotas);
        }
        for (current, (most, ttl)) in shared.at_once.iter_mut().zip(at_once) {
            if current.most != most {
                let of = Of::AtOnce { shared: Arc::clone(&current.shared), old: current.most, new: most };
                self.changes.push(Change { rule: rule.name.clone(), of });
            }
            (current.most, current.ttl) = (most, ttl);
        }
        Ok(shared)
    }

    /// The bans that the rule takes over. A rule without a `ban` bans no longer.
    fn bans(&mut self, rule: &Rule, old: &Limited<C>) -> Result<Option<Arc<Bans<C>>>, SetError> {
        let Some(length) = rule.ban.map(|ban| ban.0) else { return Ok(None) };
        let Some(bans) = &old.bans else {
            let bans = Bans::new(length, max_keys(rule), self.old.clock.clone());
            let fail = |error| SetError::Limit { rule: rule.name.clone(), tier: None, error };
            return Ok(Some(Arc::new(bans.map_err(fail)?)));
        };
        if length != old.ban_length {
            let of = Of::Bans { bans: Arc::clone(bans), old: old.ban_length, new: length };
            self.changes.push(Change { rule: rule.name.clone(), of });
        }
        Ok(Some(Arc::clone(bans)))
    }
}

/// Whether the counts of both rules are kept in one place.
fn is_same_place(old: &Rule, new: &Rule) -> bool {
    match (&old.store, &new.store) {
        (None, None) => true,
        (Some(old), Some(new)) => old.server.keeps_counts_of(&new.server),
        _ => false,
    }
}

impl<C: Clock + Clone + 'static> Limited<C> {
    /// How many keys are in debt, in all tiers, or banned.
    fn keys_in_debt(&self) -> usize {
        let banned = self.bans.as_ref().map_or(0, |bans| bans.usage().live_keys);
        self.allowances.iter().map(Allowance::keys_in_debt).sum::<usize>().max(banned)
    }

    /// Whether there is a limiter, or are bans, whose state would be lost.
    pub(super) fn has_state(&self) -> bool {
        self.bans.is_some() || self.allowances.iter().any(Allowance::has_state)
    }

    /// Whether a key is in debt, or banned.
    pub(super) fn is_in_debt(&self) -> bool {
        self.keys_in_debt() > 0
    }

    /// How much memory its keys take now.
    pub(super) fn memory_in_use(&self) -> usize {
        let of = |allowance: &Allowance<C>| {
            let limiter = allowance.quotas.as_ref().map(|current| current.shared.usage());
            let at_once = allowance.at_once.iter().map(|limit| limit.shared.limiter.usage());
            at_once.chain(limiter).map(|usage| usage.memory_in_use).sum::<usize>()
        };
        let bans = self.bans.as_ref().map_or(0, |bans| bans.usage().memory_in_use);
        self.allowances.iter().map(of).sum::<usize>() + bans
    }

    /// The same limiters, for another generation.
    pub(super) fn share(&self, rule: &Rule) -> Self {
        Self::of(rule, self.allowances.iter().map(Allowance::share).collect(), self.bans.clone())
    }
}

impl<C: Clock + Clone + 'static> Allowance<C> {
    /// Whether there is a limiter whose state would be lost.
    fn has_state(&self) -> bool {
        self.quotas.is_some() || !self.at_once.is_empty()
    }

    /// Whether its limit comes with each request.
    fn is_per_request(&self) -> bool {
        self.quotas.as_ref().is_some_and(|current| current.shared.per_request().is_some())
    }

    fn keys_in_debt(&self) -> usize {
        let limiter = self.quotas.as_ref().map_or(0, |current| current.shared.usage().live_keys);
        let at_once = self.at_once.iter().map(|limit| limit.shared.limiter.usage().live_keys);
        at_once.chain([limiter]).max().unwrap_or(0)
    }

    /// The same limiters, for another generation.
    fn share(&self) -> Self {
        let quotas = self.quotas.as_ref();
        let at_once = self.at_once.iter().map(|limit| CurrentAtOnce {
            shared: Arc::clone(&limit.shared),
            most: limit.most,
            ttl: limit.ttl,
        });
        Self {
            kind: self.kind,
            quotas: quotas.map(|current| Current::new(Arc::clone(&current.shared), current.quotas.clone())),
            at_once: at_once.collect(),
            rank: Rank::default(),
            is_brief: false,
        }
    }

    /// Whether the limiters can be given these numbers and keep their debts; else why not.
    fn fits(&self, quotas: &[Quota], at_once: usize, inherit: Inherit) -> Result<(), Cause> {
        let old = self.quotas.as_ref().map_or(&[][..], |current| &current.quotas);
        if old.len() != quotas.len() || self.at_once.len() != at_once {
            return Err(Cause::NumberOfLimits);
        }
        let changed = self.quotas.as_ref().filter(|current| *current.quotas != *quotas);
        let Some(Shared::Own { built, .. }) = changed.map(|current| &*current.shared) else {
            return Ok(());
        };
        if old.iter().zip(quotas).any(|(old, new)| old.is_queue() != new.is_queue()) {
            return Err(Cause::Limit(BuildError::CannotInherit { field: "mode" }));
        }
        // What a limiter of these quotas says: one of a single key, which is thrown away.
        let try_out = || {
            let built = Limiter::builder(built.to_vec()).per::<[u8]>();
            let limiter = built.clock(ManualClock::new()).max_keys(1).memory_budget(usize::MAX).build()?;
            limiter.change().to(old.to_vec()).inherit(Inherit::Additive).apply()?;
            limiter.change().to(quotas.to_vec()).inherit(inherit).apply()
        };
        try_out().map_err(Cause::Limit)
    }
}
