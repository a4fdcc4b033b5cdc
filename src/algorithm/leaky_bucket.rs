//! The leaky bucket, as a meter and as a queue.

use std::fmt;

use crate::algorithm::gcra::Gcra;
use crate::algorithm::refill::Bucket;
use crate::algorithm::{Algorithm, Compile, Transition};
use crate::error::BuildError;
use crate::rate::Rate;

/// A leaky bucket: `capacity` units of room, drained continuously at `rate`.
///
/// As a **meter** it refuses a request that would overflow it. An admitted request may act at once.
/// As a **queue** it admits the same requests and gives each a departure time: the first departs at
/// once, the next one interval later, and so on in the order of admission.
/// [`Decision::delay`](crate::Decision::delay) says how long to wait. A queue refuses when
/// `capacity` units are waiting or departing.
///
/// **Guarantee.** Meter: at most `capacity + rate * D` is admitted in any interval of length `D`.
/// Queue: departures of one key are at least one interval per unit of cost apart and never change
/// order. As exact as the [`TokenBucket`](crate::TokenBucket), which a leaky bucket mirrors.
///
/// **Formula.** With `level` the units in the bucket: admitted iff `level + cost <= capacity`. The
/// word holds `TAT`, the instant at which the bucket runs empty: `level = (TAT - now) / I`. A
/// request departs at `max(TAT, now)`.
///
/// **Memory.** One word per key. **Source.** J. Turner, "New directions in communications", IEEE
/// Comm. Mag. 24 (1986); ITU-T I.371 for the word.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{LeakyBucket, Limiter, ManualClock, Rate};
///
/// let queue = LeakyBucket::queue(Rate::per_second(10)).capacity(3);
/// let limiter = Limiter::builder(queue).clock(ManualClock::new()).build()?;
/// assert_eq!(limiter.check(()).delay(), Duration::ZERO);
/// assert_eq!(limiter.check(()).delay(), Duration::from_millis(100));
/// assert_eq!(limiter.check(()).delay(), Duration::from_millis(200));
/// assert!(!limiter.check(()).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeakyBucket {
    pub(super) rate: Rate,
    pub(super) capacity: u64,
    pub(super) mode: Mode,
}

/// What a leaky bucket does with a request that it admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// The request may act at once.
    Meter,
    /// The request waits for its departure time.
    Queue,
}

impl LeakyBucket {
    /// A bucket that drains at `rate`, with room for the units of one period. Admitted requests may
    /// act at once.
    #[must_use]
    pub const fn meter(rate: Rate) -> Self {
        Self { rate, capacity: rate.count(), mode: Mode::Meter }
    }

    /// A bucket that drains at `rate`, with room for the units of one period. Admitted requests
    /// wait for their turn.
    #[must_use = "an admitted request of a queue must wait before it acts: see `Decision::delay`"]
    pub const fn queue(rate: Rate) -> Self {
        Self { rate, capacity: rate.count(), mode: Mode::Queue }
    }

    /// The room in the bucket, and so the largest cost. From 1 to the units that `rate` drains in
    /// 73 years (fewer from 850 million a second on). Rates below 1,000 a second allow at least
    /// 4e12.
    #[must_use]
    pub const fn capacity(mut self, units: u64) -> Self {
        self.capacity = units;
        self
    }
}

impl fmt::Display for LeakyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leaky-bucket:{},capacity={}", self.rate, self.capacity)?;
        if self.mode == Mode::Queue { write!(f, ",mode=queue") } else { Ok(()) }
    }
}

impl Algorithm for LeakyBucket {}

impl Compile for LeakyBucket {
    type Rule = Gcra;

    fn saved_as(&self) -> String {
        self.to_string()
    }

    fn compile(tiers: &[Self], _: u64) -> Result<Vec<Gcra>, BuildError> {
        Gcra::tiers(&buckets(tiers), None)
    }

    fn recompile(
        tiers: &[Self],
        _: u64,
        olds: &[Gcra],
        change: Transition<'_>,
    ) -> Result<Vec<Gcra>, BuildError> {
        Gcra::tiers(&buckets(tiers), Some((olds, change)))
    }
}

fn buckets(tiers: &[LeakyBucket]) -> Vec<Bucket> {
    let bucket = |tier: &LeakyBucket| {
        let queue = tier.mode == Mode::Queue;
        Bucket { rate: tier.rate, burst: tier.capacity, burst_name: "capacity", queue, intervals: None }
    };
    tiers.iter().map(bucket).collect()
}
