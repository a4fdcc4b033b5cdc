//! The clock of the buckets: how many *grains* have dripped since the clock's zero.
//!
//! A token is `price` grains, and `a/b` grains drip each nanosecond: `grains(t) = floor(t * a / b)`, exactly. Nothing
//! is rounded call by call, so the long-run rate is the configured one, not one near it.
//!
//! For a rate of `p` tokens in `q` nanoseconds (in lowest terms) with `p` up to 7 (up to 14 when the bucket refills within months), a grain is `1/q` of a
//! token and `b` is 1: a grain boundary falls on every nanosecond and every decision is exact. Larger `p` would need more bits
//! than a word has for ten years, so grains are then as fine as fit (about 0.14 ns each; for buckets that take more than 73 years to refill, a
//! millionth of a token at most) and a token may come up to one grain early, never more and never accumulating.

use crate::algorithm::{LONGEST, PAYLOAD_BITS, UPTIME};
use crate::error::{Error, within};
use crate::rate::Rate;
use crate::time::{Shift, div_ceil};

/// Payloads of buckets stay at or below this.
const TOP: u64 = (1 << PAYLOAD_BITS) - 2;

/// Tokens a nanosecond that a word can hold over `UPTIME`: 1e10 a second.
const FASTEST: u64 = 10;

/// Grains a token that are enough, when there is not room for a grain a nanosecond.
const FINE: u64 = 1 << 20;

/// Bits after the point of `Refill::scale`.
const POINT: u32 = 60;

/// Grains since the clock's zero, as a function of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refill {
    a: u64,
    b: u64,
    /// `floor(a << POINT / b)`.
    scale: u64,
    /// Up to here a nanosecond is `a` whole grains: `last` when `b` is 1, else 0.
    whole_until: u64,
    /// The last nanosecond at which the clock moves; it stands still from there on, so buckets fail closed.
    last: u64,
}

/// A bucket as the user described it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) rate: Rate,
    pub(crate) burst: u64,
    /// What `burst` is called in the API.
    pub(crate) burst_name: &'static str,
}

/// A rate in lowest terms: `p` tokens in `q` nanoseconds.
#[derive(Clone, Copy)]
struct Ratio {
    p: u64,
    q: u64,
}

impl Refill {
    /// One refill clock for all `buckets`, and each one's price of a token in grains.
    pub(crate) fn fit(buckets: &[Bucket]) -> Result<(Self, Vec<u64>), Error> {
        let ratios = buckets.iter().map(Bucket::ratio).collect::<Result<Vec<_>, _>>()?;
        let fastest = (0..buckets.len()).max_by(|&i, &j| ratios[i].cmp_rate(ratios[j])).unwrap_or(0);
        let shared = ratios.iter().try_fold(1, |all, ratio| lcm(all, ratio.p));
        let (a, b) = match shared {
            Some(a) if buckets.iter().zip(&ratios).all(|(bucket, ratio)| ratio.fits(a, bucket.burst)) => {
                (a, 1)
            }
            _ => ratios[fastest].finest_grain(buckets[fastest].burst),
        };
        let mut prices = Vec::with_capacity(buckets.len());
        let mut tolerance = 0;
        for (tier, (bucket, ratio)) in buckets.iter().zip(&ratios).enumerate() {
            let price = ratio.price(a, b).ok_or(Error::TierTooFine { tier })?;
            let full = u128::from(price) * u128::from(bucket.burst);
            if full + grains(UPTIME, a, b) > u128::from(TOP) {
                return Err(Error::TierTooFine { tier });
            }
            tolerance = tolerance.max(full as u64);
            prices.push(price);
        }
        let scale = ((u128::from(a) << POINT) / u128::from(b)) as u64;
        let last = ((u128::from(TOP - tolerance) + 1) * u128::from(b) - 1) / u128::from(a);
        let last = last.min((1 << POINT) - 1) as u64;
        let whole_until = if b == 1 { last } else { 0 };
        Ok((Self { a, b, scale, whole_until, last }, prices))
    }

    /// `floor(now * a / b)`.
    #[inline]
    pub(crate) fn at(&self, now: u64) -> u64 {
        if now <= self.whole_until {
            return now * self.a;
        }
        let now = now.min(self.last);
        // `scale` is at most one unit of its last place too small and `now < 2^POINT`, so the estimate is at most one
        // grain short, which the remainder (small, so right even in wrapping arithmetic) shows.
        let estimate = ((u128::from(now) * u128::from(self.scale)) >> POINT) as u64;
        let rest = now.wrapping_mul(self.a).wrapping_sub(estimate.wrapping_mul(self.b));
        estimate + u64::from(rest >= self.b)
    }

