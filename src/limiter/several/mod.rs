//! Several limits on each key, all or nothing.
//!
//! Each limit has a table of its own, so that a slot stays one word and a full bucket its table's business. A check
//! reads the clock once, names the key once and goes through the tables twice:
//!
//! ```text
//!   look at every limit ---- some refuse ----> refused: nothing was written (but what `CountPolicy::All` counts)
//!        |
//!        | all admit
//!        v
//!   charge them in order --- one refuses ----> undo what was charged: refused
//!        |                   (somebody came in between)
//!        v
//!     admitted
//! ```
//!
//! What must stay true:
//!
//! * An admitted request has been charged to each limit by one compare-exchange from a word on which the limit's rule
//!   admits it. So no limit ever admits more than it would alone, whatever is undone: a refund takes no more off a
//!   word than the charge certainly still adds to it.
//! * All requests charge in one order. The last limit holds nothing but admitted requests, so of requests that race for
//!   what is left there one is admitted.
//! * What can be undone only in part is charged last, see `reluctance` in `builder`. A limit keeps its place over a change of
//!   its quota, or requests would charge in two orders.
//! * A request is decided by one version of all quotas, see `charge`.

mod at_home;
mod builder;
mod charge;
mod decision;
mod reconfigure;
mod saved;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use crate::algorithm::{AnyRule, Each, Quota, Rule, for_rule};
use crate::clock::{Clock, TscClock};
use crate::key::{Key, KeyHasher};
use crate::limiter::versions::Versions;
use crate::limiter::{Compiled, kept};
use crate::observe::Observer;
use crate::table::bucket::View;
use crate::table::slot::Ask;
use crate::table::{Glance, Look, Stats, Table};
use crate::time::Timestamp;

pub use builder::MultiBuilder;
pub use decision::{LimitDecision, MultiDecision};

/// The most limits on one key.
pub(crate) const MOST: usize = 8;

/// Several limits on each of many keys, all or nothing: a request is admitted when every limit admits it, and a refused
/// one is charged to none.
///
/// **Guarantee.** No limit ever admits more than it would alone, from any number of threads. A refusal takes nothing
/// from the limits that would have admitted the request; a limit that refuses it and [counts](crate::CountPolicy::All)
/// refused requests counts it, as it does alone. When nobody interferes every answer is exact.
///
/// **What a concurrent caller can see.** A request that all limits admit when it looks at them, and that one then
/// refuses because somebody was faster, has been charged to others for a moment. Meanwhile a request may be refused that
/// would have been admitted, by at most the cost of the requests that are being refused at that moment. What is left of
/// such a request errs by refusing. A bucket keeps what dripped before the charge was undone, a window what was rounded up
/// when it closed meanwhile, a [full bucket](crate::WhenFull) of the table its shared allowance. And of several
/// [queues](crate::LeakyBucket::queue) or [logs](crate::SlidingLog), all but one keep a charge that another followed.
/// (A [`reset`](Self::reset) that comes in between can forgive a charge twice.)
///
/// Quotas change [at run time](Self::reconfigure), for all limits at one moment.
///
/// **Cost.** One clock and one hash; for each limit what a check of a [`Limiter`](crate::Limiter) costs, one
/// compare-exchange when the key is known and nobody interferes. A refusal of a known key writes nothing, unless it
/// is counted or somebody came in between. Never blocks, allocates or frees.
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
    /// As they are charged: not as they were given.
    limits: Limits,
    /// Their quotas, in the same order.
    versions: Versions<Each>,
    identity: KeyHasher,
    clock: C,
    observer: Observer<OnMultiDecision>,
    max_keys: usize,
    unix_at_zero: u64,
    key: PhantomData<fn(&K)>,
}

