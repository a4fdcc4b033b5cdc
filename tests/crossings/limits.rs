//! The limits of the programs: their numbers are small and whole, so that nothing is rounded.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{
    CountPolicy, FixedWindow, GlobalLimiter, LeakyBucket, ManualClock, Quota, Rate, SlidingLog,
    SlidingWindow, TokenBucket,
};
use tollgate_model::{Algorithm, CountPolicy as ModelCount};

/// The Unix time of every clock's zero: no window begins there.
pub(crate) const ORIGIN: u64 = 1_700_000_000_123_456_789;

/// The shortest window that leaves room for the counts beside its number, also in parts.
pub(crate) const SHORTEST: u64 = 1_000_000_000;

/// For so long a clock must run, in nanoseconds: words have room for that at least.
pub(crate) const TEN_YEARS: u64 = 315_576_000_000_000_000;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bucket,
    Meter,
    Queue,
    Fixed,
    Intervals,
    FirstHitBucket,
    FirstHitWindow,
    Sliding,
    SubWindows,
    Log,
}

pub(crate) const KINDS: [Kind; 10] = [
    Kind::Bucket,
    Kind::Meter,
    Kind::Queue,
    Kind::Fixed,
    Kind::Intervals,
    Kind::FirstHitBucket,
    Kind::FirstHitWindow,
    Kind::Sliding,
    Kind::SubWindows,
    Kind::Log,
];

/// A quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    /// The most that is admitted at once.
    pub(crate) most: u64,
    /// Nanoseconds: in which a bucket refills one unit, or the length of the window.
    pub(crate) nanos: u64,
}

impl Kind {
    /// The three whose debt runs out evenly.
    pub(crate) fn is_bucket(self) -> bool {
        matches!(self, Self::Bucket | Self::Meter | Self::Queue)
    }

    /// Whether a request can wait for its turn.
    pub(crate) fn has_turns(self) -> bool {
        self.is_bucket() || self == Self::Intervals
    }

    /// Whether units come back one by one, each at the end of an interval.
    pub(crate) fn refills_by_steps(self) -> bool {
        matches!(self, Self::Intervals | Self::FirstHitBucket)
    }

    /// Whether it can be reconfigured to another period, by every `Inherit`.
    pub(crate) fn converts(self) -> bool {
        self.is_bucket() || self == Self::Fixed
    }
}

impl Limit {
    pub(crate) fn quota(self) -> Quota {
        let Self { kind, most, nanos } = self;
        let (unit, window) =
            (Rate::new(1, Duration::from_nanos(nanos)), Rate::new(most, Duration::from_nanos(nanos)));
        let allowed = CountPolicy::Allowed;
        match kind {
            Kind::Bucket => TokenBucket::new(unit).burst(most).into(),
            Kind::Meter => LeakyBucket::meter(unit).capacity(most).into(),
            Kind::Queue => LeakyBucket::queue(unit).capacity(most).into(),
            Kind::Fixed => FixedWindow::new(window).count(allowed).into(),
            Kind::Intervals => TokenBucket::new(unit).burst(most).by_intervals().into(),
            Kind::FirstHitBucket => TokenBucket::new(unit).burst(most).from_first_hit().into(),
            Kind::FirstHitWindow => FixedWindow::new(window).count(allowed).from_first_hit().into(),
            Kind::Sliding => SlidingWindow::new(window).count(allowed).into(),
            Kind::SubWindows => SlidingWindow::new(window).subwindows(4).count(allowed).into(),
            Kind::Log => SlidingLog::new(window).count(allowed).into(),
        }
    }

    /// The same for the model.
    pub(crate) fn algorithm(self) -> Algorithm {
        let Self { kind, most, nanos } = self;
        let (count, ceiling, granule) = (ModelCount::Allowed, u64::MAX, 1);
        let (limit, window_ns, origin_ns) = (most, nanos, ORIGIN);
        match kind {
            Kind::Bucket => Algorithm::TokenBucket {
                count: 1,
                period_ns: nanos,
                burst: most,
                initial: most,
                grains: None,
            },
            Kind::Meter => Algorithm::LeakyMeter { count: 1, period_ns: nanos, capacity: most, grains: None },
            Kind::Queue => Algorithm::LeakyQueue { count: 1, period_ns: nanos, capacity: most, grains: None },
            Kind::Fixed => Algorithm::FixedWindow { limit, window_ns, origin_ns, count, ceiling },
            Kind::Intervals => Algorithm::IntervalBucket {
                count: 1,
                period_ns: nanos,
                origin_ns,
                burst: most,
                initial: most,
            },
            Kind::FirstHitBucket => Algorithm::FirstHitBucket {
                count: 1,
                period_ns: nanos,
                burst: most,
                initial: most,
                tick_ns: self.tick(),
            },
            Kind::FirstHitWindow => {
                Algorithm::FirstHitWindow { limit, window_ns, tick_ns: self.tick(), count, ceiling }
            }
            Kind::Sliding => {
                Algorithm::SlidingWindow { limit, window_ns, origin_ns, count, ceiling, granule }
            }
            Kind::SubWindows => {
                Algorithm::SubWindows { limit, window_ns, subwindows: 4, origin_ns, count, ceiling, granule }
            }
            Kind::Log => Algorithm::SlidingLog { limit, window_ns, count },
        }
    }

    /// Nanoseconds after which no debt of this limit can be left.
    pub(crate) fn expires(self) -> u64 {
        match self.kind {
            kind if kind.refills_by_steps() => (self.most + 1) * self.nanos,
            kind if kind.is_bucket() => self.most * self.nanos,
            _ => 2 * self.nanos,
        }
    }

    /// The engine's tick, in nanoseconds.
    fn tick(self) -> u64 {
        let limiter = GlobalLimiter::builder(self.quota()).clock(ManualClock::new()).build();
        limiter.expect("the limit is valid").resolution().tick
    }

    /// The end of the window in which this time lies.
    pub(crate) fn end_of_window(self, at: u64) -> u64 {
        at + self.nanos - (ORIGIN + at) % self.nanos
    }
}

/// Numbers for a limit: the most, and nanoseconds.
fn numbers() -> impl Strategy<Value = (u64, u64)> {
    let nanos =
        prop_oneof![1 => 1_u64..4, 2 => Just(1_000_u64), 2 => Just(1_000_000_000_u64), 1 => 1_u64..5_000];
    (prop_oneof![3 => 1_u64..6, 2 => 1_u64..25], nanos)
}

/// A limit of this algorithm.
pub(crate) fn limit(kind: Kind) -> impl Strategy<Value = Limit> {
    numbers().prop_map(move |(most, nanos)| {
        let nanos = if kind.is_bucket() { nanos } else { SHORTEST.max(nanos * 4) };
        Limit { kind, most, nanos }
    })
}
