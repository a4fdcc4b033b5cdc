//! The sliding window log.

use std::fmt;

use crate::algorithm::windows::{same, shared, shared_period};
use crate::algorithm::{
    Algorithm, Booking, Carry, Compile, CountPolicy, LONGEST, Moment, Numbers, PAYLOAD_BITS, Payload, Ranged,
    Refund, RefundOrder, Ringed, Rule, Stored, Taken, Transition, UPTIME, Verdict,
};
use crate::bits::{Field, bits};
use crate::error::{BuildError, within};
use crate::rate::Rate;
use crate::ring::{Entry, Ring};
use crate::time::{Shift, Timestamp, div_ceil};

/// A sliding window log: remembers the time of each admitted unit, and so knows the count of any
/// window exactly.
///
/// **Guarantee.** At most `limit` in every window `(t - period, t]`, exactly: a unit admitted at
/// `t` leaves the window at `t + period`, not a nanosecond sooner.
///
/// **Formula.** admitted iff at most `limit - cost` of the logged times lie in
/// `(now - period, now]`. A request whose time is before the newest logged time counts at that
/// time; so does one whose time is before that of a request that was given back, where the clock
/// steps back after a refund.
///
/// **Memory.** A ring of `limit` words per key beside the slot, so `8 * limit` bytes for every slot
/// of the table. [`memory`](crate::Builder::memory) computes the total and `memory_budget` bounds
/// it. The system commits a page of the rings when a slot of that page is first used. Rings never
/// move, so this table does not grow.
///
/// After a spike, [save](crate::Limiter::save) the limiter and [restore](crate::Builder::restore) a
/// new one: it has the remaining debts, and memory for those keys alone. Or use two or three
/// [sub-windows](crate::SlidingWindow::subwindows): they keep to the limit in any window, too, in
/// one word per key. More of them have no room for limits of thousands.
///
/// **Cost.** One compare-exchange for the admission, and one for each unit of cost to write its
/// time. Reading `remaining` takes a binary search.
///
/// **Source.** folklore (the "sliding window log" of rate-limiter interviews); the ring is this
/// crate's own.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, ManualClock, Rate, SlidingLog};
///
/// let clock = ManualClock::new();
/// let quota = SlidingLog::new(Rate::per_second(2));
/// let limiter = Limiter::builder(quota).clock(clock.clone()).build()?;
/// assert!(limiter.check_n((), 2).is_allowed());
/// clock.advance(Duration::from_nanos(999_999_999));
/// assert_eq!(limiter.check(()).retry_after(), Some(Duration::from_nanos(1)));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    pub(super) rate: Rate,
    pub(super) count: CountPolicy,
}

/// The largest limit of a log: its ring takes eight bytes per unit.
const LONGEST_RING: u64 = 1 << 24;

/// Whether the log may have times in its window: 0 for a key that was never seen, or was reset.
const LIVE: Field = Field::lowest(PAYLOAD_BITS - 1).above(1);

impl SlidingLog {
    /// At most `rate.count()` in any window of `rate.period()`.
    #[must_use]
    pub const fn new(rate: Rate) -> Self {
        Self { rate, count: CountPolicy::Allowed }
    }

    /// Sets which requests the log keeps. Default: only admitted ones.
    #[must_use]
    pub const fn count(mut self, count: CountPolicy) -> Self {
        self.count = count;
        self
    }
}

impl fmt::Display for SlidingLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sliding-log:{}", self.rate)?;
        if self.count == CountPolicy::All { write!(f, ",count=all") } else { Ok(()) }
    }
}

impl Algorithm for SlidingLog {}

impl Compile for SlidingLog {
    type Rule = LogRule;

    fn saved_as(&self) -> String {
        self.to_string()
    }

