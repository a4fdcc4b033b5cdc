//! Permits taken from the store ahead, and spent in this process without a trip.
//!
//! Not the engine's `Lease`: that is one thread's, takes from a limiter of the same process by a
//! compare-exchange, and counts its ttl from the charge. Here tasks share a lease, the charge is a
//! trip away, and so the ttl counts from before the request was sent.

mod pace;
pub(crate) mod permits;
pub(crate) mod slot;
mod spent_permits;
mod table;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::answer::LimitAnswer;
use crate::error::within;
use crate::quota::{Kind, Limit};
use crate::{BuildError, Failed};
use permits::{Ended, Terms};
use slot::{Place, Rules};
pub(crate) use spent_permits::LeasedPermits;
use table::Table;

/// The parts that the simulation runs.
#[cfg(test)]
pub(crate) mod simulated {
    pub(crate) use super::permits::Terms;
    pub(crate) use super::slot::{Asked, Kept, Place, Rules, Slot};
}

/// Whether each check asks the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Each check asks the store.
    #[default]
    Strict,
    /// This process takes permits ahead and spends them without a trip: for keys that are checked
    /// often, of a single limit that is no queue.
    ///
    /// **Guarantee.** Over every interval of length `W`, all processes together admit at most
    /// `burst + rate * (W + ttl)`, or what the algorithm promises of an interval of length `W +
    /// ttl`: for any number of processes, also if some crash or lose answers. The store charges
    /// each permit before it is spent, and a permit is spent less than `ttl` after its request was
    /// sent, by this process's monotonic clock, or not at all. A [reset](crate::Limiter::reset)
    /// adds, once, the permits that other processes hold.
    ///
    /// **How many.** A trip for a key asks for 1 permit at first; for twice as many when the last
    /// ones are being spent within half of the ttl, half as many after some lapsed, as many as
    /// there were when there were fewer, and 1 after a refusal; never for more than `burst / (4 *
    /// nodes)`. Checks that wait for one key share a trip. Unspent permits go back after the ttl.
    /// So a key that is checked now and then is decided strictly, and so is each check of a key
    /// beyond the 4,096 that have leases at one time.
    ///
    /// **What may be refused wrongly.** While processes hold permits, others may be refused: at
    /// most three eighths of the burst in all (a process asks ahead while it holds half), for at
    /// most `ttl`; and the permits of a process that was killed. `ttl` should be at least 8 round
    /// trips, and no shorter than the [deadline](crate::RedisBuilder::deadline): with a longer
    /// deadline, the bound has that in its place.
    ///
    /// **The other verbs** are trips. A peek counts held permits as charged. A
    /// [deny cache](crate::LimiterBuilder::deny_cache) remembers refusals for at most `ttl`, since
    /// permits come back.
    ///
    /// **When the store fails**, held permits are spent until their end; then
    /// [`OnFailure`](crate::OnFailure) decides.
    Leased {
        /// How long after its request was sent a permit may be spent. From 1 ms to a minute.
        ttl: Duration,
        /// How many processes share the limit, at least 1. A wrong number costs fairness, and never
        /// the bound.
        nodes: u32,
    },
}

impl Mode {
    /// Leases of 50 ms, for so many processes.
    #[must_use]
    pub const fn leased(nodes: u32) -> Self {
        Self::Leased { ttl: Duration::from_millis(50), nodes }
    }

    /// The leases of a limiter of these limits.
    pub(crate) fn leases(self, limits: &[Limit]) -> Result<Option<Leases>, BuildError> {
        let Self::Leased { ttl, nodes } = self else { return Ok(None) };
        within("ttl", ttl.as_nanos(), 1_000_000, 60_000_000_000)?;
        within("nodes", nodes.into(), 1, u32::MAX.into())?;
        match limits {
            [limit] if limit.kind != Kind::Queue => {
                let rules = Rules { ttl, limit: limit.most, nodes };
                Ok(Some(Leases { table: Table::new(rules), totals: Totals::default() }))
            }
            [_] => Err(BuildError::Unsupported { setting: "leases of a queue" }),
            _ => Err(BuildError::Unsupported { setting: "leases of several limits" }),
        }
    }
}

/// The permits that this process took ahead. A permit that is in none of the last three is held, or
/// its lease has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseCounts {
    /// Permits that the store granted.
    pub taken: u64,
    /// Permits that requests spent, counted when their lease ends.
    pub spent: u64,
    /// Unspent permits that the store took back.
    pub returned: u64,
    /// Unspent permits that did not come back: time had won them back already, or the way back
    /// failed, or a reset made them void.
    pub lapsed: u64,
}

/// The leases of one limiter.
#[derive(Debug)]
pub(crate) struct Leases {
    pub(crate) table: Table<oneshot::Sender<Told>>,
    pub(crate) totals: Totals,
}

#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) taken: AtomicU64,
    spent: AtomicU64,
    returned: AtomicU64,
    lapsed: AtomicU64,
}

/// A trip's outcome, for a request that waited for it.
#[derive(Debug)]
pub(crate) enum Told {
    /// Its permits are spent, if it hears of them in time. `None`: there were too few, or too late.
    Granted(Option<(Place, Terms)>),
    /// The store refused this cost until then.
    Refused {
        cost: u64,
        ready: Duration,
        part: LimitAnswer,
    },
    Failed(Failed),
}

impl Leases {
    pub(crate) fn ttl(&self) -> Duration {
        self.table.rules().ttl
    }

    pub(crate) fn counts(&self) -> LeaseCounts {
        let Totals { taken, spent, returned, lapsed } = &self.totals;
        // `taken` last: each permit is counted there first.
        let [spent, returned, lapsed] = [spent, returned, lapsed].map(|total| total.load(Relaxed));
        LeaseCounts { taken: taken.load(Relaxed), spent, returned, lapsed }
    }

    /// Counts the end of a lease, of whose permits so many came back.
    pub(crate) fn ended(&self, ended: Ended, returned: u64) {
        self.totals.spent.fetch_add(ended.spent, Relaxed);
        self.totals.returned.fetch_add(returned, Relaxed);
        self.totals.lapsed.fetch_add(ended.left - returned, Relaxed);
    }
}