    /// Nanoseconds from `now` until the clock shows `target`: 0 when it does, `u64::MAX` when it never will.
    pub(crate) fn until(&self, target: u64, now: u64) -> u64 {
        let when = (u128::from(target) * u128::from(self.b)).div_ceil(u128::from(self.a));
        if when > u128::from(self.last) { u64::MAX } else { (when as u64).saturating_sub(now) }
    }

    /// The moment that was `target` on a clock that reads `shift` earlier: 0 when it lies before this clock's zero, and
    /// for 0, which was no moment of anybody's.
    ///
    /// The shift is rounded up to a grain: `floor(t + s) <= floor(t) + ceil(s)`, so at every later time no less is
    /// missing to the moment than there was, and at most a grain more. Exact when a nanosecond is whole grains.
    pub(crate) fn carry(&self, target: u64, shift: Shift) -> u64 {
        if target == 0 {
            return 0;
        }
        let moved = i128::from(target) + div_ceil(shift.nanos().saturating_mul(self.a.into()), self.b);
        moved.clamp(0, i128::from(TOP)) as u64
    }

    /// Whether grains do not fall on whole nanoseconds, so that a token may come up to one grain early.
    pub(crate) fn is_grained(&self) -> bool {
        self.b != 1
    }
}

impl Bucket {
    fn ratio(&self) -> Result<Ratio, Error> {
        let (count, period) = (self.rate.count(), self.rate.period_nanos());
        within("rate.period", self.rate.period().as_nanos(), 1_u64, u64::MAX)?;
        within("rate.count", count, 1_u64, u128::from(period) * u128::from(FASTEST))?;
        let common = gcd(count, period);
        let ratio = Ratio { p: count / common, q: period / common };
        let (p, q) = (u128::from(ratio.p), u128::from(ratio.q));
        // Either it refills within LONGEST, which leaves a grain a nanosecond, or it leaves FINE grains a token.
        let refilled = u128::from(LONGEST) * p / q;
        let dripped = (u128::from(UPTIME) * p).div_ceil(q);
        let fine = u128::from(TOP / FINE).saturating_sub(dripped);
        let largest = refilled.max(fine).min(u128::from(TOP) - dripped).min(u128::from(u64::MAX));
        within(self.burst_name, self.burst, 1_u64, largest)?;
        Ok(ratio)
    }
}

impl Ratio {
    fn cmp_rate(self, other: Self) -> std::cmp::Ordering {
        let (mine, theirs) =
            (u128::from(self.p) * u128::from(other.q), u128::from(other.p) * u128::from(self.q));
        mine.cmp(&theirs)
    }

    /// Whether `a` grains a nanosecond leave room for ten years and a full bucket.
    fn fits(self, a: u64, burst: u64) -> bool {
        let price = u128::from(a / self.p) * u128::from(self.q);
        let full = price.checked_mul(u128::from(burst));
        full.is_some_and(|full| u128::from(a) * u128::from(UPTIME) + full <= u128::from(TOP))
    }

    /// Grains a nanosecond, as `a / b`, with as many grains a token as twice `UPTIME` leaves room for.
    fn finest_grain(self, burst: u64) -> (u64, u64) {
        let (p, q) = (u128::from(self.p), u128::from(self.q));
        let fit = |uptime: u64| u128::from(TOP) * q / (u128::from(uptime) * p + u128::from(burst) * q);
        let price = fit(2 * UPTIME).max(fit(UPTIME)).min(u128::from(u64::MAX / self.p)) as u64;
        let common = gcd(self.p * price, self.q);
        (self.p * price / common, self.q / common)
    }

    /// Grains a token at `a / b` grains a nanosecond, rounded up; `None` when that is off by more than 1e-9.
    fn price(self, a: u64, b: u64) -> Option<u64> {
        let dripped = u128::from(a) * u128::from(self.q);
        let drained = u128::from(b) * u128::from(self.p);
        let price = dripped.div_ceil(drained);
        let error = (price * drained).checked_sub(dripped)?;
        if error > dripped / 1_000_000_000 { None } else { u64::try_from(price).ok() }
    }
}

/// Grains in half of the smallest bucket.
pub(crate) fn half(buckets: &[Bucket], prices: &[u64]) -> u64 {
    buckets.iter().zip(prices).map(|(bucket, price)| bucket.burst / 2 * price).min().unwrap_or(0)
}

fn grains(now: u64, a: u64, b: u64) -> u128 {
    u128::from(now) * u128::from(a) / u128::from(b)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b)
}
