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

use crate::algorithm::{Algorithm, Carry, Payload, Refund, Rule, Taken};
use crate::clock::Clock;
use crate::limiter::core::Core;
use crate::limiter::version::Tier;
use crate::receipt::{ChargedBy, Receipt};
use crate::ring::Ring;
use crate::table::marks::Refunding;
use crate::table::ruling::Ask;
use crate::table::slot::Slot;
use crate::table::versioned::{ThenAndNow, Versioned, VersionedRef};
use crate::table::word::Word;
use crate::table::{Fingerprint, Table};
use crate::time::Timestamp;

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Gives back up to `units` of what the receipt's request took, the last charge first: the
    /// least of what the limits got back. The units asked for are spent, whether or not they
    /// came back.
    pub(super) fn give_back<const M: usize>(
        &self,
        receipt: &mut Receipt<M>,
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
        let lent =
            receipt.by.emission().and_then(|unit| A::Rule::of_call(unit, unit)).map(Versioned::endless);
        let mut least = None;
        for (index, charged) in receipt.charged.iter_mut().enumerate().rev() {
            let cost = units.min(charged.left);
            if cost == 0 {
                continue;
            }
            let table = &self.tables[usize::from(receipt.place) + index];
            charged.left -= cost;
            let lent = lent.as_ref().map(Versioned::by_ref);
            let rule = lent.unwrap_or_else(|| version.by_ref(first + index));
            let taken = Taken { charged: charged.payload, since: rule.moment_to_read(receipt.since), cost };
            let charge = (receipt.since, receipt.resets);
            let rules = ThenAndNow { then: rule, now: lent.unwrap_or_else(|| current.by_ref(first + index)) };
            let (back, short) = refund(table, &rules, fingerprint, taken, charge, &time);
            table.marks.count_short(short);
            // As if the units that are left had been a request of their own, right before the units
            // that are gone.
            charged.payload = rule.pure.less(charged.payload, cost);
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
                let ask = Ask { rule: tier.by_ref(place), fingerprint, cost: units };
                let given = credit(table, ask, &time);
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
                let count = || self.versions.count_reset();
                is_forgiven |= reset(table, tier.by_ref(place), fingerprint, now, count);
            }
            // A rule of an older version than the word's forgives nothing.
            match self.versions.after(tier, now) {
                Some(later) => tier = later,
                None => return is_forgiven,
            }
        }
    }
}

/// Gives back the units `taken`, which were `charged` at this time and after the reset of this
/// number, unless a later one forgave them. Returns how many units came back, 0 when the key has no
/// slot; and how many [may be lost](Refund::short).
fn refund<R: Rule>(
    table: &Table,
    rules: &ThenAndNow<'_, R>,
    fingerprint: Fingerprint,
    taken: Taken,
    charged: (Timestamp, u32),
    clock: impl Fn() -> Timestamp,
) -> (u64, u64) {
    let Some(mut refunding) = Refunding::begin(&table.marks, fingerprint.kept(), taken, charged, clock)
    else {
        // One still runs beside which a reset forgave.
        return (0, taken.cost);
    };
    let units = table.lower::<R>(fingerprint, keep_ring, |payload, _| refunding.less(rules, payload));
    (units.unwrap_or(0), refunding.done())
}

/// Gives the key up to `ask.cost` units without a receipt. Returns how many; 0 when the key has no
/// slot.
fn credit<R: Rule>(table: &Table, ask: Ask<'_, R>, clock: impl Fn() -> Timestamp) -> u64 {
    let Some(running) = table.marks.begin(ask.fingerprint.kept()) else { return 0 };
    let less = |payload, ring: Ring<'_>| running.credit(ask, payload, ring, clock());
    table.lower::<R>(ask.fingerprint, keep_ring, less).unwrap_or(0)
}

/// Forgives the key's debt, as the reset that `count` numbers while the word is held. `false` when
/// the key has no slot, or was never charged there.
fn reset<R: Rule>(
    table: &Table,
    rule: VersionedRef<'_, R>,
    fingerprint: Fingerprint,
    now: Timestamp,
    count: impl Fn() -> u32,
) -> bool {
    let (at, running) = (rule.moment(now), table.marks.begin_reset(fingerprint.kept()));
    let mut is_charged = false;
    let erase =
        |slot: &Slot, word: Word, ring: Ring<'_>| rule.erase(word.payload(), ring, || slot.is_still(word));
    let forgive = |payload, _: Ring<'_>| {
        running.forgive(count(), at.tick);
        // A key that was never charged stays so: a save writes no debt of it.
        is_charged = payload != Payload::UNSEEN.stored();
        is_charged.then(|| Refund::of(rule.forgive(payload, at), 0))
    };
    table.lower::<R>(fingerprint, erase, forgive).is_some() && is_charged
}

/// The ring of a key whose word is lowered by some units needs nothing done before.
fn keep_ring(_: &Slot, _: Word, _: Ring<'_>) -> bool {
    true
}
