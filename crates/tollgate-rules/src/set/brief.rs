//! The short way of a request: each rule that concerns it has one bucket or window and nothing
//! else, and all offer to admit it; or the rule is the only one, and has no other limits.
//!
//! What must stay true:
//!
//! * All rules make their offers before the first is charged, and until then nothing is written: a
//!   request that one of several rules refuses begins anew the long way. An only rule decides by
//!   its offer, also when it refuses.
//! * Rules are charged by ascending index. That is the order of [`Allowance::rank`] too: buckets
//!   and windows can all be undone, so their ranks go by their indices.
//! * The lines are written when they are asked for, from the kept offers: they show the numbers of
//!   the decision, also after other charges.
//!
//! [`Allowance::rank`]: crate::set::allowance::Allowance::rank

use std::array;

use smallvec::SmallVec;
use tollgate::{Clock, MOST_LIMITS, Offer, Outcome, Timestamp, together};

use crate::matcher::{Concerned, Found};
use crate::set::allowance::Current;
use crate::set::line::{Line, Told};
use crate::set::scratch::Scratch;
use crate::set::{Ask, RuleSet};

impl<C: Clock + Clone + 'static> RuleSet<C> {
    /// Decides a request if each rule offers to admit it, or if only one rule concerns it. `false`:
    /// nothing is charged, and only the long way can say.
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

    /// Decides by the only rule, whether that admits or refuses. `None`: it has more than buckets
    /// and windows, and nothing was decided.
    #[inline(never)]
    fn decide_alone(&self, scratch: &mut Scratch) -> Option<()> {
        let Scratch { found, charges, now, cost, .. } = scratch;
        let mut offers = self.offers(found, found.concerned().first()?, *cost, *now)?;
        if offers.len() == 1 {
            let mut only = offers.next()?;
            only.take();
            charges.brief.push((0, only.keep()));
        } else {
            let mut offers: SmallVec<[Offer<'_>; MOST_LIMITS]> = offers.collect();
            together(&mut offers);
            charges.brief.extend(offers.into_iter().map(|offer| (0, offer.keep())));
        }
        Some(())
    }

    /// Admits a request by `N` rules.
    #[inline(always)]
    fn admit<const N: usize>(&self, scratch: &mut Scratch) -> Option<()> {
        let Scratch { found, charges, now, cost, .. } = scratch;
        let concerned = found.concerned().first_chunk::<N>()?;
        let offers: [Option<Offer<'_>>; N] =
            array::from_fn(|index| self.only_offer(found, &concerned[index], *cost, *now));
        // Each rule has its say the long way if one refuses.
        if !offers.iter().flatten().all(|offer| offer.outcome() == Outcome::Allowed) {
            return None;
        }
        let mut offers = all(offers)?;
        if together(&mut offers) != Outcome::Allowed {
            return None;
        }
        charges.brief.extend(offers.into_iter().map(Offer::keep).enumerate());
        Some(())
    }

    /// What the one limit of a rule would admit. `None`: it has more than one bucket or window.
    #[inline(always)]
    fn only_offer(&self, found: &Found, one: &Concerned, cost: u64, now: Timestamp) -> Option<Offer<'_>> {
        let mut offers = self.offers(found, one, cost, now)?;
        if offers.len() == 1 { offers.next() } else { None }
    }

    /// What each limit of a rule would admit. `None`: it has more than buckets and windows.
    #[inline(always)]
    fn offers(
        &self,
        found: &Found,
        one: &Concerned,
        cost: u64,
        now: Timestamp,
    ) -> Option<impl ExactSizeIterator<Item = Offer<'_>>> {
        let (current, cost) = self.brief(one, cost)?;
        Some(current.shared.own()?.account(found.key(one)).at(now).offers(cost))
    }
}

/// All of them, if each is there.
#[inline(always)]
fn all<T, const N: usize>(offers: [Option<T>; N]) -> Option<[T; N]> {
    if offers.iter().all(Option::is_some) {
        Some(offers.map(|offer| offer.expect("it is there")))
    } else {
        None
    }
}

impl<C> RuleSet<C> {
    /// The limiter of a rule that has buckets and windows and nothing else, and what the request
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
    pub(super) fn show_kept(&self, scratch: &Scratch, lines: &mut Vec<Line>) {
        let Scratch { found, charges, cost, .. } = scratch;
        for (index, one) in found.concerned().iter().enumerate() {
            lines.push(Line::new(one.rule, one.tier, false, self.cost(one, *cost)));
            let (Some(line), Some(current)) = (lines.last_mut(), &self.allowance(one).quotas) else {
                continue;
            };
            // The short way has no queues, and nothing else to show.
            let mut kept =
                charges.brief.iter().filter(|(of, _)| *of == index).map(|(_, kept)| kept).peekable();
            if let Some(outcome) = kept.peek().map(|kept| kept.outcome()) {
                let shown = kept.filter_map(|kept| current.shared.own()?.show(kept));
                line.show(outcome, Told::by(shown));
            }
        }
    }
}
