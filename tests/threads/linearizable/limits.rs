//! The limits of the histories, for both sides: small ones, so that threads contend for them.

use std::fmt;

use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, Resolution, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_model::{Algorithm, CountPolicy, Model};

/// The period of each limit, in nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;

/// `most` units at once or in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    kind: Kind,
    pub(crate) most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bucket,
    Queue,
    Fixed,
    Intervals,
    FirstHitBucket,
    FirstHitWindow,
    Sliding,
    SubWindows,
    Log,
}

/// Every algorithm.
pub(crate) const LIMITS: &[Limit] = &[
    Limit { kind: Kind::Bucket, most: 3 },
    Limit { kind: Kind::Fixed, most: 4 },
    Limit { kind: Kind::Log, most: 3 },
    Limit { kind: Kind::Intervals, most: 3 },
    Limit { kind: Kind::FirstHitBucket, most: 3 },
    Limit { kind: Kind::FirstHitWindow, most: 4 },
    Limit { kind: Kind::Queue, most: 3 },
    Limit { kind: Kind::Sliding, most: 4 },
    Limit { kind: Kind::SubWindows, most: 4 },
];

impl Limit {
    /// Returns whether the times are in a ring: the other fields of a decision are then read later.
    pub(crate) fn is_log(&self) -> bool {
        self.kind == Kind::Log
    }

    /// Returns whether a refund may be less than the whole units in its answer.
    pub(crate) fn gives_back_parts(&self) -> bool {
        matches!(self.kind, Kind::Bucket | Kind::Queue)
    }

    pub(crate) fn quota(&self) -> Quota {
        let rate = Rate::per_second(self.most);
        match self.kind {
            Kind::Bucket => TokenBucket::new(rate).into(),
            Kind::Queue => LeakyBucket::queue(rate).into(),
            Kind::Fixed => FixedWindow::new(rate).into(),
            Kind::Intervals => TokenBucket::new(rate).by_intervals().into(),
            Kind::FirstHitBucket => TokenBucket::new(rate).from_first_hit().into(),
            Kind::FirstHitWindow => FixedWindow::new(rate).from_first_hit().into(),
            Kind::Sliding => SlidingWindow::new(rate).into(),
            Kind::SubWindows => SlidingWindow::new(rate).subwindows(3).into(),
            Kind::Log => SlidingLog::new(rate).into(),
        }
    }

    pub(crate) fn model(&self, resolution: Resolution) -> Model {
        let Self { kind, most } = *self;
        let Resolution { grains, ceiling, granule, tick: tick_ns, .. } = resolution;
        let (burst, initial, period_ns) = (most, most, SECOND);
        let (limit, window_ns, origin_ns, count) = (most, SECOND, 0, CountPolicy::Allowed);
        Model::new(match kind {
            Kind::Bucket => {
                Algorithm::TokenBucket { count: most, period_ns: SECOND, burst: most, initial: most, grains }
            }
            Kind::Queue => Algorithm::LeakyQueue { count: most, period_ns: SECOND, capacity: most, grains },
            Kind::Fixed => Algorithm::FixedWindow { limit, window_ns, origin_ns, count, ceiling },
            Kind::Intervals => {
                Algorithm::IntervalBucket { count: most, period_ns, origin_ns, burst, initial }
            }
            Kind::FirstHitBucket => {
                Algorithm::FirstHitBucket { count: most, period_ns, burst, initial, tick_ns }
            }
            Kind::FirstHitWindow => Algorithm::FirstHitWindow { limit, window_ns, tick_ns, count, ceiling },
            Kind::Sliding => {
                Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule }
            }
            Kind::SubWindows => {
                Algorithm::SubWindows { limit, window_ns, subwindows: 3, origin_ns, count, ceiling, granule }
            }
            Kind::Log => Algorithm::SlidingLog { limit, window_ns, count },
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota().fmt(f)
    }
}
