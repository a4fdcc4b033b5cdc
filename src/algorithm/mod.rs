//! The five algorithms and the in-flight limit: each is a pure function on one packed word.
//!
//! A user describes an [`Algorithm`] (`TokenBucket`, ...). `compile` checks it and turns it into a
//! [`Rule`], the same settings in the integers of one table. A rule reads no clock. It touches no
//! memory except, for the log, the ring of the slot.
//!
//! The *payload* is the part of a slot's word that belongs to the rule. The table relies on three
//! properties of every rule:
//!
//! * Payload 0 is a key that was never seen. A payload that has `expired` grants exactly as much.
//! * A charge increases the payload, so a compare-exchange on an old word fails. Only a refund, a
//!   reset and a guard decrease it, and only while the key owns the slot. No key starts from a
//!   payload that an earlier owner of the slot had: windows and logs expire with time alone,
//!   refunds or not; a bucket's new owner changes the fingerprint of the slot; the in-flight rule
//!   counts its charges.
//! * Where a rule gives `inheritable`, a smaller payload has no more debt than a larger one, now
//!   and at every later time. This holds for payloads of one version of the quota.
//!
//! A rule is plain data, and is asked about payloads and times of its own version only. `change`
//! has what a change of the quota does; the table's `versioned` converts older payloads and clamps
//! the time.

mod any_rule;
mod as_much;
mod call_quota;
mod change;
mod first_hit;
mod fixed_window;
mod gcra;
mod in_flight;
mod leaky_bucket;
mod packing;
mod parse;
mod payload;
mod quota;
mod refill;
mod sliding_log;
mod sliding_window;
pub(crate) mod staircase;
mod sub_windows;
#[cfg(test)]
mod tests;
mod token_bucket;
mod windows;

use std::fmt;

use crate::error::BuildError;
use crate::ring::Ring;
use crate::time::Timestamp;

pub(crate) use any_rule::AnyRule;
pub(crate) use any_rule::ToAny;
pub(crate) use as_much::AsMuch;
pub use call_quota::CallQuota;
pub use change::Inherit;
pub(crate) use change::{Carry, Past, Ranged, Transition, WithPast};
pub use first_hit::FirstHit;
pub use fixed_window::FixedWindow;
pub(crate) use gcra::Gcra;
pub(crate) use in_flight::InFlightRule;
pub use leaky_bucket::{LeakyBucket, Mode};
pub use parse::ParseQuotaError;
pub(crate) use payload::{Payload, Stored};
pub use quota::Quota;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// Width of a rule's payload; the table keeps the two bits above it.
pub(crate) const PAYLOAD_BITS: u32 = 62;

/// A limiter must run for this long before its clock reaches the end of a payload: ten years.
pub(crate) const UPTIME: u64 = 10 * 31_557_600_000_000_000;

/// The longest period, and the longest time in which a full bucket may refill: 73 years.
pub(crate) const LONGEST: u64 = (1 << 61) - 1;

/// Which requests a window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CountPolicy {
    /// Only admitted requests. A client that keeps sending is admitted again as soon as there is
    /// room.
    #[default]
    Allowed,
    /// Refused requests too. A client that keeps sending stays refused until it pauses. This is the
    /// one case in which a refusal charges. A request whose cost exceeds the limit is never
    /// counted, nor one that an allowance [shared](crate::WhenFull::Share) with other keys refuses.
    All,
}

/// How finely a limiter counts. A specification needs these numbers to predict every decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolution {
    /// Buckets: `Some(s)` when tokens are refilled in grains of `1/s` token, because the exact
    /// grain of the rate does not fit a word for ten years. A token may then come up to one grain
    /// early. A grain is less than a nanosecond of refill. Where a full bucket of some tier takes
    /// more than 73 years to refill, it is less than a millionth of a token. `None`: every decision
    /// is exact.
    pub grains: Option<u64>,
    /// Windows: counts stop here. Only [`CountPolicy::All`] and a
    /// [debit](crate::Account::debit) can reach it.
    pub ceiling: u64,
    /// Sliding counters: counts of closed windows are rounded up to a multiple of this. 1: exact.
    pub granule: u64,
    /// [`FirstHit`]: the nanoseconds of a tick, in which time is counted: a power of two, and at
    /// most a thousandth of the period. A window is then less than two ticks longer than its
    /// period, and never shorter. 1: exact.
    pub tick: u64,
}

