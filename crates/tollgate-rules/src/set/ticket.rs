//! What an admitted request may still give back.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::{Clock, MOST_LIMITS, Receipt, TscClock};

use crate::set::allowance::Shared;
use crate::set::at_once::Guard;
use crate::set::stored::StoredCharge;

/// What an admitted request may still give back: see [`Verdict::ticket`](crate::Verdict::ticket).
///
/// It borrows nothing. Dropping it keeps the charges, and gives back the places in flight:
/// keep it for as long as the request is served.
///
/// # Examples
///
/// Failed log-ins only:
///
/// ```
/// use tollgate::ManualClock;
/// use tollgate_rules::{PlainRequest, RuleSet, Scratch};
/// use tollgate_rules_file::{Memory, read};
///
/// let text = "version = 1\nrule = [{ name = 'failed-logins', key = 'client', \
///     limits = 'fixed-window:1/min', charge_if.status = [401, 403] }]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let set = RuleSet::new(rules, ManualClock::new())?;
/// let mut scratch = Scratch::default();
/// let login = PlainRequest { client: Some([203, 0, 113, 9].into()), ..PlainRequest::default() };
///
/// let mut ticket = set.check(&login, &mut scratch).ticket();
/// ticket.settle(200); // it did not fail: it is not charged
/// let mut ticket = set.check(&login, &mut scratch).ticket();
/// ticket.settle(401);
/// assert!(!set.check(&login, &mut scratch).is_admitted());
/// # Ok::<(), tollgate_rules::SetError>(())
/// ```
#[must_use = "a ticket that is dropped gives back the places in flight, and nothing else"]
pub struct Ticket<C = TscClock> {
    /// In the order in which they were made. Of most requests it is one.
    pub(super) charges: SmallVec<[OwnedCharge<C>; 1]>,
    pub(super) costs: Vec<OwnedCost<C>>,
    pub(super) guards: Vec<Guard>,
    pub(super) stored: Vec<OwnedStored>,
}

/// What a store was charged.
pub(super) struct OwnedStored {
    /// The index of its rule.
    pub(super) rule: usize,
    pub(super) charge: Box<dyn StoredCharge>,
    pub(super) charge_if: Option<Arc<[u16]>>,
    /// Whether another cost than that of the decision may be told.
    pub(super) has_cost: bool,
}

pub(super) struct OwnedCharge<C> {
    /// The index of its rule.
    pub(super) rule: usize,
    pub(super) shared: Arc<Shared<C>>,
    pub(super) receipt: OwnedReceipt,
    pub(super) charge_if: Option<Arc<[u16]>>,
}

/// The receipts of the limits of a line, of which most have one: servers keep many tickets.
pub(super) enum OwnedReceipt {
    One(Receipt),
    Each(Box<[Receipt]>),
    /// Of what a cost that was told late was charged on top.
    Late(Box<Receipt<MOST_LIMITS>>),
}

/// What a rule has charged whose cost may turn out to be another.
pub(super) struct OwnedCost<C> {
    pub(super) rule: usize,
    pub(super) shared: Arc<Shared<C>>,
    pub(super) charge_if: Option<Arc<[u16]>>,
    pub(super) key: Box<[u8]>,
    pub(super) units: u64,
    /// Whether another cost than that of the decision was told.
    pub(super) is_settled: bool,
}

