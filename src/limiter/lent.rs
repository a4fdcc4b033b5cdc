//! A quota that comes with a call, as a tier that the call lends to the limiter.

use std::fmt;

use crate::algorithm::{CallQuota, Gcra};
use crate::clock::Clock;
use crate::limiter::version::Tier;
use crate::limiter::{Account, Time};

/// A quota that is lent to the calls which it comes with: see [`CallQuota::lend`] and
/// [`Account::under`](crate::Account::under).
///
/// It belongs to no limiter and to no key: lend one to as many calls as you like, from any thread.
pub struct Lent {
    tier: Tier<Gcra, 1>,
}

impl CallQuota {
    /// Makes the quota ready for calls.
    ///
    /// **Cost.** Some sixty instructions, and a few hundred bytes where it is kept. No allocation.
    #[must_use]
    #[inline]
    pub fn lend(self) -> Lent {
        Lent { tier: Tier::lent(self.rule()) }
    }
}

impl Lent {
    /// The quota.
    #[must_use]
    pub fn quota(&self) -> CallQuota {
        CallQuota::of(self.tier.rule(0))
    }
}

impl<'l, C: Clock, T: Time> Account<'l, CallQuota, 1, C, T> {
    /// The same key under a quota that comes with the call, in place of the limiter's own.
    ///
    /// Every verb works so: a request may be checked, peeked at, reserved, debited or leased. What
    /// it took is given back as under any quota: the receipt knows by how many nanoseconds a unit
    /// it was charged. A [debit](Self::debit) and a [credit](Self::credit) count in units of this
    /// quota. Turns are [reserved](Self::reserve) as this quota tells them, so a turn under a
    /// larger tolerance may come before one that was reserved earlier. While a turn is reserved,
    /// only the newest request of the key comes back: the others may be what the turn rests on.
    ///
    /// **Cost.** None: a pointer is exchanged. See [`CallQuota::lend`].
    ///
    /// # Examples
    ///
    /// What `CL.THROTTLE user 15 30 60` answers, before it rounds to seconds:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CallQuota, Limiter, ManualClock};
    ///
    /// let default = CallQuota::from_nanos(1, 1)?;
    /// let limiter = Limiter::builder(default).per::<str>().clock(ManualClock::new()).build()?;
    /// let emission = 60_000_000_000 / 30;
    /// let quota = CallQuota::from_nanos(emission, emission * (15 + 1))?.lend();
    /// let user = limiter.account("user").under(&quota);
    /// let decision = user.check();
    /// assert!(decision.is_allowed());
    /// assert_eq!((decision.limit(), decision.remaining()), (16, 15));
    /// assert_eq!(decision.reset_after(), Duration::from_secs(2));
    ///
    /// let receipt = user.check_n(15).receipt();
    /// assert_eq!(user.check().retry_after(), Some(Duration::from_secs(2)));
    /// assert_eq!(limiter.refund(receipt), 15);
    /// assert_eq!(user.debit(20)?.cost(), 20);
    /// assert_eq!(user.peek().retry_after(), Some(Duration::from_secs(12)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn under<'q>(self, quota: &'q Lent) -> Account<'q, CallQuota, 1, C, T>
    where
        'l: 'q,
    {
        Account { core: self.core, tier: &quota.tier, fingerprint: self.fingerprint, time: self.time }
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lent").field(&self.quota()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::algorithm::CallQuota;
    use crate::clock::ManualClock;
    use crate::limiter::Limiter;
    use crate::rate::Rate;
    use crate::sync::counted::{Writes, writes_of};

    const NOTHING: Writes = Writes { exchanges: 0, stores: 0 };

    #[test]
    fn a_call_that_is_not_charged_writes_nothing() {
        let quota = CallQuota::new(Rate::per_hour(3), 3).unwrap();
        let builder = Limiter::builder(quota).per::<u64>().max_keys(1).clock(ManualClock::new());
        let (limiter, quota) = (builder.build().unwrap(), quota.lend());
        let under = |key| limiter.account(key).under(&quota);
        let writes = |key, cost| writes_of(|| under(key).check_n(cost).is_full()).0;
        let peek_writes = |key, cost| writes_of(|| under(key).peek_n(cost).is_full()).0;
        assert_eq!([writes(1, 0), writes(1, 4), peek_writes(1, 3)], [NOTHING; 3]);
        assert_eq!(writes(1, 2).exchanges, 4, "an insertion, counted");
        assert_eq!(writes(1, 1), Writes { exchanges: 1, stores: 0 });
        assert_eq!([writes(1, 1), writes(1, 0), writes(1, 4), peek_writes(1, 1)], [NOTHING; 4]);
        assert_eq!(writes_of(|| under(1).credit(1)).0.exchanges, 4);
        assert_eq!(writes_of(|| under(1).reset()).0.exchanges, 6);
        // A full table counts what it refuses.
        (0..500).for_each(|key| drop(under(key).check_n(3)));
        let is_full = (500..2_000).find(|&key| under(key).peek().is_full()).unwrap();
        assert_eq!(peek_writes(is_full, 1), NOTHING);
        assert_eq!(writes(is_full, 1), Writes { exchanges: 1, stores: 0 });
    }
}
