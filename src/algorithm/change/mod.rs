//! What changes a quota, and what a change does to debts.
//!
//! | file | what |
//! |------|------|
//! | `inherit` | what a key inherits when its quota changes, as the user says it |
//! | `past` | the earlier versions of a rule, and the conversion of their payloads |
//! | `carry` | a debt on another clock: save and restore |
//!
//! The change touches no key. The payloads of a version lie in a range of their own, above those of
//! earlier versions: a word tells which version wrote it. A rule is asked about payloads of its own
//! version only. An older payload is *converted* as it is read: the debt at the instant of the
//! change becomes a debt of the new version, which its clock pays off from there.
//!
//! ```text
//!   0                          floor                       floor                    2^62
//!   |  first version's payloads |  second version's         |  third version's       |
//!                               ^                           ^
//!                               the second version's clock  the third's starts here at its change
//!                               starts here at the change
//! ```

mod carry;
mod inherit;
mod past;

use crate::algorithm::{Moment, Payload, Rule, Stored};
use crate::time::Timestamp;

pub(crate) use carry::Carry;
pub use inherit::Inherit;
#[cfg(test)]
pub(crate) use inherit::Step;
pub(crate) use inherit::Transition;
pub(crate) use past::{Past, WithPast};

/// The unit in which one tier of a version counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Steps of the payload per unit of cost.
    pub(crate) price: u64,
    /// Units of cost in a full bucket, or in a window.
    pub(crate) burst: u64,
    /// Debt is paid in multiples of this: `price` where whole units come back at once, and the rest
    /// of a debt tells when. Otherwise 1.
    pub(crate) step: u64,
}

/// The range of a version's payloads, and the debts in it. The defaults are those of rules whose
/// payloads mean the same under every quota that they can change to.
pub trait Ranged: Copy {
    /// Whether rules of this type may have a range of their own for each version.
    const RANGED: bool = false;

    /// Whether this one has.
    #[inline]
    fn is_ranged(&self) -> bool {
        Self::RANGED
    }

    /// Whether [`early`](Self::early) reads the time of this rule.
    fn is_early(&self) -> bool {
        true
    }

    /// The instant of `now` in fewer instructions, in a version that begins with the clock.
    #[inline]
    fn early(&self, now: Timestamp) -> Moment
    where
        Self: Rule,
    {
        self.moment(now)
    }

    /// The instant of `now`, where a few instructions suffice. `is_early` says whether
    /// [`early`](Self::early) may be asked, and `elapsed` what else to ask [`after`](Self::after).
    /// The hot path must not call a function that returns: every value that lives across a call is
    /// kept in memory.
    #[inline(always)]
    fn quick_moment(
        &self,
        now: Timestamp,
        is_early: impl Fn() -> bool,
        elapsed: impl Fn() -> Option<u64>,
    ) -> Option<Moment>
    where
        Self: Rule,
    {
        if !Self::RANGED {
            return Some(self.moment(now));
        }
        if is_early() { Some(self.early(now)) } else { Some(self.after(elapsed()?)) }
    }

    /// The instant `elapsed` nanoseconds after the start of the version, at most
    /// [`last`](Self::last).
    #[inline]
    fn after(&self, elapsed: u64) -> Moment
    where
        Self: Rule,
    {
        self.moment(Timestamp::from_nanos(elapsed))
    }

    /// The last nanosecond after the start of the version that payloads have room for.
    fn last(&self) -> u64 {
        u64::MAX
    }

    /// The smallest payload of the version.
    #[inline]
    fn floor(&self) -> u64 {
        0
    }

    /// The largest payload that the version writes up to `until` nanoseconds after its start.
    fn top(&self, _until: u64) -> u64 {
        u64::MAX
    }

    /// The nanoseconds after the start of the version for which it must last to write `payload`. 0
    /// where it lasts until `at`, and that is enough.
    fn needs(&self, _payload: Payload, _at: Moment) -> u64 {
        0
    }

    /// The payload, if the instant shows in a few instructions that older and later versions do not
    /// matter to it.
    #[inline]
    fn own(&self, stored: Stored, _at: Moment) -> Option<Payload> {
        Some(Payload(stored.bits()))
    }

    /// What a later version's payload reads as, when it is not more than the version admits on as
    /// it is.
    fn beyond(&self, _stored: Stored) -> Option<Payload> {
        None
    }

    /// Whether no key has a smaller debt than this payload, which was converted.
    fn is_least(&self, _payload: Payload) -> bool {
        false
    }

    /// The unit of debts.
    fn unit(&self) -> Unit {
        Unit { price: 1, burst: 1, step: 1 }
    }

    /// The debt at `at`.
    fn debt(&self, _payload: Payload, _at: Moment) -> u64 {
        0
    }

    /// The payload of this debt at the start of the version.
    fn owing(&self, _debt: u64) -> Payload {
        Payload::UNSEEN
    }

    /// The rule of a version at whose start a key that was never seen has this debt, and in no tier
    /// less than `least`.
    #[must_use]
    fn starting(self, _debt: u64, _least: u64) -> Self {
        self
    }
}
