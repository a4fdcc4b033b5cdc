//! Several limits for each of many keys, all or nothing.

use std::borrow::Borrow;
use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::Path;

use crate::algorithm::{Each, Inherit, Quota};
use crate::clock::{Clock, TscClock};
use crate::core::{Core, Glance, Limits, MultiDecision, Refusal, Several, Usage, recall, recall_refusal};
use crate::error::{BuildError, within};
use crate::key::Key;
use crate::limiter::time_and_tier::TierOf;
use crate::limiter::{Batch, Builder, ByClock, Face, Prepared, View};
use crate::receipt::Receipt;
use crate::table::Stats;
use crate::time::Timestamp;

/// Several limits on each of many keys, all or nothing: a request is admitted when every limit
/// admits it, and a refused one is charged to none.
///
/// **Guarantee.** No limit ever admits more than it would alone, from any number of threads. A
/// refusal takes nothing from the limits that would have admitted the request; a limit that refuses
/// it and [counts](crate::CountPolicy::All) refused requests counts it, as it does alone. When no
/// other thread interferes every answer is exact.
///
/// **What a concurrent caller can see.** A request that every limit first admits, and a limit then
/// refuses because another thread was faster, was charged to other limits for a short time.
/// Meanwhile a request may be refused that would have been admitted, by at most the cost of the
/// requests that are being refused then. A charge of such a request that stays errs by refusing. A
/// bucket keeps the charge that dripped before it was undone, a window the part that was rounded up
/// when it closed meanwhile, a [full bucket](crate::WhenFull) of the table its shared allowance.
/// And of several [queues](crate::LeakyBucket::queue) or [logs](crate::SlidingLog), all but one
/// keep a charge that another followed.
///
/// Quotas change [at run time](Self::reconfigure), for all limits at one instant.
///
/// **Cost.** One clock and one hash; for each limit what a check of a [`Limiter`](crate::Limiter)
/// costs, one compare-exchange when the key is known and no other thread interferes. A refusal of a
/// known key writes nothing, unless it is counted or another thread came in between. Never blocks,
/// allocates or frees.
///
/// # Examples
///
/// ```
/// use tollgate::{FixedWindow, MultiLimiter, Quota, Rate, TokenBucket};
///
/// // Ten a second, but no more than 15 a minute and a thousand a day.
/// let limiter = MultiLimiter::<str>::builder([
///     Quota::from(TokenBucket::new(Rate::per_second(10))),
///     TokenBucket::new(Rate::per_minute(15)).into(),
///     FixedWindow::new(Rate::per_day(1_000)).into(),
/// ])
/// .build()?;
///
/// let decision = limiter.check_n("alice", 10);
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 0); // of the first: the tightest
///
/// let decision = limiter.check_n("alice", 6);
/// assert_eq!(decision.refused_by(), Some(1)); // the longest wait: 5 are left of 15 a minute
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct MultiLimiter<K: ?Sized, C = TscClock> {
    pub(super) core: Core<Several, C>,
    pub(super) key: PhantomData<fn(&K)>,
}

impl<K: Key + ?Sized> MultiLimiter<K> {
    /// Begins to describe a limiter that gives each key all of these quotas: from 1 to 8, of any
    /// algorithms.
    pub fn builder(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> Builder<K, Several, TscClock> {
        Builder::new(quotas.into_iter().map(|quota| Each(quota.into())).collect())
    }
}

impl<K: ?Sized, C> MultiLimiter<K, C> {
    /// The decision that a receipt is of, as at `now`, with nothing to give back. `None` where the
    /// receipt says too little.
    #[doc(hidden)]
    pub fn recall<const LIMITS: usize>(
        &self,
        receipt: &Receipt<LIMITS>,
        now: Timestamp,
    ) -> Option<MultiDecision<'_>> {
        recall((&self.core.places, &self.core.versions), receipt, now)
    }

