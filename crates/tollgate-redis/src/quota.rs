//! Quotas as the whole numbers that the scripts calculate with.
//!
//! Lua's numbers are doubles, which are exact for whole numbers up to 2^53. Time is counted in
//! whole microseconds.
//!
//! ```text
//!   bucket    a rate of p/q tokens a microsecond, in lowest terms: a token is q grains, and p
//!             grains come in each microsecond
//!                                        capacity * q + 2 * p        <= 2^53
//!                                        capacity * q + p + wait * p <= 2^53  in reservations
//!   counter   the part of the window that has passed, in units of u microseconds
//!                                        limit * width / u           <= 2^53
//! ```

use std::time::Duration;

use tollgate::{CountPolicy, Quota, Rate};

use crate::error::{BuildError, within};

/// The largest number up to which doubles represent every whole number.
const EXACT: u128 = 1 << 53;

/// The longest period, and the longest time in which a bucket refills: 100 years. Together with
/// today's time it stays below 2^53 microseconds.
const LONGEST_MICROS: u128 = 100 * 365 * 86_400 * 1_000_000;

/// The most units of a log. Each is an entry in the store, and a script blocks all clients of the
/// server: 10,000 entries take some milliseconds.
const LONGEST_LOG: u128 = 10_000;

/// The coarsest measure of a sliding counter: a thousandth of its window.
const FEWEST_UNITS: u64 = 1_000;

/// Which rule of the scripts decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bucket,
    Queue,
    Fixed,
    Sliding,
    Log,
}

impl Kind {
    /// The letter that the scripts know it by.
    pub(crate) const fn letter(self) -> &'static str {
        match self {
            Self::Bucket => "b",
            Self::Queue => "q",
            Self::Fixed => "f",
            Self::Sliding => "s",
            Self::Log => "l",
        }
    }

    /// A bit for the part of the script that it needs.
    pub(crate) const fn family(self) -> u8 {
        match self {
            Self::Bucket | Self::Queue => 1,
            Self::Fixed | Self::Sliding => 2,
            Self::Log => 4,
        }
    }

    pub(crate) const fn has_turns(self) -> bool {
        matches!(self, Self::Bucket | Self::Queue)
    }
}

/// A quota as the scripts read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) kind: Kind,
    /// Bucket and queue: p, q, capacity. Windows: width, limit, unit. Log: width, limit, 0.
    pub(crate) numbers: [u64; 3],
    /// The most that is admitted at once.
    pub(crate) most: u64,
    pub(crate) resolution: Resolution,
}

/// How exactly the store represents a quota.
///
/// # Examples
///
/// ```
/// use tollgate::{Rate, SlidingWindow, TokenBucket};
/// # async fn show(redis: &tollgate_redis::Redis) -> Result<(), tollgate_redis::BuildError> {
/// let login = redis.limiter("login", [TokenBucket::new(Rate::per_second(5))]).build()?;
/// assert!(login.resolution(0).is_some_and(|resolution| resolution.is_exact()));
///
/// // A billion a day: how much of the day has passed is counted in steps of 10 ms.
/// let calls = redis.limiter("calls", [SlidingWindow::new(Rate::per_day(1_000_000_000))]).build()?;
/// assert!(!calls.resolution(0).is_some_and(|resolution| resolution.is_exact()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolution {
    /// By how much the store's rate is below the quota's, in parts per billion, rounded up. 0: it
    /// is the quota's rate. At most 1,000.
    pub rate_error_ppb: u64,
    /// The step in which time is counted.
    pub step: Duration,
}

impl Resolution {
    const EXACT: Self = Self { rate_error_ppb: 0, step: Duration::from_micros(1) };

    /// Whether each decision is that of the quota at the microsecond of the request. Otherwise the
    /// store refuses a little earlier; it never admits more.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        *self == Self::EXACT
    }
}

impl Limit {
    /// The end of a key's name: the kind, and for a window or a log the width. A window's state is
    /// numbered by the width, and a log forgets older units.
    pub(crate) fn suffix(&self) -> String {
        let [width, ..] = self.numbers;
        match self.kind {
            Kind::Bucket | Kind::Queue => self.kind.letter().to_owned(),
            Kind::Fixed | Kind::Sliding | Kind::Log => format!("{}{width}", self.kind.letter()),
        }
    }

