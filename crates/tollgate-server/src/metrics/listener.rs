//! What listeners decide.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tollgate_net::workers::PerWorker;
use tollgate_rules::{Ruling, Verdict};

use crate::clock::ServerClock;

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

/// The decisions of the listeners of one kind.
pub(super) struct Decisions(PerWorker<[AtomicU64; Decided::NAMES.len()]>);

impl Decisions {
    pub(super) fn new() -> Self {
        Self(PerWorker::counters())
    }

    #[inline]
    pub(super) fn count(&self, decided: Decided) {
        self.0.here()[decided as usize].fetch_add(1, Relaxed);
    }

    /// In the order of [`Decided::NAMES`].
    pub(super) fn sums(&self) -> [u64; Decided::NAMES.len()] {
        let mut sums = [0; Decided::NAMES.len()];
        for stripe in self.0.all() {
            for (sum, own) in sums.iter_mut().zip(stripe) {
                *sum += own.load(Relaxed);
            }
        }
        sums
    }
}