/// A rate-limiting algorithm with its settings: [`TokenBucket`], [`LeakyBucket`], [`FixedWindow`],
/// [`SlidingWindow`], [`SlidingLog`]; [`FirstHit`], a form of the fixed window; [`Quota`] for any
/// of them chosen at run time; or [`CallQuota`], where the numbers come with each call.
///
/// Sealed: the table relies on the properties of its rules.
pub trait Algorithm: Compile {}

/// What the engine makes of an algorithm. Without a public name, so only the engine implements it.
pub trait Compile: Copy + fmt::Debug + Send + Sync + 'static {
    /// The algorithm in the integers of one table.
    type Rule: Numbers;

    /// Checks the settings of all tiers that share one table. The first tier is the default.
    ///
    /// `origin` is the Unix time, in nanoseconds, of the clock's zero. Windows align to it.
    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<Self::Rule>, BuildError>;

    /// Compiles `tiers`, which [`compile`](Self::compile) accepts, for a table whose words were
    /// written by `olds`, one rule for each tier, until the change.
    fn recompile(
        tiers: &[Self],
        origin: u64,
        olds: &[Self::Rule],
        change: Transition<'_>,
    ) -> Result<Vec<Self::Rule>, BuildError>;

    /// The quota as text, by which a restore compares it with the saved one.
    fn saved_as(&self) -> String;
}

/// The decision of a rule about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted: the payload becomes this.
    Allow(Payload),
    /// Refused: the payload stays what it was decided on.
    Deny(Payload),
    /// Refused, but counted (`CountPolicy::All`): the payload becomes this.
    DenyAndCount(Payload),
}

/// The result of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refund {
    /// The payload afterwards.
    pub(crate) payload: Payload,
    /// Units given back. A unit of which only a part comes back counts as one.
    pub(crate) units: u64,
    /// Units that the request may still cause, and that do not come back: an upper bound.
    pub(crate) short: u64,
    /// Of a bucket: a lower bound of the least debt since the request, without it. In ticks.
    pub(crate) rest: u64,
}

impl Refund {
    /// All that the request still causes.
    pub(crate) fn of(payload: Payload, units: u64) -> Self {
        Self { payload, units, short: 0, rest: 0 }
    }
}

/// An admitted request whose charge is to be given back.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The payload right after it was charged.
    pub(crate) charged: Payload,
    /// When it was charged.
    pub(crate) since: Moment,
    pub(crate) cost: u64,
}

/// What the caller knows about other refunds of the key since the request was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundOrder {
    /// There was none, or each gave back the newest request.
    Kept,
    /// As `Kept`, and some request may be booked ahead.
    KeptAndBooked,
    /// A request that was not the newest may have been given back.
    Lost {
        /// Of a bucket: a lower bound of the least debt since. In ticks.
        least: u64,
    },
    /// As `Lost`, and some request may be booked ahead.
    LostAndBooked,
}

/// An instant as a rule reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Buckets: grains since the clock's zero. Windows: the number of the window. Log: nanoseconds.
    pub(crate) tick: u64,
    /// Windows: nanoseconds since the start of the window. Otherwise 0.
    pub(crate) elapsed: u64,
}

/// Work on a rule whose algorithm the compiler knows.
pub trait Visit {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<R: Rule>(self, rule: &R) -> Self::Output;
}

/// An algorithm in the integers of one table, as the table calls it: plain data, and pure
/// functions. Costs are between 1 and the limit.
pub trait Rule: Ranged + Ringed {
    /// Hands the rule over as that of its algorithm. So a rule that may be any is told apart once,
    /// and not at each step of a check.
    #[inline(always)]
    fn by_algorithm<V: Visit>(&self, visit: V) -> V::Output
    where
        Self: Sized,
    {
        visit.visit(self)
    }

