//! Requests that take as much as there is room for: what the limit leaves (`check_up_to`), or what
//! the key's word can hold (`debit`).

use std::cell::Cell;
use std::error::Error;
use std::fmt;

use crate::algorithm::{Algorithm, AsMuch, Numbers, PAYLOAD_BITS, Payload, Rule};
use crate::clock::Clock;
use crate::limiter::charge::Charging;
use crate::limiter::core::Core;
use crate::limiter::decision::Decision;
use crate::limiter::version::Tier;
use crate::table::basis::Basis;
use crate::table::ruling::{Ask, Ruling};
use crate::table::versioned::VersionedRef;
use crate::table::{DecidedOn, Fingerprint};
use crate::time::Timestamp;

/// How often a request that concurrent requests overtake is tried. Each retry means that another
/// thread made progress; the bound holds even if that analysis misses a case.
const MAX_RETRIES: usize = 64;

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
    /// The receipt to [settle](crate::Account::settle) is another key's, or another limiter's.
    Foreign,
}

impl fmt::Display for DebitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDebt => {
                "a sliding log keeps no debt above its limit: a debit needs a bucket or a window that counts"
            }
            Self::Full => "the key has no slot, and its bucket is full of keys in debt",
            Self::Foreign => {
                "the receipt is another key's, or another limiter's: settle by the account that was checked"
            }
        })
    }
}

impl Error for DebitError {}