impl<C: Clock + 'static> Ticket<C> {
    /// Whether there is nothing to give back and no cost to settle.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let (local, stored) = (self.charges.is_empty() && self.costs.is_empty(), self.stored.is_empty());
        local && stored && self.guards.is_empty()
    }

    /// Whether a rule's cost may still be [settled](Self::settle_cost).
    #[must_use]
    pub fn has_costs(&self) -> bool {
        !self.costs.is_empty() || self.stored.iter().any(|one| one.has_cost)
    }

    /// Tells what the request really cost, which is known only now: each rule gives back what it
    /// charged above that, or charges what is missing, over its limits if need be. Returns how many
    /// units of `cost` are charged then, by the rule that charged least of it: `cost`, but for the
    /// limits that hold no more than they admit.
    ///
    /// It concerns rules whose cost is an attribute, and those without a `cost` if the caller named
    /// another one than 1 for the request ([`Ask::cost`](crate::Ask)). Rules that say themselves
    /// what a request costs keep to it. So do places in flight. It may be told several times, and
    /// before [`settle`](Self::settle), not after.
    ///
    /// **Guarantee.** No more comes back than was charged. A charge that was too small is
    /// [debited](tollgate::Account::debit): no limit refuses it, and later requests wait for it. A
    /// sliding log, and limits beside one, cannot: they charge as much of it as they have left. A
    /// queue, a sliding log, and a bucket that was debited give back only while no other request
    /// has come.
    ///
    /// **Cost.** A refund or a debit for each such rule.
    ///
    /// # Examples
    ///
    /// Tokens of an answer, of which there are 100 a minute:
    ///
    /// ```
    /// use tollgate::ManualClock;
    /// use tollgate_rules::{PlainRequest, RuleSet, Scratch};
    /// use tollgate_rules_file::{Memory, read};
    ///
    /// let text = "version = 1\nrule = [\
    ///     { name = 'requests', key = 'client', limits = 'fixed-window:60/min' },\
    ///     { name = 'tokens', key = 'client', limits = 'fixed-window:100/min', \
    ///       cost = { from = 'label.tokens', default = 50 } }]";
    /// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    /// let set = RuleSet::new(rules, ManualClock::new())?;
    /// let mut scratch = Scratch::default();
    /// let request = PlainRequest { client: Some([203, 0, 113, 9].into()), ..Default::default() };
    ///
    /// let mut ticket = set.check(&request, &mut scratch).ticket();
    /// assert_eq!(ticket.settle_cost(20), 20); // 30 come back
    /// let mut ticket = set.check(&request, &mut scratch).ticket();
    /// assert_eq!(ticket.settle_cost(130), 130); // 80 more, over the limit
    /// let verdict = set.peek(&request, &mut scratch);
    /// assert_eq!(verdict.refused_by().map(|rule| &*rule.name), Some("tokens"));
    /// assert_eq!(verdict.lines()[0].remaining, 58);
    /// # Ok::<(), tollgate_rules::SetError>(())
    /// ```
    pub fn settle_cost(&mut self, cost: u64) -> u64 {
        let Self { charges, costs, stored, .. } = self;
        let local = costs.iter_mut().map(|one| one.settle(cost, charges)).fold(cost, u64::min);
        stored.iter_mut().filter(|one| one.has_cost).map(|one| one.charge.settle(cost)).fold(local, u64::min)
    }

    /// Tells the status of the response: rules with `charge_if` that do not list it give back what
    /// they charged. What remains charged stays so, and no cost is settled any more.
    ///
    /// The places in flight stay taken until the ticket is dropped.
    ///
    /// **Cost.** A [refund](tollgate::Limiter::refund) for each rule that gives back.
    pub fn settle(&mut self, status: u16) {
        self.costs.clear();
        for OwnedCharge { shared, receipt, charge_if, .. } in self.charges.drain(..).rev() {
            if charge_if.is_some_and(|statuses| !statuses.contains(&status)) {
                receipt.refund(&shared);
            }
        }
        for OwnedStored { charge, charge_if, .. } in self.stored.drain(..) {
            if charge_if.is_some_and(|statuses| !statuses.contains(&status)) {
                charge.give_back();
            }
        }
    }

    /// Tells what each rule charges by the response, where its caller knows more than the status:
    /// `cost` is called with the index of each rule that has charged the request. `Some(0)`: all of
    /// it comes back; another number: it is [settled](Self::settle_cost) to that, if the rule has a
    /// cost to settle; `None`: it stays. What remains charged stays so from now on.
    ///
    /// The places in flight stay taken until the ticket is dropped.
    ///
    /// **Guarantee.** All costs are known before the first charge changes: if `cost` panics, the
    /// request stays charged.
    pub fn settle_each(&mut self, mut cost: impl FnMut(usize) -> Option<u64>) {
        let Self { charges, costs, stored, .. } = self;
        let rules = charges.iter().map(|one| one.rule).chain(costs.iter().map(|one| one.rule));
        let mut told: SmallVec<[(usize, Option<u64>); 4]> = SmallVec::new();
        for rule in rules.chain(stored.iter().map(|one| one.rule)) {
            if !told.iter().any(|(known, _)| *known == rule) {
                told.push((rule, cost(rule)));
            }
        }
        let told = |rule: usize| told.iter().find(|(known, _)| *known == rule).and_then(|(_, cost)| *cost);
        for mut one in costs.drain(..) {
            if let Some(cost) = told(one.rule).filter(|cost| *cost > 0) {
                one.settle(cost, charges);
            }
        }
        for OwnedCharge { rule, shared, receipt, .. } in charges.drain(..).rev() {
            if told(rule) == Some(0) {
                receipt.refund(&shared);
            }
        }
        for OwnedStored { rule, mut charge, has_cost, .. } in stored.drain(..) {
            match told(rule) {
                Some(0) => charge.give_back(),
                Some(cost) if has_cost => drop(charge.settle(cost)),
                _ => {}
            }
        }
    }

    /// Keeps what a rule has charged, by its index: it is not given back, and its cost is not
    /// settled. Of a queue it is what a request does that departs by a turn for which another one
    /// was charged: another request may have its own.
    pub fn keep(&mut self, rule: usize) {
        self.charges.retain(|one| one.rule != rule);
        self.costs.retain(|one| one.rule != rule);
    }

    /// Gives back all that was charged, as far as the algorithms can: the request is not served.
    pub fn cancel(self) {
        self.cancel_each(|_| {});
    }

    /// [`cancel`](Self::cancel), which calls `kept` with the index of each rule of which nothing
    /// came back. In a queue a later request has a turn then, and this one stays charged: another
    /// request may have it, by [`Ask::held`](crate::Ask::held). A rule whose cost was
    /// [settled](Self::settle_cost) is none of them.
    pub fn cancel_each(mut self, mut kept: impl FnMut(usize)) {
        self.stored.drain(..).for_each(|one| one.charge.give_back());
        for OwnedCharge { rule, shared, receipt, .. } in self.charges.drain(..).rev() {
            // Of a cost that was settled, parts may have come back.
            let is_whole = !self.costs.iter().any(|one| one.rule == rule && one.is_settled);
            if receipt.refund(&shared) == 0 && is_whole {
                kept(rule);
            }
        }
    }
}

