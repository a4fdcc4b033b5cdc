//! A limit for each of many keys.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{Algorithm, Resolution, Rule, TokenBucket};
use crate::clock::{Clock, TscClock};
use crate::decision::Decision;
use crate::key::{Key, KeyHasher};
use crate::limiter::builder::TierOf;
use crate::limiter::prepared::Named;
use crate::limiter::resets::Resets;
use crate::limiter::versions::Versions;
use crate::limiter::{Builder, Compiled, kept};
use crate::observe::{Observer, OnDecision};
use crate::table::slot::Ask;
use crate::table::{Stats, Table};
use crate::time::Timestamp;

/// A limit for each of many keys, shared by all threads.
///
/// **Guarantee.** Each key gets what its [algorithm](Algorithm) promises, from any number of threads. Memory is bounded by
/// [`Builder::max_keys`], and comes into use as keys do: what happens when more owe something than fit is chosen by
/// [`WhenFull`](crate::WhenFull).
///
/// **Cost.** A check of a key that the table knows reads the clock and touches, mostly, one cache line: a few loads and
/// one compare-exchange when nobody interferes, retried when another thread charged the same key meanwhile. (It has the
/// four lines of the key's bucket fetched, in case the key is in another one.) A refusal of a key that the table knows
/// writes nothing. A key's first check takes three compare-exchanges and a second look at the
/// clock; while the table grows, some first move the up to fifteen keys of a bucket. No check takes a lock, allocates or
/// frees, enters the operating system (but to have more of the table's memory committed as it grows, 64 KiB at a time), or
/// waits for another thread.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(100)).burst(20)).build()?;
/// if limiter.check("198.51.100.7").is_allowed() {
///     // serve
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Limiter<K: ?Sized, A: Algorithm = TokenBucket, C = TscClock> {
    pub(super) versions: Versions<A>,
    pub(super) tier_of: Option<TierOf<K>>,
    pub(super) identity: KeyHasher,
    pub(super) table: Table,
    pub(super) clock: C,
    pub(super) max_keys: usize,
    pub(super) observer: Observer<OnDecision>,
    pub(super) resets: Resets,
    pub(super) unix_at_zero: u64,
    pub(super) key: PhantomData<fn(&K)>,
}

impl<K: Key + ?Sized, A: Algorithm> Limiter<K, A> {
    /// Begins to describe a limiter that gives each key this quota.
    pub fn builder(quota: A) -> Builder<K, A, TscClock> {
        Builder::new(quota)
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Decides a request of cost 1, and charges it if it is admitted.
    #[inline]
    pub fn check(&self, key: &K) -> Decision<'_> {
        self.check_n(key, 1)
    }

