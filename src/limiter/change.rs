//! Other quotas for a limiter that is running.

use std::fmt;
use std::time::Duration;

use crate::algorithm::{Algorithm, Inherit};
use crate::clock::Clock;
use crate::error::{BuildError, within};
use crate::limiter::core::{Core, renew};
use crate::limiter::{Limiter, Quotas};
use crate::time::nanos;

impl<A: Algorithm, const N: usize, C: Clock> Core<A, N, C> {
    /// Makes the quotas current that `renew` makes of the old ones, with what each inherits.
    pub(crate) fn change(
        &self,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        let inherits = self.versions.change(&self.clock, renew)?;
        if inherits.contains(&Inherit::Reset) {
            // The new version converts each debt to none, so no word is held. The permits of leases
            // end here.
            let _ = self.versions.count_reset();
        }
        Ok(())
    }

    /// Checks that such a [`change`](Self::change) can be made now, and taken back.
    pub(crate) fn check_change(
        &self,
        renew: impl FnOnce(&[A]) -> Result<(Vec<A>, Vec<Inherit>), BuildError>,
    ) -> Result<(), BuildError> {
        self.versions.check_change(&self.clock, renew)
    }

    /// Other quotas and what each inherits, as `renew` says them by the number of each among those
    /// that the user gave, tier by tier.
    pub(crate) fn renewed(
        &self,
        olds: &[A],
        renew: impl Fn(usize, A) -> (A, Inherit),
    ) -> (Vec<A>, Vec<Inherit>) {
        let limits = self.tables.limits();
        let given = |place: usize| place / limits * limits + self.tables.number(place % limits);
        olds.iter().enumerate().map(|(place, &old)| renew(given(place), old)).unzip()
    }
}

/// Other quotas for a running limiter: nothing changes before [`apply`](Self::apply). Made by
/// [`Limiter::change`], which says what a change does.
///
/// # Examples
///
/// ```
/// use tollgate::{FixedWindow, Inherit, Limiter, ManualClock, Quota, Rate, TokenBucket};
///
/// let (bucket, window) = (Rate::per_second(10), Rate::per_day(5));
/// let quotas = [Quota::from(TokenBucket::new(bucket)), FixedWindow::new(window).into()];
/// let limiter = Limiter::builder(quotas).per::<str>().clock(ManualClock::new()).build()?;
/// assert!(limiter.check_n("alice", 5).is_allowed());
/// assert_eq!(limiter.check("alice").refused_by(), Some(1));
///
/// let larger = Quota::from(FixedWindow::new(Rate::per_day(6)));
/// limiter.change().limit(1, larger).inherit(Inherit::Additive).apply()?;
/// assert!(limiter.check("alice").is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "nothing changes before `apply`"]
pub struct Change<'l, K: ?Sized, A: Algorithm, const N: usize, C: Clock> {
    limiter: &'l Limiter<K, A, N, C>,
    /// The quota of each limit that gets another, tier by tier; or the first thing that is wrong.
    quotas: Result<Vec<Option<A>>, BuildError>,
    inherit: Inherit,
}