    /// The same, if the algorithm decides in so few instructions that a check of several limits
    /// writes them out for each. `None`: another one, or one with a ring.
    #[inline(always)]
    fn by_quick_algorithm<V: Visit>(&self, visit: V) -> Option<V::Output>
    where
        Self: Sized,
    {
        if Self::RINGED { None } else { Some(visit.visit(self)) }
    }

    /// The largest cost that the rule can admit at once.
    fn limit(&self) -> u64;

    /// `now` as this rule counts time: at the earliest the start of its version, and at the latest
    /// the last nanosecond that payloads have room for.
    fn moment(&self, now: Timestamp) -> Moment;

    /// Decides one request.
    fn decide(&self, payload: Payload, ring: Ring<'_>, at: Moment, cost: u64) -> Verdict;

    /// `decide`, where the payload shows to be the rule's own.
    #[inline]
    fn decide_own(&self, stored: Stored, ring: Ring<'_>, at: Moment, cost: u64) -> Option<Verdict> {
        Some(self.decide(self.own(stored, at)?, ring, at, cost))
    }

    /// Whether the key has as much available as one that was never seen, and no charge in flight
    /// can still expect this payload after another key has started from it.
    fn expired(&self, payload: Payload, at: Moment) -> bool;

    /// `payload` without its debt. `Ringed::erase` clears the ring.
    fn forgive(&self, payload: Payload, at: Moment) -> Payload;

    /// Gives back `taken` from `payload`. It never gives back more than the part of the debt that
    /// the request certainly still causes, so it creates no tokens. `None`: nothing comes back.
    ///
    /// The last `cost` units of a larger request can be given back, too: a request of `n` leaves
    /// the same payload as a request of `n - cost` and then one of `cost` at the same instant, and
    /// the second is given back. A [credit](Self::credit) may ask for any number of units.
    fn refund(&self, payload: Payload, taken: Taken, at: Moment, order: RefundOrder) -> Option<Refund>;

    /// Gives back up to `units` of any requests, the newest first: as if the latest request had
    /// cost all of the key's debt and were given back. `units` may be any number. `None`: there is
    /// nothing to give back.
    fn credit(&self, payload: Payload, _ring: Ring<'_>, at: Moment, units: u64) -> Option<Refund> {
        self.refund(payload, Taken { charged: payload, since: at, cost: units }, at, RefundOrder::Kept)
    }

    /// Whether the key is in debt.
    fn is_in_debt(&self, payload: Payload, at: Moment) -> bool {
        !self.expired(payload, at)
    }

    /// The largest payload of a key that may be evicted: its debt is half of the smallest limit.
    /// `None` when payloads cannot be compared, that is, unless a larger payload has more debt at
    /// every later time.
    fn inheritable(&self, _at: Moment) -> Option<Payload> {
        None
    }

    /// Whether the new keys of a full bucket may share an allowance, where none may inherit a slot.
    /// The table is built accordingly.
    fn may_share(&self) -> bool {
        true
    }

    /// A larger payload that grants the same to within one step of the clock or count of the rule.
    fn bump(&self, payload: Payload) -> Payload {
        Payload(payload.0 + 1)
    }

    /// The payload that a charge would have left if its request had been `units` smaller. A later
    /// refund of the rest is judged by it. Rules that need only the window of a charge return
    /// `charged` itself.
    fn less(&self, charged: Payload, _units: u64) -> Payload {
        charged
    }

    /// Whether a full bucket may admit a request by this rule uncounted (`WhenFull::Allow`).
    fn may_go_uncounted(&self) -> bool {
        true
    }

    /// Whether what a refund gives back depends on the refunds before it.
    fn needs_order(&self) -> bool {
        false
    }
}

/// A ring beside each slot. The defaults are those of rules without one; the log has one. Its
/// payloads mean the same in all versions of a quota, so they are taken as they are stored.
pub trait Ringed {
    /// Whether the rule keeps a ring. Then a store of the word must also publish the ring.
    const RINGED: bool = false;

    /// Ring entries per key.
    fn ring_len(&self) -> u64 {
        0
    }