    /// Decides a request of any cost, all or nothing, and charges it if it is admitted.
    ///
    /// Cost 0 is admitted and changes nothing. A cost above the limit [never](Decision::is_never) is, and changes
    /// nothing.
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> Decision<'_> {
        self.charge(self.named(key), cost, move || self.clock.now())
    }

    /// [`check`](Self::check) at a time that the caller already has: see [`now`](Self::now).
    ///
    /// A time earlier than the key has seen counts as that one. A caller that lags by more than it takes a key to
    /// recover may find the key forgotten, and so admit at its own late time what it would have admitted in time.
    #[inline]
    pub fn check_at(&self, key: &K, now: Timestamp) -> Decision<'_> {
        self.check_n_at(key, 1, now)
    }

    /// [`check_n`](Self::check_n) at a time that the caller already has.
    #[inline]
    pub fn check_n_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision<'_> {
        self.charge(self.named(key), cost, move || now)
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing (but to help a bucket that is being
    /// split at this moment).
    pub fn peek(&self, key: &K) -> Decision<'_> {
        self.peek_n_at(key, 1, self.clock.now())
    }

    /// What [`check_n_at`](Self::check_n_at) would answer. Changes nothing and writes nothing.
    pub fn peek_n_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision<'_> {
        self.look(self.named(key), cost, now)
    }

    /// Another of the limiter's quotas, for the next call only: tier 0 is the builder's own. `None` for a number that
    /// is no tier's.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1)))
    ///     .tier(TokenBucket::new(Rate::per_second(10)))
    ///     .build()?;
    /// let paid = limiter.tier(1).expect("there are two tiers");
    /// assert_eq!(paid.check(&7).remaining(), 9);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[must_use]
    pub fn tier(&self, number: usize) -> Option<Tier<'_, K, A, C>> {
        let rule = self.versions.first().tier(number)?;
        Some(Tier { limiter: self, rule })
    }

    /// Gives back what an admitted request took, because it was not served: how many units, from 0 to its cost, a begun one
    /// counting as a whole.
    ///
    /// **Guarantee.** Never mints: what is admitted and not given back keeps the algorithm's promise.
    ///
    /// * *Buckets* get back what is certainly still owed because of the request: all of its cost at once, and less as
    ///   the bucket refills. The newest request, and any other while no request but the newest was given back since,
    ///   counts as owed until the bucket has refilled all that was charged up to it; after that, only until its own
    ///   cost has been refilled. Nothing comes back that a later [reservation](Self::reserve) or queued departure
    ///   rests on: in a queue, the newest only.
    /// * *Windows* get back what they still count: the fixed window until it ends, the sliding window as long as it
    ///   remembers (closed windows in whole [granules](crate::Resolution::granule)).
    /// * *The sliding log* gives back its newest admission only: once somebody else was admitted under the key,
    ///   nothing.
    ///
    /// The time must not be earlier than that of the key's latest charge: after a clock's step back, or at a caller's
    /// own late time, a bucket may give back up to the cost of the requests refunded too much.
    ///
    /// A refusal, a [peek](Self::peek), and what was admitted uncounted took nothing, and give nothing back. Do not
    /// refund what a later [`reset`](Self::reset) has forgiven: it would be given back twice.
    ///
    /// **Cost.** Two compare-exchanges when nobody interferes, and one more atomic when the request is not the newest. A
    /// decision of another limiter gives nothing back.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_minute(5))).build()?;
    /// let decision = limiter.check_n("alice", 3);
    /// assert_eq!(decision.remaining(), 2);
    /// // The server had no time for it:
    /// assert_eq!(limiter.refund(decision), 3);
    /// assert_eq!(limiter.peek("alice").remaining(), 4); // of five: what a request of 1 would leave
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund(&self, decision: Decision<'_>) -> u64 {
        self.refund_by(&decision, u64::MAX, || self.clock.now())
    }

    /// [`refund`](Self::refund) at a time that the caller already has.
    pub fn refund_at(&self, decision: Decision<'_>, now: Timestamp) -> u64 {
        self.refund_by(&decision, u64::MAX, || now)
    }

    /// [`refund`](Self::refund) of `units` of the request only, because it needed less than it took: how many came back.
    ///
    /// More than the request took counts as all of it. The rest stays taken for good.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(1_000))).build()?;
    /// let estimate = limiter.check_n("alice", 400);
    /// // The answer took 250:
    /// assert_eq!(limiter.refund_n(estimate, 150), 150);
    /// assert_eq!(limiter.peek("alice").remaining(), 749); // of a thousand: what a request of 1 would leave
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund_n(&self, decision: Decision<'_>, units: u64) -> u64 {
        self.refund_by(&decision, units, || self.clock.now())
    }

    /// [`refund_n`](Self::refund_n) at a time that the caller already has.
    pub fn refund_n_at(&self, decision: Decision<'_>, units: u64, now: Timestamp) -> u64 {
        self.refund_by(&decision, units, || now)
    }

    pub(super) fn refund_by(
        &self,
        decision: &Decision<'_>,
        units: u64,
        clock: impl Fn() -> Timestamp,
    ) -> u64 {
        let Some(taken) = decision.taken(units) else { return 0 };
        self.table.view(decision.name).refund(decision.rule, kept(decision.name), taken, clock)
    }

    /// Forgives the key what it owes, as if it had never been seen. `false` when nothing is known of it.
    ///
    /// A bucket's shared allowance ([`WhenFull::Share`](crate::WhenFull::Share)) is not one key's to reset. A key that
    /// took over another's slot is forgiven what it took over, too. A request
    /// that is decided meanwhile may be forgiven too, and so is one at a time before the reset. Permits that
    /// [leases](Self::lease) hold, of this key or another, end with it: their owners take new ones. Futures that wait for
    /// their turns ([`ready`](Self::ready)) keep them, and give nothing back any more when they are dropped.
    pub fn reset(&self, key: &K) -> bool {
        let name = key.name(&self.identity);
        let mut by = &self.versions.current().default;
        let reset = |by: &Compiled<A::Rule>| {
            let now = self.clock.now();
            (self.table.view(name).reset(&by.rule, kept(name), now), now)
        };
        let (mut known, mut now) = reset(by);
        // By an older quota than the word is of, nothing is forgiven.
        while let Some(newer) = self.versions.after(by, now) {
            by = newer;
            (known, now) = reset(by);
        }
        if known {
            self.resets.forgave();
        }
        known
    }

    /// About how many keys owe something: exact when nobody checks meanwhile. Reads the whole table.
    #[must_use]
    pub fn len(&self) -> usize {
        let rule = &self.versions.current().default.rule;
        let at = rule.moment(self.clock.now());
        self.table.views().map(|view| view.live(rule, at)).sum()
    }

    /// Whether no key owes anything. Reads the whole table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys the limiter was made for: see [`Builder::max_keys`].
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.max_keys
    }

    /// How many bytes of the table are in use by now: it [grows](Builder::max_keys) with the keys that owe something, up to
    /// what [`Builder::memory`] says. It does not fall: after a spike, [save](Self::save) the limiter and
    /// [restore](Builder::restore) a new one, which has what is still owed and memory for that alone.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.table.bytes()
    }

    /// The limiter's time: read it once and pass it to several [`check_at`](Self::check_at).
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How often keys came, went, and found no room.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.table.stats()
    }

    /// How finely the limiter counts.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        self.versions.current().default.any.resolution()
    }

    #[inline]
    fn rule_of(&self, key: &K) -> &Compiled<A::Rule> {
        let first = self.versions.first();
        match &self.tier_of {
            None => &first.default,
            Some(tier_of) => first.tier(tier_of(key)).unwrap_or(&first.default),
        }
    }

    /// The key as a check takes it, under the rule of its tier.
    #[inline]
    pub(super) fn named(&self, key: &K) -> Named<'_, A::Rule> {
        // The rule first: named before a call that may find the tier, a key has the identity's six words loaded ahead
        // of it, into a register each, on every check.
        let compiled = self.rule_of(key);
        Named { name: key.name(&self.identity), compiled }
    }

    /// Decides and charges: the way of every check, whoever named the key and when.
    // A call would keep the decision in memory, which costs as much as the check; and a time that is lent instead of
    // copied would be written to the stack.
    #[inline(always)]
    pub(super) fn charge<'l>(
        &'l self,
        named: Named<'l, A::Rule>,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l> {
        let Named { name, compiled } = named;
        // Every limit is at least 1: a check of cost 1 compares nothing here.
        if cost != 1 && (cost == 0 || cost > compiled.rule.limit()) || !self.versions.is_plain() {
            // Field by field: returned as it is, the decision would live in memory on every check.
            let Decision { verdict, payload, cost, now, rule, ring, name } =
                self.charge_special(named, cost, time);
            return Decision { verdict, payload, cost, now, rule, ring, name };
        }
        let ask = Ask { rule: &compiled.rule, name: kept(name), cost };
        let (ruling, now) = self.table.view(name).check(ask, time);
        if !ruling.allowed && !self.versions.stands(compiled, now) {
            let Decision { verdict, payload, cost, now, rule, ring, name } =
                self.charge_special(named, cost, time);
            return Decision { verdict, payload, cost, now, rule, ring, name };
        }
        Decision::of(ruling, &compiled.any, now, cost, name)
    }

    /// The same by the quota in force, where it is not the first or somebody is told, and for any cost.
    #[inline(never)]
    fn charge_special<'l>(
        &'l self,
        Named { name, compiled }: Named<'l, A::Rule>,
        cost: u64,
        time: impl Fn() -> Timestamp + Copy,
    ) -> Decision<'l> {
        let named = Named { name, compiled: self.versions.renewed(compiled) };
        let Named { compiled, .. } = named;
        if cost > 0 && cost <= compiled.rule.limit() {
            let ask = Ask { rule: &compiled.rule, name: kept(name), cost };
            let (ruling, now) = self.table.view(name).check(ask, time);
            let is_answer = ruling.allowed || self.versions.after(compiled, now).is_none();
            if is_answer && !self.observer.is_somebody() {
                return Decision::of(ruling, &compiled.any, now, cost, name);
            }
            if is_answer {
                return self.observer.tell(Decision::of(ruling, &compiled.any, now, cost, name));
            }
        }
        let Ok(decision) =
            self.charge_by(named, |compiled| Ok::<_, Infallible>(Cow::Borrowed(&compiled.rule)), cost, time);
        self.observer.tell(decision)
    }

    /// The same by the rule that `by` makes of the one in force, on the same words; nobody is told.
    #[cold]
    #[inline(never)]
    pub(super) fn charge_by<'l, E>(
        &'l self,
        Named { name, compiled }: Named<'l, A::Rule>,
        by: impl Fn(&Compiled<A::Rule>) -> Result<Cow<'_, A::Rule>, E>,
        cost: u64,
        time: impl Fn() -> Timestamp,
    ) -> Result<Decision<'l>, E> {
        let mut compiled = self.versions.renewed(compiled);
        loop {
            let rule = by(compiled)?;
            if cost == 0 || cost > compiled.rule.limit() {
                let decision = self.look(Named { name, compiled }, cost, time());
                if cost == 0 || decision.is_never() {
                    return Ok(decision);
                }
                // A quota that came in between has room for it: it was looked at by that one, but not charged.
                compiled = self.versions.renewed(compiled);
                continue;
            }
            // Checked by another way: a function that is called from two places is inlined into neither.
            let ask = Ask { rule: &*rule, name: kept(name), cost };
            let (ruling, now) = self.table.view(name).check_anywhere(ask, &time);
            if !ruling.allowed
                && let Some(newer) = self.versions.after_all(compiled)
            {
                compiled = newer;
                continue;
            }
            return Ok(Decision::of(ruling, &compiled.any, now, cost, name));
        }
    }

    /// Decides and writes nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn look<'l>(
        &'l self,
        Named { name, compiled }: Named<'l, A::Rule>,
        cost: u64,
        now: Timestamp,
    ) -> Decision<'l> {
        let mut compiled = self.versions.renewed(compiled);
        let view = self.table.view(name);
        loop {
            let rule = &compiled.rule;
            let decision = if cost > 0 && cost <= rule.limit() {
                let ruling = view.peek(Ask { rule, name: kept(name), cost }, now);
                Decision::of(ruling, &compiled.any, now, cost, name)
            } else {
                // Nothing to decide: only the numbers, as they stand.
                let standing = view.standing(Ask { rule, name: kept(name), cost: 1 }, rule.moment(now));
                let (owed, ring) = standing.unwrap_or_else(|full| (full.payload, full.ring));
                Decision::trivial(owed, ring, &compiled.any, now, cost)
            };
            match self.versions.after(compiled, now) {
                Some(newer) => compiled = newer,
                None => return decision,
            }
        }
    }

    /// Asks for the cache line that a check of this name looks at first.
    #[inline]
    pub(super) fn prefetch(&self, name: u64) {
        self.table.view(name).prefetch(name);
    }
}

