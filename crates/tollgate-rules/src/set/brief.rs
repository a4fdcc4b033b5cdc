//! The short way of a request: each rule that concerns it has one bucket or window and nothing
//! else, and admits it at a glance.
//!
//! What must stay true:
//!
//! * All rules are looked at before the first is charged, and until then nothing is written: a
//!   request that some rule refuses, or that a glance does not decide, begins anew the long way.
//! * Rules are charged by ascending index. That is the order of [`Allowance::rank`] too: buckets
//!   and windows can all be undone, so their ranks go by their indices.
//! * A key that another thread has charged since is looked at anew. If it refuses now, the charges
//!   are given back and the request begins anew.
//! * The lines are written when they are asked for, from the receipts: they show what the limits
//!   said then, whatever was charged since.
//!
//! [`Allowance::rank`]: crate::set::allowance::Allowance::rank

use tollgate::{Clock, Glance, Prepared, Receipt, Several, Timestamp};

use crate::matcher::Concerned;
use crate::set::line::Line;
use crate::set::scratch::{Mark, Scratch};
use crate::set::{Ask, RuleSet};

/// The most rules that decide a request the short way.
const MOST: usize = 4;

/// How often a key is looked at anew that other threads charge meanwhile.
const TRIES: usize = 16;

type Key<'r, C> = Prepared<'r, Several, C, Timestamp>;

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Charges a request if all rules admit it at a glance. `false`: nothing is charged, and only
    /// the long way can say.
    #[inline]
    pub(super) fn admits_briefly(&self, scratch: &mut Scratch, ask: Ask) -> bool {
        let Scratch { found, charges, now, .. } = scratch;
        let concerned = found.concerned();
        if ask.is_peek || concerned.len() > MOST {
            return false;
        }
        // Every key is hashed before the first is looked at: their slots come from memory at once.
        let mut keys: [Option<Key<'_, C>>; MOST] = [const { None }; MOST];
        for (key, one) in keys.iter_mut().zip(concerned) {
            let allowance = self.allowance(one);
            let Some(current) = allowance.quotas.as_ref().filter(|_| allowance.is_brief) else {
                return false;
            };
            if one.is_refused_without_key {
                return false;
            }
            *key = Some(current.shared.limiter.prepare(found.key(one)).at(*now));
        }
        let mut glances: [Option<Glance<'_>>; MOST] = [const { None }; MOST];
        for ((glance, key), one) in glances.iter_mut().zip(&keys).zip(concerned) {
            *glance = key.as_ref().and_then(|key| key.glance(self.cost(one, ask.cost)));
            if glance.is_none() {
                return false;
            }
        }
        let each = glances.iter_mut().zip(&keys).zip(concerned);
        for ((glance, key), one) in each {
            let receipt = glance.take().and_then(Glance::charge);
            let again = || key.as_ref().and_then(|key| charge_anew(key, self.cost(one, ask.cost)));
            let Some(receipt) = receipt.or_else(again) else {
                charges.give_back(self, concerned, Mark::default(), *now);
                return false;
            };
            charges.brief.push(receipt);
        }
        true
    }
}

/// Charges a key that another thread has charged since it was looked at.
#[cold]
#[inline(never)]
fn charge_anew<C: Clock + Clone + 'static>(key: &Key<'_, C>, cost: u64) -> Option<Receipt> {
    (0..TRIES).find_map(|_| key.glance(cost)?.charge())
}

impl<C> RuleSet<C> {
    /// What a request costs a rule, where `cost` is what it costs if the rule says nothing.
    #[inline]
    pub(super) fn cost(&self, one: &Concerned, cost: u64) -> u64 {
        if self.limited(one).is_costed { one.cost } else { cost }
    }

    /// Writes the lines of a request that was admitted the short way.
    #[cold]
    #[inline(never)]
    pub(super) fn recall(&self, scratch: &Scratch, lines: &mut Vec<Line>) {
        for (index, one) in scratch.found.concerned().iter().enumerate() {
            let mut line = Line::new(one.rule, one.tier, false, self.cost(one, scratch.cost));
            if let Some(receipt) = scratch.charges.brief.get(index)
                && let Some(current) = &self.allowance(one).quotas
                && let Some(decision) = current.shared.limiter.recall(receipt, scratch.now)
            {
                line.add_quotas(&decision, current, self.limited(one).max_wait);
            }
            lines.push(line);
        }
    }
}
