//! Any of the five algorithms, chosen at run time.

use std::fmt;

use crate::algorithm::{
    Algorithm, AnyRule, Compile, CountPolicy, FirstHit, FixedWindow, LeakyBucket, Mode, SlidingLog,
    SlidingWindow, ToAny, TokenBucket, Transition,
};
use crate::error::BuildError;
use crate::rate::Rate;

/// Any of the five algorithms, for limits from a command line or a file: as text through
/// [`FromStr`](#impl-FromStr-for-Quota). With the feature `serde` it is that text in any format.
///
/// A limiter of a `Quota` decides exactly as a limiter of the algorithm, in more instructions: 107
/// for a check of a known key, where a limiter of a [`TokenBucket`] takes 87 (x86-64;
/// `cargo bench -p tollgate-bench --bench instructions`).
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Quota, Rate, SlidingWindow};
///
/// let quota: Quota = SlidingWindow::new(Rate::per_minute(100)).into();
/// let limiter = Limiter::builder(quota).per::<str>().build()?;
/// assert!(limiter.check("alice").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quota {
    /// A [`TokenBucket`].
    TokenBucket(TokenBucket),
    /// A [`LeakyBucket`].
    LeakyBucket(LeakyBucket),
    /// A [`FixedWindow`].
    FixedWindow(FixedWindow),
    /// A [`SlidingWindow`].
    SlidingWindow(SlidingWindow),
    /// A [`SlidingLog`].
    SlidingLog(SlidingLog),
    /// A fixed window [from the first hit](FirstHit).
    FirstHit(FirstHit),
}

macro_rules! from {
    ($($algorithm:ident),*) => {$(
        impl From<$algorithm> for Quota {
            fn from(algorithm: $algorithm) -> Self {
                Self::$algorithm(algorithm)
            }
        }

        /// The error is the quota, which is of another algorithm.
        impl TryFrom<Quota> for $algorithm {
            type Error = Quota;

            fn try_from(quota: Quota) -> Result<Self, Quota> {
                if let Quota::$algorithm(algorithm) = quota { Ok(algorithm) } else { Err(quota) }
            }
        }
    )*};
}
from!(TokenBucket, LeakyBucket, FixedWindow, SlidingWindow, SlidingLog, FirstHit);

macro_rules! for_quota {
    ($quota:expr, $algorithm:ident => $call:expr) => {
        match $quota {
            Quota::TokenBucket($algorithm) => $call,
            Quota::LeakyBucket($algorithm) => $call,
            Quota::FixedWindow($algorithm) => $call,
            Quota::SlidingWindow($algorithm) => $call,
            Quota::SlidingLog($algorithm) => $call,
            Quota::FirstHit($algorithm) => $call,
        }
    };
}

impl Quota {
    /// The units that are admitted per period in the long run.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{LeakyBucket, Quota, Rate};
    ///
    /// let quota = Quota::from(LeakyBucket::queue(Rate::per_second(10)).capacity(30));
    /// assert_eq!((quota.rate(), quota.limit()), (Rate::per_second(10), 30));
    /// assert!(quota.is_queue());
    /// ```
    #[must_use]
    pub const fn rate(&self) -> Rate {
        match self {
            Self::TokenBucket(bucket) => bucket.rate,
            Self::LeakyBucket(bucket) => bucket.rate,
            Self::FixedWindow(window) => window.rate,
            Self::SlidingWindow(window) => window.rate,
            Self::SlidingLog(log) => log.rate,
            Self::FirstHit(first) => first.0.rate,
        }
    }

