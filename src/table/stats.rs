//! Counters of changes of the table's membership. A check of a known key touches none of them.

use crossbeam_utils::CachePadded;

use crate::sync::{Tally, TallyOrdering::Relaxed};
use crate::table::basis::Basis;

/// How often the table's membership changed, since the limiter was built.
///
/// Counted when a key is inserted, a bucket is full or threads meet. A check of a known key counts
/// nothing, unless another thread charges the key at the same time. Each of several limits counts
/// what its own table does, as if it were alone. Those of several limiters can be
/// [summed](Iterator::sum).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys inserted into a vacant slot.
    pub inserted: u64,
    /// Keys inserted into the slot of a key whose debt had expired.
    pub recycled: u64,
    /// Keys that inherited a slot with its debt, because their bucket was full.
    pub evicted_with_debt: u64,
    /// Requests of new keys that a full bucket's shared allowance admitted or refused.
    pub shared: u64,
    /// Requests refused because their bucket was full, or by the debt that a new key inherited.
    pub refused_full: u64,
    /// Requests admitted uncounted because their bucket was full (`WhenFull::Allow`).
    pub admitted_uncounted: u64,
    /// How often a charge was retried, because another thread had changed the key's word: how much
    /// threads contend. A [lease](crate::Account::lease) avoids that.
    pub retried: u64,
    /// How often the clock stepped back, as far as the two readings of an insertion show it.
    pub clock_stepped_back: u64,
    /// Units that refunds asked back, that the key still owes, and that did not come back: an upper
    /// bound of what was lost. Those that time has paid do not count.
    ///
    /// A queue and a log give back the newest request only. A bucket loses some where more requests
    /// of one key come back out of order than it remembers.
    pub refunds_short: u64,
}

impl std::iter::Sum for Stats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut total, stats| {
            total.inserted += stats.inserted;
            total.recycled += stats.recycled;
            total.evicted_with_debt += stats.evicted_with_debt;
            total.shared += stats.shared;
            total.refused_full += stats.refused_full;
            total.admitted_uncounted += stats.admitted_uncounted;
            total.retried += stats.retried;
            total.clock_stepped_back += stats.clock_stepped_back;
            total.refunds_short += stats.refunds_short;
            total
        })
    }
}

/// The counters of one stripe, on cache lines of their own.
#[derive(Debug)]
pub(crate) struct Events(CachePadded<[Tally; 8]>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(std::array::from_fn(|_| Tally::new(0))))
    }

    fn count(&self, event: usize) {
        self.0[event].fetch_add(1, Relaxed);
    }

    pub(crate) fn inserted(&self, recycled: bool) {
        self.count(usize::from(recycled));
    }

    pub(crate) fn evicted_with_debt(&self) {
        self.count(2);
    }

    pub(crate) fn shared(&self) {
        self.count(3);
    }

    pub(crate) fn refused_full(&self) {
        self.count(4);
    }

    /// Counts a refusal on this basis, if it is a full bucket's.
    pub(crate) fn refused(&self, basis: Basis) {
        match basis {
            Basis::Shared => self.shared(),
            Basis::Full | Basis::Inherited => self.refused_full(),
            Basis::Own | Basis::Foreseen | Basis::Uncounted => {}
        }
    }

    pub(crate) fn admitted_uncounted(&self) {
        self.count(5);
    }

    pub(crate) fn retried(&self, times: u64) {
        if times > 0 {
            self.0[6].fetch_add(times, Relaxed);
        }
    }

    pub(crate) fn clock_stepped_back(&self) {
        self.count(7);
    }

    /// Adds these counts to `stats`.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let [
            inserted,
            recycled,
            evicted_with_debt,
            shared,
            refused_full,
            admitted_uncounted,
            retried,
            clock_stepped_back,
        ] = std::array::from_fn(|event| self.0[event].load(Relaxed));
        stats.inserted += inserted;
        stats.recycled += recycled;
        stats.evicted_with_debt += evicted_with_debt;
        stats.shared += shared;
        stats.refused_full += refused_full;
        stats.admitted_uncounted += admitted_uncounted;
        stats.retried += retried;
        stats.clock_stepped_back += clock_stepped_back;
    }
}
