//! The earlier versions of a rule, and the conversion of their payloads.

use std::iter;
use std::sync::Arc;

use crate::algorithm::change::Transition;
use crate::algorithm::change::inherit::Step;
use crate::algorithm::{AnyRule, Moment, Numbers, Payload, Ranged, Rule, Stored};
use crate::error::BuildError;
use crate::time::Timestamp;

/// How many changes a debt may outlive. It bounds the cost of reading an old payload.
const DEEPEST: u32 = 1_024;

/// The most changes of a tier that a debt may outlive, of all tiers together: where it is not known
/// which tier a key has, its debt is read through each of them.
const MOST_STEPS: u32 = 16 * DEEPEST;

/// Old versions that no debt remains from are dropped when the others are twice as many as after
/// the last time, and at least so many. Seldom, because this copies those that stay, and the
/// versions before keep what they had.
const FEWEST: u32 = 16;

/// The version before the one of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    /// The rule of the same tier in that version.
    rule: AnyRule,
    /// The instant of the change, as that rule reads it.
    ended: Moment,
    /// The change in each tier.
    steps: Arc<[Step]>,
    /// The index of this tier in `steps`.
    tier: usize,
    /// The largest payload of the newer version that older ones' payloads convert to.
    settled: Payload,
    /// The version before `rule`, if debts remain from it.
    before: Option<Arc<Self>>,
    /// How many versions, counted back from here, may still have debts.
    depth: u32,
    /// At how many the next change drops what it can.
    enough: u32,
}

/// A rule and the versions before it that debts remain from.
pub(crate) type WithPast<R> = (R, Option<Arc<Past>>);

/// How a debt changes in a conversion.
type Carried = fn(&Past, u64) -> u64;

impl Past {
    /// The `rules` of a new version whose keys' debts are in one table, with the past of each.
    /// `olds` are the rules of the version before it, with theirs.
    pub(crate) fn remember<R: Numbers>(
        olds: &[WithPast<AnyRule>],
        rules: &[R],
        change: Transition<'_>,
    ) -> Result<Vec<WithPast<R>>, BuildError> {
        if !rules.iter().any(Ranged::is_ranged) {
            return Ok(rules.iter().map(|rule| (*rule, None)).collect());
        }
        let step = |(((old, _), new), &inherit): ((&(AnyRule, _), &R), _)| Step {
            inherit,
            old: old.unit(),
            new: new.unit(),
        };
        let steps: Arc<[Step]> = olds.iter().zip(rules).zip(change.inherits).map(step).collect();
        let ended = |old: &AnyRule| old.moment(Timestamp::from_nanos(change.since));
        let pasts = || olds.iter().filter_map(|(_, past)| past.as_ref());
        let depth = pasts().map(|past| past.depth).max().unwrap_or(0);
        let enough = pasts().map(|past| past.enough).max().unwrap_or(FEWEST);
        let tiers = u32::try_from(olds.len()).unwrap_or(u32::MAX);
        let most = DEEPEST.min(MOST_STEPS / tiers).max(FEWEST);
        let is_deep = depth >= enough.min(most);
        let kept = |(old, past): &WithPast<AnyRule>| {
            let ended = ended(old);
            // A payload that the new version already reads as the debt of a key never seen.
            let is_settled = |payload| old.debt(payload, ended) <= old.debt(Payload::UNSEEN, ended);
            Self::trimmed(past.as_ref(), old, is_deep, is_settled)
        };
        let befores: Vec<_> = olds.iter().map(kept).collect();
        let depth = befores.iter().flatten().map(|past| past.depth).max().unwrap_or(0) + 1;
        if depth > most {
            return Err(BuildError::ChangedTooOften);
        }
        let enough = if is_deep { FEWEST.max(2 * depth) } else { enough };
        let tiers = olds.iter().zip(befores).zip(rules).enumerate();
        let pasts = tiers.map(|(tier, (((old, _), before), rule))| {
            // Payloads of older versions may convert to more than the last version ever wrote.
            let most = before.as_ref().map_or(0, |past| past.settled.bits()).max(rule.floor() - 1);
            let (steps, ended) = (steps.clone(), ended(old));
            let settled = Payload::UNSEEN;
            let mut past = Self { rule: *old, ended, steps, tier, settled, before, depth, enough };
            past.settled = past.convert(rule, Payload(most), Self::carried_by_any);
            past
        });
        let pasts: Vec<Self> = pasts.collect();
        let start = |past: &Self| past.carried(past.rule.debt(Payload::UNSEEN, past.ended));
        let least = pasts.iter().map(start).min().unwrap_or(0);
        let with_past = |(rule, past): (&R, Self)| (rule.starting(start(&past), least), Some(Arc::new(past)));
        Ok(rules.iter().zip(pasts).map(with_past).collect())
    }