/// What is called with each decision.
type OnMultiDecision = dyn Fn(&MultiDecision<'_>) + Send + Sync;

/// The limits. A decision has a pointer to them and no length: of 128 bytes it is moved in place, of more by a call.
pub(crate) struct Limits {
    limits: Box<[Limit]>,
    /// How many they are, if all of their rules are [brief](AnyRule::is_brief) and nobody is told; otherwise 0.
    brief: usize,
}

impl Deref for Limits {
    type Target = [Limit];

    #[inline]
    fn deref(&self) -> &[Limit] {
        &self.limits
    }
}

/// One of the limits: what stays of it when its quota changes.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Which one it was of those given to the builder.
    number: usize,
    table: Table,
}

impl Limit {
    fn ask<'r>(&self, rule: &'r AnyRule, name: u64, cost: u64) -> (View<'_>, Ask<'r, AnyRule>) {
        (self.table.view(name), Ask { rule, name: kept(name), cost })
    }

    /// Looks at the key's home by the very algorithm, which is known from here on: only the log goes by its ring.
    #[inline(always)]
    fn glance(&self, rule: &AnyRule, name: u64, cost: u64, now: Timestamp) -> Option<Glance<'_>> {
        let view = self.table.view(name);
        for_rule!(rule, rule => view.glance(Ask { rule, name: kept(name), cost }, now))
    }

    /// Looks at the key wherever it is.
    #[inline]
    fn look(&self, rule: &AnyRule, name: u64, cost: u64, now: Timestamp) -> Look<'_> {
        let view = self.table.view(name);
        for_rule!(rule, rule => view.look(Ask { rule, name: kept(name), cost }, now))
    }

    /// What the key owes, and the place of its ring.
    fn standing(&self, rule: &AnyRule, name: u64, now: Timestamp) -> (u64, usize) {
        let (view, ask) = self.ask(rule, name, 1);
        let standing = view.standing(ask, rule.moment(now));
        let (owed, ring) = standing.unwrap_or_else(|full| (full.payload, full.ring));
        (owed, self.table.place_of(ring))
    }
}

impl<K: Key + ?Sized> MultiLimiter<K> {
    /// Begins to describe a limiter that gives each key all of these quotas: from 1 to 8, of any algorithms.
    pub fn builder(quotas: impl IntoIterator<Item = impl Into<Quota>>) -> MultiBuilder<K, TscClock> {
        MultiBuilder::new(quotas.into_iter().map(Into::into).collect())
    }
}

