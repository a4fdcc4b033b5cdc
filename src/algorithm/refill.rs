//! The clock of the buckets: the number of *grains* that have dripped since the zero of the clock.
//!
//! A token is `price` grains, and `a/b` grains drip each nanosecond:
//! `grains(t) = floor(t * a / b)`, exactly. No call adds its own rounding, so the long-run rate is
//! exactly the configured one.
//!
//! For a rate of `p` tokens in `q` nanoseconds (in lowest terms) a grain is `1/q` of a token and
//! `b` is 1. Then a grain boundary falls on every nanosecond, and every decision is exact. This
//! works for `p` up to 7 when the bucket refills within ten years, and up to 14 when it refills
//! within months.
//!
//! A larger `p` would need more bits than a word has for ten years. Then grains are as fine as fit:
//! 0.07 ns or more each, or at most a millionth of a token for buckets that take more than 73 years
//! to refill. A token may come up to one grain early; the error never accumulates.
//!
//! Buckets that refill *by intervals* have a clock that steps: it stands still within each aligned
//! interval, and at the end of each all grains of the interval drip at once:
//! `grains(t) = step * floor((t + offset) / period)`. A tier's token is `step / count` grains.

use crate::algorithm::windows::{later_by, shared, shared_period};
use crate::algorithm::{LONGEST, PAYLOAD_BITS, UPTIME};
use crate::error::{BuildError, within};
use crate::rate::Rate;
use crate::time::{Shift, div_ceil};

const TOP: u64 = Refill::TOP;

/// The most tokens per nanosecond that a word can hold over `UPTIME`: 1e10 a second.
const FASTEST: u64 = 10;

/// The largest `b` that a clock computes with: twice that fits 64 bits. No time is as large.
const LARGEST: u128 = (u64::MAX / 2) as u128;

/// Grains per token that suffice where there is no room for one grain per nanosecond.
const FINE: u64 = 1 << 20;

/// A price is wrong by at most one part in this many.
const NEAR: u128 = 1_000_000_000;

/// Bits after the point of `Refill::scale`.
const POINT: u32 = 60;

/// Grains since the zero of the clock, as a function of time. After a change of the quota the clock
/// continues from the floor of the new version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refill {
    a: u64,
    b: u64,
    /// `floor(a << POINT / b)`.
    scale: u64,
    /// Grains that drip at once: 1, unless the clock steps.
    step: u64,
    /// Nanoseconds from the start of an interval to that of the version, where the clock steps.
    offset: u64,
    steps: bool,
    /// The start of the version, on the clock of the limiter.
    since: u64,
    /// The nanoseconds after it for which the clock moves. It stands still after that: buckets fail
    /// closed.
    last: u64,
    /// The reading of the clock at the start of the version.
    floor: u64,
    /// Grains in the largest bucket.
    tolerance: u64,
}

/// The part of a word that is left for a refill clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    since: u64,
    floor: u64,
    /// The clock must run at least this long.
    uptime: u64,
}

/// A bucket as the user described it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    pub(crate) rate: Rate,
    pub(crate) burst: u64,
    /// The name of `burst` in the API.
    pub(crate) burst_name: &'static str,
    /// Whether admitted requests wait for their turn.
    pub(crate) queue: bool,
    /// Of a bucket that refills by aligned intervals: the Unix time of the clock's zero.
    pub(crate) intervals: Option<u64>,
}

/// A rate in lowest terms: `p` tokens in `q` nanoseconds.
#[derive(Clone, Copy, PartialEq)]
struct Ratio {
    p: u64,
    q: u64,
}

impl Room {
    /// A whole word, and all time of the clock.
    pub(crate) const ALL: Self = Self { since: 0, floor: 0, uptime: UPTIME };

    /// The range above `floor`, from `since` on: for the rest of the ten years, and for at least
    /// one year.
    pub(crate) fn after(since: u64, floor: u64) -> Self {
        Self { since, floor, uptime: UPTIME.saturating_sub(since).max(UPTIME / 10) }
    }