    /// The most units that are admitted at once, and so the largest cost: the burst, the capacity,
    /// or the limit of the window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.burst,
            Self::LeakyBucket(bucket) => bucket.capacity,
            _ => self.rate().count(),
        }
    }

    /// The tokens of a bucket when the limiter's clock is at zero, if the quota sets them:
    /// [`TokenBucket::initial`].
    #[must_use]
    pub const fn initial(&self) -> Option<u64> {
        match self {
            Self::TokenBucket(bucket) => bucket.initial,
            _ => None,
        }
    }

    /// The number of parts of the window, if it is divided: [`SlidingWindow::subwindows`].
    #[must_use]
    pub const fn subwindows(&self) -> Option<u32> {
        match self {
            Self::SlidingWindow(window) => window.subwindows,
            _ => None,
        }
    }

    /// Which requests count. Buckets count only admitted ones.
    #[must_use]
    pub const fn count_policy(&self) -> CountPolicy {
        match self {
            Self::FixedWindow(window) => window.count,
            Self::SlidingWindow(window) => window.count,
            Self::SlidingLog(log) => log.count,
            Self::FirstHit(first) => first.0.count,
            Self::TokenBucket(_) | Self::LeakyBucket(_) => CountPolicy::Allowed,
        }
    }

    /// Whether the tokens of a period come back at once, at its end: [`TokenBucket::by_intervals`].
    #[must_use]
    pub const fn is_by_intervals(&self) -> bool {
        matches!(self, Self::TokenBucket(bucket) if bucket.intervals)
    }

    /// Whether admitted requests wait for a departure time: a [`LeakyBucket::queue`].
    #[must_use]
    pub const fn is_queue(&self) -> bool {
        matches!(self, Self::LeakyBucket(bucket) if matches!(bucket.mode, Mode::Queue))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for_quota!(self, algorithm => algorithm.fmt(f))
    }
}

impl Algorithm for Quota {}

impl Compile for Quota {
    type Rule = AnyRule;

    fn saved_as(&self) -> String {
        for_quota!(self, algorithm => algorithm.saved_as())
    }

    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<AnyRule>, BuildError> {
        fn all<A: Algorithm + TryFrom<Quota>>(
            tiers: &[Quota],
            origin: u64,
        ) -> Result<Vec<AnyRule>, BuildError> {
            Ok(A::compile(&same::<A>(tiers)?, origin)?.into_iter().map(ToAny::any).collect())
        }
        macro_rules! compile {
            ($($algorithm:ident),*) => {
                match tiers.first() {
                    None => Ok(Vec::new()),
                    $(Some(Self::$algorithm(_)) => all::<$algorithm>(tiers, origin),)*
                }
            };
        }
        compile!(TokenBucket, LeakyBucket, FixedWindow, SlidingWindow, SlidingLog, FirstHit)
    }

    fn recompile(
        tiers: &[Self],
        origin: u64,
        olds: &[AnyRule],
        change: Transition<'_>,
    ) -> Result<Vec<AnyRule>, BuildError> {
        let other = BuildError::CannotInherit { field: "algorithm" };
        macro_rules! recompile {
            ($($algorithm:ident as $rule:ident),*) => {
                match tiers.first() {
                    None => Ok(Vec::new()),
                    $(Some(Self::$algorithm(_)) => {
                        let tiers = same::<$algorithm>(tiers)?;
                        let olds: Option<Vec<_>> = olds.iter().map(|old| match old {
                            AnyRule::$rule(rule) => Some(*rule),
                            _ => None,
                        }).collect();
                        let rules = $algorithm::recompile(&tiers, origin, &olds.ok_or(other)?, change)?;
                        Ok(rules.into_iter().map(ToAny::any).collect())
                    })*
                }
            };
        }
        recompile!(
            TokenBucket as Gcra,
            LeakyBucket as Gcra,
            FixedWindow as Fixed,
            SlidingWindow as Sliding,
            SlidingLog as Log,
            FirstHit as FirstHit
        )
    }
}

/// The quotas of tiers, which must all be of one algorithm.
fn same<A: TryFrom<Quota>>(tiers: &[Quota]) -> Result<Vec<A>, BuildError> {
    let same = tiers.iter().map(|&quota| A::try_from(quota));
    same.collect::<Result<_, _>>().map_err(|_| BuildError::TiersDiffer { field: "algorithm" })
}
