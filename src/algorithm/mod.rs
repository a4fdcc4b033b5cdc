//! The five algorithms, and the limit on what is in flight: each a pure function on one packed word.
//!
//! What a user writes down (`TokenBucket`, ...) is an [`Algorithm`]; `compile` judges it and turns it into a [`Rule`],
//! the same thing in the integers of one table. A rule reads no clock; it touches no memory but, for the log, the
//! slot's ring.
//!
//! A rule's *payload* is the part of a slot's word that belongs to it. Three things hold for each, and the table
//! rests on them:
//!
//! * payload 0 is a key that was never seen, and a payload that `expired` is worth exactly as much;
//! * a charge moves the payload forward, so that a compare-exchange on an old word fails. Only a refund, a reset and a
//!   guard move it back, while the key has the slot. No key starts from a payload that an earlier owner of the slot has
//!   had: windows and logs expire with time alone, whatever is given back; for buckets the slot's name tells; what is
//!   in flight counts its charges;
//! * where `half` is given, a smaller payload owes no more than a larger one, now and at every later time: of payloads
//!   that one version of the quota wrote, so compare what `current` makes of them (see `inherit`).

mod carry;
mod each;
mod fixed_window;
mod gcra;
mod in_flight;
mod inherit;
mod leaky_bucket;
mod packing;
mod parse;
mod quota;
mod reach;
mod refill;
mod settings;
mod sliding_log;
mod sliding_window;
mod sub_windows;
#[cfg(test)]
mod tests;
mod token_bucket;
mod windows;

use std::fmt;

use std::borrow::Cow;

use crate::error::BuildError;
use crate::ring::Ring;
use crate::time::Timestamp;

pub(crate) use carry::Carry;
pub(crate) use each::Each;
pub use fixed_window::FixedWindow;
pub(crate) use in_flight::InFlightRule;
pub(crate) use inherit::Change;
pub use inherit::Inherit;
pub use leaky_bucket::{LeakyBucket, Mode};
pub use parse::ParseQuotaError;
pub use quota::Quota;
pub(crate) use quota::{AnyRule, for_rule};
pub(crate) use reach::Term;
pub(crate) use settings::Settings;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// Width of a rule's payload; the table keeps the two bits above it.
pub(crate) const PAYLOAD_BITS: u32 = 62;

/// The longest time a limiter must run without its clock reaching the end of a payload: ten years.
pub(crate) const UPTIME: u64 = 10 * 31_557_600_000_000_000;

/// The longest period, and the longest time in which a full bucket may refill: 73 years.
pub(crate) const LONGEST: u64 = (1 << 61) - 1;

/// Which requests a window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum CountPolicy {
    /// Only the admitted ones: a client that keeps knocking is admitted again as soon as there is room.
    #[default]
    Allowed,
    /// Refused ones too: a client that keeps knocking stays out until it pauses. The one case in which a refusal
    /// writes. A cost above the limit is never counted.
    All,
}

/// How finely a limiter counts: what a specification needs to know to agree with it decision by decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolution {
    /// Buckets: `Some(s)` when tokens drip in grains of `1/s` token, because the rate's exact grain does not fit a
    /// word for ten years: a token may come up to one grain early. A grain is worth less than a nanosecond, or, when a
    /// full bucket of some tier takes more than 73 years to refill, less than a millionth of a token. `None`: every decision is exact.
    pub grains: Option<u64>,
    /// Windows: counts stop here. Only [`CountPolicy::All`] gets that far.
    pub ceiling: u64,
    /// Sliding counters: closed windows are remembered to the next multiple of this. 1: exactly.
    pub granule: u64,
}