    fn compile(tiers: &[Self], _: u64) -> Result<Vec<LogRule>, BuildError> {
        let count = shared("count", tiers.iter().map(|tier| tier.count))?;
        for tier in tiers {
            within("rate.count", tier.rate.count(), 1_u64, LONGEST_RING)?;
        }
        let ring = tiers.iter().map(|tier| tier.rate.count()).max().unwrap_or(1);
        // The word must not recur within a window: two laps of the ring take at least two periods.
        let shortest = LogRule::new(ring, LONGEST, ring, count).shortest_period();
        let period = shared_period(tiers.iter().map(|tier| tier.rate), shortest..=LONGEST)?;
        let rule = |tier: &Self| LogRule::new(tier.rate.count(), period, ring, count);
        Ok(tiers.iter().map(rule).collect())
    }

    /// The ring and the word stay as they were built: they are valid under any limit up to the
    /// length of the ring.
    fn recompile(
        tiers: &[Self],
        _: u64,
        olds: &[LogRule],
        change: Transition<'_>,
    ) -> Result<Vec<LogRule>, BuildError> {
        let rule = |(tier, old): (&Self, &LogRule)| {
            let limit = tier.rate.count();
            same("rate.period", tier.rate.period_nanos() == old.period)?;
            same("count", tier.count == old.count)?;
            within("rate.count", limit, 1_u64, old.ring)?;
            Ok(LogRule { limit, ..*old })
        };
        change.keeps(olds.iter().zip(tiers).map(|(old, tier)| (old.limit, tier.rate.count())))?;
        tiers.iter().zip(olds).map(rule).collect()
    }
}

/// A log's word: the head of its ring, and roughly the time at which the head last moved.
///
/// ```text
///   61     60                               h 0
///  +------+----------------------------------+------------------+
///  | live |  newest, in steps, rounded up    |  head mod 2*ring |
///  +------+----------------------------------+------------------+
/// ```
///
/// `newest` lets a scan see that all times of a log have left its window, without reading the ring.
/// It also counts the laps and the resets: whenever the head comes round, and with every reset, it
/// rises by a step at least. A refund and a credit lower both, but never below the time of a unit
/// that is left, nor below the last reset, since the times before it are erased. So neither a
/// logged request nor a reset brings an earlier word back, and a thread that read that word decides
/// again. Refusals that count make the head come round even while the clock stands still.
#[derive(Clone, Copy, Debug)]
pub struct LogRule {
    limit: u64,
    period: u64,
    ring: u64,
    head: Field,
    newest: Field,
    step: u32,
    /// The last nanosecond of the log's time.
    end: u64,
    /// Nanoseconds from the log's zero to the clock's zero: room for times of a restored log that
    /// lie before this clock.
    lead: u64,
    count: CountPolicy,
}

/// The state of the ring at one read.
#[derive(Clone, Copy)]
struct LogState {
    /// The position of the next entry.
    head: u64,
    /// The time of the request, and not before the newest entry.
    now: u64,
}

impl LogRule {
    fn new(limit: u64, period: u64, ring: u64, count: CountPolicy) -> Self {
        let head = Field::lowest(bits(2 * ring - 1));
        let newest = head.above(LIVE.start() - head.end());
        // The step with which the field counts through twenty years.
        let step = bits(2 * UPTIME / newest.max());
        let end = (newest.max() << step).min(Ring::END);
        Self { limit, period, ring, head, newest, step, end, lead: 0, count }
    }

    /// The shortest period in which the word does not recur.
    fn shortest_period(&self) -> u64 {
        1 << self.step
    }

    fn state(&self, payload: Payload, ring: Ring<'_>, now: u64) -> LogState {
        let head = self.head.get(payload.0);
        let newest = ring.entry(self.wrapped(head + 3 * self.ring - 1 - ring.foreseen()));
        let now =
            if newest.is_proposed() { now } else { newest.when().map_or(now, |newest| newest.max(now)) };
        LogState { head, now }
    }