    pub(crate) fn new(quota: &Quota, exact: bool) -> Result<Self, BuildError> {
        let rate = quota.rate();
        within("rate.count", rate.count().into(), 1, u64::MAX.into())?;
        within("rate.period", rate.period().as_nanos(), 1, LONGEST_MICROS * 1_000)?;
        if quota.count_policy() == CountPolicy::All {
            return Err(BuildError::Unsupported { setting: "count" });
        }
        if quota.is_by_intervals() {
            return Err(BuildError::Unsupported { setting: "refill by intervals" });
        }
        if quota.initial().is_some_and(|tokens| tokens != quota.limit()) {
            return Err(BuildError::Unsupported { setting: "initial" });
        }
        match quota {
            Quota::FirstHit(_) => Err(BuildError::Unsupported { setting: "from_first_hit" }),
            _ if quota.subwindows().is_some() => Err(BuildError::Unsupported { setting: "subwindows" }),
            Quota::TokenBucket(_) => bucket(Kind::Bucket, "burst", rate, quota.limit(), exact),
            Quota::LeakyBucket(_) => {
                let kind = if quota.is_queue() { Kind::Queue } else { Kind::Bucket };
                bucket(kind, "capacity", rate, quota.limit(), exact)
            }
            Quota::FixedWindow(_) => window(Kind::Fixed, rate, EXACT / 2),
            Quota::SlidingLog(_) => window(Kind::Log, rate, LONGEST_LOG),
            Quota::SlidingWindow(_) => sliding(rate, exact),
            _ => Err(BuildError::Unsupported { setting: "quota" }),
        }
    }

    /// The longest wait of a reservation that stays exact, in microseconds.
    pub(crate) fn longest_wait(&self) -> u64 {
        let [p, q, capacity] = self.numbers;
        let rest = EXACT - u128::from(p) - u128::from(capacity) * u128::from(q);
        u64::try_from(rest / u128::from(p.max(1))).unwrap_or(u64::MAX).min(LONGEST_MICROS as u64)
    }
}

/// The numbers of a bucket, with the quota's rate or the best one below it.
fn bucket(
    kind: Kind,
    field: &'static str,
    rate: Rate,
    capacity: u64,
    exact: bool,
) -> Result<Limit, BuildError> {
    let (count, nanos) = (u128::from(rate.count()) * 1_000, rate.period().as_nanos());
    let wide = u128::from(capacity);
    // Within the longest refill, and with room for a single grain a token.
    let fastest = EXACT.saturating_sub(2 * count.div_ceil(nanos));
    let most = (LONGEST_MICROS * count / nanos).min(fastest);
    within(field, wide, 1, most)?;
    let divisor = gcd(count, nanos);
    let (p, q) = (count / divisor, nanos / divisor);
    let fits = |p: u128, q: u128| wide.saturating_mul(q).saturating_add(2 * p) <= EXACT;
    let limit = |p: u128, q: u128, resolution| Limit {
        kind,
        // Both are at most 2^53.
        numbers: [p as u64, q as u64, capacity],
        most: capacity,
        resolution,
    };
    if fits(p, q) {
        return Ok(limit(p, q, Resolution::EXACT));
    }
    let max_burst = EXACT.saturating_sub(2 * p) / q;
    if exact {
        return Err(BuildError::NotExact { max_burst: max_burst as u64 });
    }
    let (low_p, low_q) = best_below(p, q, EXACT / (wide + 2 * p.div_ceil(q)));
    // p/q - low_p/low_q, as a part of p/q.
    let error = ((p * low_q - low_p * q) * 1_000_000_000).div_ceil(p * low_q);
    if low_p == 0 || error > 1_000 || !fits(low_p, low_q) {
        return Err(BuildError::OutOfRange { field, value: wide, min: 1, max: max_burst.max(1) });
    }
    Ok(limit(low_p, low_q, Resolution { rate_error_ppb: error as u64, ..Resolution::EXACT }))
}

/// The width of a window in microseconds.
fn width(rate: Rate) -> Result<u64, BuildError> {
    let nanos = rate.period().as_nanos();
    if !nanos.is_multiple_of(1_000) {
        return Err(BuildError::Unsupported { setting: "period of a window in parts of a microsecond" });
    }
    Ok((nanos / 1_000) as u64)
}

fn window(kind: Kind, rate: Rate, most: u128) -> Result<Limit, BuildError> {
    within("rate.count", rate.count().into(), 1, most)?;
    let numbers = [width(rate)?, rate.count(), u64::from(kind != Kind::Log)];
    Ok(Limit { kind, numbers, most: rate.count(), resolution: Resolution::EXACT })
}

