//! The rule behind both buckets: the generic cell rate algorithm.
//!
//! The payload is the *theoretical arrival time* (TAT): the instant at which the bucket is full
//! again (the leaky bucket is empty again), in grains of its [`Refill`] clock. With `now` in the
//! same grains:
//!
//! ```text
//!   base = max(TAT, now)
//!   admitted  iff  base + cost * price - now <= burst * price      then TAT = base + cost * price
//! ```
//!
//! # Refunds
//!
//! A request left the TAT `charged` and is given back later. The refund lowers the TAT by the debt
//! that the request certainly still causes. That is not always its cost: without the request the
//! bucket might have been full in between, and would have lost refill.
//!
//! ```text
//!   since the charge, only       back = min(cost * price, charged - now), less TAT - charged
//!   newest requests came back:     while a request is booked ahead (TAT - now > burst * price)
//!   otherwise:                   back = cost * price - (now - since),
//!                                  or nothing if a request was ever booked ahead
//! ```
//!
//! Until `charged` the bucket was never full, so `charged - now` of the request is not refilled
//! yet. A request that is booked ahead relies on the earlier charges. Once another request than the
//! newest was given back, `charged` is too late an instant, and the TAT no longer shows which
//! requests are booked. What still holds: the bucket cannot have been full for longer than
//! `now - since`. `crates/tollgate-model/tests/refund_search.rs` tries the rule on every short
//! sequence of checks, reservations, refunds and cancellations. In a queue only the newest request
//! can be given back.
//!
//! A *reservation* that may wait for `w` is decided as a request of a larger bucket: larger by the
//! refill of `w`. It departs when the bucket of the true size would admit it, at
//! `TAT - burst * price`.
//!
//! Source: ITU-T I.371 (1996), virtual scheduling; the equivalence with the token bucket is in its
//! annex.

use std::borrow::Cow;
use std::sync::Arc;

use crate::algorithm::horizon::Term;
use crate::algorithm::inherit::{Past, Unit};
use crate::algorithm::refill::{Bucket, Refill, Room, half};
use crate::algorithm::{AnyRule, Carry, Change, Moment, Numbers, Order, Refund, Rule, Taken, Verdict};
use crate::error::BuildError;
use crate::ring::Ring;
use crate::time::{Shift, Timestamp};

/// Every so many changes, `remember` drops old versions that no debt remains from. Seldom, because
/// this copies the rules.
const TRIM: u32 = 16;

/// A bucket in grains.
#[derive(Clone, Debug)]
pub struct Gcra {
    pub(crate) refill: Refill,
    /// Grains per token.
    pub(crate) price: u64,
    /// Grains in a full bucket.
    pub(crate) full: u64,
    /// Grains by which a request may exceed the full bucket, because it waits for its turn.
    pub(crate) patience: u64,
    /// Grains in half of the smallest bucket of the table.
    pub(crate) half: u64,
    /// The TAT of every bucket at the start of the refill clock. It is above the floor of the clock
    /// when buckets do not start full. A payload below it stands for it, or comes from an older
    /// version.
    pub(crate) start: u64,
    /// The smallest `start` of all tiers: no key has less debt.
    pub(crate) idle: u64,
    /// An upper bound for the TATs of this version that payloads of older versions convert to.
    pub(crate) settled: u64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
    /// Whether admitted requests wait for their turn.
    pub(crate) queue: bool,
    /// The quota before this one, if any.
    pub(crate) past: Option<Arc<Past<Self>>>,
}

