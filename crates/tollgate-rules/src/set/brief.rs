//! The short way of a request: each rule that concerns it has one bucket or window and nothing
//! else, and a peek at the home slot admits it, or the rule is the only one.
//!
//! What must stay true:
//!
//! * All rules are looked at before the first is charged, and until then nothing is written: a
//!   request that one of several rules refuses, or that a glance does not decide, begins anew the
//!   long way. A rule that is alone decides by its check, also when it refuses.
//! * Rules are charged by ascending index. That is the order of [`Allowance::rank`] too: buckets
//!   and windows can all be undone, so their ranks go by their indices.
//! * A key that another thread has charged since is looked at anew. If it refuses now, the charges
//!   are given back and the request begins anew.
//! * The lines are written when they are asked for, from the receipts or the refusal: they show
//!   what the limits said then, also after other charges.
//!
//! [`Allowance::rank`]: crate::set::allowance::Allowance::rank

use tollgate::{Clock, Glance, Receipt, Timestamp};

use crate::matcher::{Concerned, Found};
use crate::set::allowance::Current;
use crate::set::line::Line;
use crate::set::scratch::{Charges, Mark, Scratch};
use crate::set::{Ask, RuleSet};

/// How often a key is looked at anew that other threads charge meanwhile.
const TRIES: usize = 16;

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Decides a request if a glance at each rule admits it, or if only one rule concerns it.
    /// `false`: nothing is charged, and only the long way can say.
    #[inline]
    pub(super) fn decides_briefly(&self, scratch: &mut Scratch, ask: Ask) -> bool {
        let decided = match scratch.found.concerned().len() {
            _ if ask.is_peek => None,
            0 => Some(()),
            1 => self.decide_alone(scratch),
            2 => self.admit::<2>(scratch),
            3 => self.admit::<3>(scratch),
            4 => self.admit::<4>(scratch),
            _ => None,
        };
        decided.is_some()
    }

    /// Decides by the only rule, whether that admits or refuses. `None`: it has not one bucket or
    /// window and nothing else, and nothing was decided.
    #[inline(never)]
    fn decide_alone(&self, scratch: &mut Scratch) -> Option<()> {
        let Scratch { found, charges, refusal, now, cost, .. } = scratch;
        let one = found.concerned().first()?;
        let (current, cost) = self.brief(one, *cost)?;
        match current.shared.limiter.check_only(found.key(one), cost, *now)? {
            Ok(receipt) => charges.brief.push(receipt),
            Err(refused) => *refusal = Some(refused),
        }
        Some(())
    }

    /// Admits a request by `N` rules.
    #[inline(always)]
    fn admit<const N: usize>(&self, scratch: &mut Scratch) -> Option<()> {
        let Scratch { found, charges, now, cost, .. } = scratch;
        let concerned = found.concerned().first_chunk::<N>()?;
        let glances: [Option<Glance<'_>>; N] =
            std::array::from_fn(|index| self.glance(found, &concerned[index], *cost, *now));
        if glances.iter().any(Option::is_none) {
            return None;
        }
        charges.brief.reserve(N);
        for index in 0..N {
            let receipt = match glances[index]?.charge() {
                Some(receipt) => receipt,
                None => self.charge_anew(found, &concerned[index], charges, (*cost, *now))?,
            };
            charges.brief.push(receipt);
        }
        Some(())
    }

    /// Looks whether a rule admits the request.
    #[inline(always)]
    fn glance(&self, found: &Found, one: &Concerned, cost: u64, now: Timestamp) -> Option<Glance<'_>> {
        let (current, cost) = self.brief(one, cost)?;
        current.shared.limiter.glance(found.key(one), cost, now)
    }

    /// Charges a key that another thread has charged since it was looked at. `None`: the charges
    /// were given back.
    #[cold]
    #[inline(never)]
    fn charge_anew(
        &self,
        found: &Found,
        one: &Concerned,
        charges: &mut Charges,
        (cost, now): (u64, Timestamp),
    ) -> Option<Receipt> {
        let receipt = (0..TRIES).find_map(|_| self.glance(found, one, cost, now)?.charge());
        if receipt.is_none() {
            charges.give_back(self, found.concerned(), Mark::default(), now);
        }
        receipt
    }
}

impl<C> RuleSet<C> {
    /// The limiter of a rule that has one bucket or window and nothing else, and what the request
    /// costs there.
    #[inline(always)]
    fn brief(&self, one: &Concerned, cost: u64) -> Option<(&Current<C>, u64)> {
        let limited = self.limited(one);
        let allowance = limited.allowance(one.tier);
        if !allowance.is_brief || one.is_refused_without_key {
            return None;
        }
        Some((allowance.quotas.as_ref()?, if limited.is_costed { one.cost } else { cost }))
    }

    /// What a request costs a rule, where `cost` is what it costs if the rule says nothing.
    #[inline]
    pub(super) fn cost(&self, one: &Concerned, cost: u64) -> u64 {
        if self.limited(one).is_costed { one.cost } else { cost }
    }

    /// Writes the lines of a request that was decided the short way.
    #[cold]
    #[inline(never)]
    pub(super) fn recall(&self, scratch: &Scratch, lines: &mut Vec<Line>) {
        let Scratch { found, charges, refusal, now, cost, .. } = scratch;
        for (index, one) in found.concerned().iter().enumerate() {
            lines.push(Line::new(one.rule, one.tier, false, self.cost(one, *cost)));
            let (Some(line), Some(current)) = (lines.last_mut(), &self.allowance(one).quotas) else {
                continue;
            };
            let limiter = &current.shared.limiter;
            let decision = match refusal {
                Some(refusal) => limiter.recall_refusal(refusal),
                None => charges.brief.get(index).and_then(|receipt| limiter.recall(receipt, *now)),
            };
            // The short way has no queues, and nothing else to show.
            if let Some(decision) = decision {
                line.show(&decision);
            }
        }
    }
}
