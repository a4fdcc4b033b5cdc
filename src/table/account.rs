//! A key's account: what it owes, what it is given back, and who owes anything.

use crate::algorithm::{Moment, Refund, Rule, Taken, Verdict};
use crate::ring::Ring;
use crate::table::bucket::{Found, PLACES, View, shared_debt};
use crate::table::full::{Best, Place};
use crate::table::name::{OWED, VACANT, is_key};
use crate::table::refunds::Refunding;
use crate::table::slot::{Ask, Ruling};
use crate::table::word::Word;
use crate::time::Timestamp;

impl<'a> View<'a> {
    /// What `check` would answer. Writes nothing.
    pub(crate) fn peek<R: Rule>(self, ask: Ask<'_, R>, now: Timestamp) -> Ruling<'a> {
        let at = ask.rule.moment(now);
        match self.standing(ask, at) {
            Ok((owed, ring)) => foresee(ask, owed, ring, at),
            Err(full) => full,
        }
    }

    /// What the key owes before the request; or the request's answer, when there is no room for the key.
    pub(crate) fn standing<R: Rule>(
        self,
        ask: Ask<'_, R>,
        at: Moment,
    ) -> Result<(u64, Ring<'a>), Ruling<'a>> {
        loop {
            let (view, header) = self.holding(ask.name);
            let mut best = Best::default();
            match view.scan(ask.name, header, |slot| best.weigh(ask.rule, slot)) {
                Found::Mine(index, word) if view.bucket.slot(index).is_still(word) => {
                    return Ok((word.payload(), view.ring::<R>(index)));
                }
                Found::Others if !view.has_changed_since(header) => {}
                _ => continue,
            }
            let overflow = view.bucket.shared();
            let denied = |payload, ring| Err(Ruling { allowed: false, payload, ring });
            let (index, word, left) = match best.place(self.table.when_full, ask, at) {
                Place::Vacant(index, word) => (index, word, VACANT),
                _ if view.would_make_room(ask.name, header) => (1, Word::ZERO, VACANT),
                Place::Evict(index, word) => (index, word, OWED),
                Place::Shared => return Ok((shared_debt(ask.rule, overflow, at), Ring::NONE)),
                Place::Refuse(payload, index) => return denied(payload, view.ring::<R>(index)),
                Place::AdmitUncounted(payload) => {
                    let ring = Ring::NONE.with_unstaged(ask.cost);
                    return Err(Ruling { allowed: true, payload, ring });
                }
            };
            let overflow = ask.rule.current(overflow);
            let shared = header.is_shared() && !ask.rule.expired(overflow, at);
            let owed = view.owed(ask.rule, word, left, at);
            let owed = if shared { owed.max(overflow) } else { owed };
            return Ok((owed, view.ring::<R>(index)));
        }
    }

    /// Forgives the key's debt, as the reset that `count` numbers while the word is held. `false` when the bucket does not hold it.
    pub(crate) fn reset<R: Rule>(self, rule: &R, name: u64, now: Timestamp, count: impl Fn() -> u32) -> bool {
        let at = rule.moment(now);
        loop {
            let (view, header) = self.belonging(name);
            match view.scan(name, header, |_| ()) {
                Found::Mine(index, word) => {
                    let slot = view.bucket.slot(index);
                    // Held while it is forgiven, so that no other key is: see `Slot::refund`.
                    let forgiven = |payload| {
                        self.table.refunds.forgive(name, count());
                        Some(Refund { payload: rule.forgive(payload, at), units: 0 })
                    };
                    if rule.erase(word.payload(), view.ring::<R>(index), || slot.is_still(word))
                        && slot.refund(word, name, forgiven).is_some()
                    {
                        return true;
                    }
                }
                Found::Others if !view.has_changed_since(header) => return false,
                _ => {}
            }
        }
    }

    /// Gives back what was `taken` under `name`, unless a later reset than that of number `resets` forgave it: how many
    /// units, 0 when the bucket does not hold the key.
    pub(crate) fn refund<R: Rule>(
        self,
        rule: &R,
        name: u64,
        taken: Taken,
        resets: u32,
        clock: impl Fn() -> Timestamp,
    ) -> u64 {
        let mut refunding = Refunding::new(&self.table.refunds, name, taken, resets, clock);
        loop {
            let (view, header) = self.belonging(name);
            match view.scan(name, header, |_| ()) {
                Found::Mine(index, word) => {
                    let less = |payload| refunding.less(rule, payload);
                    if let Some(units) = view.bucket.slot(index).refund(word, name, less) {
                        return units;
                    }
                }
                Found::Others if !view.has_changed_since(header) => return 0,
                _ => {}
            }
        }
    }

    /// How many slots belong to a key that owes something.
    pub(crate) fn live<R: Rule>(self, rule: &R, at: Moment) -> usize {
        self.debtors(rule, at).count()
    }

    /// The names of the keys that owe something.
    pub(crate) fn debtors<'r, R: Rule>(
        self,
        rule: &'r R,
        at: Moment,
    ) -> impl Iterator<Item = u64> + use<'a, 'r, R> {
        let names = (1..PLACES).filter_map(move |place| {
            let slot = self.bucket.slot(place);
            rule.owes(slot.load().payload(), at).then(|| slot.name())
        });
        names.filter(|&name| is_key(name))
    }
}

/// The answer to a request on top of `owed`, without charging it.
pub(crate) fn foresee<'a, R: Rule>(ask: Ask<'_, R>, owed: u64, ring: Ring<'a>, at: Moment) -> Ruling<'a> {
    let (allowed, payload) = match ask.rule.decide(owed, ring, at, ask.cost) {
        Verdict::Allow(payload) => (true, payload),
        Verdict::DenyAndCount(payload) => (false, payload),
        Verdict::Deny => return Ruling { allowed: false, payload: owed, ring },
    };
    Ruling { allowed, payload, ring: ring.with_unstaged(ask.cost) }
}
