//! Another quota for a limiter that is running.

use crate::algorithm::{Algorithm, Inherit};
use crate::clock::Clock;
use crate::error::BuildError;
use crate::key::Key;
use crate::limiter::{GlobalLimiter, Limiter};

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Puts another quota in force for every key of tier 0 (of all keys, where there are no tiers), and says what becomes
    /// of their state. The keys are not touched: each is worked out anew at its next check.
    ///
    /// **Guarantee.** There is one moment of the change. What is checked after `reconfigure` has returned is decided by the
    /// new quota, and a check that goes on meanwhile wholly by the old one, as if it had come before, or wholly by the
    /// new one: never by a mixture, and never to wait. Each key starts with what [`Inherit`] says that it had available
    /// then, and from there on gets what the new quota promises. Debts, whoever took them, are never lost but by what
    /// `inherit` says; all else about a key stays as it is: its slot, its tier, a shared allowance.
    ///
    /// * *Buckets* may become any other token bucket (leaky bucket) by every [`Inherit`]. [Departures](crate::Reservation)
    ///   that were handed out stay as they were told.
    /// * *The fixed window* may become any other, of any period, by every `Inherit`. What is carried counts in the window in
    ///   which the change lies, and that window may so have admitted as much by the old quota besides.
    /// * *The sliding window and the log* keep their counts and change their limit only, from 1 to the most that the
    ///   words (the rings) were built for, by [`Inherit::Additive`]: what was counted stays counted.
    ///
    /// A time before the change ([`check_at`](Self::check_at)) counts as that of the change. What was admitted before it
    /// can be [refunded](Self::refund) until the key is charged under the new quota. [Prepared](crate::Prepared) keys,
    /// [tiers](Self::tier) and batches see the new quota at their next check; a [lease](crate::Lease) spends the permits
    /// that it holds until their ttl, but none after `Inherit::Reset`.
    ///
    /// **Cost.** Some hundred bytes for each change, kept until the limiter is dropped, and the time to work out the new
    /// quota's numbers; writers take turns, and wait for a [save](Self::save). Who checks never waits. A check costs some
    /// more instructions once the limiter has been reconfigured, and while older debts are still owed a little for each
    /// change in between. The words make room: each change takes a second or two of their ten years, what the largest debt takes to
    /// run out, and whatever a caller's own times or reservations were ahead of the clock; for most limits that is tens of
    /// millions of changes. (A fixed window takes a number or two of its twenty years' windows.) Then it is an error.
    ///
    /// # Errors
    ///
    /// What [`build`](crate::Builder::build) would say of the quota; [`BuildError::CannotInherit`] and
    /// [`BuildError::ChangedTooOften`]. The old quota stays in force then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(5));
    /// let limiter = Limiter::<str>::builder(quota).clock(ManualClock::new()).build()?;
    /// assert!(limiter.check_n("alice", 3).is_allowed());
    /// assert!(limiter.check_n("bob", 6).is_never());
    ///
    /// limiter.reconfigure(quota.burst(6), Inherit::Additive)?;
    /// assert!(limiter.check_n("bob", 6).is_allowed());
    /// assert_eq!(limiter.check("alice").remaining(), 2); // still owes the 3, and this one
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure(&self, quota: A, inherit: Inherit) -> Result<(), BuildError> {
        self.change(|quotas| Ok(only_the_first(quotas, quota, inherit)))
    }

    /// [`reconfigure`](Self::reconfigure) for all tiers at one moment: `quotas[0]` is tier 0's. A key inherits what it has
    /// available under the tier that it is next checked under.
    ///
    /// # Errors
    ///
    /// As there, and [`BuildError::CannotInherit`] of `"tiers"` when their number is another.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, Limiter, Rate, TokenBucket};
    ///
    /// let per_second = |count| TokenBucket::new(Rate::per_second(count));
    /// let limiter = Limiter::<str>::builder(per_second(10))
    ///     .tier(per_second(100))
    ///     .tier_by(|key: &str| usize::from(key.starts_with("paid:")))
    ///     .build()?;
    /// limiter.reconfigure_tiers(&[per_second(20), per_second(300)], Inherit::Proportional)?;
    /// assert_eq!(limiter.check("paid:alice").limit(), 300);
    /// assert_eq!(limiter.check("bob").limit(), 20);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure_tiers(&self, quotas: &[A], inherit: Inherit) -> Result<(), BuildError> {
        self.change(|olds| {
            if quotas.len() != olds.len() {
                return Err(BuildError::CannotInherit { field: "tiers" });
            }
            Ok((quotas.to_vec(), vec![inherit; quotas.len()]))
        })
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    /// Puts another quota in force: see [`Limiter::reconfigure`].
    ///
    /// # Errors
    ///
    /// As there. The old quota stays in force then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, GlobalLimiter, Rate, TokenBucket};
    ///
    /// let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_second(500))).build()?;
    /// limiter.reconfigure(TokenBucket::new(Rate::per_second(200)), Inherit::AsIs)?;
    /// assert_eq!(limiter.peek_n_at(0, limiter.now()).remaining(), 200);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure(&self, quota: A, inherit: Inherit) -> Result<(), BuildError> {
        self.change(|quotas| Ok(only_the_first(quotas, quota, inherit)))
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    fn change(
        &self,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        let inherits = self.versions.change(&self.clock, self.unix_at_zero, renew)?;
        if inherits.contains(&Inherit::Reset) {
            self.resets.forgave();
        }
        Ok(())
    }
}

impl<A: Algorithm, C: Clock> GlobalLimiter<A, C> {
    fn change(
        &self,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        let inherits = self.versions.change(&self.clock, self.unix_at_zero, renew)?;
        if inherits.contains(&Inherit::Reset) {
            self.resets.forgave();
        }
        Ok(())
    }
}

/// The first tier's quota replaced. The others keep theirs, and what is owed under them.
fn only_the_first<A: Algorithm>(quotas: &[A], quota: A, inherit: Inherit) -> (Vec<A>, Vec<Inherit>) {
    let others = quotas.iter().skip(1);
    let inherits = std::iter::once(inherit).chain(others.clone().map(|_| Inherit::Additive));
    (std::iter::once(quota).chain(others.copied()).collect(), inherits.collect())
}
