//! Where a decision has its time from.

use crate::clock::Clock;
use crate::time::Timestamp;

/// Where an [`Account`](crate::Account) has its time from: the limiter's own clock ([`ByClock`]),
/// or the caller ([`Timestamp`]).
///
/// Sealed.
pub trait Time: Copy + sealed::Sealed {
    #[doc(hidden)]
    fn now(self, clock: &impl Clock) -> Timestamp;
}

/// The time is read from the limiter's clock, at each request.
#[derive(Clone, Copy, Debug)]
pub struct ByClock;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ByClock {}
    impl Sealed for crate::time::Timestamp {}
}

impl Time for ByClock {
    #[inline(always)]
    fn now(self, clock: &impl Clock) -> Timestamp {
        clock.now()
    }
}

impl Time for Timestamp {
    #[inline(always)]
    fn now(self, _: &impl Clock) -> Timestamp {
        self
    }
}
