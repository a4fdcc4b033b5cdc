//! Limits for the engine and for its model, from one description, and limits drawn at random.

use std::fmt;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{
    CountPolicy, FixedWindow, LeakyBucket, Quota, Rate, Resolution, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate_model::{Algorithm, CountPolicy as ModelCount, Model};

use crate::random::Random;

const SECOND: u64 = 1_000_000_000;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A token bucket.
    Bucket,
    /// A token bucket that refills at the ends of intervals.
    Intervals,
    /// A leaky bucket that refuses.
    Meter,
    /// A leaky bucket whose requests wait.
    Queue,
    /// A fixed window.
    Fixed,
    /// A fixed window that begins at a key's first request.
    FirstHitWindow,
    /// A sliding window of two counts.
    Sliding,
    /// A sliding window of more counts.
    SubWindows,
    /// A log of times.
    Log,
}

impl Kind {
    /// Every algorithm.
    pub const ALL: [Self; 9] = [
        Self::Bucket,
        Self::Intervals,
        Self::Meter,
        Self::Queue,
        Self::Fixed,
        Self::FirstHitWindow,
        Self::Sliding,
        Self::SubWindows,
        Self::Log,
    ];

    /// The three whose debt runs out evenly.
    pub fn is_bucket(self) -> bool {
        matches!(self, Self::Bucket | Self::Meter | Self::Queue)
    }

    /// Whether units come back one by one, each at the end of an interval.
    pub fn refills_by_steps(self) -> bool {
        self == Self::Intervals
    }

    /// Whether units refill one after another, and a key holds at most some number of them.
    pub fn refills(self) -> bool {
        self.is_bucket() || self.refills_by_steps()
    }

    /// Whether a request can wait for its turn.
    pub fn has_turns(self) -> bool {
        self.is_bucket() || self == Self::Intervals
    }

    /// Whether it can be changed to another period, by every `Inherit`.
    pub fn converts(self) -> bool {
        self.is_bucket() || self == Self::Fixed
    }

    /// Whether a key may begin with less than all.
    fn has_initial(self) -> bool {
        self == Self::Bucket || self.refills_by_steps()
    }

    /// So many units in so many nanoseconds, and as many at once.
    pub const fn limit(self, count: u64, period: u64) -> Limit {
        Limit {
            kind: self,
            count,
            period,
            burst: count,
            initial: None,
            policy: CountPolicy::Allowed,
            subwindows: 4,
        }
    }
}

/// `count` units in `period` nanoseconds. Each algorithm has some of the other settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The algorithm.
    pub kind: Kind,
    /// How many units.
    pub count: u64,
    /// In how many nanoseconds.
    pub period: u64,
    /// Where units refill: the most at once.
    pub burst: u64,
    /// What a key has at first, of token buckets; `None`: all.
    pub initial: Option<u64>,
    /// What windows and logs count.
    pub policy: CountPolicy,
    /// How many counts [`Kind::SubWindows`] has.
    pub subwindows: u32,
}

/// A duration of a limit.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// The time between two units at the limit's rate.
    Interval,
    /// The period; for sub-windows, one of them.
    Window,
    /// The time until an empty bucket is full; for windows, the whole window.
    Recovery,
}

/// How finely a limiter counts.
#[derive(Clone, Copy, Debug)]
pub struct Precision {
    /// Grains of a token.
    pub grains: Option<u64>,
    /// Where counts stop.
    pub ceiling: u64,
    /// To what closed windows round.
    pub granule: u64,
    /// Nanoseconds of a tick.
    pub tick: u64,
}

impl Precision {
    /// Every number is exact.
    pub const EXACT: Self = Self { grains: None, ceiling: u64::MAX, granule: 1, tick: 1 };
}

impl From<Resolution> for Precision {
    fn from(resolution: Resolution) -> Self {
        let Resolution { grains, ceiling, granule, tick, .. } = resolution;
        Self { grains, ceiling, granule, tick }
    }
}