    /// Writes the time of the request into the ring ahead of the head. `unmoved` says whether the
    /// slot's word is still the one decided on. `false`: the ring moved, decide again.
    #[inline]
    fn stage(
        &self,
        _payload: Stored,
        _ring: Ring<'_>,
        _at: Moment,
        _cost: u64,
        _unmoved: impl Fn() -> bool,
    ) -> bool {
        true
    }

    /// Clears the ring of a key that has this payload. `unmoved` says whether the word is still the
    /// one that the caller read. `false`: the word changed.
    fn erase(&self, _payload: Stored, _ring: Ring<'_>, _unmoved: impl Fn() -> bool) -> bool {
        true
    }

    /// The times behind the head that have not left the window at `at`, newest first.
    fn times(&self, _payload: Stored, _ring: Ring<'_>, _at: Moment, _into: &mut Vec<u64>) {}

    /// Writes `times`, newest first, into the ring, and returns `payload` with the matching head.
    /// No other thread can use the ring yet.
    fn log(&self, payload: Payload, _ring: Ring<'_>, _times: &[u64]) -> Payload {
        payload
    }
}

/// What requests that are charged before they act ask of a rule. The defaults are those of the
/// windows, which cannot predict a turn.
pub trait Booking: Copy {
    /// The rule by which a lease acquires permits before requests spend them. When a lease is
    /// refused, no request was refused, so the refusal is not counted. `None` where each request
    /// has its own departure.
    fn ahead(&self) -> Option<Self>;

    /// The rule for a request of `cost` that may wait for its turn, up to `max_wait` nanoseconds
    /// after `now`. `None` for algorithms that cannot predict a turn.
    fn patient(&self, _now: Timestamp, _max_wait: u64, _cost: u64) -> Option<Self> {
        None
    }

    /// The rule for a request that is charged at `now` as if it came at its departure, `wait`
    /// nanoseconds later, when all of several limits have its turn. Other keys' debts count as they
    /// are now. `None` for algorithms that cannot predict a turn.
    fn departing(&self, _now: Timestamp, _wait: u64) -> Option<Self> {
        None
    }

    /// Charges `cost` units on top of `payload`, over the limit if need be, or as many as a word
    /// has room for while its version lasts: at most `last` nanoseconds. How many, and the payload
    /// afterwards. `None` for the log, whose ring holds no more units than its limit.
    fn debit(&self, payload: Payload, at: Moment, cost: u64, last: u64) -> Option<(u64, Payload)>;

    /// Nanoseconds that a request of `cost` on top of `payload` would have to wait for its turn, or
    /// for room.
    fn wait(&self, payload: Payload, now: Timestamp, cost: u64) -> u64
    where
        Self: Numbers,
    {
        self.retry_after(payload, Ring::NONE, now, cost)
    }

    /// Nanoseconds that a request of `cost` must wait before it acts. It was admitted at `now` and
    /// left `payload`.
    fn delay(&self, _payload: Payload, _now: Timestamp, _cost: u64) -> u64 {
        0
    }
}

/// The numbers of a decision besides yes and no. Only rules that read time have them.
pub trait Numbers: Rule + Booking + Carry + ToAny + Send + Sync + 'static {
    /// The largest cost that `decide` admits at `at` on top of `payload`; 0: none.
    fn remaining_at(&self, payload: Payload, ring: Ring<'_>, at: Moment) -> u64;

    /// The cost that can be admitted at `now` on top of `payload`.
    fn remaining(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64 {
        self.remaining_at(payload, ring, self.moment(now))
    }

    /// Nanoseconds until a request of `cost` that is refused at `now` is admitted.
    fn retry_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp, cost: u64) -> u64;

    /// Nanoseconds until more can be admitted than at `now`; 0 if the whole limit can be.
    fn more_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64 {
        match self.remaining(payload, ring, now) {
            remaining if remaining >= self.limit() => 0,
            remaining => self.retry_after(payload, ring, now, remaining + 1),
        }
    }

    /// Nanoseconds until the key has as much available as one that was never seen.
    fn reset_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64;

    /// Nanoseconds until a slot with this payload [expires](Rule::expired), so that another key may
    /// own it: not until its key has the whole limit again, which a refund may make sooner.
    fn vacant_after(&self, payload: Payload, ring: Ring<'_>, now: Timestamp) -> u64;
}