    /// The time at which a request of `cost` counts, over the entry `oldest`. A proposal over that
    /// proves that the entry had left by the proposed time, and no earlier. And the times of a ring
    /// never decrease: none of its units counts before a proposal at another's position.
    fn counts_at(&self, ring: Ring<'_>, state: LogState, oldest: Entry, cost: u64) -> LogState {
        // Where the ring is as long as the limit, `oldest` is at the last position.
        let others = cost - u64::from(self.ring == self.limit);
        let proposed = (0..others).map(|next| ring.entry(state.head + next).proposed_at());
        LogState { now: proposed.fold(state.now.max(oldest.proposed_at()), u64::max), ..state }
    }

    /// The instant at which the unit `back` positions before the head leaves the window; `None`
    /// when it has left. An entry with a proposal for the next lap had left, unless the proposal
    /// says otherwise.
    fn leaves(&self, ring: Ring<'_>, state: &LogState, back: u64) -> Option<u64> {
        if back <= ring.foreseen() {
            return Some(state.now.saturating_add(self.period));
        }
        self.leaves_by(ring.entry(state.head + self.ring - back), state.now)
    }

    /// The same for an entry of the ring.
    fn leaves_by(&self, entry: Entry, now: u64) -> Option<u64> {
        if entry.is_proposed() && !entry.is_over_live() {
            return None;
        }
        let leaves = entry.when()?.saturating_add(self.period);
        (leaves > now).then_some(leaves)
    }

    /// How many of the last `limit` units are inside the window: always the newest ones.
    fn inside(&self, ring: Ring<'_>, state: &LogState) -> u64 {
        let (mut inside, mut outside) = (0, self.limit + 1);
        while inside + 1 < outside {
            let middle = inside.midpoint(outside);
            if self.leaves(ring, state, middle).is_some() { inside = middle } else { outside = middle }
        }
        inside
    }

    /// The position two laps lower, unless it is below two laps.
    #[inline]
    fn wrapped(&self, position: u64) -> u64 {
        let laps = 2 * self.ring;
        if position < laps { position } else { position - laps }
    }

    /// The live word after `cost` more units: its head passes them, and a lap raises its time. Less
    /// a step for the lap, the time is still not before that of any unit: see `less`.
    fn logged(&self, payload: Payload, state: LogState, cost: u64) -> Payload {
        let passed = state.head + cost;
        let head = self.wrapped(passed);
        let lap = u64::from(head != passed);
        let newest = self.newest.get(payload.0).max((state.now >> self.step) + 1) + lap;
        self.live(newest, head)
    }

    /// The word of a log with times, the latest of them `newest` steps after zero or later.
    fn live(&self, newest: u64, head: u64) -> Payload {
        Payload(LIVE.of(1) | self.newest.of(newest.min(self.newest.max())) | self.head.of(head))
    }

    /// The end of the step of the newest time. `None` when there is no time.
    fn newest(&self, payload: Payload) -> Option<u64> {
        (LIVE.get(payload.0) == 1).then(|| self.newest.get(payload.0) << self.step)
    }
}

/// The word is valid under any limit up to the length of the ring.
impl Ranged for LogRule {}

impl Rule for LogRule {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn moment(&self, now: Timestamp) -> Moment {
        // Time ends where the fields of the word and the ring end. From there on nothing leaves the
        // window: logs fail closed.
        Moment { tick: now.as_nanos().saturating_add(self.lead).min(self.end), elapsed: 0 }
    }

    fn decide(&self, payload: Payload, ring: Ring<'_>, at: Moment, cost: u64) -> Verdict {
        let state = self.state(payload, ring, at.tick);
        // The `cost` new units overwrite every entry further back than `limit - cost`.
        let oldest = ring.entry(state.head + self.ring - (self.limit + 1 - cost));
        if self.leaves_by(oldest, state.now).is_none() {
            // An earlier time in the word would free the slot while the ring still counts.
            return Verdict::Allow(self.logged(payload, self.counts_at(ring, state, oldest, cost), cost));
        }
        match self.count {
            CountPolicy::Allowed => Verdict::Deny(payload),
            CountPolicy::All => {
                let state = self.counts_at(ring, state, oldest, cost);
                Verdict::DenyAndCount(self.logged(payload, state, cost))
            }
        }
    }