impl<K: ?Sized, A: Algorithm, const N: usize, C: Clock> Change<'_, K, A, N, C> {
    /// The quotas of tier 0 (of all keys, where there are no tiers), one for each limit in the
    /// order in which they were given to the builder.
    ///
    /// # Examples
    ///
    /// See [`Limiter::change`].
    pub fn to(self, quotas: impl Quotas<A, N>) -> Self {
        self.tier(0, quotas)
    }

    /// The quotas of a tier, by its number. Tiers that are not named keep theirs.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, Limiter, Rate, TokenBucket};
    ///
    /// let per_second = |count| TokenBucket::new(Rate::per_second(count));
    /// let builder = Limiter::builder(per_second(10)).tier(per_second(100));
    /// let limiter = builder.per::<str>().build()?;
    /// let change = limiter.change().to(per_second(20)).tier(1, per_second(300));
    /// change.inherit(Inherit::Proportional).apply()?;
    /// assert_eq!(limiter.account("alice").tier(1).expect("it is there").check().limit(), 300);
    /// assert_eq!(limiter.check("bob").limit(), 20);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn tier(self, tier: usize, quotas: impl Quotas<A, N>) -> Self {
        let (limits, quotas) = (self.limiter.core.tables.limits(), quotas.into_list());
        self.with(|all| {
            if quotas.len() != limits {
                return Err(BuildError::CannotInherit { field: "limits" });
            }
            within("tier", tier as u64, 0_u64, (all.len() / limits) as u64 - 1)?;
            all[tier * limits..].iter_mut().zip(quotas).for_each(|(new, quota)| *new = Some(quota));
            Ok(())
        })
    }

    /// The quota of one of the limits of tier 0, by its number as given to the builder, from 0. The
    /// others keep their quotas.
    ///
    /// # Examples
    ///
    /// See [`Change`].
    pub fn limit(self, limit: usize, quota: A) -> Self {
        let limits = self.limiter.core.tables.limits();
        self.with(|all| {
            within("limit", limit as u64, 0_u64, limits as u64 - 1)?;
            all[limit] = Some(quota);
            Ok(())
        })
    }

    /// What a key inherits under the new quotas: unless this says otherwise, its debt
    /// ([`Inherit::Additive`]).
    ///
    /// # Examples
    ///
    /// See [`Inherit`].
    pub fn inherit(self, inherit: Inherit) -> Self {
        Self { inherit, ..self }
    }

    /// Checks that [`apply`](Self::apply) would accept the change now, and that it could be taken
    /// back by [`Inherit::Additive`]: for a change of several limiters, all or none. Changes
    /// nothing. What it says holds for the next minute, unless requests are charged ahead of that.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let of = |second| TokenBucket::new(Rate::per_second(second));
    /// let one = Limiter::builder(of(10)).per::<str>().build()?;
    /// let other = Limiter::builder(of(20)).per::<str>().build()?;
    /// let changes = [one.change().to(of(5)), other.change().to(of(5))];
    /// changes.iter().try_for_each(|change| change.check())?;
    /// changes.into_iter().try_for_each(|change| change.apply())?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check(&self) -> Result<(), BuildError> {
        let core = &self.limiter.core;
        match self.quotas.as_ref().map_err(Clone::clone)? {
            same if same.iter().all(Option::is_none) => Ok(()),
            quotas => core.check_change(|olds| Ok(core.renewed(olds, renew(quotas, self.inherit)))),
        }
    }

    /// Makes the quotas current, all at one instant. Where none was given, nothing changes.
    ///
    /// # Errors
    ///
    /// What [`build`](crate::Builder::build) would say of the quotas; [`BuildError::OutOfRange`] of
    /// a `"tier"` or `"limit"` that the limiter does not have; [`BuildError::CannotInherit`], of
    /// `"limits"` when a tier is given another number of them;
    /// [`BuildError::ChangedTooOften`]. The old quotas stay current then.
    ///
    /// # Examples
    ///
    /// See [`Limiter::change`].
    pub fn apply(self) -> Result<(), BuildError> {
        let core = &self.limiter.core;
        match self.quotas? {
            same if same.iter().all(Option::is_none) => Ok(()),
            quotas => core.change(|olds| Ok(core.renewed(olds, renew(&quotas, self.inherit)))),
        }
    }

    fn with(mut self, give: impl FnOnce(&mut [Option<A>]) -> Result<(), BuildError>) -> Self {
        if let Ok(all) = &mut self.quotas
            && let Err(wrong) = give(all)
        {
            self.quotas = Err(wrong);
        }
        self
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C: Clock> fmt::Debug for Change<'_, K, A, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quotas, inherit, .. } = self;
        f.debug_struct("Change").field("quotas", quotas).field("inherit", inherit).finish_non_exhaustive()
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C: Clock> Limiter<K, A, N, C> {
    /// Other quotas while checks go on: [`to`](Change::to) which, what keys
    /// [`inherit`](Change::inherit), and [`apply`](Change::apply). The keys are not touched: each
    /// is worked out anew at its next check.
    ///
    /// **Guarantee.** The change is one instant, for all limits. A check after `apply` has
    /// returned is decided by the new quota, and a check that goes on meanwhile wholly by the old
    /// one, as if it had come before, or wholly by the new one: never by a mixture, and never to
    /// wait. Each key starts with what [`Inherit`] says that it had available then, and from there
    /// on gets what the new quota promises. A debt is lost by what `inherit` says only; all else
    /// about a key stays as it is: its slot, its tier, a shared allowance.
    ///
    /// * *Buckets* may become any other token bucket (leaky bucket) by every [`Inherit`], also a
    ///   meter a queue and a queue a meter. [Departures](crate::Reservation) that were handed out
    ///   stay as they were told.
    /// * *The fixed window* may become any other, of any period, by every `Inherit`. A carried
    ///   count lies in the window in which the change lies, and that window may so have admitted as
    ///   much by the old quota besides.
    /// * *The sliding window and the log* keep their counts and change their limit only, from 1 to
    ///   the most that the words (the rings) were built for, by [`Inherit::Additive`]: counted
    ///   requests stay counted.
    ///
    /// A time before the change ([`at`](crate::Account::at)) counts as that of the change. A
    /// request admitted before it can be [refunded](Self::refund) until the key is charged under
    /// the new quota. [Accounts](crate::Account) and batches see the new quota at
    /// their next check; a [lease](crate::Lease) spends the permits that it holds until their
    /// ttl, but none after `Inherit::Reset`.
    ///
    /// Of several limits, a request that was charged to some by the old quotas, and then refused by
    /// another because another thread was faster, is undone before it is decided anew; its charge
    /// to a limit whose new quota has charged the key meanwhile stays. So a change, too, errs by
    /// refusing. A key inherits what it has available under the tier that it is next checked under.
    ///
    /// **Cost.** About a kilobyte for each tier, for a list six, kept until the limiter is dropped,
    /// and the time to work out the new quotas' numbers; writers take turns, and wait for a
    /// [save](Self::save). A check never waits. A check costs some more instructions once the
    /// limiter was changed, and while older debts remain a little for each change in
    /// between. The words make room: each change takes a second or two of their ten years, the time
    /// in which the largest debt runs out, and the time by which callers' own times or reservations
    /// were ahead of the clock; for most limits that is tens of millions of changes. (A fixed
    /// window takes a number or two of its twenty years' windows.) Then it is an error, and so is a
    /// change while a debt from 1,024 changes ago remains; with more than 16 tiers, from 16,384
    /// divided by their number, and at least from 16.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, Limiter, ManualClock, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(5));
    /// let limiter = Limiter::builder(quota).per::<str>().clock(ManualClock::new()).build()?;
    /// assert!(limiter.check_n("alice", 3).is_allowed());
    /// assert!(limiter.check_n("bob", 6).is_never());
    ///
    /// limiter.change().to(quota.burst(6)).inherit(Inherit::Additive).apply()?;
    /// assert!(limiter.check_n("bob", 6).is_allowed());
    /// assert_eq!(limiter.check("alice").remaining(), 2); // the debt of 3 remains, and this one
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn change(&self) -> Change<'_, K, A, N, C> {
        let quotas = self.core.versions.current().all().count();
        Change { limiter: self, quotas: Ok(vec![None; quotas]), inherit: Inherit::Additive }
    }

    /// Aligns windows to another Unix time: that of the clock's zero is now known to be this. The
    /// quotas stay.
    ///
    /// When would I want this? A clock learns the Unix time once, when it is made. If the system's
    /// clock is corrected later (by a first NTP answer, or an operator), the windows of a
    /// [`FixedWindow`](crate::FixedWindow) go on beside midnight, and so do the refills of a bucket
    /// [by intervals](crate::TokenBucket::by_intervals). Compare the two now and then, and realign
    /// when they are a second apart. All other quotas begin at no Unix time, and stay as they are.
    ///
    /// **Guarantee.** From then on windows begin, and buckets refill, at the multiples of their
    /// period since the Unix epoch, and no debt is forgiven. A key's count goes on in the window
    /// that takes its window's place: the earliest that begins at most an eighth of a window before
    /// it, and at the latest the next one. In the two windows together no key is admitted more
    /// than its limit. So a key that has spent its window has it again at most an eighth of a
    /// window sooner, and a clock that is set back over midnight begins no day anew. A bucket by
    /// intervals that is not full waits for its next tokens in the same way: until then those of
    /// one interval count as spent. The next process decides so, too, after a [save](Self::save).
    ///
    /// **Cost.** That of a [`change`](Self::change). Nothing where the Unix time is the
    /// same, or where no quota is aligned.
    ///
    /// # Errors
    ///
    /// [`BuildError::ChangedTooOften`]. The windows stay as they were then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, FixedWindow, Limiter, Rate, SystemClock, Timestamp};
    ///
    /// let clock = SystemClock::new();
    /// let quota = FixedWindow::new(Rate::per_day(1_000));
    /// let limiter = Limiter::builder(quota).per::<str>().clock(clock).build()?;
    ///
    /// // Now and then:
    /// let unix_at_zero = clock.unix_now() - clock.now().saturating_since(Timestamp::ZERO);
    /// if unix_at_zero.abs_diff(clock.unix_at_zero()) > Duration::from_secs(1) {
    ///     limiter.realign(unix_at_zero)?;
    /// }
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    ///
    /// Ten o'clock was in truth nine, so the day ends an hour later:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{FixedWindow, Limiter, ManualClock, Rate};
    /// const HOUR: Duration = Duration::from_secs(3_600);
    /// let limiter = Limiter::builder(FixedWindow::new(Rate::per_day(1)));
    /// let limiter = limiter.clock(ManualClock::starting_at(10 * HOUR)).build()?;
    /// assert!(limiter.check(()).is_allowed());
    /// limiter.realign(9 * HOUR)?;
    /// assert_eq!(limiter.check(()).retry_after(), Some(15 * HOUR));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn realign(&self, unix_at_zero: Duration) -> Result<(), BuildError> {
        self.core.versions.realign(&self.core.clock, nanos(unix_at_zero))
    }
}