    fn grains(self) -> u64 {
        TOP.saturating_sub(self.floor)
    }
}

impl Refill {
    /// Payloads of buckets stay at or below this.
    pub(crate) const TOP: u64 = (1 << PAYLOAD_BITS) - 2;

    /// The clock of quotas that come with calls: it counts nanoseconds, and leaves room for a
    /// bucket of `most` nanoseconds. This one's bucket holds `tolerance` of them.
    #[inline]
    pub(crate) fn nanoseconds(tolerance: u64, most: u64) -> Self {
        let (last, scale) = (Self::TOP - most, 1 << POINT);
        Self { a: 1, b: 1, scale, step: 1, offset: 0, steps: false, since: 0, last, floor: 0, tolerance }
    }

    /// One refill clock for all `buckets` in the given `room`, and the price of each bucket's token
    /// in grains.
    pub(crate) fn fit(buckets: &[Bucket], room: Room) -> Result<(Self, Vec<u64>), BuildError> {
        // A whole word would have room for these buckets: earlier changes used it up.
        let is_changed = || room.floor > 0 && Self::fit_in(buckets, Room::ALL).is_ok();
        Self::fit_in(buckets, room)
            .map_err(|error| if is_changed() { BuildError::ChangedTooOften } else { error })
    }

    fn fit_in(buckets: &[Bucket], room: Room) -> Result<(Self, Vec<u64>), BuildError> {
        if let Some(origin) = shared("intervals", buckets.iter().map(|bucket| bucket.intervals))? {
            return Self::fit_intervals(buckets, origin, room);
        }
        let ratios = buckets.iter().map(Bucket::ratio).collect::<Result<Vec<_>, _>>()?;
        let shared = ratios.iter().try_fold(1, |all, ratio| lcm(all, ratio.p));
        let fits = |a| buckets.iter().zip(&ratios).all(|(bucket, ratio)| ratio.fits(a, bucket.burst, room));
        let (a, b) = match shared {
            Some(a) if fits(a) => (a, 1),
            _ => finest_grain(buckets, &ratios, room)?,
        };
        let mut prices = Vec::with_capacity(buckets.len());
        let mut tolerance = 0;
        for (tier, (bucket, ratio)) in buckets.iter().zip(&ratios).enumerate() {
            let price = ratio.price(a, b).ok_or(BuildError::TierTooFine { tier })?;
            let full = u128::from(price) * u128::from(bucket.burst);
            let needed = full + grains(room.uptime, a, b);
            assert!(
                needed <= room.grains().into(),
                "grains must leave room for every bucket beside the uptime"
            );
            tolerance = tolerance.max(full as u64);
            prices.push(price);
        }
        let (a, b) = computable(a, b);
        let scale = ((u128::from(a) << POINT) / u128::from(b)) as u64;
        let last = ((u128::from(room.grains() - tolerance) + 1) * u128::from(b) - 1) / u128::from(a);
        let last = last.min((1 << POINT) - 1) as u64;
        let Room { since, floor, .. } = room;
        let (step, offset, steps) = (1, 0, false);
        Ok((Self { a, b, scale, step, offset, steps, since, last, floor, tolerance }, prices))
    }

