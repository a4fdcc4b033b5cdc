//! One way of giving back, for refunds, cancelled reservations, leases and requests that are
//! undone; and what an operator gives: the credit and the reset.
//!
//! A reset holds the key's word, counts itself and marks the key with its number, and then lowers
//! the word; when the last step fails it begins again. A refund holds the word and compares its
//! receipt, which has the number of resets before the charge, with the key's mark. So of a reset
//! and a refund the second sees the first: no charge is both forgiven and given back.
//!
//! A credit has no receipt. It lowers the word as a refund of the newest request would, and what it
//! gives is on top of what the limit admits. So it need not know which charges were forgiven.

use crate::algorithm::{Algorithm, Carry, Rule, Taken};
use crate::clock::Clock;
use crate::limiter::core::Core;
use crate::limiter::version::Tier;
use crate::receipt::{ChargedBy, Receipt};
use crate::table::Fingerprint;
use crate::table::dated::{Current, ThenAndNow};
use crate::table::ruling::Ask;
use crate::time::Timestamp;

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Gives back up to `units` of what the receipt's request took, the last charge first: the
    /// least of what the limits got back. The units asked for are spent, whether or not they
    /// came back.
    pub(super) fn give_back(
        &self,
        receipt: &mut Receipt<N>,
        units: u64,
        time: impl Fn() -> Timestamp,
    ) -> u64 {
        if receipt.limiter != self.tables.limiter {
            return 0;
        }
        let (fingerprint, current) = (receipt.fingerprint, self.versions.current());
        let (version, first) = match receipt.by {
            ChargedBy::Version { number, rule } => (self.versions.numbered(number.into()), usize::from(rule)),
            ChargedBy::Call { .. } => (current, 0),
        };
        // A quota that came with the call means the same in every version.
        let lent = receipt.by.emission().and_then(|unit| A::Rule::of_call(unit, unit)).map(Current::endless);
        let mut least = None;
        for (index, charged) in receipt.charged.iter_mut().enumerate().rev() {
            let cost = units.min(charged.left);
            if cost == 0 {
                continue;
            }
            let table = &self.tables[index];
            charged.left -= cost;
            let lent = lent.as_ref().map(Current::dated);
            let rule = lent.unwrap_or_else(|| version.dated(first + index));
            let taken = Taken { charged: charged.payload, since: rule.moment_to_read(receipt.since), cost };
            let charge = (receipt.since, receipt.resets);
            let rules = ThenAndNow { then: rule, now: lent.unwrap_or_else(|| current.dated(first + index)) };
            let (back, short) = table.refund(&rules, fingerprint, taken, charge, &time);
            table.refunds.count_short(short);
            // As if the units that are left had been a request of their own, right before the units
            // that are gone.
            charged.payload = rule.rule.less(charged.payload, cost);
            least = Some(least.unwrap_or(back).min(back));
        }
        least.unwrap_or(0)
    }

    /// Gives the key up to `units` without a receipt: the least of what the limits gave.
    pub(super) fn credit<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        units: u64,
        time: impl Fn() -> Timestamp,
    ) -> u64 {
        let mut tier = self.versions.renewed(tier);
        let given = self.tables.iter().enumerate().map(|(place, table)| {
            loop {
                let given = table.credit(Ask { rule: tier.dated(place), fingerprint, cost: units }, &time);
                // A rule of an older version than the word's gives nothing.
                match self.versions.after(tier, time()) {
                    Some(later) if given == 0 => tier = later,
                    _ => break given,
                }
            }
        });
        given.min().unwrap_or(0)
    }

    /// Forgives the key its debt to every limit. `false` when it was charged to none.
    pub(super) fn reset<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        time: impl Fn() -> Timestamp,
    ) -> bool {
        let mut tier = self.versions.renewed(tier);
        let mut is_forgiven = false;
        loop {
            let now = time();
            for (place, table) in self.tables.iter().enumerate() {
                is_forgiven |=
                    table.reset(tier.dated(place), fingerprint, now, || self.versions.count_reset());
            }
            // A rule of an older version than the word's forgives nothing.
            match self.versions.after(tier, now) {
                Some(later) => tier = later,
                None => return is_forgiven,
            }
        }
    }
}