    /// The decision that a refusal is of. `None`: another limiter refused.
    #[doc(hidden)]
    pub fn recall_refusal(&self, refusal: &Refusal) -> Option<MultiDecision<'_>> {
        recall_refusal((&self.core.places, &self.core.versions), refusal)
    }
}

impl<K: Key + ?Sized, C: Clock> MultiLimiter<K, C> {
    /// Decides a request of cost 1, and charges it to every limit if all admit it.
    #[inline]
    pub fn check(&self, key: &K) -> MultiDecision<'_> {
        self.view().check(key)
    }

    /// Decides a request of any cost, all or nothing, and charges it to every limit if all admit
    /// it.
    ///
    /// Cost 0 is admitted and changes nothing. A cost above any of the limits
    /// [never](MultiDecision::is_never) is, and changes nothing.
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> MultiDecision<'_> {
        self.view().check_n(key, cost)
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    pub fn peek(&self, key: &K) -> MultiDecision<'_> {
        self.view().peek(key)
    }

    /// What a check would do of a limiter with one quota, without the charge: for callers that ask
    /// several limiters and charge all of them or none. `None`: the request is not admitted, or
    /// only a check can say.
    #[doc(hidden)]
    #[inline(always)]
    pub fn glance(&self, key: &K, cost: u64, now: Timestamp) -> Option<Glance<'_>> {
        self.core.glance(self.view().asked(key).fingerprint, cost, now)
    }

    /// A check at `now` by a limiter with one quota, of which the answer is kept: the receipt of an
    /// admitted request, or the refusal. `None`: the limiter has others, and nothing was decided.
    #[doc(hidden)]
    #[inline]
    pub fn check_only(&self, key: &K, cost: u64, now: Timestamp) -> Option<Result<Receipt, Refusal>> {
        self.core.check_only(self.view().asked(key).fingerprint, cost, now)
    }

    /// The limiter at a time that the caller already has: see [`Limiter::at`](crate::Limiter::at).
    ///
    /// A request that another thread's makes fail is undone by the limiter's own clock. Callers
    /// whose times are ahead of the clock, beside others that go by it, can be admitted the
    /// tokens that drip in between.
    #[inline]
    pub fn at(&self, now: Timestamp) -> View<'_, K, Several, C, Timestamp> {
        self.view().at(now)
    }

    /// Hashes the key and asks for its cache lines ahead of its checks: see
    /// [`Limiter::prepare`](crate::Limiter::prepare). It has the other verbs, too:
    /// [`reserve`](Prepared::reserve), [`wait`](Prepared::wait), [`lease`](Prepared::lease),
    /// [`reset`](Prepared::reset).
    #[inline]
    pub fn prepare(&self, key: &K) -> Prepared<'_, Several, C> {
        self.view().prepare(key)
    }

    /// Checks many keys, in their order, at one time: see
    /// [`Limiter::check_many`](crate::Limiter::check_many).
    #[inline]
    pub fn check_many<I>(&self, keys: I) -> Batch<'_, K, Several, C, I::IntoIter>
    where
        I: IntoIterator<Item: Borrow<K>>,
    {
        self.view().check_many(keys)
    }

    /// Gives back to every limit what an admitted request took of it: how many units, the least of
    /// what the limits got back, each by the rules of
    /// [`Limiter::refund`](crate::Limiter::refund). Takes a [`MultiDecision`] or its
    /// [receipt](MultiDecision::receipt).
    ///
    /// **Guarantee.** Never mints. **Cost.** Four compare-exchanges for each limit when no other
    /// thread interferes.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MultiLimiter, Rate, TokenBucket};
    ///
    /// let rates = [Rate::per_second(10), Rate::per_hour(100)];
    /// let limiter = MultiLimiter::<str>::builder(rates.map(TokenBucket::new)).build()?;
    /// let decision = limiter.check_n("alice", 3);
    /// assert_eq!(limiter.refund(decision), 3);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund(&self, charge: impl Into<<Several as Limits>::Receipt>) -> u64 {
        self.view().refund(charge)
    }

    /// [`refund`](Self::refund) of up to `units` of the request only: see
    /// [`Limiter::refund_part`](crate::Limiter::refund_part).
    pub fn refund_part(&self, receipt: &mut <Several as Limits>::Receipt, units: u64) -> u64 {
        self.view().refund_part(receipt, units)
    }

    /// Makes other quotas current for all limits at one instant, in the order in which they were
    /// given to the builder, and says what becomes of keys' debts to each. The keys are not
    /// touched: each is worked out anew at its next check.
    ///
    /// **Guarantee.** The change is one instant for all limits. A check after `reconfigure` has
    /// returned is decided by the new quotas, and a check that goes on meanwhile by all of the
    /// old ones, as if it had come before, or by all of the new ones: never by some of each,
    /// and never to wait. For each limit holds what
    /// [`Limiter::reconfigure`](crate::Limiter::reconfigure) says of its algorithm. A request that
    /// was charged to some limits by the old quotas, and then refused by another because
    /// another thread was faster, is [undone](Self) before it is decided anew; its charge to a
    /// limit whose new quota has charged the key meanwhile stays. So a change, too, errs by
    /// refusing.
    ///
    /// A quota that stays as it is can be given again: its debts stay, but by [`Inherit::Reset`].
    ///
    /// **Cost.** As there, once for each limit, also for those whose quota stays: about a
    /// kilobyte that is kept until the limiter is dropped, and room in the words. The first limit
    /// whose words have no room left refuses the change for all.
    ///
    /// # Errors
    ///
    /// What [`build`](crate::Builder::build) would say of a quota;
    /// [`BuildError::CannotInherit`], of `"limits"` when their number is another;
    /// [`BuildError::ChangedTooOften`]. All of the old quotas stay current then.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Inherit, ManualClock, MultiLimiter, Rate, TokenBucket};
    ///
    /// let of = |second, day| [Rate::per_second(second), Rate::per_day(day)].map(TokenBucket::new);
    /// let builder = MultiLimiter::<str>::builder(of(10, 1_000));
    /// let limiter = builder.clock(ManualClock::new()).build()?;
    /// assert!(limiter.check_n("alice", 8).is_allowed());
    ///
    /// limiter.reconfigure(of(20, 500), Inherit::Additive)?;
    /// let peek = limiter.at(limiter.now()).peek_n("alice", 0);
    /// let left: Vec<u64> = peek.parts().map(|part| part.remaining()).collect();
    /// assert_eq!(left, [12, 492]); // the debt of 8 to both remains
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure(
        &self,
        quotas: impl IntoIterator<Item = impl Into<Quota>>,
        inherit: Inherit,
    ) -> Result<(), BuildError> {
        let quotas = self.quotas_for_each(quotas)?;
        self.core.change(|olds| Ok(self.renewed(olds, |number, _| (quotas[number], inherit))))
    }

    /// Checks that [`reconfigure`](Self::reconfigure) would be accepted now, and could be taken
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
    /// use tollgate::{Inherit, MultiLimiter, Rate, TokenBucket};
    ///
    /// let of = |second| [TokenBucket::new(Rate::per_second(second))];
    /// let one = MultiLimiter::<str>::builder(of(10)).build()?;
    /// let other = MultiLimiter::<str>::builder(of(20)).build()?;
    /// for limiter in [&one, &other] {
    ///     limiter.check_reconfigure(of(5), Inherit::Additive)?;
    /// }
    /// for limiter in [&one, &other] {
    ///     limiter.reconfigure(of(5), Inherit::Additive)?;
    /// }
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn check_reconfigure(
        &self,
        quotas: impl IntoIterator<Item = impl Into<Quota>>,
        inherit: Inherit,
    ) -> Result<(), BuildError> {
        let quotas = self.quotas_for_each(quotas)?;
        self.core.check_change(|olds| Ok(self.renewed(olds, |number, _| (quotas[number], inherit))))
    }

    /// [`reconfigure`](Self::reconfigure) for one of the limits, by its number as given to the
    /// builder, from 0. The others keep their quotas and their debts.
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
    /// let (bucket, window) = (Rate::per_second(10), Rate::per_day(5));
    /// let quotas = [Quota::from(TokenBucket::new(bucket)), FixedWindow::new(window).into()];
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
        within("number", number as u64, 0_u64, self.core.places.len() as u64 - 1)?;
        let quota = quota.into();
        let renew = |other, old| if other == number { (quota, inherit) } else { (old, Inherit::Additive) };
        self.core.change(|olds| Ok(self.renewed(olds, renew)))
    }

    /// The quotas, if there is one for each limit.
    fn quotas_for_each(
        &self,
        quotas: impl IntoIterator<Item = impl Into<Quota>>,
    ) -> Result<Vec<Quota>, BuildError> {
        let quotas: Vec<Quota> = quotas.into_iter().map(Into::into).collect();
        let is_right = quotas.len() == self.core.places.len();
        is_right.then_some(quotas).ok_or(BuildError::CannotInherit { field: "limits" })
    }

    /// What `renew` makes of each limit's number and quota.
    fn renewed(
        &self,
        olds: &[Each],
        renew: impl Fn(usize, Quota) -> (Quota, Inherit),
    ) -> (Vec<Each>, Vec<Inherit>) {
        let each = self.core.places.numbers().iter().zip(olds).map(|(&number, old)| renew(number, old.0));
        each.map(|(quota, inherit)| (Each(quota), inherit)).unzip()
    }

    /// Writes down every key's debt to every limit, for
    /// [`Builder::restore`](crate::Builder::restore) in the next process. Returns how
    /// many debts that is: of each limit, the keys in debt to it.
    ///
    /// **The file is a secret**, and everything else is as it is for
    /// [`Limiter::save`](crate::Limiter::save), limit by limit: every request admitted before
    /// the call is in the file for every limit, and a request that is decided during the call may
    /// be in it for all of them, some, or none.
    ///
    /// # Errors
    ///
    /// Those of `out`. The part that has been written by then is no saved limiter, and will not be
    /// taken for one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MultiLimiter, Rate, TokenBucket};
    ///
    /// let quotas = [Rate::per_hour(5), Rate::per_day(7)].map(TokenBucket::new);
    /// let settings = || MultiLimiter::<str>::builder(quotas);
    /// let limiter = settings().build()?;
    /// assert!(limiter.check_n("alice", 5).is_allowed());
    /// let mut file = Vec::new();
    /// assert_eq!(limiter.save(&mut file)?, 2);
    ///
    /// // Another day, another process:
    /// let limiter = settings().restore(&file[..])?;
    /// assert_eq!(limiter.check("alice").refused_by(), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        self.core.save(out)
    }

    /// [`save`](Self::save) to a file, which is then whole, or the one that was there before: see
    /// [`Limiter::save_to`](crate::Limiter::save_to).
    ///
    /// # Errors
    ///
    /// Those of the file system. The file at `path` is as it was then.
    pub fn save_to(&self, path: impl AsRef<Path>) -> io::Result<usize> {
        self.core.save_to(path.as_ref())
    }

    /// The limiter's time: read it once and pass it to several requests [`at`](Self::at) it.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// How many keys are in debt to any limit, and how much memory all tables take. Reads all
    /// tables.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.core.usage()
    }

    /// How often keys came, went, and found no room, over all limits: a key comes once for each.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// [`stats`](Self::stats) of one limit, by its number as given to the builder, from 0. `None`
    /// when there is no such limit.
    #[must_use]
    pub fn stats_of(&self, number: usize) -> Option<Stats> {
        self.core.places.numbered(number).map(|table| table.stats())
    }

    #[inline(always)]
    fn view(&self) -> View<'_, K, Several, C> {
        View { core: &self.core, tier_of: None, tier: None, time: ByClock }
    }
}