    /// The same for buckets that refill by intervals.
    fn fit_intervals(buckets: &[Bucket], origin: u64, room: Room) -> Result<(Self, Vec<u64>), BuildError> {
        let period = shared_period(buckets.iter().map(|bucket| bucket.rate), 1..=UPTIME)?;
        let Room { since, floor, uptime } = room;
        let (wide, room) = (u128::from(period), u128::from(room.grains()));
        let offset = ((u128::from(origin) + u128::from(since)) % wide) as u64;
        // As many as begin within the uptime at most: what fits is the same at any start.
        let intervals = u128::from(uptime).div_ceil(wide);
        let mut step = 1;
        for (tier, bucket) in buckets.iter().enumerate() {
            let count = bucket.rate.count();
            within("rate.count", count, 1_u64, (wide * u128::from(FASTEST)).min(room / (intervals + 1)))?;
            let fits = |step: &u64| u128::from(*step) * (intervals + 1) <= room;
            step = lcm(step, count).filter(fits).ok_or(BuildError::TierTooFine { tier })?;
        }
        let (mut prices, mut tolerance) = (Vec::with_capacity(buckets.len()), 0);
        for bucket in buckets {
            let price = step / bucket.rate.count();
            let left = room - u128::from(step) * intervals;
            let refilled = u128::from(LONGEST / period) * u128::from(bucket.rate.count());
            within(bucket.burst_name, bucket.burst, 1_u64, refilled.min(left / u128::from(price)))?;
            tolerance = tolerance.max(price * bucket.burst);
            prices.push(price);
        }
        // Without an interval to stand still in, the clock is whole.
        let (a, step) = if period == 1 { (step, 1) } else { (1, step) };
        let scale = ((u128::from(a) << POINT) / wide) as u64;
        let most = (room - u128::from(tolerance)) / u128::from(a * step);
        let last = ((most + 1) * wide - 1).min((1 << POINT) - 1) as u64 - offset;
        Ok((Self { a, b: period, scale, step, offset, steps: true, since, last, floor, tolerance }, prices))
    }

    /// `floor + floor((now - since) * a / b)`.
    #[inline]
    pub(crate) fn at(&self, now: u64) -> u64 {
        self.after(now.saturating_sub(self.since).min(self.last))
    }

    /// The same, `elapsed` nanoseconds after the start of the version.
    #[inline]
    pub(crate) fn after(&self, elapsed: u64) -> u64 {
        self.floor + self.dripped(elapsed)
    }

    /// The same where the clock [is whole](Self::is_whole).
    #[inline]
    pub(crate) fn whole(&self, now: u64) -> u64 {
        now * self.a
    }

    /// Whether each nanosecond since the limiter's zero is `a` whole grains.
    pub(crate) fn is_whole(&self) -> bool {
        self.b == 1 && self.floor == 0 && self.since == 0
    }

    /// `floor(time * a / b)`, or the steps until then.
    #[inline]
    fn dripped(&self, time: u64) -> u64 {
        if self.b == 1 {
            return time * self.a;
        }
        let time = time + self.offset;
        // `scale` is at most one unit of its last place too small and `time < 2^POINT`, so the
        // estimate is at most one grain short. The remainder shows this. It is less than two `b`,
        // which 64 bits hold, so wrapping arithmetic computes it exactly.
        let estimate = ((u128::from(time) * u128::from(self.scale)) >> POINT) as u64;
        let rest = time.wrapping_mul(self.a).wrapping_sub(estimate.wrapping_mul(self.b));
        (estimate + u64::from(rest >= self.b)) * self.step
    }

    /// Nanoseconds from `now` until the clock shows `target`: 0 if it already does, `u64::MAX` if
    /// it never will.
    pub(crate) fn until(&self, target: u64, now: u64) -> u64 {
        let Some(target) = target.checked_sub(self.floor).filter(|&target| target > 0) else { return 0 };
        let when = self.when(target);
        if when > u128::from(self.last) {
            return u64::MAX;
        }
        self.since.saturating_add(when as u64).saturating_sub(now)
    }

    /// Grains that drip in `time` from `now` on, even beyond the end of the version.
    pub(crate) fn drips(&self, now: u64, time: u64) -> u64 {
        self.at(now.saturating_add(time)) - self.at(now)
    }

    /// The first nanosecond of the version at which `dripped` grains have dripped.
    fn when(&self, dripped: u64) -> u128 {
        let steps = u128::from(dripped.div_ceil(self.step));
        (steps * u128::from(self.b)).div_ceil(u128::from(self.a)).saturating_sub(self.offset.into())
    }