/// What came of a debit of one limit.
enum Debit<'l, R, const N: usize> {
    /// So many units were charged, at this time; 0: the word has room for none.
    Charged(Ruling<'l>, u64, Timestamp),
    /// The key has no slot, and its bucket has no room for it.
    Full,
    /// Nothing was charged: the version has ended, and this tier follows.
    Ended(&'l Tier<R, N>),
}

/// Whether a rule can be charged over its limit. No change of its quota changes that.
fn keeps_debts(rule: &impl Numbers) -> bool {
    rule.debit(Payload::UNSEEN, rule.moment(Timestamp::ZERO), 0, 0).is_some()
}

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Charges as many units as the limits have left, at most `most`, and tells the observer.
    pub(super) fn check_up_to<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        most: u64,
        time: impl Fn() -> Timestamp,
    ) -> Decision<'l, N> {
        let decision = match self.tables.limits() {
            1 => self.take_at_once(tier, fingerprint, most, &time),
            _ => self.take_what_each_has(tier, fingerprint, most, &time),
        };
        self.observer.tell(decision)
    }

    /// Takes the units that the only limit has left, at most `most`, by one compare-exchange.
    #[cold]
    #[inline(never)]
    fn take_at_once<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        most: u64,
        time: &impl Fn() -> Timestamp,
    ) -> Decision<'l, N> {
        let state = self.versions.state();
        let mut tier = self.versions.renewed(tier);
        if most == 0 {
            return self.peek(tier, fingerprint, 0, time());
        }
        loop {
            let (units, cost) = (Cell::new(0), most.min(tier.rule(0).limit()));
            let VersionedRef { pure: rule, validity } = tier.by_ref(0);
            let rule = AsMuch::within(rule, &units);
            let ask = Ask { rule: VersionedRef { pure: &rule, validity }, fingerprint, cost };
            let (ruling, now) = self.tables.first.check_anywhere(ask, time(), time);
            if !ruling.allowed
                && let Some(later) = self.versions.after_all(tier)
            {
                tier = later;
                continue;
            }
            let cost = match ruling.allowed {
                false => 1,
                true if ruling.basis.is_charged() => units.get(),
                // A full bucket, and nothing was counted.
                true => cost,
            };
            return self.decided(tier, ruling, now, cost, fingerprint, state.resets());
        }
    }

    /// Charges every limit the same number of units: the least that a peek finds left.
    ///
    /// A limit that then refuses so many has charged another request since the peek. The thread
    /// peeks again. Such an attempt is no request, so no limit counts it as refused. The last
    /// attempt asks for one unit. (At the end of the clock's time a word may refuse what it shows
    /// as left, because it has no room for the payload.)
    #[cold]
    #[inline(never)]
    fn take_what_each_has<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        most: u64,
        time: &impl Fn() -> Timestamp,
    ) -> Decision<'l, N> {
        for _ in 0..MAX_RETRIES {
            let left = self.peek(tier, fingerprint, 0, time()).remaining();
            let cost = left.max(1).min(most);
            if cost <= 1 {
                break;
            }
            let decision = self.charge(tier, fingerprint, cost, Some(Charging::Uncounted), time);
            if let Some(decision) = decision.filter(Decision::is_allowed) {
                return decision;
            }
        }
        let decision = self.charge(tier, fingerprint, most.min(1), None, time);
        let Some(decision) = decision else { unreachable!("every rule decides plain requests") };
        decision
    }

    /// Charges over the limit if need be, each limit as far as its word has room, and tells the
    /// observer. The decision's cost is the least that any of them was charged: what all of them
    /// can give back.
    ///
    /// Nothing is undone. A change of the quotas in the middle leaves the limits before it debited
    /// under the old ones, and those give nothing back.
    #[cold]
    #[inline(never)]
    pub(super) fn debit<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        fingerprint: Fingerprint,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Result<Decision<'l, N>, DebitError> {
        let (state, limits) = (self.versions.state(), self.tables.limits());
        let tier = self.versions.renewed(tier);
        let now = time();
        if !(0..limits).all(|place| keeps_debts(tier.rule(place))) {
            return Err(DebitError::NoDebt);
        }
        if cost == 0 {
            return Ok(self.observer.tell(self.peek(tier, fingerprint, 0, now)));
        }
        let mut pending = self.begin(state, tier, fingerprint, cost, now);
        for (place, table) in self.tables.iter().enumerate().filter(|_| limits > 1) {
            let rule = tier.by_ref(place);
            if !table.look(Ask { rule, fingerprint, cost: 1 }, now).has_room() {
                table.events(fingerprint).refused_full();
                return Err(DebitError::Full);
            }
        }
        for place in 0..limits {
            let units = loop {
                match self.debit_limit(pending.tier, place, fingerprint, cost, &time) {
                    Debit::Charged(ruling, units, now) => {
                        pending.set(place, ruling);
                        let latest = pending.answer.now.max(now);
                        pending.answer.now = if limits == 1 { now } else { latest };
                        break units;
                    }
                    Debit::Full if limits == 1 => return Err(DebitError::Full),
                    // Other keys have taken the room since the probe.
                    Debit::Full => break 0,
                    Debit::Ended(later) => {
                        (pending.tier, pending.answer.by) = (later, &later.decided_by);
                        let places = &mut pending.answer.decided_on[..place];
                        places.iter_mut().for_each(|place| *place = DecidedOn::NONE.on(Basis::Uncounted));
                    }
                }
            };
            if units == 0 {
                pending.show_without_request(place);
            }
            pending.answer.cost = pending.answer.cost.min(units);
        }
        if limits == 1 {
            pending.answer.since = pending.answer.now;
        } else {
            pending.answer.now = pending.tier.within(pending.answer.now);
        }
        Ok(self.observer.tell(pending.answer))
    }

    /// Debits one limit, by the rule of one version.
    fn debit_limit<'l>(
        &'l self,
        tier: &'l Tier<A::Rule, N>,
        place: usize,
        fingerprint: Fingerprint,
        cost: u64,
        time: &impl Fn() -> Timestamp,
    ) -> Debit<'l, A::Rule, N> {
        // No word holds more.
        let cost = cost.min(1 << PAYLOAD_BITS);
        let VersionedRef { pure: rule, validity } = tier.by_ref(place);
        for _ in 0..MAX_RETRIES {
            let units = Cell::new(0);
            let rule = AsMuch::over(rule, validity.last(), &units);
            let ask = Ask { rule: VersionedRef { pure: &rule, validity }, fingerprint, cost };
            let (ruling, now) = self.tables[place].check_anywhere(ask, time(), time);
            if ruling.allowed {
                return Debit::Charged(ruling, units.get(), now);
            }
            if let Some(later) = self.versions.after_all(tier) {
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
