//! Where the words of one limit live: in a table of many keys, or in one padded slot.

use crossbeam_utils::CachePadded;

use crate::algorithm::{Moment, Payload, Refund, Rule, Stored, Taken};
use crate::error::BuildError;
use crate::ring::Ring;
use crate::sync::AtomicU64;
use crate::table::dated::{Current, Dated, ThenAndNow};
use crate::table::peek::foresee;
use crate::table::refunds::{Refunding, Refunds};
use crate::table::slot::{Ask, Ruling, Slot};
use crate::table::{Debt, Fingerprint, Stats, Table, Zeroed, zeroed_words};
use crate::time::Timestamp;

/// The words of one limit. Two places implement it: [`Table`] and [`OneWord`].
pub trait Words {
    /// Decides a request and charges it, and says at what time by `clock`.
    #[doc(hidden)]
    fn check<R: Rule>(
        &self,
        rule: &Current<R>,
        fingerprint: Fingerprint,
        cost: u64,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp);

    /// The same, never inlined: for requests that are in no hurry.
    #[doc(hidden)]
    fn check_anywhere<R: Rule>(
        &self,
        ask: Ask<'_, R>,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp);

    /// The key's payload before the request; or the request's answer, when there is no room for the
    /// key. Writes nothing.
    #[doc(hidden)]
    fn probe<R: Rule>(&self, ask: Ask<'_, R>, at: Moment) -> Result<(Payload, Ring<'_>), Ruling<'_>>;

    /// Gives back the units `taken`, which were `charged` at this time and after the reset of this
    /// number, unless a later one forgave them. Returns how many units came back, and how many
    /// [may be lost](Refund::short).
    #[doc(hidden)]
    fn refund<R: Rule>(
        &self,
        rules: &ThenAndNow<'_, R>,
        fingerprint: Fingerprint,
        taken: Taken,
        charged: (Timestamp, u32),
        clock: impl Fn() -> Timestamp,
    ) -> (u64, u64);

    /// Gives the key up to `ask.cost` units without a receipt. Returns how many.
    #[doc(hidden)]
    fn credit<R: Rule>(&self, ask: Ask<'_, R>, clock: impl Fn() -> Timestamp) -> u64;

    /// Forgives the key's debt, as the reset that `count` numbers while the word is held. `false`
    /// when the key has no slot.
    #[doc(hidden)]
    fn reset<R: Rule>(
        &self,
        rule: Dated<'_, R>,
        fingerprint: Fingerprint,
        now: Timestamp,
        count: impl Fn() -> u32,
    ) -> bool;

    /// What the limit remembers of its refunds.
    #[doc(hidden)]
    fn refunds(&self) -> &Refunds;

    /// Asks for the cache line that a check of this key looks at first.
    #[doc(hidden)]
    fn prefetch(&self, fingerprint: Fingerprint);

    /// Hands every debt at `at` to `each`, while other threads check.
    #[doc(hidden)]
    fn debts<R: Rule, E>(
        &self,
        rule: Dated<'_, R>,
        at: Moment,
        each: impl FnMut(Debt<'_>) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Enters a debt before the words are shared. `false` when there is no room for it.
    #[doc(hidden)]
    fn enter<R: Rule>(&self, rule: Dated<'_, R>, at: Moment, debt: Debt<'_>) -> bool;

    /// The fingerprints of the keys in debt, of those whose buckets' numbers are `class` modulo
    /// `classes`.
    #[doc(hidden)]
    fn in_debt<R: Rule>(
        &self,
        class: (usize, usize),
        rule: Dated<'_, R>,
        at: Moment,
    ) -> impl Iterator<Item = Fingerprint>;

    /// How many classes of buckets there are at the least.
    #[doc(hidden)]
    fn classes(&self) -> usize;

    /// How many buckets there may be; 0 without a table.
    #[doc(hidden)]
    fn buckets(&self) -> usize;

    /// Bytes in use.
    #[doc(hidden)]
    fn bytes(&self) -> usize;

    /// Adds the counts of its events to `stats`.
    #[doc(hidden)]
    fn add_stats(&self, stats: &mut Stats);
}

impl Words for Table {
    #[inline(always)]
    fn check<R: Rule>(
        &self,
        rule: &Current<R>,
        fingerprint: Fingerprint,
        cost: u64,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        self.view(fingerprint).check(rule, fingerprint.kept(), cost, clock)
    }

    fn check_anywhere<R: Rule>(
        &self,
        ask: Ask<'_, R>,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        self.view(ask.fingerprint).check_anywhere(Ask { fingerprint: ask.fingerprint.kept(), ..ask }, clock)
    }

    fn probe<R: Rule>(&self, ask: Ask<'_, R>, at: Moment) -> Result<(Payload, Ring<'_>), Ruling<'_>> {
        self.view(ask.fingerprint).probe(Ask { fingerprint: ask.fingerprint.kept(), ..ask }, at)
    }

    fn refund<R: Rule>(
        &self,
        rules: &ThenAndNow<'_, R>,
        fingerprint: Fingerprint,
        taken: Taken,
        charged: (Timestamp, u32),
        clock: impl Fn() -> Timestamp,
    ) -> (u64, u64) {
        self.view(fingerprint).refund(rules, fingerprint.kept(), taken, charged, clock)
    }

    fn credit<R: Rule>(&self, ask: Ask<'_, R>, clock: impl Fn() -> Timestamp) -> u64 {
        self.view(ask.fingerprint).credit(Ask { fingerprint: ask.fingerprint.kept(), ..ask }, clock)
    }

    fn reset<R: Rule>(
        &self,
        rule: Dated<'_, R>,
        fingerprint: Fingerprint,
        now: Timestamp,
        count: impl Fn() -> u32,
    ) -> bool {
        self.view(fingerprint).reset(rule, fingerprint.kept(), now, count)
    }

    fn refunds(&self) -> &Refunds {
        &self.refunds
    }

    #[inline]
    fn prefetch(&self, fingerprint: Fingerprint) {
        self.view(fingerprint).prefetch(fingerprint);
    }

    fn debts<R: Rule, E>(
        &self,
        rule: Dated<'_, R>,
        at: Moment,
        each: impl FnMut(Debt<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.debts(rule, at, each)
    }

    fn enter<R: Rule>(&self, rule: Dated<'_, R>, at: Moment, debt: Debt<'_>) -> bool {
        self.enter(rule, at, debt)
    }

    fn in_debt<R: Rule>(
        &self,
        class: (usize, usize),
        rule: Dated<'_, R>,
        at: Moment,
    ) -> impl Iterator<Item = Fingerprint> {
        self.in_debt(class, rule, at)
    }

    fn classes(&self) -> usize {
        self.roots()
    }

    fn buckets(&self) -> usize {
        self.buckets()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn add_stats(&self, stats: &mut Stats) {
        self.add_stats(stats);
    }
}

/// One slot on a cache line of its own, for a limit without keys.
pub struct OneWord {
    slot: CachePadded<Slot>,
    entries: Zeroed<AtomicU64>,
    refunds: Refunds,
}

impl OneWord {
    /// The fingerprint of the one key.
    pub(crate) const KEY: Fingerprint = Fingerprint::from_bits(1);

    /// A slot with a ring of `ring_len` entries.
    pub(crate) fn new(ring_len: usize) -> Result<Self, BuildError> {
        let slot = CachePadded::new(Slot::new(Self::KEY));
        Ok(Self { slot, entries: zeroed_words(ring_len)?, refunds: Refunds::new(1, 1)? })
    }

    #[inline]
    fn ring<R: Rule>(&self) -> Ring<'_> {
        if R::RINGED { Ring::new(&self.entries) } else { Ring::NONE }
    }

    /// Changes the word as `less` says while it is held. Returns the units that came back.
    fn lower(&self, mut less: impl FnMut(Stored) -> Option<Refund>) -> u64 {
        loop {
            if let Some(units) = self.slot.refund(self.slot.load(), Self::KEY, &mut less) {
                return units;
            }
        }
    }
}

impl Words for OneWord {
    #[inline(always)]
    fn check<R: Rule>(
        &self,
        rule: &Current<R>,
        _: Fingerprint,
        cost: u64,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        let now = clock();
        let ask = Ask { rule: rule.dated(), fingerprint: Self::KEY, cost };
        let quickly = |at| self.slot.charge_quickly(self.slot.load(), ask, self.ring::<R>(), at);
        match ask.rule.quick_moment(now).and_then(quickly) {
            Some(ruling) => (ruling, now),
            // The arguments one by one: a struct would be written to the stack on every check.
            None => self.check_slowly(ask.rule, cost, now),
        }
    }

    fn check_anywhere<R: Rule>(
        &self,
        ask: Ask<'_, R>,
        clock: impl Fn() -> Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        let now = clock();
        self.check_slowly(ask.rule, ask.cost, now)
    }

    fn probe<R: Rule>(&self, ask: Ask<'_, R>, _: Moment) -> Result<(Payload, Ring<'_>), Ruling<'_>> {
        Ok((ask.rule.read(self.slot.load().payload()), self.ring::<R>()))
    }

    fn refund<R: Rule>(
        &self,
        rules: &ThenAndNow<'_, R>,
        _: Fingerprint,
        taken: Taken,
        charged: (Timestamp, u32),
        clock: impl Fn() -> Timestamp,
    ) -> (u64, u64) {
        let begun = Refunding::begin(&self.refunds, Self::KEY, taken, charged, clock);
        // One still runs beside which a reset forgave.
        let Some(mut refunding) = begun else { return (0, taken.cost) };
        let units = self.lower(|payload| refunding.less(rules, payload));
        (units, refunding.done())
    }

    fn credit<R: Rule>(&self, ask: Ask<'_, R>, clock: impl Fn() -> Timestamp) -> u64 {
        let Some(running) = self.refunds.begin(Self::KEY) else { return 0 };
        self.lower(|payload| running.credit(ask, payload, self.ring::<R>(), clock()))
    }

    fn reset<R: Rule>(
        &self,
        rule: Dated<'_, R>,
        _: Fingerprint,
        now: Timestamp,
        count: impl Fn() -> u32,
    ) -> bool {
        let (at, running) = (rule.moment(now), self.refunds.begin_reset(Self::KEY));
        loop {
            let seen = self.slot.load();
            let forgiven = |payload| {
                running.forgive(count(), at.tick);
                Some(Refund::of(rule.forgive(payload, at), 0))
            };
            if rule.erase(seen.payload(), self.ring::<R>(), || self.slot.is_still(seen))
                && self.slot.refund(seen, Self::KEY, forgiven).is_some()
            {
                return true;
            }
        }
    }

    fn refunds(&self) -> &Refunds {
        &self.refunds
    }

    #[inline]
    fn prefetch(&self, _: Fingerprint) {}

    fn debts<R: Rule, E>(
        &self,
        rule: Dated<'_, R>,
        at: Moment,
        mut each: impl FnMut(Debt<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut times = Vec::new();
        let (word, fingerprint) = self.slot.debt(rule, self.ring::<R>(), at, &mut times);
        each(Debt::Key { fingerprint, payload: rule.current(word.payload()), times: &times })
    }

    fn enter<R: Rule>(&self, rule: Dated<'_, R>, _: Moment, debt: Debt<'_>) -> bool {
        if let Debt::Key { payload, times, .. } = debt {
            self.slot.enter(Self::KEY, rule.rule.log(payload, self.ring::<R>(), times));
        }
        true
    }

    fn in_debt<R: Rule>(
        &self,
        _: (usize, usize),
        rule: Dated<'_, R>,
        at: Moment,
    ) -> impl Iterator<Item = Fingerprint> {
        rule.is_in_debt(self.slot.load().payload(), at).then_some(Self::KEY).into_iter()
    }

    fn classes(&self) -> usize {
        1
    }

    fn buckets(&self) -> usize {
        0
    }

    fn bytes(&self) -> usize {
        self.entries.len() * size_of::<AtomicU64>()
    }

    fn add_stats(&self, stats: &mut Stats) {
        self.refunds.add_stats(stats);
    }
}

impl OneWord {
    #[inline(never)]
    fn check_slowly<R: Rule>(
        &self,
        rule: Dated<'_, R>,
        cost: u64,
        now: Timestamp,
    ) -> (Ruling<'_>, Timestamp) {
        let (ask, at) = (Ask { rule, fingerprint: Self::KEY, cost }, rule.moment(now));
        loop {
            if let Some(ruling) = self.slot.charge(self.slot.load(), ask, self.ring::<R>(), at, &mut 0) {
                return (ruling, if ruling.allowed { rule.within(now) } else { now });
            }
        }
    }
}

/// What a check would decide now. Writes nothing.
pub(crate) fn peek<'w, R: Rule>(words: &'w impl Words, ask: Ask<'_, R>, now: Timestamp) -> Ruling<'w> {
    let at = ask.rule.moment_to_read(now);
    match words.probe(ask, at) {
        Ok((payload, ring)) => foresee(ask, payload, ring, at),
        Err(full) => full,
    }
}