/// A rate-limiting algorithm with its settings: [`TokenBucket`], [`LeakyBucket`], [`FixedWindow`],
/// [`SlidingWindow`], [`SlidingLog`], or [`Quota`] for any of them chosen at run time.
///
/// Sealed: the table relies on what its rules promise.
pub trait Algorithm: Copy + fmt::Debug + Send + Sync + 'static + sealed::Sealed {
    /// The algorithm in the integers of one table.
    #[doc(hidden)]
    type Rule: Numbers;

    /// Judges the settings of all the tiers that share one table. The first is the default.
    ///
    /// `origin` is the Unix time of the clock's zero in nanoseconds, to which windows align.
    #[doc(hidden)]
    fn compile(tiers: &[Self], origin: u64) -> Result<Vec<Self::Rule>, BuildError>;

    /// The same for a table whose words the rules `olds`, as many as there are `tiers`, have written until a change.
    #[doc(hidden)]
    fn recompile(
        tiers: &[Self],
        origin: u64,
        olds: &[Self::Rule],
        change: Change<'_>,
    ) -> Result<Vec<Self::Rule>, BuildError>;

    /// The settings one by one.
    #[doc(hidden)]
    fn settings(&self) -> Settings;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// What a rule says of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted: the payload becomes this.
    Allow(u64),
    /// Refused: nothing changes.
    Deny,
    /// Refused, but counted (`CountPolicy::All`): the payload becomes this.
    DenyAndCount(u64),
}

/// What a refund comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refund {
    /// The payload afterwards.
    pub(crate) payload: u64,
    /// Units given back, a begun one as a whole.
    pub(crate) units: u64,
}

/// An admitted request that is to be given back.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The payload right after it was charged.
    pub(crate) charged: u64,
    /// When it was charged.
    pub(crate) since: Moment,
    pub(crate) cost: u64,
}

/// What is known of the key's other refunds since the request was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// None, or only of the newest request.
    Kept,
    /// There may have been one of another.
    Lost,
    /// There may have been one of another, and somebody may be booked ahead.
    LostAndBooked,
}

/// A moment as a rule reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Buckets: grains since the clock's zero. Windows: the window's number. Log: nanoseconds.
    pub(crate) tick: u64,
    /// Windows: nanoseconds since the window's start. Otherwise 0.
    pub(crate) elapsed: u64,
}

/// An algorithm in the integers of one table: what the table asks of it. Costs are between 1 and the limit.
pub trait Rule: Clone + Send + Sync + 'static {
    /// Whether the rule keeps a ring, so that a change of the word must publish the ring too.
    const RINGED: bool = false;

    /// For how long this version of the quota is in force. `None`: its words mean the same under every quota that it can
    /// be changed to, so nobody who goes on by it does harm.
    fn term(&self) -> Option<&Term> {
        None
    }

    /// The same, to be [joined](Term::join) with that of other limits.
    fn term_mut(&mut self) -> Option<&mut Term> {
        None
    }

    /// `now`, or the time at which the version ended, if that was before: what another key owes may be judged by this
    /// version until then, and no later, since from then on it owes by the next.
    fn before_its_end(&self, now: Timestamp) -> Timestamp {
        self.term().map_or(now, |term| Timestamp::from_nanos(term.before_its_end(now.as_nanos())))
    }

    /// Whether `moment` tells `now`, and no earlier time because the version has ended.
    #[inline]
    fn is_timely(&self, _now: Timestamp) -> bool {
        true
    }

    /// Whether a later version wrote `payload`, or may have. It reads as a key that may do nothing.
    fn is_later(&self, _payload: u64) -> bool {
        false
    }

    /// A payload of this version or one before as this one would have written it. No tier makes more of it.
    fn current(&self, payload: u64) -> u64 {
        payload
    }

    /// Sees to it that `payload`, which the rule did not write itself, is one of this version.
    fn stretch(&self, _payload: u64) {}

    /// The largest cost that can be admitted at once.
    fn limit(&self) -> u64;

    /// `now` as this rule counts time.
    fn moment(&self, now: Timestamp) -> Moment;

    /// `moment`, if that takes no more than a few instructions. The hot path calls nothing that comes back: whatever it
    /// keeps over a call it keeps in memory.
    #[inline]
    fn quick_moment(&self, now: Timestamp) -> Option<Moment> {
        Some(self.moment(now))
    }

    /// `decide`, if that takes no more than a few instructions. Not for a rule that is `patient`.
    #[inline]
    fn quick_decide(&self, payload: u64, ring: Ring<'_>, at: Moment, cost: u64) -> Option<Verdict> {
        Some(self.decide(payload, ring, at, cost))
    }

    /// Decides one request.
    fn decide(&self, payload: u64, ring: Ring<'_>, at: Moment, cost: u64) -> Verdict;

    /// Whether the key is worth exactly as much as one that was never seen, and its payload is one that no charge
    /// still in flight can expect once another key has started from there.
    fn expired(&self, payload: u64, at: Moment) -> bool;

    /// Whether the key owes anything.
    fn owes(&self, payload: u64, at: Moment) -> bool {
        !self.expired(payload, at)
    }

    /// What giving back `taken` makes of the key's `payload`, without minting: no more than is certainly still owed
    /// because of it. `None`: nothing.
    ///
    /// So the last `cost` units of a larger request can be given back, too: a request of `n` leaves the same payload as
    /// one of `n - cost` and then one of `cost` at the same moment, and the second is given back.
    fn refund(&self, payload: u64, taken: Taken, at: Moment, order: Order) -> Option<Refund>;

    /// The payload that a charge would have left, had its request been `units` smaller: what a later refund of the rest
    /// is judged by. For rules that look at the window of a charge only, `charged` itself.
    fn less(&self, charged: u64, _units: u64) -> u64 {
        charged
    }

    /// Whether giving back `taken` from `payload` needs to know the order, and loses it for the requests before.
    fn reorders(&self, _payload: u64, _taken: Taken) -> bool {
        false
    }

    /// The rule by which a lease takes permits ahead of the requests that spend them. A take that is
    /// refused is no request's refusal, so it is not counted. `None` where each request has a departure
    /// of its own.
    ///
    /// Borrowed wherever it is this rule itself: a copy counts references that all keys share.
    fn ahead(&self) -> Option<Cow<'_, Self>>;

    /// The most that a key may owe for its slot to be handed over: half of the smallest limit. `None` when payloads
    /// cannot be compared: a larger one must owe more at every later time.
    fn half(&self, at: Moment) -> Option<u64>;

    /// `payload` with its debt forgiven; a ring is forgiven by [`erase`](Self::erase).
    fn forgive(&self, payload: u64, at: Moment) -> u64;

    /// Another, larger payload that is worth the same to within one step of the rule's clock or count.
    fn bump(&self, payload: u64) -> u64 {
        payload + 1
    }

    /// Ring entries a key.
    fn ring_len(&self) -> u64 {
        0
    }

    /// Empties the ring of the key whose word `unmoved` looks at, and has this payload. `false`: it moved.
    fn erase(&self, _payload: u64, _ring: Ring<'_>, _unmoved: impl Fn() -> bool) -> bool {
        true
    }

    /// Writes the request's time into the ring ahead of the head. `false`: the ring moved, decide again.
    /// `unmoved` says whether the slot's word is still the one decided on.
    #[inline]
    fn stage(
        &self,
        _payload: u64,
        _ring: Ring<'_>,
        _at: Moment,
        _cost: u64,
        _unmoved: impl Fn() -> bool,
    ) -> bool {
        true
    }
}

