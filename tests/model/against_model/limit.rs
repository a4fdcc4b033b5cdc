//! A limit, as a quota of the engine and as an algorithm of the model.

use std::fmt;
use std::time::Duration;

use tollgate::{
    CountPolicy, FixedWindow, LeakyBucket, Quota, Rate, Resolution, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate_model::{Algorithm, CountPolicy as ModelCount, Model};

/// `count` units in `period` nanoseconds, by one of the algorithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    pub(crate) count: u64,
    pub(crate) period: u64,
}

/// The algorithm with its settings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    TokenBucket { burst: u64, initial: Option<u64> },
    Meter { capacity: u64 },
    Queue { capacity: u64 },
    Fixed { count: CountPolicy },
    Intervals { burst: u64, initial: Option<u64> },
    FirstHitBucket { burst: u64, initial: Option<u64> },
    FirstHitWindow { count: CountPolicy },
    Sliding { count: CountPolicy },
    SubWindows { k: u32, count: CountPolicy },
    Log { count: CountPolicy },
}

/// A duration of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// The time between two units at the limit's rate.
    Interval,
    /// The period; for sub-windows, one of them.
    Window,
    /// The time until an empty bucket is full; for windows, the whole window.
    Recovery,
}

impl Limit {
    pub(crate) fn rate(&self) -> Rate {
        Rate::new(self.count, Duration::from_nanos(self.period))
    }

    pub(crate) fn is_bucket(&self) -> bool {
        use Kind::{FirstHitBucket, Intervals, Meter, Queue, TokenBucket};
        let Self { kind, .. } = self;
        matches!(
            kind,
            TokenBucket { .. } | Meter { .. } | Queue { .. } | Intervals { .. } | FirstHitBucket { .. }
        )
    }

    /// The most that is admitted at once.
    pub(crate) fn most(&self) -> u64 {
        match self.kind {
            Kind::TokenBucket { burst, .. }
            | Kind::Intervals { burst, .. }
            | Kind::FirstHitBucket { burst, .. } => burst,
            Kind::Meter { capacity } | Kind::Queue { capacity } => capacity,
            _ => self.count,
        }
    }

    pub(crate) fn nanos(&self, unit: Unit) -> u64 {
        match (unit, self.kind) {
            (Unit::Interval, _) => self.period / self.count.max(1),
            (Unit::Window, Kind::SubWindows { k, .. }) => self.period.div_ceil(k.max(1).into()),
            (Unit::Window, _) => self.period,
            (Unit::Recovery, _) => {
                let nanos = u128::from(self.most()) * u128::from(self.period) / u128::from(self.count.max(1));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        }
    }

    pub(crate) fn quota(&self) -> Quota {
        let rate = self.rate();
        let bucket = |burst, initial: Option<u64>| {
            let bucket = TokenBucket::new(rate).burst(burst);
            initial.map_or(bucket, |initial| bucket.initial(initial))
        };
        match self.kind {
            Kind::TokenBucket { burst, initial } => bucket(burst, initial).into(),
            Kind::Intervals { burst, initial } => bucket(burst, initial).by_intervals().into(),
            Kind::FirstHitBucket { burst, initial } => bucket(burst, initial).from_first_hit().into(),
            Kind::FirstHitWindow { count } => FixedWindow::new(rate).count(count).from_first_hit().into(),
            Kind::Meter { capacity } => LeakyBucket::meter(rate).capacity(capacity).into(),
            Kind::Queue { capacity } => LeakyBucket::queue(rate).capacity(capacity).into(),
            Kind::Fixed { count } => FixedWindow::new(rate).count(count).into(),
            Kind::Sliding { count } => SlidingWindow::new(rate).count(count).into(),
            Kind::SubWindows { k, count } => SlidingWindow::new(rate).subwindows(k).count(count).into(),
            Kind::Log { count } => SlidingLog::new(rate).count(count).into(),
        }
    }

    /// Returns the model of the limit, with the engine's resolution.
    pub(crate) fn model(&self, resolution: Resolution, origin_ns: u64) -> Model {
        Model::new(self.algorithm(resolution, origin_ns))
    }

    /// Returns the limit as the model takes it.
    pub(crate) fn algorithm(&self, resolution: Resolution, origin_ns: u64) -> Algorithm {
        let Self { kind, count: units, period } = *self;
        let Resolution { grains, ceiling, granule, tick: tick_ns, .. } = resolution;
        let (limit, window_ns) = (units, period);
        match kind {
            Kind::TokenBucket { burst, initial } => Algorithm::TokenBucket {
                count: units,
                period_ns: period,
                burst,
                initial: initial.unwrap_or(burst),
                grains,
            },
            Kind::Intervals { burst, initial } => {
                let initial = initial.unwrap_or(burst);
                Algorithm::IntervalBucket { count: units, period_ns: period, origin_ns, burst, initial }
            }
            Kind::FirstHitBucket { burst, initial } => {
                let initial = initial.unwrap_or(burst);
                Algorithm::FirstHitBucket { count: units, period_ns: period, burst, initial, tick_ns }
            }
            Kind::FirstHitWindow { count } => {
                Algorithm::FirstHitWindow { limit, window_ns, tick_ns, count: which(count), ceiling }
            }
            Kind::Meter { capacity } => {
                Algorithm::LeakyMeter { count: units, period_ns: period, capacity, grains }
            }
            Kind::Queue { capacity } => {
                Algorithm::LeakyQueue { count: units, period_ns: period, capacity, grains }
            }
            Kind::Fixed { count } => {
                Algorithm::FixedWindow { limit, window_ns, origin_ns, count: which(count), ceiling }
            }
            Kind::Sliding { count } => Algorithm::SlidingWindow {
                limit,
                window_ns,
                origin_ns,
                count: which(count),
                ceiling,
                granule,
            },
            Kind::SubWindows { k, count } => Algorithm::SubWindows {
                limit,
                window_ns,
                subwindows: k,
                origin_ns,
                count: which(count),
                ceiling,
                granule,
            },
            Kind::Log { count } => Algorithm::SlidingLog { limit, window_ns, count: which(count) },
        }
    }
}

fn which(count: CountPolicy) -> ModelCount {
    match count {
        CountPolicy::Allowed => ModelCount::Allowed,
        CountPolicy::All => ModelCount::All,
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota().fmt(f)
    }
}