    /// The reading of the clock at the start of the version. Smaller payloads are from older
    /// versions.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// The last nanosecond of the version that payloads have room for.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The largest payload that a version with horizon `until` writes.
    pub(crate) fn top(&self, until: u64) -> u64 {
        self.floor + self.dripped(until) + self.tolerance
    }

    /// How many nanoseconds a version lasts at least whose clock allows `payload`.
    pub(crate) fn needs(&self, payload: u64) -> u64 {
        let beyond = payload.saturating_sub(self.floor.saturating_add(self.tolerance));
        u64::try_from(self.when(beyond)).unwrap_or(u64::MAX)
    }

    /// Converts `target`, an instant of the clock `saved` that reads `shift` earlier. 0 for an
    /// instant before the zero of this clock, and for the `target` 0 of a key that was never seen.
    ///
    /// The shift is rounded up to a grain: `floor(t + s) <= floor(t) + ceil(s)`. So at every later
    /// time the remaining wait is no shorter than before, and at most one grain longer. Exact when
    /// a nanosecond is a whole number of grains.
    ///
    /// Steps of both clocks are aligned to Unix time, so the result is exact while both agree with
    /// it. As with aligned windows, a drift of up to an eighth of an interval is ignored, and more
    /// is rounded up.
    pub(crate) fn carry(&self, target: u64, saved: &Self, shift: Shift) -> u64 {
        if target == 0 {
            return 0;
        }
        let moved = if self.steps {
            let moved = shift.nanos() + i128::from(self.offset) - i128::from(saved.offset);
            later_by(moved, self.b).saturating_mul(i128::from(self.a * self.step))
        } else {
            div_ceil(shift.nanos().saturating_mul(self.a.into()), self.b)
        };
        (i128::from(target) + moved).clamp(0, i128::from(TOP)) as u64
    }

    /// The grains by which debts are paid later on this clock than on `old`, whose last instant is
    /// the start of this one. Not 0 only where both step, and their steps are aligned to different
    /// Unix times: as in [`carry`](Self::carry), no step comes sooner by more than an eighth of an
    /// interval.
    pub(crate) fn later_than(&self, old: &Self) -> i64 {
        if !self.steps || !old.steps || self.b != old.b {
            return 0;
        }
        let elapsed = self.since.saturating_sub(old.since) + old.offset;
        let moved = i128::from(self.offset) - i128::from(elapsed % self.b);
        later_by(moved, self.b) as i64 * (self.a * self.step) as i64
    }

    /// Whether the clock stands still within intervals.
    pub(crate) fn steps(&self) -> bool {
        self.steps
    }

    /// Whether grain boundaries miss whole nanoseconds, so that a token may come up to one grain
    /// early.
    pub(crate) fn is_grained(&self) -> bool {
        self.b != 1 && !self.steps
    }
}