/// What a decision says beside yes and no. Only rules that know the time have an answer.
pub trait Numbers: Rule + Carry {
    /// What can be admitted at `now` on top of `payload`.
    fn remaining(&self, payload: u64, ring: Ring<'_>, now: Timestamp) -> u64;

    /// Nanoseconds until a request of `cost` that is refused at `now` is admitted.
    fn retry_after(&self, payload: u64, ring: Ring<'_>, now: Timestamp, cost: u64) -> u64;

    /// Nanoseconds until the key is worth as much as one that was never seen.
    fn reset_after(&self, payload: u64, ring: Ring<'_>, now: Timestamp) -> u64;

    /// Nanoseconds until the slot with this payload is [vacant](Rule::expired): another key may have it then.
    fn vacant_after(&self, payload: u64, ring: Ring<'_>, now: Timestamp) -> u64 {
        self.reset_after(payload, ring, now)
    }

    /// Nanoseconds that a request of `cost`, admitted at `now` leaving `payload`, is to wait before it acts.
    fn delay(&self, _payload: u64, _now: Timestamp, _cost: u64) -> u64 {
        0
    }

    /// The rule for a request of `cost` that may wait for its turn, up to `max_wait` nanoseconds after `now`. `None` for
    /// algorithms that cannot tell when a turn will be.
    fn patient(&self, _now: Timestamp, _max_wait: u64, _cost: u64) -> Option<Self> {
        None
    }

    /// Nanoseconds that a request of `cost` on top of `payload` would have to wait for its turn, or for room.
    fn wait(&self, payload: u64, now: Timestamp, cost: u64) -> u64 {
        self.retry_after(payload, Ring::NONE, now, cost)
    }

    /// The rule as one of the five.
    fn any(self) -> AnyRule;
}
