//! Counts of a limiter. Never by key: a client must not be able to make a metric grow.

mod trips;

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate::{Counters, Outcome};

use crate::answer::DecidedBy;
use crate::failed::{Charged, Failed, FailureKind};
use crate::guard::BreakerCounts;
use crate::lease::LeaseCounts;
pub use trips::TripCounts;
use trips::Trips;

/// What a limiter counts as it decides.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    decisions: [Counters; DecidedBy::ALL.len()],
    failed: [AtomicU64; FailureKind::ALL.len()],
    charged_perhaps: AtomicU64,
    shadow_dropped: AtomicU64,
    pub(crate) trips: Trips,
}

/// What a limiter has counted. While it decides, each number is one that was true at some time
/// during the call.
///
/// # Examples
///
/// ```
/// use tollgate_redis::{Counts, DecidedBy, FailureKind};
///
/// fn report(counts: &Counts) {
///     for by in DecidedBy::ALL {
///         let decided = counts.decided(by);
///         println!("decisions{{by={:?}}} {} {}", by, decided.allowed, decided.denied);
///     }
///     println!("timeouts {}", counts.failed(FailureKind::Timeout));
///     println!("breaker open: {}", counts.breaker.is_open);
/// }
/// # let _ = report;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    decisions: [tollgate::Counts; DecidedBy::ALL.len()],
    failed: [u64; FailureKind::ALL.len()],
    /// Failed requests that the store may have charged.
    pub charged_perhaps: u64,
    /// Remembered refusals that another key displaced before their end.
    pub deny_cache_evicted: u64,
    /// Checks in shadow mode that were not made, because too many had not ended.
    pub shadow_dropped: u64,
    /// Trips to the store.
    pub trips: TripCounts,
    /// Permits taken ahead: [`Mode::Leased`](crate::Mode::Leased).
    pub leases: LeaseCounts,
    /// The breaker of the store. All limiters of one [`Redis`](crate::Redis) share it.
    pub breaker: BreakerCounts,
}

impl Counts {
    /// The decisions made in this way: those of [`DecidedBy::DenyCache`] are the cache's hits.
    #[must_use]
    pub fn decided(&self, by: DecidedBy) -> tollgate::Counts {
        self.decisions[by.index()]
    }

    /// The requests to the store that failed in this way, by [`Failed::cause`].
    /// [`OnFailure`](crate::OnFailure) says what decided them.
    #[must_use]
    pub fn failed(&self, kind: FailureKind) -> u64 {
        self.failed[kind.index()]
    }
}

impl Metrics {
    pub(crate) fn decided(&self, by: DecidedBy, outcome: Outcome) {
        self.decisions[by.index()].count(outcome);
    }

    pub(crate) fn failed(&self, failed: &Failed) {
        self.failed[failed.cause().index()].fetch_add(1, Relaxed);
        if failed.charged == Charged::Perhaps {
            self.charged_perhaps.fetch_add(1, Relaxed);
        }
    }

    /// Counts a check in shadow mode that is not made.
    pub(crate) fn dropped(&self) {
        self.shadow_dropped.fetch_add(1, Relaxed);
    }

    pub(crate) fn counts(&self, breaker: BreakerCounts, deny_cache_evicted: u64) -> Counts {
        Counts {
            decisions: array::from_fn(|by| self.decisions[by].counts()),
            failed: array::from_fn(|kind| self.failed[kind].load(Relaxed)),
            charged_perhaps: self.charged_perhaps.load(Relaxed),
            deny_cache_evicted,
            shadow_dropped: self.shadow_dropped.load(Relaxed),
            trips: self.trips.counts(),
            leases: LeaseCounts::default(),
            breaker,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_and_failures_are_counted_apart() {
        let metrics = Metrics::default();
        metrics.decided(DecidedBy::Store, Outcome::Allowed);
        metrics.decided(DecidedBy::DenyCache, Outcome::Denied);
        metrics.decided(DecidedBy::DenyCache, Outcome::Denied);
        metrics.failed(&Failed::timeout());
        metrics.failed(&Failed::breaker_open(None));
        metrics.failed(&Failed::breaker_open(Some(FailureKind::Auth)));
        let counts = metrics.counts(BreakerCounts::default(), 3);
        let both = [DecidedBy::Store, DecidedBy::DenyCache].map(|by| counts.decided(by));
        assert_eq!((both[0].allowed, both[0].denied, both[1].allowed, both[1].denied), (1, 0, 0, 2));
        use FailureKind::{Auth, BreakerOpen, Memory, Timeout};
        assert_eq!([Timeout, BreakerOpen, Auth, Memory].map(|kind| counts.failed(kind)), [1, 1, 1, 0]);
        assert_eq!((counts.charged_perhaps, counts.deny_cache_evicted), (1, 3));
    }
}
