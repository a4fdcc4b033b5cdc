//! The counters of a listener.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tollgate_rules::{Ruling, Verdict};

use super::histogram::{Buckets, Histogram};
use crate::clock::ServerClock;
use crate::listen::Unfinished;
use crate::workers::PerWorker;

/// The bounds of a request's time, in nanoseconds.
pub(super) const TIMES: [u64; 14] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    1_000_000_000,
];

/// Which listener a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listener {
    Http,
    Admin,
    Grpc,
    Resp,
    Proxy,
}

impl Listener {
    /// All, in the order of their declaration.
    pub(crate) const ALL: [Self; 5] = [Self::Http, Self::Admin, Self::Grpc, Self::Resp, Self::Proxy];

    /// As labels and messages say it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Admin => "admin",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Proxy => "proxy",
        }
    }
}

/// What became of a request, all rules together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    Allowed,
    /// No rule concerns it.
    Unmatched,
    Limited,
    CostAboveLimit,
    NoKey,
    Blocked,
    /// A rule's store does not answer.
    Unavailable,
}

impl Decided {
    /// As labels say it, in the order of the declaration.
    pub(super) const NAMES: [&str; 7] =
        ["allowed", "unmatched", "limited", "cost_above_limit", "no_key", "blocked", "unavailable"];

    pub(super) fn of(verdict: &Verdict<'_, ServerClock>) -> Self {
        match verdict.outcome() {
            Ruling::Admitted if verdict.is_unmatched() => Self::Unmatched,
            Ruling::Admitted => Self::Allowed,
            Ruling::Refused => Self::Limited,
            Ruling::Never => Self::CostAboveLimit,
            Ruling::NoKey => Self::NoKey,
            Ruling::Blocked => Self::Blocked,
            Ruling::Unavailable => Self::Unavailable,
        }
    }
}

/// The counters of a listener.
pub(crate) struct ListenerCounts {
    stripes: PerWorker<Stripe>,
    open: Arc<AtomicU64>,
    accepted: AtomicU64,
    most: AtomicU64,
    pub(super) unfinished: Arc<Unfinished>,
}

#[derive(Default)]
struct Stripe {
    decided: [AtomicU64; Decided::NAMES.len()],
    times: Buckets<15>,
}

/// Counts a connection as open until it is dropped.
pub(crate) struct OpenConnection(Arc<AtomicU64>);

impl ListenerCounts {
    pub(super) fn new() -> Self {
        Self {
            stripes: PerWorker::counters(),
            open: Arc::default(),
            accepted: AtomicU64::new(0),
            most: AtomicU64::new(0),
            unfinished: Arc::default(),
        }
    }

    #[inline]
    pub(super) fn decided(&self, decided: Decided) {
        self.stripes.here().decided[decided as usize].fetch_add(1, Relaxed);
    }

    #[inline]
    pub(super) fn took(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.stripes.here().times.add(nanos, &TIMES);
    }

    pub(super) fn connection(&self) -> OpenConnection {
        self.open.fetch_add(1, Relaxed);
        self.accepted.fetch_add(1, Relaxed);
        OpenConnection(Arc::clone(&self.open))
    }

    /// The decisions, in the order of [`Decided::NAMES`].
    pub(crate) fn decisions(&self) -> [u64; Decided::NAMES.len()] {
        let mut sums = [0; Decided::NAMES.len()];
        for stripe in self.stripes.all() {
            for (sum, own) in sums.iter_mut().zip(&stripe.decided) {
                *sum += own.load(Relaxed);
            }
        }
        sums
    }

    pub(super) fn times(&self) -> Histogram<15> {
        Histogram::of(self.stripes.all().map(|stripe| &stripe.times))
    }

    /// Adds the bound of an address.
    pub(super) fn add_most(&self, most: usize) {
        self.most.fetch_add(most as u64, Relaxed);
    }

    /// The most connections, all addresses together.
    pub(super) fn most(&self) -> u64 {
        self.most.load(Relaxed)
    }

    /// The connections that are open, and all that were accepted.
    pub(crate) fn connections(&self) -> (u64, u64) {
        (self.open.load(Relaxed), self.accepted.load(Relaxed))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