    /// The `past` of a rule without the versions from which no debt remains. A payload from before
    /// them stands for the debt of a key that was never seen, converted or not. `is_settled` says
    /// whether the newest version already reads a payload of the rule as that debt.
    fn trimmed(
        past: Option<&Arc<Self>>,
        rule: &AnyRule,
        is_deep: bool,
        is_settled: impl Fn(Payload) -> bool,
    ) -> Option<Arc<Self>> {
        let past = past.filter(|past| !is_settled(past.settled))?;
        if !is_deep {
            return Some(past.clone());
        }
        let chain: Vec<&Arc<Self>> = iter::successors(Some(past), |past| past.before.as_ref()).collect();
        let rule_after = |index: usize| index.checked_sub(1).map_or(rule, |index| &chain[index].rule);
        // What the payloads from before a version convert to at the most: the less, the older it
        // is.
        let remains = |version: usize| {
            let convert = |payload: Payload, index: usize| {
                chain[index].convert(rule_after(index), payload, Self::carried_by_any)
            };
            !is_settled((0..version).rev().fold(chain[version].settled, convert))
        };
        let (mut kept, mut dropped) = (0, chain.len());
        while kept + 1 < dropped {
            let middle = kept.midpoint(dropped);
            if remains(middle) { kept = middle } else { dropped = middle }
        }
        if dropped == chain.len() {
            return Some(past.clone());
        }
        let copy = |before: Option<Arc<Self>>, past: &&Arc<Self>| {
            let depth = before.as_ref().map_or(0, |before| before.depth) + 1;
            Some(Arc::new(Self { before, depth, ..Self::clone(past) }))
        };
        chain[..dropped].iter().rev().fold(None, copy)
    }

    /// The payload, if the rule's version wrote it, or a later one.
    #[inline]
    pub(crate) fn newest<R: Ranged>(rule: &R, stored: Stored) -> Option<Payload> {
        (stored.bits() >= rule.floor()).then(|| Payload(stored.bits()))
    }

    /// The payload of this tier's `rule` for an older one, as this tier's debts change.
    pub(crate) fn read<R: Ranged>(past: Option<&Self>, rule: &R, stored: Stored) -> Payload {
        Self::converted(past, rule, stored, Self::carried)
    }

    /// The same with at least the debt that any tier would make of it.
    #[cold]
    pub(crate) fn read_by_any<R: Ranged>(past: Option<&Self>, rule: &R, stored: Stored) -> Payload {
        Self::converted(past, rule, stored, Self::carried_by_any)
    }

    fn converted<R: Ranged>(past: Option<&Self>, rule: &R, stored: Stored, carried: Carried) -> Payload {
        match past.filter(|_| stored.bits() < rule.floor()) {
            // Without a past, a payload below the floor stands for a key that was never seen.
            None => Payload(stored.bits()),
            Some(past) => {
                let old = Self::converted(past.before.as_deref(), &past.rule, stored, carried);
                past.convert(rule, old, carried)
            }
        }
    }

    /// Converts a payload of the version before to the next one.
    fn convert<R: Ranged>(&self, rule: &R, payload: Payload, carried: Carried) -> Payload {
        rule.owing(carried(self, self.rule.debt(payload, self.ended)))
    }

    /// The debt of this tier after the change, of a key that had `debt`.
    fn carried(&self, debt: u64) -> u64 {
        self.steps[self.tier].of(debt)
    }

    /// The largest debt in any tier after the change, of a key that had `debt`.
    fn carried_by_any(&self, debt: u64) -> u64 {
        self.steps.iter().map(|step| step.of(debt)).max().unwrap_or(debt)
    }
}