impl<K: ?Sized, A: Algorithm, C> fmt::Debug for Limiter<K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("rule", &self.versions.current().default.any)
            .field("tiers", &self.versions.current().all().count())
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}

/// A [`Limiter`] under one of its quotas: see [`Limiter::tier`].
pub struct Tier<'l, K: ?Sized, A: Algorithm, C> {
    pub(super) limiter: &'l Limiter<K, A, C>,
    rule: &'l Compiled<A::Rule>,
}

impl<K: ?Sized, A: Algorithm, C> Clone for Tier<'_, K, A, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized, A: Algorithm, C> Copy for Tier<'_, K, A, C> {}

impl<K: ?Sized, A: Algorithm, C> fmt::Debug for Tier<'_, K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier")
            .field("rule", &self.limiter.versions.renewed(self.rule).any)
            .finish_non_exhaustive()
    }
}

impl<'l, K: Key + ?Sized, A: Algorithm, C: Clock> Tier<'l, K, A, C> {
    /// [`Limiter::check`] under this tier's quota.
    #[inline]
    pub fn check(&self, key: &K) -> Decision<'l> {
        self.check_n(key, 1)
    }

    /// [`Limiter::check_n`] under this tier's quota.
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> Decision<'l> {
        self.limiter.charge(self.named(key), cost, move || self.limiter.clock.now())
    }

    /// [`Limiter::check_at`] under this tier's quota.
    #[inline]
    pub fn check_at(&self, key: &K, now: Timestamp) -> Decision<'l> {
        self.check_n_at(key, 1, now)
    }

    /// [`Limiter::check_n_at`] under this tier's quota.
    #[inline]
    pub fn check_n_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision<'l> {
        self.limiter.charge(self.named(key), cost, move || now)
    }

    /// [`Limiter::peek`] under this tier's quota.
    pub fn peek(&self, key: &K) -> Decision<'l> {
        self.peek_n_at(key, 1, self.limiter.clock.now())
    }

    /// [`Limiter::peek_n_at`] under this tier's quota.
    pub fn peek_n_at(&self, key: &K, cost: u64, now: Timestamp) -> Decision<'l> {
        self.limiter.look(self.named(key), cost, now)
    }

    /// The key as a check takes it, under this tier's rule whatever the key's own is.
    #[inline]
    pub(super) fn named(&self, key: &K) -> Named<'l, A::Rule> {
        Named { name: key.name(&self.limiter.identity), compiled: self.rule }
    }
}
