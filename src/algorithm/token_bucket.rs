//! The token bucket.

use std::fmt;

use crate::algorithm::gcra::Gcra;
use crate::algorithm::refill::Bucket;
use crate::algorithm::{Algorithm, Compile, Transition};
use crate::error::{BuildError, within};
use crate::rate::Rate;

/// A token bucket: holds at most `burst` tokens and refills continuously at `rate`, or
/// [by intervals](Self::by_intervals). A request takes its cost or is refused.
///
/// **Guarantee.** At most `burst + rate * D` is admitted in any interval of length `D`, and the
/// long-run rate is the configured one without rounding. Both are exact when the rate in lowest
/// terms (tokens in nanoseconds) has a numerator of at most 7 (such as `100/s`, `60/min`, `7/s`)
/// and the bucket refills within ten years, or of at most 14 and the bucket refills within months.
/// For other rates a token may come up to one [grain](crate::Resolution::grains) early; the error
/// does not accumulate.
///
/// A full bucket and the refill together admit up to `burst + count` in the first period: twice the
/// limit, unless the burst is another. Where that matters, see [`initial`](Self::initial) or use a
/// window algorithm.
///
/// **No warm-up**, as Guava's `SmoothWarmingUp` has: it would slow a key down after idle time,
/// which takes more state than a key's one word. A limiter protects the server behind it, and
/// does not shape its cold start.
///
/// **Formula.** GCRA: with `TAT` the instant at which the bucket is full again and
/// `I = period / count`, admitted iff `max(TAT, now) + cost * I <= now + burst * I`, and then
/// `TAT = max(TAT, now) + cost * I`.
///
/// **Memory.** One word per key. **Source.** ITU-T I.371, annex A.
///
/// # Examples
///
/// ```
/// use tollgate::{GlobalLimiter, Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::builder(TokenBucket::new(Rate::per_minute(60)).burst(2)).build()?;
/// assert!(limiter.check(()).is_allowed());
/// assert!(limiter.check(()).is_allowed());
/// assert!(!limiter.check(()).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    pub(super) rate: Rate,
    pub(super) burst: u64,
    pub(super) initial: Option<u64>,
    pub(super) intervals: bool,
}

impl TokenBucket {
    /// A bucket that refills at `rate`, holds the tokens of one period and starts full.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, burst: rate.count(), initial: None, intervals: false }
    }

    /// The most tokens that the bucket holds, and so the largest cost. From 1 to the tokens that
    /// `rate` refills in 73 years (fewer from 850 million a second on). Rates below 1,000 a second
    /// allow at least 4e12.
    #[must_use]
    pub const fn burst(mut self, tokens: u64) -> Self {
        self.burst = tokens;
        self
    }

    /// The tokens in every bucket when the limiter's clock is at zero: from 0 to `burst`, which is
    /// the default.
    ///
    /// Every bucket refills from then on, whether or not the limiter has seen its key: the tokens
    /// of a key never depend on whether the table still remembers it. A quota that
    /// [replaces](crate::Limiter::change) another one ignores this setting:
    /// [`Inherit`](crate::Inherit) says what its buckets hold.
    #[must_use]
    pub const fn initial(mut self, tokens: u64) -> Self {
        self.initial = Some(tokens);
        self
    }

    /// Refills by intervals: `rate.count()` tokens at each multiple of the period since the Unix
    /// epoch, up to `burst`, and nothing in between. Tokens that were not spent are carried over.
    /// So does Bucket4j's `refillIntervallyAligned`.
    ///
    /// **Guarantee.** At most `burst + count * (D / period + 1)` units in any time `D`, the
    /// division rounded down. Every decision is exact. All tiers share a period of at most ten
    /// years, and have counts with a common multiple that leaves room for ten years.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{GlobalLimiter, Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let clock = ManualClock::new();
    /// let quota = TokenBucket::new(Rate::per_minute(10)).burst(50).by_intervals();
    /// let limiter = Limiter::builder(quota).clock(clock.clone()).build()?;
    /// clock.advance(Duration::from_secs(59));
    /// assert!(limiter.check_n((), 50).is_allowed());
    /// assert_eq!(limiter.check_n((), 10).retry_after(), Some(Duration::from_secs(1)));
    /// assert_eq!(limiter.check_n((), 11).retry_after(), Some(Duration::from_secs(61)));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn by_intervals(mut self) -> Self {
        self.intervals = true;
        self
    }
    /// The tokens of every bucket at the clock's zero.
    pub(super) fn initial_tokens(&self) -> Result<u64, BuildError> {
        let initial = self.initial.unwrap_or(self.burst);
        within("initial", initial, 0_u64, self.burst)?;
        Ok(initial)
    }
}

impl fmt::Display for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token-bucket:{},burst={}", self.rate, self.burst)?;
        self.initial.map_or(Ok(()), |tokens| write!(f, ",initial={tokens}"))?;
        if self.intervals { write!(f, ",intervals") } else { Ok(()) }
    }
}

impl Algorithm for TokenBucket {}

impl Compile for TokenBucket {
    type Rule = Gcra;

    fn saved_as(&self) -> String {
        // A bucket that begins full, said or not.
        Self { initial: self.initial.filter(|&tokens| tokens != self.burst), ..*self }.to_string()
    }

    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<Gcra>, BuildError> {
        let mut rules = Gcra::tiers(&buckets(tiers, origin), None)?;
        let tokens = tiers.iter().map(Self::initial_tokens).collect::<Result<Vec<_>, _>>()?;
        Gcra::start_with(&mut rules, tokens.into_iter());
        Ok(rules)
    }

    fn recompile(
        tiers: &[Self],
        origin: u64,
        olds: &[Gcra],
        change: Transition<'_>,
    ) -> Result<Vec<Gcra>, BuildError> {
        Gcra::tiers(&buckets(tiers, origin), Some((olds, change)))
    }
}

fn buckets(tiers: &[TokenBucket], origin: u64) -> Vec<Bucket> {
    let bucket = |tier: &TokenBucket| {
        let intervals = tier.intervals.then_some(origin);
        Bucket { rate: tier.rate, burst: tier.burst, burst_name: "burst", queue: false, intervals }
    };
    tiers.iter().map(bucket).collect()
}