impl Gcra {
    /// The rules of all tiers of a table. After a change, for a table that the older rules have
    /// written.
    pub(crate) fn tiers(
        buckets: &[Bucket],
        change: Option<(&[Self], Change<'_>)>,
    ) -> Result<Vec<Self>, BuildError> {
        let room = change.map_or(Room::ALL, |(olds, change)| {
            let top = olds.first().map_or(0, |old| old.refill.top(change.until));
            Room::after(change.since, top + 1)
        });
        let (refill, prices) = Refill::fit(buckets, room)?;
        let half = half(buckets, &prices);
        let rule = |(bucket, &price): (&Bucket, &u64)| {
            let (burst, full, start) = (bucket.burst, bucket.burst * price, refill.floor());
            let (refill, settled, queue) = (refill.clone(), start, bucket.queue);
            Self {
                refill,
                price,
                full,
                patience: 0,
                half,
                start,
                idle: start,
                settled,
                burst,
                queue,
                past: None,
            }
        };
        let mut rules: Vec<Self> = buckets.iter().zip(&prices).map(rule).collect();
        if let Some((olds, change)) = change {
            Self::remember(&mut rules, olds, change)?;
        }
        Ok(rules)
    }

    /// Links the rules to the `olds`, whose payloads they convert.
    fn remember(rules: &mut [Self], olds: &[Self], change: Change<'_>) -> Result<(), BuildError> {
        let Some(old) = olds.first() else { return Ok(()) };
        let ended = Moment { tick: old.refill.at(change.since), elapsed: 0 };
        let depth = |olds: &[Self]| olds.iter().map(Self::depth).max().unwrap_or(0);
        let olds: Vec<Self> = if depth(olds) % TRIM == 0 {
            olds.iter().map(|old| old.trimmed(&|tat| tat <= old.start.max(ended.tick))).collect()
        } else {
            olds.to_vec()
        };
        let depth = depth(&olds);
        let units = olds.iter().zip(&*rules).map(|(old, new)| (old.unit(), new.unit())).collect();
        for (rule, past) in rules.iter_mut().zip(Past::of(olds, ended, change, units, depth)?) {
            // Payloads of older versions may convert to more than the last version ever wrote.
            let most = past.rule.settled.max(rule.refill.floor() - 1);
            rule.settled = rule.carry_over(&past, most, Past::carried_by_any);
            rule.past = Some(past);
            rule.start = rule.converted(0, Past::carried);
        }
        Self::agree(rules);
        Ok(())
    }

    /// Sets the tokens in the buckets of each tier at the zero of the clock.
    pub(crate) fn start_with(rules: &mut [Self], tokens: impl Iterator<Item = u64>) {
        for (rule, tokens) in rules.iter_mut().zip(tokens) {
            rule.start = (rule.burst - tokens) * rule.price;
        }
        Self::agree(rules);
    }

    fn agree(rules: &mut [Self]) {
        let idle = rules.iter().map(|rule| rule.start).min().unwrap_or(0);
        rules.iter_mut().for_each(|rule| rule.idle = idle);
    }

    fn depth(&self) -> u32 {
        self.past.as_ref().map_or(0, |past| past.depth())
    }

    /// The rule without the versions from which no debt remains. A payload from before them stands
    /// for the debt of a key that was never seen, converted or not. `is_settled` says whether the
    /// newest version already reads a TAT of this version as that debt.
    fn trimmed(&self, is_settled: &dyn Fn(u64) -> bool) -> Self {
        let past = self.past.as_ref().filter(|_| !is_settled(self.settled));
        let past = past.map(|past| {
            let rule = past.rule.trimmed(&|tat| is_settled(self.carry_over(past, tat, Past::carried_by_any)));
            let depth = rule.depth();
            past.after(rule, depth)
        });
        Self { past, ..self.clone() }
    }

    fn unit(&self) -> Unit {
        Unit { price: self.price, burst: self.burst }
    }

    /// The TAT of a payload.
    fn tat(&self, payload: u64) -> u64 {
        if payload >= self.start { payload } else { self.below(payload) }
    }

    /// The TAT of a payload below `start`: no request ever charged the bucket, or an older version
    /// did.
    #[cold]
    #[inline(never)]
    fn below(&self, payload: u64) -> u64 {
        self.converted(payload, Past::carried).max(self.start)
    }

    /// Converts a payload of any version to this one. `carried` says how its debt changes.
    fn converted(&self, payload: u64, carried: fn(&Past<Self>, u64) -> u64) -> u64 {
        if payload >= self.refill.floor() {
            return payload;
        }
        let Some(past) = &self.past else { return payload };
        let tat = past.rule.converted(payload, carried).max(past.rule.start);
        self.carry_over(past, tat, carried)
    }

    /// Converts a TAT of the previous version to this one.
    fn carry_over(&self, past: &Past<Self>, tat: u64, carried: fn(&Past<Self>, u64) -> u64) -> u64 {
        let debt = carried(past, tat.saturating_sub(past.ended.tick));
        // The clock never reaches the top of a word.
        self.refill.floor().saturating_add(debt).min(Refill::TOP)
    }

    /// Whether a request that exceeds the bucket now has its turn soon enough.
    #[cold]
    #[inline(never)]
    fn waits(&self, tat: u64, now: u64) -> bool {
        tat - now - self.full <= self.patience && self.refill.extend(tat)
    }
}

impl Rule for Gcra {
    #[inline]
    fn limit(&self) -> u64 {
        self.burst
    }

    #[inline]
    fn moment(&self, now: Timestamp) -> Moment {
        Moment { tick: self.refill.at(now.as_nanos()), elapsed: 0 }
    }

    #[inline]
    fn quick_moment(&self, now: Timestamp) -> Option<Moment> {
        Some(Moment { tick: self.refill.quick_at(now.as_nanos())?, elapsed: 0 })
    }

    #[inline]
    fn quick_decide(&self, payload: u64, _: Ring<'_>, at: Moment, cost: u64) -> Option<Verdict> {
        if payload >= self.start {
            let tat = payload.max(at.tick) + cost * self.price;
            Some(if tat - at.tick <= self.full { Verdict::Allow(tat) } else { Verdict::Deny })
        } else {
            None
        }
    }

    #[inline]
    fn decide(&self, payload: u64, _: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let now = at.tick;
        let tat = self.tat(payload).max(now) + cost * self.price;
        let fits = tat - now <= self.full || self.patience > 0 && self.waits(tat, now);
        if fits { Verdict::Allow(tat) } else { Verdict::Deny }
    }

    #[inline]
    fn expired(&self, payload: u64, at: Moment) -> bool {
        self.current(payload) <= at.tick.max(self.idle)
    }