/// The numbers of a sliding counter, with the finest unit that stays exact.
fn sliding(rate: Rate, exact: bool) -> Result<Limit, BuildError> {
    let width = width(rate)?;
    let coarsest = width / FEWEST_UNITS.min(width);
    within("rate.count", rate.count().into(), 1, EXACT * u128::from(coarsest) / u128::from(width))?;
    let finest = (u128::from(rate.count()) * u128::from(width)).div_ceil(EXACT).max(1);
    let unit =
        smooth_divisors(width).into_iter().filter(|&unit| unit <= coarsest && u128::from(unit) >= finest);
    let unit = unit.min().ok_or(BuildError::OutOfRange {
        field: "rate.count",
        value: rate.count().into(),
        min: 1,
        max: EXACT / u128::from(width),
    })?;
    if exact && unit > 1 {
        return Err(BuildError::NotExact { max_burst: (EXACT / u128::from(width)) as u64 });
    }
    let resolution = Resolution { step: Duration::from_micros(unit), ..Resolution::EXACT };
    Ok(Limit { kind: Kind::Sliding, numbers: [width, rate.count(), unit], most: rate.count(), resolution })
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The largest fraction below p/q, or equal to it, with a denominator of at most `most`.
///
/// Walks down the Stern-Brocot tree, as many steps in one direction at a time as possible.
fn best_below(p: u128, q: u128, most: u128) -> (u128, u128) {
    let (mut low, mut high) = ((p / q, 1), (1, 0));
    // Invariant: low <= p/q < high, and no fraction between them has a smaller denominator than
    // their mediant.
    loop {
        let (a, b) = (low, high);
        // How far `high` can move towards `low` and stay above p/q.
        // (b.0 + k a.0) q > p (b.1 + k a.1)
        let (gap_high, gap_low) = (b.0 * q - p * b.1, p * a.1 - a.0 * q);
        if gap_low == 0 {
            return low;
        }
        let steps = (gap_high - 1) / gap_low;
        high = (b.0 + steps * a.0, b.1 + steps * a.1);
        if high.1 > most {
            return low;
        }
        // How far `low` can move towards `high`, stay at or below p/q, and keep the denominator.
        let (gap_high, b) = (high.0 * q - p * high.1, high);
        let room = most.saturating_sub(a.1).checked_div(b.1).unwrap_or(u128::MAX);
        let steps = (gap_low / gap_high).min(room);
        if steps == 0 {
            return low;
        }
        low = (a.0 + steps * b.0, a.1 + steps * b.1);
    }
}

/// The divisors of `number` that have no prime factor above 1,000.
fn smooth_divisors(number: u64) -> Vec<u64> {
    let (mut divisors, mut rest) = (vec![1], number);
    for prime in 2..=1_000 {
        let (known, mut power) = (divisors.len(), 1);
        while rest % prime == 0 {
            (rest, power) = (rest / prime, power * prime);
            let more: Vec<u64> = divisors[..known].iter().map(|divisor| divisor * power).collect();
            divisors.extend(more);
        }
    }
    divisors
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{FixedWindow, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket};

    fn limit(quota: impl Into<Quota>) -> Result<Limit, BuildError> {
        Limit::new(&quota.into(), false)
    }

    fn exact(quota: impl Into<Quota>) -> Result<Limit, BuildError> {
        Limit::new(&quota.into(), true)
    }

    #[test]
    fn a_rate_is_grains_in_lowest_terms() {
        let numbers = |rate, burst| limit(TokenBucket::new(rate).burst(burst)).unwrap().numbers;
        assert_eq!(numbers(Rate::per_second(1), 5), [1, 1_000_000, 5]);
        assert_eq!(numbers(Rate::per_second(3_000_000), 5), [3, 1, 5]);
        assert_eq!(numbers(Rate::new(7, Duration::from_nanos(10)), 5), [700, 1, 5]);
        assert_eq!(numbers(Rate::per_day(99_991), 9), [99_991, 86_400_000_000, 9]);
    }

    #[test]
    fn the_largest_fraction_below_is_found() {
        for (p, q) in [(1, 3), (7, 5), (355, 113), (99_991, 86_400), (1, 1_000), (13, 1), (999, 1_000)] {
            for most in 1..40 {
                let (low_p, low_q) = best_below(p, q, most);
                assert!(low_q <= most && low_p * q <= p * low_q, "{p}/{q}, {most}: {low_p}/{low_q}");
                for other_q in 1..=most {
                    let other_p = p * other_q / q;
                    assert!(other_p * low_q <= low_p * other_q, "{p}/{q}, {most}: {low_p}/{low_q}");
                }
            }
        }
    }

    #[test]
    fn a_lower_rate_stands_in_for_an_inexact_one() {
        let quota = TokenBucket::new(Rate::per_day(99_991)).burst(1_000_000);
        let near = limit(quota).unwrap();
        let [p, q, capacity] = near.numbers.map(u128::from);
        assert!(capacity * q + 2 * p <= EXACT);
        assert!(p * 86_400_000_000 < 99_991 * q, "the rate is lower");
        assert!((1..=1_000).contains(&near.resolution.rate_error_ppb) && !near.resolution.is_exact());
        assert_eq!(exact(quota), Err(BuildError::NotExact { max_burst: 104_249 }));
        assert!(exact(quota.burst(104_249)).unwrap().resolution.is_exact());
    }

    #[test]
    fn a_counters_unit_divides_its_width() {
        for (count, rate) in
            [(100_000, Rate::per_day), (1_000_000_000, Rate::per_day)].map(|(n, rate)| (n, rate(n)))
        {
            let [width, limit, unit] = limit(SlidingWindow::new(rate)).unwrap().numbers;
            assert!(limit == count && width % unit == 0);
            assert!(u128::from(limit) * u128::from(width / unit) <= EXACT);
            assert_eq!(exact(SlidingWindow::new(rate)).is_ok(), unit == 1);
        }
        // A prime number of microseconds has no parts.
        let prime = Rate::new(1 << 40, Duration::from_micros(1_000_003));
        assert!(matches!(
            limit(SlidingWindow::new(prime)),
            Err(BuildError::OutOfRange { max: 9_007_172_233, .. })
        ));
    }

    #[test]
    fn a_number_out_of_range_is_named_with_its_range() {
        let rate = Rate::per_second(10);
        for (quota, text) in [
            (
                Quota::from(TokenBucket::new(Rate::per_second(0))),
                "rate.count is 0, but must be between 1 and",
            ),
            (
                TokenBucket::new(Rate::new(1, Duration::ZERO)).into(),
                "rate.period is 0, but must be between 1 and",
            ),
            (TokenBucket::new(rate).burst(0).into(), "burst is 0, but must be between 1 and 31536000000"),
            (
                LeakyBucket::queue(rate).capacity(u64::MAX).into(),
                "capacity is 18446744073709551615, but must",
            ),
            (
                SlidingLog::new(Rate::per_day(10_001)).into(),
                "rate.count is 10001, but must be between 1 and 10000",
            ),
            (FixedWindow::new(Rate::per_day(u64::MAX)).into(), "must be between 1 and 4503599627370496"),
            (
                SlidingWindow::new(Rate::per_day(u64::MAX)).into(),
                "rate.count is 18446744073709551615, but must",
            ),
            (TokenBucket::new(rate).initial(1).into(), "the store has no initial"),
            (TokenBucket::new(rate).by_intervals().into(), "the store has no refill by intervals"),
            (SlidingWindow::new(rate).subwindows(6).into(), "the store has no subwindows"),
            (FixedWindow::new(rate).from_first_hit().into(), "the store has no from_first_hit"),
            (
                FixedWindow::new(Rate::new(1, Duration::from_nanos(1))).into(),
                "the store has no period of a window",
            ),
        ] {
            let error = limit(quota).expect_err("it is out of range").to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn no_quota_is_too_large_to_be_judged() {
        let numbers = [1, 2, 7, 1_000, 99_991, 1 << 32, (1 << 53) - 1, u64::MAX - 1, u64::MAX];
        for count in numbers {
            for nanos in numbers {
                let rate = Rate::new(count, Duration::from_nanos(nanos));
                for burst in numbers {
                    for quota in [TokenBucket::new(rate).burst(burst)] {
                        if let Ok(Limit { numbers: [p, q, capacity], .. }) = limit(quota) {
                            let [p, q, capacity] = [p, q, capacity].map(u128::from);
                            assert!(capacity * q + 2 * p <= EXACT, "{quota}");
                            assert!(p * u128::from(nanos) <= u128::from(count) * 1_000 * q, "{quota}");
                        }
                    }
                }
                let _ = (
                    limit(SlidingWindow::new(rate)),
                    limit(FixedWindow::new(rate)),
                    limit(SlidingLog::new(rate)),
                );
            }
        }
    }
}
