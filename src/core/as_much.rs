//! Requests that take as much as there is room for: what the limit leaves (`check_up_to`), or what
//! the key's word can hold (`debit`).

use std::cell::Cell;
use std::error::Error;
use std::fmt;

use crate::algorithm::{Algorithm, AsMuch, Numbers, PAYLOAD_BITS, Payload, Rule};
use crate::clock::Clock;
use crate::core::version::Compiled;
use crate::core::{Asked, Core, Limits, One, RuleOf};
use crate::decision::Decision;
use crate::table::basis::Basis;
use crate::table::dated::Dated;
use crate::table::ruling::{Ask, Ruling};
use crate::table::{Fingerprint, Table};
use crate::time::Timestamp;

/// How often a request that concurrent requests overtake is tried. Each retry means that another
/// thread made progress; the bound holds even if that analysis misses a case.
pub(super) const MAX_RETRIES: usize = 64;

/// Why nothing was debited. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DebitError {
    /// A limit is a [`SlidingLog`](crate::SlidingLog), which remembers no more units than its
    /// limit: it keeps no debt above it.
    NoDebt,
    /// The key has no slot, and its bucket has no room for it: [`WhenFull`](crate::WhenFull) says
    /// when that is so. A later debit may find a vacant slot.
    Full,
}

impl fmt::Display for DebitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDebt => {
                "a sliding log keeps no debt above its limit: a debit needs a bucket or a window that counts"
            }
            Self::Full => "the key has no slot, and its bucket is full of keys in debt",
        })
    }
}

impl Error for DebitError {}

impl<L: Limits, C: Clock> Core<L, C> {
    /// Charges as many units as the limits have left, at most `most`, and tells the observer.
    pub(crate) fn check_up_to<'l>(
        &'l self,
        asked: Asked<'l, L>,
        most: u64,
        time: impl Fn() -> Timestamp,
    ) -> L::Decision<'l> {
        self.observer.tell(L::take_up_to(self, asked, most, time))
    }

    /// Charges over the limit if need be, and tells the observer.
    pub(crate) fn debit<'l>(
        &'l self,
        asked: Asked<'l, L>,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Result<L::Decision<'l>, DebitError> {
        L::debit(self, asked, cost, time).map(|decision| self.observer.tell(decision))
    }

    /// Debits one limit, by the rule of one version.
    pub(super) fn debit_words<'l>(
        &'l self,
        table: &'l Table,
        compiled: &'l Compiled<RuleOf<L>>,
        fingerprint: Fingerprint,
        cost: u64,
        time: &impl Fn() -> Timestamp,
    ) -> Debit<'l, RuleOf<L>> {
        // No word holds more.
        let cost = cost.min(1 << PAYLOAD_BITS);
        let Dated { rule, term } = compiled.dated();
        for _ in 0..MAX_RETRIES {
            let units = Cell::new(0);
            let rule = AsMuch::over(rule, term.last(), &units);
            let ask = Ask { rule: Dated { rule: &rule, term }, fingerprint, cost };
            let (ruling, now) = table.check_anywhere(ask, time);
            if ruling.allowed {
                return Debit::Charged(ruling, units.get(), now);
            }
            if let Some(later) = self.versions.after_all(compiled) {
                return Debit::Ended(later);
            }
            if ruling.basis == Basis::Full {
                return Debit::Full;
            }
            if units.get() == 0 {
                return Debit::Charged(ruling, 0, now);
            }
            // Concurrent requests changed the full bucket at each attempt.
        }
        Debit::Full
    }
}

/// What came of a debit of one limit.
pub(super) enum Debit<'l, R> {
    /// So many units were charged, at this time; 0: the word has room for none.
    Charged(Ruling<'l>, u64, Timestamp),
    /// The key has no slot, and its bucket has no room for it.
    Full,
    /// Nothing was charged: the version has ended, and this rule follows.
    Ended(&'l Compiled<R>),
}

/// Whether a rule can be charged over its limit. No change of its quota changes that.
pub(super) fn keeps_debts(rule: &impl Numbers) -> bool {
    rule.debit(Payload::UNSEEN, rule.moment(Timestamp::ZERO), 0, 0).is_some()
}

impl<A: Algorithm, const KEYED: bool, C: Clock> Core<One<A, KEYED>, C> {
    /// Takes the units that the key has left, at most `most`, by one compare-exchange.
    #[cold]
    #[inline(never)]
    pub(super) fn take_up_to_one<'l>(
        &'l self,
        Asked { fingerprint, tier }: Asked<'l, One<A, KEYED>>,
        most: u64,
        time: &impl Fn() -> Timestamp,
    ) -> Decision<'l> {
        let state = self.versions.state();
        let mut compiled = self.versions.renewed(tier);
        if most == 0 {
            return <One<A, KEYED>>::peek(self, Asked { fingerprint, tier: compiled }, 0, time());
        }
        loop {
            let (units, cost) = (Cell::new(0), most.min(compiled.rule().limit()));
            let Dated { rule, term } = compiled.dated();
            let rule = AsMuch::within(rule, &units);
            let ask = Ask { rule: Dated { rule: &rule, term }, fingerprint, cost };
            let (ruling, now) = self.places.check_anywhere(ask, time);
            if !ruling.allowed
                && let Some(newer) = self.versions.after_all(compiled)
            {
                compiled = newer;
                continue;
            }
            let cost = match ruling.allowed {
                false => 1,
                true if ruling.basis.is_charged() => units.get(),
                // A full bucket, and nothing was counted.
                true => cost,
            };
            let by = (&compiled.shown, self.versions.limiter());
            return Decision::of(ruling, by, now, cost, fingerprint, state.resets());
        }
    }

    /// Debits the key by the current quota.
    #[cold]
    #[inline(never)]
    pub(super) fn debit_one<'l>(
        &'l self,
        Asked { fingerprint, tier }: Asked<'l, One<A, KEYED>>,
        cost: u64,
        time: &impl Fn() -> Timestamp,
    ) -> Result<Decision<'l>, DebitError> {
        let state = self.versions.state();
        let mut compiled = self.versions.renewed(tier);
        if !keeps_debts(compiled.rule()) {
            return Err(DebitError::NoDebt);
        }
        if cost == 0 {
            return Ok(<One<A, KEYED>>::peek(self, Asked { fingerprint, tier: compiled }, 0, time()));
        }
        loop {
            let (ruling, units, now) = match self.debit_words(&self.places, compiled, fingerprint, cost, time)
            {
                Debit::Charged(ruling, units, now) => (ruling, units, now),
                Debit::Full => return Err(DebitError::Full),
                Debit::Ended(later) => {
                    compiled = later;
                    continue;
                }
            };
            let by = (&compiled.shown, self.versions.limiter());
            return Ok(match units {
                0 => Decision::trivial(ruling.into(), by.0, now, 0),
                units => Decision::of(ruling, by, now, units, fingerprint, state.resets()),
            });
        }
    }
}