impl<K: Key + ?Sized, C: Clock> Face<K, C> for Several {
    type Limiter = MultiLimiter<K, C>;

    fn limiter(core: Core<Self, C>, _: Option<TierOf<K>>) -> MultiLimiter<K, C> {
        MultiLimiter { core, key: PhantomData }
    }
}

impl<K: ?Sized, C: Clock> fmt::Debug for MultiLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLimiter")
            .field("rules", &self.core.rules())
            .field("max_keys", &self.core.max_keys)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::TokenBucket;
    use crate::clock::ManualClock;
    use crate::rate::Rate;

    fn limiter(clock: &ManualClock) -> MultiLimiter<u64, ManualClock> {
        let quota: Quota = TokenBucket::new(Rate::per_second(10)).into();
        MultiLimiter::builder([quota]).clock(clock.clone()).build().unwrap()
    }

    #[test]
    fn a_glance_and_its_charge_are_a_check() {
        let clock = ManualClock::new();
        let (limiter, model) = (limiter(&clock), limiter(&clock));
        assert!(limiter.glance(&7, 1, limiter.now()).is_none(), "a new key has no home slot");
        assert!(limiter.check(&7).is_allowed() && model.check(&7).is_allowed());
        let mut glances = 0;
        for cost in [1, 1, 3, 2, 4, 0, 11, 1, 1, 1, 3, 1, 1, 1] {
            let now = limiter.now();
            let receipt = limiter.glance(&7, cost, now).and_then(|glance| glance.charge());
            let checked = model.at(now).check_n(&7, cost);
            if let Some(receipt) = receipt {
                assert!(checked.is_allowed() && cost > 0);
                glances += 1;
                let recalled = limiter.recall(&receipt, now).unwrap();
                assert_eq!(format!("{recalled:?}"), format!("{checked:?}"));
                assert_eq!(recalled.receipt().left(), 0, "one receipt of a request");
            } else {
                // Such as the first check after the clock has come far.
                let recalled = match limiter.check_only(&7, cost, now).unwrap() {
                    Ok(receipt) => limiter.recall(&receipt, now),
                    Err(refusal) => limiter.recall_refusal(&refusal),
                };
                assert_eq!(format!("{:?}", recalled.unwrap()), format!("{checked:?}"));
            }
            assert_eq!(format!("{:?}", limiter.peek(&7)), format!("{:?}", model.peek(&7)));
            clock.advance(Duration::from_micros(300 * cost));
        }
        assert!(glances > 4, "{glances}");
    }

    #[test]
    fn an_overtaken_glance_charges_nothing() {
        let clock = ManualClock::new();
        let limiter = limiter(&clock);
        assert!(limiter.check(&7).is_allowed());
        let glance = limiter.glance(&7, 5, limiter.now()).unwrap();
        assert!(limiter.check_n(&7, 6).is_allowed());
        assert!(glance.charge().is_none());
        assert_eq!(limiter.peek(&7).remaining(), 2);
    }

    #[test]
    fn the_receipt_of_a_glance_gives_back_once() {
        let clock = ManualClock::new();
        let (limiter, other) = (limiter(&clock), limiter(&clock));
        assert!(limiter.check(&7).is_allowed() && other.check(&7).is_allowed());
        let charge = || limiter.glance(&7, 5, limiter.now()).unwrap().charge().unwrap();
        assert_eq!((limiter.refund(charge()), limiter.peek(&7).remaining()), (5, 8));
        assert_eq!(other.refund(charge()), 0, "another limiter's");
        let receipt = charge_one(&limiter);
        assert!(limiter.prepare(&7).reset());
        assert_eq!(limiter.refund(receipt), 0, "it is forgiven already");
    }

    fn charge_one(limiter: &MultiLimiter<u64, ManualClock>) -> Receipt {
        limiter.glance(&7, 1, limiter.now()).unwrap().charge().unwrap()
    }
}
