//! Where a decision has its time from.

use crate::clock::Clock;
use crate::time::Timestamp;

/// Where an [`Account`](crate::Account) has its time from: the limiter's own clock ([`ByClock`]),
/// or the caller ([`Timestamp`]).
///
/// Sealed.
pub trait Time: Copy + Now {}

/// What [`Time`] does. Without a public name, so only the engine implements it.
pub trait Now {
    /// The time of a request.
    fn now(self, clock: &impl Clock) -> Timestamp;

    /// Whether that is read from the limiter's clock.
    const IS_READ: bool;
}

/// The time is read from the limiter's clock, at each request.
#[derive(Clone, Copy, Debug)]
pub struct ByClock;

impl Time for ByClock {}

impl Now for ByClock {
    const IS_READ: bool = true;

    #[inline(always)]
    fn now(self, clock: &impl Clock) -> Timestamp {
        clock.now()
    }
}

impl Time for Timestamp {}

impl Now for Timestamp {
    const IS_READ: bool = false;

    #[inline(always)]
    fn now(self, _: &impl Clock) -> Timestamp {
        self
    }
}
