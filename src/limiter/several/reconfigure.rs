//! Other quotas for several limits that are running.

use crate::algorithm::{Each, Inherit, Quota};
use crate::clock::Clock;
use crate::error::{BuildError, within};
use crate::key::Key;
use crate::limiter::MultiLimiter;

impl<K: Key + ?Sized, C: Clock> MultiLimiter<K, C> {
    /// Puts other quotas in force for all limits at one moment, in the order in which they were given to the builder, and
    /// says what becomes of what keys owe to each. The keys are not touched: each is worked out anew at its next check.
    ///
    /// **Guarantee.** There is one moment of the change for all limits. What is checked after `reconfigure` has returned is
    /// decided by the new quotas, and a check that goes on meanwhile by all of the old ones, as if it had come before, or by
    /// all of the new ones: never by some of each, and never to wait. For each limit holds what
    /// [`Limiter::reconfigure`](crate::Limiter::reconfigure) says of its algorithm. A request that was charged to some limits
    /// by the old quotas, and then refused by another because somebody was faster, is [undone](Self) before it is decided
    /// anew; what it took of a limit whose new quota has charged the key meanwhile stays taken. So a change, too, errs by
    /// refusing.
    ///
    /// A quota that stays as it is can be given again: what is owed to it stays, but by [`Inherit::Reset`].
    ///
    /// **Cost.** As there, once for each limit, also for those whose quota stays: some hundred bytes that are kept until the
    /// limiter is dropped, and room in the words. The first limit whose words have no room left refuses the change for all.
    ///
    /// # Errors
    ///
    /// What [`build`](crate::MultiBuilder::build) would say of a quota; [`BuildError::CannotInherit`], of `"limits"` when their
    /// number is another; [`BuildError::ChangedTooOften`]. All of the old quotas stay in force then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, ManualClock, MultiLimiter, Rate, TokenBucket};
    ///
    /// let of = |second, day| [Rate::per_second(second), Rate::per_day(day)].map(TokenBucket::new);
    /// let limiter = MultiLimiter::<str>::builder(of(10, 1_000)).clock(ManualClock::new()).build()?;
    /// assert!(limiter.check_n("alice", 8).is_allowed());
    ///
    /// limiter.reconfigure(of(20, 500), Inherit::Additive)?;
    /// let left: Vec<u64> = limiter.peek_n_at("alice", 0, limiter.now()).parts().map(|part| part.remaining()).collect();
    /// assert_eq!(left, [12, 492]); // still owes the 8 to both
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure(
        &self,
        quotas: impl IntoIterator<Item = impl Into<Quota>>,
        inherit: Inherit,
    ) -> Result<(), BuildError> {
        let quotas: Vec<Quota> = quotas.into_iter().map(Into::into).collect();
        if quotas.len() != self.limits.len() {
            return Err(BuildError::CannotInherit { field: "limits" });
        }
        self.change(|number, _| (quotas[number], inherit))
    }

    /// [`reconfigure`](Self::reconfigure) for one of the limits, by its number as given to the builder, from 0. The others
    /// keep their quotas, and what is owed to them.
    ///
    /// # Errors
    ///
    /// As there, and [`BuildError::OutOfRange`] when there is no such limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{FixedWindow, Inherit, ManualClock, MultiLimiter, Quota, Rate, TokenBucket};
    ///
    /// let quotas = [Quota::from(TokenBucket::new(Rate::per_second(10))), FixedWindow::new(Rate::per_day(5)).into()];
    /// let limiter = MultiLimiter::<str>::builder(quotas).clock(ManualClock::new()).build()?;
    /// assert!(limiter.check_n("alice", 5).is_allowed());
    /// assert_eq!(limiter.check("alice").refused_by(), Some(1));
    ///
    /// limiter.reconfigure_limit(1, FixedWindow::new(Rate::per_day(6)), Inherit::Additive)?;
    /// assert!(limiter.check("alice").is_allowed());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure_limit(
        &self,
        number: usize,
        quota: impl Into<Quota>,
        inherit: Inherit,
    ) -> Result<(), BuildError> {
        within("number", number as u64, 0_u64, self.limits.len() as u64 - 1)?;
        let quota = quota.into();
        self.change(|other, old| if other == number { (quota, inherit) } else { (old, Inherit::Additive) })
    }

    /// Puts in force what `renew` makes of each limit's number and quota.
    fn change(&self, renew: impl Fn(usize, Quota) -> (Quota, Inherit)) -> Result<(), BuildError> {
        let renewed = |olds: &[Each]| {
            let each = self.limits.iter().zip(olds).map(|(limit, old)| renew(limit.number, old.0));
            Ok(each.map(|(quota, inherit)| (Each(quota), inherit)).unzip())
        };
        self.versions.change(&self.clock, self.unix_at_zero, renewed)?;
        Ok(())
    }
}