impl<C: Clock + 'static> OwnedCost<C> {
    /// Makes the charge this cost, as far as the limits can. Returns the cost charged.
    fn settle(&mut self, cost: u64, charges: &mut SmallVec<[OwnedCharge<C>; 1]>) -> u64 {
        let Self { rule, shared, charge_if, key, units, is_settled } = self;
        *is_settled = true;
        let mut excess = units.saturating_sub(cost);
        for charge in charges.iter_mut().rev().filter(|charge| charge.rule == *rule) {
            let part = excess.min(charge.receipt.left());
            // What does not come back stays charged, and is not asked for again.
            charge.receipt.refund_part(shared, part);
            excess -= part;
        }
        let missing = cost.saturating_sub(*units);
        *units = (*units).min(cost);
        if missing > 0
            && let Some(limiter) = shared.own()
        {
            let key = limiter.account(key);
            let receipt = key.debit(missing).unwrap_or_else(|_| key.check_up_to(missing)).receipt();
            *units += receipt.left();
            let (rule, shared, charge_if) = (*rule, Arc::clone(shared), charge_if.clone());
            let receipt = OwnedReceipt::Late(Box::new(receipt));
            charges.push(OwnedCharge { rule, shared, receipt, charge_if });
        }
        *units
    }
}

impl OwnedReceipt {
    /// Those of one limit, and of the others of its line.
    pub(super) fn of(first: Receipt, others: impl Iterator<Item = Receipt>) -> Self {
        let mut others = others.peekable();
        match others.peek() {
            None => Self::One(first),
            Some(_) => Self::Each(std::iter::once(first).chain(others).collect()),
        }
    }

    pub(super) fn left(&self) -> u64 {
        match self {
            Self::One(one) => one.left(),
            Self::Each(each) => each.iter().map(Receipt::left).max().unwrap_or(0),
            Self::Late(late) => late.left(),
        }
    }

    /// Gives back all that can come back. Returns how much that was.
    fn refund<C: Clock + 'static>(mut self, limiter: &Shared<C>) -> u64 {
        self.refund_part(limiter, u64::MAX)
    }

    /// Gives back up to so many units, the last charge first. Returns the least of what the limits
    /// got back.
    fn refund_part<C: Clock + 'static>(&mut self, limiter: &Shared<C>, units: u64) -> u64 {
        match self {
            Self::One(one) => limiter.refund_part(one, units),
            Self::Late(late) => limiter.refund_part(late, units),
            Self::Each(each) => {
                let charged = each.iter_mut().rev().filter(|one| one.left() > 0);
                charged.map(|one| limiter.refund_part(one, units)).min().unwrap_or(0)
            }
        }
    }
}

impl<C> fmt::Debug for Ticket<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("charges", &self.charges.len())
            .field("in_flight", &self.guards.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use tollgate::ManualClock;

    use super::*;
    use crate::{Ask, Attribute, Key, Limit, Limits, PlainRequest, Rule, RuleSet, Rules, Scratch};

    /// Servers keep hundreds of thousands of tickets.
    #[test]
    fn a_ticket_has_room_for_its_own_charges_only() {
        let rule = |number: usize| {
            let in_flight = Limit::InFlight { most: 9, ttl: None };
            let limits = Limits::Each(vec![Limit::Quota("10/s".parse().unwrap()), in_flight]);
            Rule::new(format!("r{number}"), Key::Attributes(vec![Attribute::Client]), limits)
        };
        for rules in [1, 3] {
            let all = Rules::of((0..rules).map(rule).collect());
            let set = RuleSet::new(all, ManualClock::new()).unwrap();
            let request = PlainRequest { client: Some([203, 0, 113, 9].into()), ..PlainRequest::default() };
            let ask = Ask { in_flight: true, cost: 2, ..Ask::default() };
            let mut scratch = Scratch::default();
            let ticket = set.ask(&request, ask, &mut scratch).ticket();
            let rooms = [ticket.charges.capacity(), ticket.costs.capacity(), ticket.guards.capacity()];
            assert_eq!(rooms, [rules; 3]);
            assert!(ticket.charges.iter().all(|charge| charge.receipt.left() == 2));
        }
        assert!(size_of::<OwnedCharge<ManualClock>>() <= 96);
    }
}