    fn expired(&self, payload: Payload, at: Moment) -> bool {
        self.newest(payload).is_none_or(|newest| newest.saturating_add(self.period) <= at.tick)
    }

    fn forgive(&self, payload: Payload, _: Moment) -> Payload {
        Payload(LIVE.set(self.bump(payload).0, 0))
    }

    /// Only the newest admission can be given back: the times before it must stay in order, and
    /// each must stay as long as the request that it stands for. The head moves back over its
    /// entries, which become proposals again.
    fn refund(&self, payload: Payload, taken: Taken, at: Moment, _: RefundOrder) -> Option<Refund> {
        // `expired` alone is too late: the word holds the newest time rounded up.
        let left = self.expired(payload, at) || taken.since.tick.saturating_add(self.period) <= at.tick;
        if left {
            return None;
        }
        Some(if payload == taken.charged {
            Refund::of(self.less(payload, taken.cost), taken.cost)
        } else {
            Refund { short: taken.cost, ..Refund::of(payload, 0) }
        })
    }

    /// The newest entries that are inside the window. An entry that a refused request wrote over
    /// another one inside the window stays, and so do those before it: without it the other one
    /// would be missing.
    fn credit(&self, payload: Payload, ring: Ring<'_>, at: Moment, units: u64) -> Option<Refund> {
        let LogState { head, now } = self.state(payload, ring, at.tick);
        let counts = |back: u64| {
            let entry = ring.entry(self.wrapped(head + 2 * self.ring - back));
            let is_inside = |when: u64| when.saturating_add(self.period) > now;
            entry.is_proposed() && !entry.is_over_live() && entry.when().is_some_and(is_inside)
        };
        let units = (1..=units.min(self.ring)).take_while(|&back| counts(back)).count() as u64;
        (units > 0).then(|| Refund::of(self.less(payload, units), units))
    }

    fn bump(&self, payload: Payload) -> Payload {
        let newest = (self.newest.get(payload.0) + 1).min(self.newest.max());
        Payload(self.newest.set(payload.0, newest))
    }

    /// The head moves back, and a lap that it goes back to has the time from before
    /// [`logged`](Self::logged) raised it. The largest time stays: it may have been too large to
    /// raise.
    fn less(&self, charged: Payload, units: u64) -> Payload {
        let (head, newest) = (self.head.get(charged.0), self.newest.get(charged.0));
        let lap = u64::from(head < units);
        let head = head + lap * 2 * self.ring - units;
        self.live(newest - lap.min(self.newest.max() - newest), head)
    }
}

impl Ringed for LogRule {
    const RINGED: bool = true;

    fn ring_len(&self) -> u64 {
        self.ring
    }

    fn stage(
        &self,
        payload: Stored,
        ring: Ring<'_>,
        at: Moment,
        cost: u64,
        unmoved: impl Fn() -> bool,
    ) -> bool {
        let LogState { head, mut now } = self.state(Payload(payload.bits()), ring, at.tick);
        (0..cost).all(|next| {
            let entry = ring.entry(head + next);
            // No unit counts before the one behind it.
            now = now.max(entry.proposed_at());
            // A refused request that counts is logged over an entry that is still inside the
            // window.
            let inside = !entry.is_proposed() || entry.is_over_live();
            let live = inside && entry.when().is_some_and(|when| when.saturating_add(self.period) > now);
            unmoved() && ring.propose(head + next, entry, now, live)
        })
    }

    fn erase(&self, payload: Stored, ring: Ring<'_>, unmoved: impl Fn() -> bool) -> bool {
        ring.erase(self.head.get(payload.bits()), unmoved)
    }

    fn times(&self, payload: Stored, ring: Ring<'_>, at: Moment, into: &mut Vec<u64>) {
        let head = self.head.get(payload.bits());
        let logged = |back: u64| {
            let entry = ring.entry(head + self.ring - back);
            let left = entry.is_proposed() && !entry.is_over_live();
            entry.when().filter(|when| !left && when.saturating_add(self.period) > at.tick)
        };
        into.extend((1..=self.ring).map_while(logged));
    }