    #[inline]
    fn is_timely(&self, now: Timestamp) -> bool {
        self.refill.is_timely(now.as_nanos())
    }

    fn term(&self) -> Option<&Term> {
        Some(self.refill.term())
    }

    fn term_mut(&mut self) -> Option<&mut Term> {
        Some(self.refill.term_mut())
    }

    fn is_later(&self, payload: u64) -> bool {
        payload > self.refill.top(self.refill.term().horizon().until())
    }

    fn current(&self, payload: u64) -> u64 {
        self.converted(payload, Past::carried_by_any)
    }

    fn extend(&self, payload: u64) {
        self.refill.extend(payload);
    }

    fn refund(&self, payload: u64, taken: Taken, at: Moment, order: Order) -> Option<Refund> {
        let Taken { charged, since, cost } = taken;
        if self.is_later(payload) {
            return None;
        }
        let (now, cost) = (at.tick.max(since.tick), cost * self.price);
        let owed = charged.saturating_sub(now).min(cost);
        let back = match order {
            Order::Kept if payload == charged => owed,
            _ if self.queue => 0,
            // A reset has forgiven the debt meanwhile.
            Order::Kept if payload < charged => 0,
            Order::Kept if payload > now + self.full => owed.saturating_sub(payload - charged),
            Order::Kept => owed,
            Order::Lost => (since.tick + cost).saturating_sub(now),
            Order::LostAndBooked => 0,
        };
        let back = back.min(payload.saturating_sub(now.max(self.start)));
        (back > 0).then(|| Refund { payload: payload - back, units: back.div_ceil(self.price) })
    }

    fn less(&self, charged: u64, units: u64) -> u64 {
        charged.saturating_sub(units * self.price)
    }

    fn reorders(&self, payload: u64, taken: Taken) -> bool {
        !self.queue && payload != taken.charged
    }

    /// Each request of a queue has its own departure.
    fn ahead(&self) -> Option<Cow<'_, Self>> {
        (!self.queue).then_some(Cow::Borrowed(self))
    }

    fn half(&self, at: Moment) -> Option<u64> {
        Some(at.tick + self.half)
    }

    fn forgive(&self, _: u64, at: Moment) -> u64 {
        at.tick
    }

    fn bump(&self, payload: u64) -> u64 {
        self.current(payload) + 1
    }
}

impl Numbers for Gcra {
    fn remaining(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        let now = self.moment(now).tick;
        (now + self.full).saturating_sub(self.tat(payload).max(now)) / self.price
    }

    fn retry_after(&self, payload: u64, _: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let earliest = (self.tat(payload) + cost * self.price).saturating_sub(self.full);
        self.refill.until(earliest, now.as_nanos())
    }

    fn reset_after(&self, payload: u64, _: Ring<'_>, now: Timestamp) -> u64 {
        self.refill.until(self.tat(payload), now.as_nanos())
    }

    fn delay(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let behind = if self.queue { cost * self.price } else { self.full };
        if cost > 0 { self.refill.until(payload.saturating_sub(behind), now.as_nanos()) } else { 0 }
    }

    fn patient(&self, now: Timestamp, max_wait: u64, cost: u64) -> Option<Self> {
        let now = now.as_nanos();
        let drips = self.refill.drips(now, max_wait);
        let (full, patience) =
            if self.queue { (self.full.min(drips + cost * self.price), 0) } else { (self.full, drips) };
        Some(Self { full, patience, ..self.clone() })
    }

    fn wait(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        let tick = self.moment(now).tick;
        let tat = self.tat(payload).max(tick) + cost * self.price;
        // A request that finds no room in a queue has no turn to wait for.
        let full = self.queue && tat - tick > self.full;
        if full { self.retry_after(payload, Ring::NONE, now, cost) } else { self.delay(tat, now, cost) }
    }

    fn any(self) -> AnyRule {
        AnyRule::Gcra(self)
    }
}

impl Carry for Gcra {
    /// The TAT at the start of the first clock. Later clocks do not start with a debt again.
    fn origin(&self, fresh: &Self, now: Timestamp) -> u64 {
        self.anew(self.start, fresh, now)
    }

    fn with_origin(self, start: u64) -> Self {
        Self { start, idle: 0, ..self }
    }

    fn resuming(self, saved: &Self, shift: Shift) -> Self {
        let start = self.carry(saved.start, saved, shift);
        self.with_origin(start)
    }

    /// The remaining debt, in grains of the fresh rule.
    fn anew(&self, payload: u64, fresh: &Self, now: Timestamp) -> u64 {
        let tick = self.refill.at(now.as_nanos());
        let debt = self.current(payload).saturating_sub(tick);
        if debt == 0 {
            return 0;
        }
        let owed = (u128::from(debt) * u128::from(fresh.price)).div_ceil(u128::from(self.price));
        let tat = u128::from(fresh.refill.at(now.as_nanos())) + owed;
        u64::try_from(tat).unwrap_or(u64::MAX).min(Refill::TOP)
    }

    fn carry(&self, tat: u64, _: &Self, shift: Shift) -> u64 {
        self.refill.carry(tat, shift)
    }
}