impl Bucket {
    fn ratio(&self) -> Result<Ratio, BuildError> {
        let (count, period) = (self.rate.count(), self.rate.period_nanos());
        within("rate.period", self.rate.period().as_nanos(), 1_u64, u64::MAX)?;
        within("rate.count", count, 1_u64, period.saturating_mul(FASTEST))?;
        let common = gcd(count, period);
        let ratio = Ratio { p: count / common, q: period / common };
        let (p, q) = (u128::from(ratio.p), u128::from(ratio.q));
        // A word has room for a grain per nanosecond, or for FINE grains per token.
        let finest = u64::MAX / ratio.p;
        if finest < FINE && u128::from(finest) * p < q {
            within("rate.count", count, 1_u64, u64::MAX / FINE)?;
        }
        // A valid burst either refills within LONGEST, which leaves room for a grain per
        // nanosecond, or leaves room for FINE grains per token.
        let refilled = u128::from(LONGEST) * p / q;
        let dripped = (u128::from(UPTIME) * p).div_ceil(q);
        let beside = |grains: u128| (u128::from(TOP) / grains).saturating_sub(dripped);
        let largest = refilled.min(beside(q.div_ceil(p))).max(beside(FINE.into()));
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

    /// Whether `a` grains per nanosecond leave room for the uptime and a full bucket. An `a` that a
    /// whole word could not count for ten years is never needed, and `scale` has no room for it.
    fn fits(self, a: u64, burst: u64, room: Room) -> bool {
        let price = u128::from(a / self.p) * u128::from(self.q);
        let full = price.checked_mul(u128::from(burst));
        let fits = |full| u128::from(a) * u128::from(room.uptime) + full <= u128::from(room.grains());
        a <= TOP / UPTIME && full.is_some_and(fits)
    }

    /// Grains per token at `a / b` grains per nanosecond, rounded up. `None` when that is wrong by
    /// more than 1e-9.
    fn price(self, a: u64, b: u64) -> Option<u64> {
        let dripped = u128::from(a) * u128::from(self.q);
        let drained = u128::from(b) * u128::from(self.p);
        let price = dripped.div_ceil(drained);
        let error = (price * drained).checked_sub(dripped)?;
        if error > dripped / NEAR { None } else { u64::try_from(price).ok() }
    }
}

/// Grains per nanosecond, as `a / b`: as many per token of the fastest bucket as fit beside the
/// uptime and the bucket that takes longest to refill. No finer than a whole word allows, and no
/// coarser than [`Resolution`](crate::Resolution) promises.
fn finest_grain(buckets: &[Bucket], ratios: &[Ratio], room: Room) -> Result<(u64, u64), BuildError> {
    let tier = (0..ratios.len()).max_by(|&i, &j| ratios[i].cmp_rate(ratios[j])).unwrap_or(0);
    let fastest = ratios[tier];
    let (p, q) = (u128::from(fastest.p), u128::from(fastest.q));
    // The refill of each full bucket at the fastest rate, in parts of a token: `q` parts per token.
    let full = |(bucket, ratio): (&Bucket, &Ratio)| {
        let common = gcd(fastest.p, ratio.p);
        let exact = (u128::from(bucket.burst) * u128::from(ratio.q)).div_ceil((ratio.p / common).into());
        // The other prices may be rounded up.
        let rounded = if *ratio == fastest { 0 } else { exact / NEAR + 1 };
        (exact + rounded).saturating_mul((fastest.p / common).into())
    };
    let full = buckets.iter().zip(ratios).map(full).max().unwrap_or(0);
    let fit = |grains: u64, uptime: u64| u128::from(grains) * q / full.saturating_add(u128::from(uptime) * p);
    let price = fit(TOP, UPTIME).min(fit(room.grains(), room.uptime));
    let price = price.min(u128::from(u64::MAX / fastest.p)) as u64;
    if price < FINE && p * u128::from(price) < q {
        return Err(BuildError::TierTooFine { tier });
    }
    let common = gcd(fastest.p * price, fastest.q);
    Ok((fastest.p * price / common, fastest.q / common))
}

/// `a / b`, or the largest fraction below it with a denominator that is not too large. No fraction
/// lies between the two whose denominator is as small as a time: so they show the same whole grains
/// at every time. The predecessor in a Farey sequence, by the Stern-Brocot tree.
fn computable(a: u64, b: u64) -> (u64, u64) {
    let (wide, [mut p, mut q], [mut over, mut under]) = ((u128::from(a), u128::from(b)), [0, 1], [1, 0]);
    if wide.1 <= LARGEST {
        return (a, b);
    }
    loop {
        // How far `p / q` is below, and `over / under` above.
        let (below, above) = (wide.0 * q - p * wide.1, over * wide.1 - wide.0 * under);
        let steps = (below / above).min((LARGEST - q).checked_div(under).unwrap_or(u128::MAX));
        (p, q) = (p + steps * over, q + steps * under);
        let below = wide.0 * q - p * wide.1;
        let others = ((above - 1) / below).min((LARGEST - under) / q);
        (over, under) = (over + others * p, under + others * q);
        if steps + others == 0 {
            return (p as u64, q as u64);
        }
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

#[cfg(test)]
mod tests;