    fn log(&self, payload: Payload, ring: Ring<'_>, times: &[u64]) -> Payload {
        ring.rewrite(times.iter().rev().copied());
        let newest = times.first().map_or(0, |newest| (newest >> self.step) + 1);
        self.live(newest.max(self.newest.get(payload.0)), times.len() as u64)
    }
}

impl Booking for LogRule {
    fn ahead(&self) -> Option<Self> {
        Some(Self { count: CountPolicy::Allowed, ..*self })
    }

    fn debit(&self, _: Payload, _: Moment, _: u64, _: u64) -> Option<(u64, Payload)> {
        None
    }
}

impl Numbers for LogRule {
    fn remaining_at(&self, payload: Payload, ring: Ring<'_>, at: Moment) -> u64 {
        let state = self.state(payload, ring, at.tick);
        self.limit - self.inside(ring, &state)
    }

    fn retry_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp, cost: u64) -> u64 {
        let state = self.state(payload, ring, self.moment(now).tick);
        let leaves = self.leaves(ring, &state, self.limit + 1 - cost);
        leaves.unwrap_or(state.now).saturating_sub(self.moment(now).tick)
    }

    fn reset_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64 {
        let state = self.state(payload, ring, self.moment(now).tick);
        self.leaves(ring, &state, 1).map_or(0, |leaves| leaves.saturating_sub(self.moment(now).tick))
    }

    /// Up to two steps after the newest unit leaves: the word holds its time in steps, rounded up,
    /// and one more when the head has come round.
    fn vacant_after(&self, payload: Payload, _: Ring<'_>, now: Timestamp) -> u64 {
        let leaves = self.newest(payload).map_or(0, |newest| newest.saturating_add(self.period));
        leaves.saturating_sub(self.moment(now).tick)
    }
}

impl LogRule {
    /// How much later an instant of `saved` reads in this log.
    fn later_than(&self, saved: &Self, shift: Shift) -> i128 {
        shift.nanos() + i128::from(self.lead) - i128::from(saved.lead)
    }
}

impl Carry for LogRule {
    fn room(&self) -> u64 {
        self.ring
    }

    fn with_room(self, ring: u64) -> Option<Self> {
        let rule = (self.limit..=LONGEST_RING)
            .contains(&ring)
            .then(|| Self { lead: self.lead, ..Self::new(self.limit, self.period, ring, self.count) })?;
        (rule.shortest_period() <= rule.period).then_some(rule)
    }

    fn origin(&self, _: &Self, _: Timestamp) -> u64 {
        self.lead
    }

    fn with_origin(self, lead: u64) -> Self {
        Self { lead, ..self }
    }

    /// The log's zero stays, or moves to one period before the clock's: older times have left the
    /// window.
    fn resuming(self, saved: &Self, shift: Shift) -> Self {
        let lead = (i128::from(saved.lead) - shift.nanos()).clamp(0, self.period.into());
        Self { lead: lead as u64, ..self }
    }

    fn carry(&self, payload: u64, saved: &Self, shift: Shift) -> Payload {
        let newest = self.newest(Payload(payload));
        let moved = newest.map_or(0, |newest| i128::from(newest) + self.later_than(saved, shift));
        if moved <= 0 {
            return Payload::UNSEEN;
        }
        self.live(div_ceil(moved, 1 << self.step).min(self.newest.max().into()) as u64, 0)
    }

    /// The ring is saved separately, as `times`.
    fn anew(&self, payload: Payload, _: &Self, _: Timestamp) -> Payload {
        match LIVE.get(payload.0) {
            0 => Payload::UNSEEN,
            _ => self.live(self.newest.get(payload.0), 0),
        }
    }

    fn carry_time(&self, when: u64, saved: &Self, shift: Shift) -> Option<u64> {
        let moved = i128::from(when) + self.later_than(saved, shift);
        (moved >= 0).then(|| moved.min(Ring::END.into()) as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