impl Limit {
    /// Returns the limit with this burst.
    pub fn burst(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    /// Returns the limit's rate.
    pub fn rate(&self) -> Rate {
        Rate::new(self.count, Duration::from_nanos(self.period))
    }

    /// The most that is admitted at once.
    pub fn most(&self) -> u64 {
        if self.kind.refills() { self.burst } else { self.count }
    }

    /// Returns so many nanoseconds.
    pub fn nanos(&self, unit: Unit) -> u64 {
        match (unit, self.kind) {
            (Unit::Interval, _) => self.period / self.count.max(1),
            (Unit::Window, Kind::SubWindows) => self.period.div_ceil(self.subwindows.max(1).into()),
            (Unit::Window, _) => self.period,
            (Unit::Recovery, _) => {
                let nanos = u128::from(self.most()) * u128::from(self.period) / u128::from(self.count.max(1));
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        }
    }

    /// Returns the limit as the engine takes it.
    pub fn quota(&self) -> Quota {
        let (rate, policy) = (self.rate(), self.policy);
        let bucket = TokenBucket::new(rate).burst(self.burst);
        let bucket = self.initial.map_or(bucket, |initial| bucket.initial(initial));
        let (fixed, sliding) = (FixedWindow::new(rate).count(policy), SlidingWindow::new(rate).count(policy));
        match self.kind {
            Kind::Bucket => bucket.into(),
            Kind::Intervals => bucket.by_intervals().into(),
            Kind::Meter => LeakyBucket::meter(rate).capacity(self.burst).into(),
            Kind::Queue => LeakyBucket::queue(rate).capacity(self.burst).into(),
            Kind::Fixed => fixed.into(),
            Kind::FirstHitWindow => fixed.from_first_hit().into(),
            Kind::Sliding => sliding.into(),
            Kind::SubWindows => sliding.subwindows(self.subwindows).into(),
            Kind::Log => SlidingLog::new(rate).count(policy).into(),
        }
    }

    /// Returns the limit as the model takes it. Windows begin at multiples of their length from
    /// `origin_ns` before the clock's zero.
    pub fn algorithm(&self, precision: impl Into<Precision>, origin_ns: u64) -> Algorithm {
        let Precision { grains, ceiling, granule, tick: tick_ns } = precision.into();
        let Self { kind, count, period: period_ns, burst, subwindows, .. } = *self;
        let (limit, window_ns, capacity) = (count, period_ns, burst);
        let initial = self.initial.unwrap_or(burst);
        let policy = match self.policy {
            CountPolicy::Allowed => ModelCount::Allowed,
            CountPolicy::All => ModelCount::All,
            other => panic!("there is no model of {other:?}"),
        };
        match kind {
            Kind::Bucket => Algorithm::TokenBucket { count, period_ns, burst, initial, grains },
            Kind::Intervals => Algorithm::IntervalBucket { count, period_ns, origin_ns, burst, initial },
            Kind::Meter => Algorithm::LeakyMeter { count, period_ns, capacity, grains },
            Kind::Queue => Algorithm::LeakyQueue { count, period_ns, capacity, grains },
            Kind::Fixed => Algorithm::FixedWindow { limit, window_ns, origin_ns, count: policy, ceiling },
            Kind::FirstHitWindow => {
                Algorithm::FirstHitWindow { limit, window_ns, tick_ns, count: policy, ceiling }
            }
            Kind::Sliding => {
                Algorithm::SlidingWindow { limit, window_ns, origin_ns, count: policy, ceiling, granule }
            }
            Kind::SubWindows => {
                let count = policy;
                Algorithm::SubWindows { limit, window_ns, subwindows, origin_ns, count, ceiling, granule }
            }
            Kind::Log => Algorithm::SlidingLog { limit, window_ns, count: policy },
        }
    }

    /// Returns the model of the limit.
    pub fn model(&self, precision: impl Into<Precision>, origin_ns: u64) -> Model {
        Model::new(self.algorithm(precision, origin_ns))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota().fmt(f)
    }
}

/// Quotas as a list, whose length the compiler does not know.
pub fn list(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> Vec<Quota> {
    quotas.into_iter().map(Into::into).collect()
}

/// Every algorithm at this rate.
pub fn every(rate: Rate) -> Vec<Quota> {
    let period = rate.period().as_nanos().try_into().expect("less than centuries");
    Kind::ALL.map(|kind| kind.limit(rate.count(), period).quota()).into()
}

/// The algorithms that can count refusals, with `CountPolicy::All`.
pub fn counting_all(rate: Rate) -> Vec<Quota> {
    let period = rate.period().as_nanos().try_into().expect("less than centuries");
    let counting =
        |kind: Kind| Limit { policy: CountPolicy::All, ..kind.limit(rate.count(), period) }.quota();
    Kind::ALL.into_iter().filter(|kind| !kind.refills()).map(counting).collect()
}

/// Whether debts do not compare, so that a full bucket of the table refuses new keys.
pub fn refuses_when_full(quota: &Quota) -> bool {
    matches!(quota, Quota::SlidingWindow(_) | Quota::SlidingLog(_) | Quota::FirstHit(_))
}

/// A tiny limit for the model alone, so that a sequence meets every boundary often: of a few
/// units and nanoseconds, of any precision, and from any origin.
pub fn tiny(kind: Kind, random: &mut Random) -> Algorithm {
    let limit = Limit {
        burst: random.u64(1..=8),
        policy: if random.bool() { CountPolicy::All } else { CountPolicy::Allowed },
        subwindows: random.u32(1..=6),
        ..kind.limit(random.u64(1..=if kind.refills() { 9 } else { 8 }), random.u64(1..=30))
    };
    let limit = Limit { initial: Some(random.u64(..=limit.burst)), ..limit };
    let precision = Precision {
        // Half of the time none, else few or many.
        grains: [None, None, Some(random.u64(1..=8)), Some(1 << 20)][random.usize(..4)],
        ceiling: limit.count + random.u64(..9),
        granule: random.u64(1..=4),
        tick: [1, 1, 2, 8][random.usize(..4)],
    };
    limit.algorithm(precision, random.u64(..100))
}

/// A [`tiny`] limit of any algorithm.
pub fn any_tiny(random: &mut Random) -> Algorithm {
    tiny(Kind::ALL[random.usize(..Kind::ALL.len())], random)
}

/// Rates at which other limiters failed, and the extremes that must be accepted.
const NOTED: [(u64, u64); 14] = [
    (1, 86_400 * SECOND),
    (10_000_000_000, SECOND),
    (14_500, 60 * SECOND),
    (999_983, SECOND),
    (700_000, 3_600 * SECOND),
    (3, SECOND),
    (3, 2 * SECOND),
    (7_000_000, SECOND),
    (600_000_000, SECOND),
    (700_000_000, SECOND),
    (60, 60 * SECOND),
    (1, 3_600 * SECOND),
    (10, 100),
    (1, 10_000_000_000 * SECOND / 100),
];

/// A number from 1 to `2^bits - 1`, with every length equally likely.
fn magnitude(bits: u32) -> impl Strategy<Value = u64> {
    (0..bits, any::<u64>()).prop_map(|(bit, rest)| (1 << bit) | (rest & ((1 << bit) - 1)))
}

fn period() -> BoxedStrategy<u64> {
    let usual = select(vec![SECOND, SECOND / 4, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND]);
    prop_oneof![3 => usual, 1 => 1..=100_u64, 2 => magnitude(57)].boxed()
}

/// A count and a period: small, noted or random.
fn rate(kind: Kind) -> BoxedStrategy<(u64, u64)> {
    let small = (1..=20_u64, period());
    if kind == Kind::Log {
        return prop_oneof![4 => small, 1 => (magnitude(10), period())].boxed();
    }
    if kind.has_turns() {
        return prop_oneof![3 => small, 3 => select(NOTED.to_vec()), 2 => (magnitude(34), period())].boxed();
    }
    let noted = NOTED.iter().copied().filter(|(count, _)| *count <= 1_000_000).collect::<Vec<_>>();
    prop_oneof![4 => small, 2 => select(noted), 2 => (magnitude(24), period())].boxed()
}

/// A limit of this algorithm, small, odd or extreme, valid or not.
pub fn limit(kind: Kind) -> impl Strategy<Value = Limit> {
    let burst = prop_oneof![4 => 1..=20_u64, 1 => magnitude(20), 1 => magnitude(50)];
    let policy = prop_oneof![Just(CountPolicy::Allowed), Just(CountPolicy::All)];
    let subwindows = prop_oneof![4 => 1..=6_u32, 1 => 7..=24_u32];
    // A share of the burst, and one more or not.
    let initial = any::<Option<(u8, u8)>>();
    (rate(kind), burst, initial, policy, subwindows).prop_map(
        move |((count, period), burst, initial, policy, subwindows)| {
            let initial = initial.filter(|_| kind.has_initial()).map(|(share, more)| {
                let share = (u128::from(burst) * u128::from(share) / 255) as u64;
                burst.min(share + u64::from(more & 1))
            });
            Limit { burst, initial, policy, subwindows, ..kind.limit(count, period) }
        },
    )
}
