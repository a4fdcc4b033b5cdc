//! The algorithms that `tune` tries, each at any limit.

use std::time::Duration;

use tollgate::{BuildError, CountPolicy, GlobalLimiter, Limiter, ManualClock, Quota, Rate};

use crate::spec::Spec;
use crate::timelines::Request;

/// An algorithm whose only free number is its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    SlidingWindow,
    SlidingLog,
}

impl Algorithm {
    pub(super) const ALL: [Self; 5] =
        [Self::TokenBucket, Self::LeakyBucket, Self::FixedWindow, Self::SlidingWindow, Self::SlidingLog];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// The algorithm with this limit, which is also its burst or its capacity.
    pub(super) fn with_limit(self, limit: u64, period: Duration) -> Spec {
        let (rate, count) = (Rate::new(limit, period), CountPolicy::Allowed);
        match self {
            Self::TokenBucket => Spec::TokenBucket { rate, burst: limit, initial: limit, intervals: false },
            Self::LeakyBucket => Spec::LeakyBucket { rate, capacity: limit, queue: false },
            Self::FixedWindow => Spec::FixedWindow { rate, count },
            Self::SlidingWindow => Spec::SlidingWindow { rate, subwindows: None, count },
            Self::SlidingLog => Spec::SlidingLog { rate, count },
        }
    }
}

/// Replays the requests of single keys under one algorithm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    pub(super) algorithm: Algorithm,
    pub(super) period: Duration,
    /// Unix time of the first record.
    pub(super) start_ns: u64,
}

impl Trial {
    /// How many of these requests are refused at `limit`.
    ///
    /// # Errors
    ///
    /// When the engine does not accept the limit.
    pub(super) fn refused(self, limit: u64, requests: &[Request]) -> Result<u64, BuildError> {
        let limiter = self.limiter(limit)?;
        let refused =
            |request: &Request| !limiter.account(()).at(request.at).check_n(request.cost).is_allowed();
        Ok(requests.iter().map(|request| u64::from(refused(request))).sum())
    }

    /// Whether `limit` admits all these requests. `false` for a limit that the engine does not
    /// accept.
    pub(super) fn admits_all(self, limit: u64, requests: &[Request]) -> bool {
        let limiter = self.limiter(limit);
        limiter.is_ok_and(|limiter| {
            requests
                .iter()
                .all(|request| limiter.account(()).at(request.at).check_n(request.cost).is_allowed())
        })
    }

    /// The largest limit that the engine accepts; an error when there is none.
    pub(super) fn largest(self) -> Result<u64, BuildError> {
        let mut limit = u64::MAX;
        loop {
            match self.limiter(limit) {
                Ok(_) => return Ok(limit),
                Err(BuildError::OutOfRange { field: "rate.count" | "burst" | "capacity", max, .. })
                    if max > 0 && limit > 1 =>
                {
                    limit = u64::try_from(max).unwrap_or(u64::MAX).min(limit - 1);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn limiter(self, limit: u64) -> Result<GlobalLimiter<Quota, 1, ManualClock>, BuildError> {
        let clock = ManualClock::starting_at(Duration::from_nanos(self.start_ns));
        Limiter::builder(self.algorithm.with_limit(limit, self.period).quota())
            .memory_budget(usize::MAX)
            .clock(clock)
            .build()
    }
}
