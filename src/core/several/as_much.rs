//! Several limits that take as much as there is room for.

use crate::clock::Clock;
use crate::core::as_much::{Debit, DebitError, MAX_RETRIES, keeps_debts};
use crate::core::several::Several;
use crate::core::several::asks::OneKey;
use crate::core::several::decision::MultiDecision;
use crate::core::{Core, Manner};
use crate::receipt::Set;
use crate::table::Fingerprint;
use crate::table::ruling::Ask;
use crate::time::Timestamp;

impl<C: Clock> Core<Several, C> {
    /// Charges every limit the same number of units: the least that a peek finds left.
    ///
    /// A limit that then refuses so many has charged another request since the peek. The thread
    /// peeks again. Such an attempt is no request, so no limit counts it as refused. The last
    /// attempt asks for one unit. (At the end of the clock's time a word may refuse what it shows
    /// as left, because it has no room for the payload.)
    pub(super) fn take_up_to_each(
        &self,
        fingerprint: Fingerprint,
        most: u64,
        time: &impl Fn() -> Timestamp,
    ) -> MultiDecision<'_> {
        for _ in 0..MAX_RETRIES {
            let left = self.look(OneKey { fingerprint, cost: 0 }, time()).remaining();
            let cost = left.max(1).min(most);
            if cost <= 1 {
                break;
            }
            let asks = OneKey { fingerprint, cost };
            let decision = self.charge_in_manner(asks, Some(Manner::Uncounted), time);
            if let Some(decision) = decision.filter(MultiDecision::is_allowed) {
                return decision;
            }
        }
        let asks = OneKey { fingerprint, cost: most.min(1) };
        let decision = self.charge_in_manner(asks, None, time);
        let Some(decision) = decision else { unreachable!("every rule decides plain requests") };
        decision
    }

    /// Debits every limit, each as far as its word has room. The decision's cost is the least that
    /// any of them was charged: what all of them can give back.
    ///
    /// Nothing is undone. A change of the quotas in the middle leaves the limits before it debited
    /// under the old ones, and those give nothing back.
    pub(super) fn debit_each(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        time: &impl Fn() -> Timestamp,
    ) -> Result<MultiDecision<'_>, DebitError> {
        let (state, now) = (self.versions.state(), time());
        let mut decision = self.decision(state, OneKey { fingerprint, cost }, now);
        if !decision.version.all().all(|limit| keeps_debts(limit.rule())) {
            return Err(DebitError::NoDebt);
        }
        if cost == 0 {
            return Ok(self.look(OneKey { fingerprint, cost }, now));
        }
        for (table, limit) in self.each().iter().zip(decision.version.all()) {
            let rule = limit.dated();
            if table.probe(Ask { rule, fingerprint, cost: 1 }, rule.moment_to_read(now)).is_err() {
                table.events(fingerprint).refused_full();
                return Err(DebitError::Full);
            }
        }
        for (index, table) in self.each().iter().enumerate() {
            let units = loop {
                let compiled = decision.version.compiled(index);
                match self.debit_words(table, compiled, fingerprint, cost, time) {
                    Debit::Charged(ruling, units, now) => {
                        decision.set(index, ruling);
                        decision.now = decision.now.max(now);
                        break units;
                    }
                    // Other keys have taken the room since the probe.
                    Debit::Full => break 0,
                    Debit::Ended(_) => {
                        decision.version = self.versions.current();
                        decision.taken = Set::default();
                    }
                }
            };
            decision.asks.cost = decision.asks.cost.min(units);
        }
        for index in 0..self.each().len() {
            if !decision.taken.has(index) {
                decision.show_without_request(index);
            }
        }
        decision.now = decision.version.within(decision.now);
        Ok(decision)
    }
}