impl<K: Key + ?Sized, C: Clock> MultiLimiter<K, C> {
    /// Decides a request of cost 1, and charges it to every limit if all admit it.
    #[inline]
    pub fn check(&self, key: &K) -> MultiDecision<'_> {
        self.check_n(key, 1)
    }

    /// Decides a request of any cost, all or nothing, and charges it to every limit if all admit it.
    ///
    /// Cost 0 is admitted and changes nothing. A cost above any of the limits [never](MultiDecision::is_never) is, and
    /// changes nothing.
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> MultiDecision<'_> {
        self.charge(key, cost, || self.clock.now())
    }

    /// [`check`](Self::check) at a time that the caller already has: see [`now`](Self::now), and
    /// [`Limiter::check_at`](crate::Limiter::check_at).
    ///
    /// What a race refuses is undone by the limiter's own clock. Callers whose times are ahead of the clock, beside others that go by it, can be admitted what
    /// drips in between.
    #[inline]
    pub fn check_at(&self, key: &K, now: Timestamp) -> MultiDecision<'_> {
        self.check_n_at(key, 1, now)
    }

    /// [`check_n`](Self::check_n) at a time that the caller already has.
    #[inline]
    pub fn check_n_at(&self, key: &K, cost: u64, now: Timestamp) -> MultiDecision<'_> {
        self.charge(key, cost, || now)
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    pub fn peek(&self, key: &K) -> MultiDecision<'_> {
        self.peek_n_at(key, 1, self.clock.now())
    }

    /// What [`check_n_at`](Self::check_n_at) would answer. Changes nothing and writes nothing.
    pub fn peek_n_at(&self, key: &K, cost: u64, now: Timestamp) -> MultiDecision<'_> {
        self.look(key.name(&self.identity), cost, now)
    }

    /// Gives back to every limit what an admitted request took of it: how many units, the least of what the limits got
    /// back, each by the rules of [`Limiter::refund`](crate::Limiter::refund).
    ///
    /// **Guarantee.** Never mints. **Cost.** Two compare-exchanges for each limit when nobody interferes. A decision of
    /// another limiter gives nothing back.
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
    pub fn refund(&self, decision: MultiDecision<'_>) -> u64 {
        if !std::ptr::eq(decision.limits, &raw const self.limits) {
            return 0;
        }
        let units = |index| self.give_back(&decision, index, || self.clock.now());
        decision.taken.iter().map(units).min().unwrap_or(0)
    }

    /// Forgives the key what it owes to every limit, one after the other: see
    /// [`Limiter::reset`](crate::Limiter::reset). `false` when nothing is known of it.
    pub fn reset(&self, key: &K) -> bool {
        let name = key.name(&self.identity);
        let mut version = self.versions.current();
        loop {
            let now = self.clock.now();
            let limits = self.limits.iter().zip(version.all());
            let reset = |known, (limit, by): (&Limit, &Compiled<_>)| {
                limit.table.view(name).reset(&by.rule, kept(name), now) | known
            };
            let known = limits.fold(false, reset);
            // By an older quota than the word is of, nothing is forgiven.
            match self.versions.following(version, now) {
                Some(later) => version = later,
                None => return known,
            }
        }
    }

    /// About how many keys owe something to any limit: exact when nobody checks meanwhile. Reads all tables.
    #[must_use]
    pub fn len(&self) -> usize {
        let (version, now) = (self.versions.current(), self.clock.now());
        // The tables grow each by itself, but a key is in buckets of the same class.
        let classes = self.limits.iter().map(|limit| limit.table.roots()).min().unwrap_or(1);
        let mut names = Vec::new();
        let count = |class: usize| {
            names.clear();
            for (Limit { table, .. }, Compiled { rule, .. }) in self.limits.iter().zip(version.all()) {
                names.extend(table.debtors((class, classes), rule, rule.moment(now)));
            }
            names.sort_unstable();
            names.dedup();
            names.len()
        };
        (0..classes).map(count).sum()
    }

    /// Whether no key owes anything. Reads all tables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys the limiter was made for: see [`MultiBuilder::max_keys`].
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.max_keys
    }

    /// The limiter's time: read it once and pass it to several [`check_at`](Self::check_at).
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How many bytes of all the tables are in use by now: see [`Limiter::memory`](crate::Limiter::memory).
    #[must_use]
    pub fn memory(&self) -> usize {
        self.limits.iter().map(|limit| limit.table.bytes()).sum()
    }

    /// How often keys came, went, and found no room, over all limits: a key comes once for each.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        self.limits.iter().for_each(|limit| limit.table.add_stats(&mut stats));
        stats
    }

    /// [`stats`](Self::stats) of one limit, by its number as given to the builder, from 0. `None` when there is no such
    /// limit.
    #[must_use]
    pub fn stats_of(&self, number: usize) -> Option<Stats> {
        let limit = self.limits.iter().find(|limit| limit.number == number)?;
        let mut stats = Stats::default();
        limit.table.add_stats(&mut stats);
        Some(stats)
    }
}

impl<K: ?Sized, C> fmt::Debug for MultiLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = self.limits.iter().zip(self.versions.current().all());
        let rules: Vec<_> = limits.map(|(limit, by)| (limit.number, &by.rule)).collect();
        f.debug_struct("MultiLimiter")
            .field("rules", &rules)
            .field("max_keys", &self.max_keys)
            .finish_non_exhaustive()
    }
}
