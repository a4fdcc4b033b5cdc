//! A limiter, as users hold it: [`Limiter`], one limit or several for each of many keys or for
//! everything; and [`InFlightLimiter`], for units in flight. `core` has the parts of a limiter and
//! says where its verbs are.

mod account;
mod as_much;
mod batch;
mod builder;
mod change;
mod charge;
mod core;
mod decide;
mod decision;
mod give_back;
mod in_flight;
mod kept;
mod lease;
mod lent;
mod offer;
mod part;
mod reserve;
mod restore;
mod save;
mod settle;
mod space;
mod tables;
mod time_of;
mod version;

use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::Path;

use crate::algorithm::{Algorithm, Resolution, TokenBucket};
use crate::clock::{Clock, TscClock};
use crate::key::Key;
use crate::receipt::Receipt;
use crate::saved::{Format, Writer, replace};
use crate::table::Stats;
use crate::time::Timestamp;
use batch::Batch;
use core::Core;

pub use account::Account;
pub use as_much::DebitError;
pub use builder::{Builder, Quotas};
pub use change::Change;
pub use core::Usage;
pub use decision::Decision;
pub use in_flight::{AcquireError, InFlight, InFlightBuilder, InFlightLimiter, OwnedInFlight};
pub use kept::Kept;
pub use lease::{Lease, Leased};
pub use lent::Lent;
pub use offer::{Offer, together, together_if};
pub use part::Part;
pub use reserve::{Reservation, ReserveError};
pub use settle::Settled;
pub use time_of::{ByClock, Time};

/// One limit or several for each of many keys, or for everything; shared by all threads.
///
/// `K` is the kind of the keys ([`Key`]): `str`, an integer, [`ClientIp`](crate::ClientIp), a
/// tuple. With `()`, which is where a builder begins, the limit is one for everything: see
/// [`GlobalLimiter`]. `N` is the number of limits. Of several, a request is admitted when every
/// limit admits it, and a refused one is charged to none: all or nothing. `A` is the
/// [algorithm](Algorithm) of the limits, or [`Quota`](crate::Quota) for any; `C` is the clock.
///
/// **Guarantee.** Each key gets what its [algorithm](Algorithm) promises, from any number of
/// threads, and no limit of several ever admits more than it would alone. A refusal takes nothing
/// from the limits that would have admitted the request; a limit that refuses it and
/// [counts](crate::CountPolicy::All) refused requests counts it, as it does alone. When no other
/// thread interferes every answer is exact. Memory is bounded by [`Builder::max_keys`], and comes
/// into use as keys do. What happens when more keys are in debt than fit is chosen by
/// [`WhenFull`](crate::WhenFull).
///
/// **What a concurrent caller can see** of several limits. A request that every limit first admits,
/// and a limit then refuses because another thread was faster, was charged to other limits for a
/// short time. Meanwhile a request may be refused that would have been admitted, by at most the
/// cost of the requests that are being refused then. A charge of such a request that stays errs by
/// refusing. A bucket keeps the charge that dripped before it was undone, a window the part that
/// was rounded up when it closed meanwhile, a [full bucket](crate::WhenFull) of the table its
/// shared allowance. And of several [queues](crate::LeakyBucket::queue) or
/// [logs](crate::SlidingLog), all but one keep a charge that another followed.
///
/// **Cost.** A check of a key that the table knows reads the clock and touches, mostly, one cache
/// line for each limit: a few loads and one compare-exchange, retried when another thread charged
/// the same key meanwhile. (It has the four lines of the key's bucket fetched, in case the key is
/// in another one.) A refusal of a key that the table knows writes nothing, unless it is counted
/// or, of several limits, another thread came in between. A key's first check takes three
/// compare-exchanges and a second reading of the clock; while the table grows, some checks first
/// split a bucket of up to fifteen keys. No check takes a lock, allocates or frees, waits for
/// another thread, or enters the operating system (but to have more of the table's memory committed
/// as it grows, 64 KiB at a time).
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(100)).burst(20);
/// let limiter = Limiter::builder(quota).per::<str>().build()?;
/// if limiter.check("198.51.100.7").is_allowed() {
///     // serve
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// More than one limit, of any algorithms:
///
/// ```
/// use tollgate::{FixedWindow, Limiter, Quota, Rate, TokenBucket};
///
/// // Ten a second, but no more than 15 a minute and a thousand a day.
/// let quotas = [
///     Quota::from(TokenBucket::new(Rate::per_second(10))),
///     TokenBucket::new(Rate::per_minute(15)).into(),
///     FixedWindow::new(Rate::per_day(1_000)).into(),
/// ];
/// let limiter = Limiter::builder(quotas).per::<str>().build()?;
///
/// let decision = limiter.check_n("alice", 10);
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 0); // of the first: the tightest
///
/// let decision = limiter.check_n("alice", 6);
/// assert_eq!(decision.refused_by(), Some(1)); // the longest wait: 5 are left of 15 a minute
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// In a field or a static the type says all, and `per()` nothing:
///
/// ```
/// use std::sync::LazyLock;
/// use tollgate::{Limiter, MOST_LIMITS, ManualClock, Quota, Rate, SlidingWindow, TokenBucket};
///
/// static LOGINS: LazyLock<Limiter<str, SlidingWindow>> = LazyLock::new(|| {
///     Limiter::builder(SlidingWindow::new(Rate::per_hour(5))).per().build().expect("it is valid")
/// });
///
/// struct App {
///     by_tenant: Limiter<(u32, String), Quota, 2>,
///     /// As many limits as a file says.
///     by_file: Limiter<[u8], Quota, MOST_LIMITS>,
///     /// For tests.
///     by_hand: Limiter<u64, TokenBucket, 1, ManualClock>,
/// }
///
/// impl App {
///     fn admits(&self, tenant: u32, user: &str) -> bool {
///         LOGINS.check(user).is_allowed() && self.by_tenant.check((tenant, user)).is_allowed()
///     }
/// }
/// ```
pub struct Limiter<K: ?Sized, A: Algorithm = TokenBucket, const N: usize = 1, C = TscClock> {
    core: Core<A, N, C>,
    key: PhantomData<fn(&K)>,
}

/// One limit for everything, or several, shared by all threads: its only key is `()`.
///
/// **Cost.** A few loads and one compare-exchange on one cache line when no other thread
/// interferes; a refusal writes nothing. Never blocks, never allocates.
///
/// # Examples
///
/// ```
/// use tollgate::{GlobalLimiter, Limiter, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(1_000));
/// let limiter: GlobalLimiter = Limiter::builder(quota).build()?;
/// assert!(limiter.check_n((), 1_000).is_allowed());
/// assert!(!limiter.check(()).is_allowed());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub type GlobalLimiter<A = TokenBucket, const N: usize = 1, C = TscClock> = Limiter<(), A, N, C>;

impl<A: Algorithm, const N: usize> Limiter<(), A, N> {
    /// Begins to describe a limiter by one limit, an array of limits, or a list. It is one for
    /// everything until [`per`](Builder::per) says for each what.
    pub fn builder(quotas: impl Quotas<A, N>) -> Builder<(), A, N> {
        Builder::new(quotas.into_list())
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C: Clock> Limiter<K, A, N, C> {
    /// Decides a request of cost 1, and charges it to every limit if all admit it.
    #[inline(always)]
    pub fn check(&self, key: impl Key<K>) -> Decision<'_, N> {
        self.account(key).check()
    }

    /// Decides a request of any cost, all or nothing, and charges it to every limit if all admit
    /// it.
    ///
    /// Cost 0 is admitted and changes nothing. A cost above a limit [never](Decision::is_never) is,
    /// and changes nothing.
    #[inline(always)]
    pub fn check_n(&self, key: impl Key<K>, cost: u64) -> Decision<'_, N> {
        self.account(key).check_n(cost)
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    pub fn peek(&self, key: impl Key<K>) -> Decision<'_, N> {
        self.account(key).peek()
    }

    /// One key's account, which has every verb: [`reserve`](Account::reserve),
    /// [`wait`](Account::wait), [`lease`](Account::lease), [`debit`](Account::debit),
    /// [`reset`](Account::reset) and others; at a time that the caller has ([`at`](Account::at)),
    /// or under a [tier](Account::tier).
    ///
    /// Changes nothing: the key is charged when the account is [checked](Account::check). The key
    /// itself is not needed any more.
    ///
    /// **Cost.** One hash. No allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_second(100));
    /// let limiter = Limiter::builder(quota).per::<str>().build()?;
    /// let client = limiter.account("198.51.100.7");
    /// assert!(client.check_n(10).is_allowed());
    /// assert_eq!(client.peek().remaining(), 89);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn account(&self, key: impl Key<K>) -> Account<'_, A, N, C> {
        let core = &self.core;
        Account { core, tier: core.default_tier(), fingerprint: core.fingerprint(&key), time: ByClock }
    }

    /// Checks many keys, in their order, at one time: the clock is read once, here.
    ///
    /// The result is an iterator of one [`Decision`] for each key. A key is charged when its
    /// decision is taken from the iterator, not before, so to **drop the iterator early leaves
    /// the remaining keys unchecked**. A key that comes twice is charged twice, one after the
    /// other. Everything is decided as one by one [at](Account::at) the time of this call: take
    /// the decisions at once.
    ///
    /// `keys` is a slice, an array, a `Vec`, or any iterator of keys or references to them; keys
    /// are taken from it up to 32 ahead of their decisions. (Where a key comes twice under a
    /// sliding log, ask each decision for its numbers before taking the next.)
    ///
    /// **Cost.** One reading of the clock for all. For each key what a check costs, a few loads and
    /// one compare-exchange, with the memory of the next 32 keys fetched meanwhile: this pays
    /// from about four keys that are not in the cache. No allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(2))).per::<u64>().build()?;
    /// let decisions = limiter.check_many(&[7, 8, 7, 7]);
    /// let allowed: Vec<bool> = decisions.map(|decision| decision.is_allowed()).collect();
    /// assert_eq!(allowed, [true, true, true, false]);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    ///
    /// Keys of strings, and keys that are parts of something:
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// struct Request { client: String }
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_second(1))).per::<str>().build()?;
    /// assert!(limiter.check_many(["alice", "bob"]).all(|decision| decision.is_allowed()));
    ///
    /// let requests = [Request { client: "alice".into() }, Request { client: "carol".into() }];
    /// let clients = requests.iter().map(|request| request.client.as_str());
    /// let served: Vec<&Request> = (requests.iter().zip(limiter.check_many(clients)))
    ///     .filter_map(|(request, decision)| decision.is_allowed().then_some(request))
    ///     .collect();
    /// assert_eq!(served.len(), 1);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_many(&self, keys: impl IntoIterator<Item: Key<K>>) -> impl Iterator<Item = Decision<'_, N>> {
        Batch::new(&self.core, keys.into_iter())
    }

    /// Gives back what an admitted request took, because it was not served: how many units, from 0
    /// to its cost, a begun one counting as a whole. Takes a [`Decision`] or its [`Receipt`].
    ///
    /// **Guarantee.** Never mints: the requests that are admitted and not given back keep the
    /// algorithm's promise.
    ///
    /// * *Buckets* get back the debt that certainly remains because of the request: all of its cost
    ///   at once, and less as the bucket refills. The newest request, and any other while no
    ///   request but the newest was given back since, counts as debt until the bucket has refilled
    ///   all that was charged up to it; after that, only until its own cost has been refilled.
    ///   Nothing comes back that a later [reservation](Account::reserve) or queued departure rests
    ///   on: in a queue, the newest only.
    /// * *Windows* get back what they still count: the fixed window until it ends, the sliding
    ///   window as long as it remembers (closed windows in whole
    ///   [granules](crate::Resolution::granule)).
    /// * *The sliding log* gives back its newest admission only: once another request was admitted
    ///   under the key, nothing.
    ///
    /// The time must not be earlier than that of the key's latest charge: after a clock's step
    /// back, or at a caller's own late time, a bucket may give back up to the cost of the
    /// requests refunded too much.
    ///
    /// A refusal, a [peek](Self::peek), and a request that was admitted uncounted took nothing, and
    /// give nothing back. A [`reset`](Account::reset) ends the key's receipts, and
    /// while a refund runs that began before the reset, no other gives back. The receipt of
    /// another limiter gives nothing back, nor one from before a [restart](Builder::restore).
    ///
    /// **Cost.** Four compare-exchanges when no other thread interferes, and one more atomic
    /// operation when the request is not the newest.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::builder(TokenBucket::new(Rate::per_minute(5))).per::<str>().build()?;
    /// let decision = limiter.check_n("alice", 3);
    /// assert_eq!(decision.remaining(), 2);
    /// // The server had no time for it:
    /// assert_eq!(limiter.refund(decision), 3);
    /// // Of five, a request of 1 would leave four:
    /// assert_eq!(limiter.peek("alice").remaining(), 4);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund(&self, charge: impl Into<Receipt<N>>) -> u64 {
        self.refund_part(&mut charge.into(), u64::MAX)
    }

    /// [`refund`](Self::refund) of up to `units` of the request only, because it needed less than
    /// it took: how many came back. Again and again, until nothing is [left](Receipt::left) on
    /// the receipt.
    ///
    /// The units asked for are spent, whether or not they came back.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(1_000));
    /// let limiter = Limiter::builder(quota).per::<str>().build()?;
    /// let mut receipt = limiter.check_n("alice", 400).receipt(); // an estimate
    /// // The answer took 250:
    /// assert_eq!(limiter.refund_part(&mut receipt, 150), 150);
    /// // Of a thousand, a request of 1 would leave 749:
    /// assert_eq!(limiter.peek("alice").remaining(), 749);
    /// // No, 200:
    /// assert_eq!(limiter.refund_part(&mut receipt, 50), 50);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund_part<const M: usize>(&self, receipt: &mut Receipt<M>, units: u64) -> u64 {
        self.core.give_back(receipt, units, || self.core.clock.now())
    }

    /// [`refund`](Self::refund) at a time that the caller already has.
    pub fn refund_at(&self, charge: impl Into<Receipt<N>>, now: Timestamp) -> u64 {
        self.refund_part_at(&mut charge.into(), u64::MAX, now)
    }

    /// [`refund_part`](Self::refund_part) at a time that the caller already has.
    pub fn refund_part_at(&self, receipt: &mut Receipt<N>, units: u64, now: Timestamp) -> u64 {
        self.core.give_back(receipt, units, || now)
    }

    /// Writes down every key's debt, for [`Builder::restore`](crate::Builder::restore) in the next
    /// process. Returns how many debts that is: of each limit, the keys in debt to it.
    ///
    /// **The file is a secret.** No key can be read from it, but it holds the secret by which the
    /// limiter [hashes its keys](Key): a reader of the file can find out whether a key that he
    /// guesses is in it, and choose keys that share a bucket or, if they are longer than 8
    /// bytes, a limit. A writer of the file can forgive debts; the checksums in
    /// it detect accidents, not intent. Create it for its owner only.
    ///
    /// **Guarantee.** Nothing that was admitted before the call is forgotten, and no check waits
    /// for it. A request that is decided during the call may be in the file or not: at most the
    /// requests that were admitted since the call began are admitted twice, before and after a
    /// restart. Stop serving before it, and that is none.
    ///
    /// **Cost.** Reads the whole table, a bucket at a time, and writes about 21 bytes a key in debt
    /// (and 8 for each unit in its [log](crate::SlidingLog)) in pieces of 64 KiB. Allocates one
    /// such piece, and one log.
    ///
    /// # Errors
    ///
    /// Those of `out`. The part that has been written by then is no saved limiter, and will not be
    /// taken for one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let quota = TokenBucket::new(Rate::per_hour(5));
    /// let limiter = Limiter::builder(quota).per::<str>().build()?;
    /// assert_eq!(limiter.check_n("alice", 4).remaining(), 1);
    /// let mut file = Vec::new();
    /// assert_eq!(limiter.save(&mut file)?, 1);
    ///
    /// // Another day, another process:
    /// let limiter = Limiter::builder(quota).per::<str>().restore(&file[..])?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        let mut out = Writer::begin(out, Format::LIMITER)?;
        let keys = self.core.save(&mut out)?;
        out.finish()?;
        Ok(keys)
    }

    /// [`save`](Self::save) into a file of several, for [`Builder::restore_from`]: the example is
    /// at [`saved`](crate::saved). The errors are those of the file's output.
    pub fn save_in(&self, out: &mut Writer<impl Write>) -> io::Result<usize> {
        self.core.save(out)
    }

    /// [`save`](Self::save) to a file, by [`replace`]: whole, or the one before, and for its owner
    /// only. Returns how many debts of keys it holds. The errors are those of `replace`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::fs::File;
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// # let directory = format!("tollgate-saved-{}", std::process::id());
    /// # let directory = std::env::temp_dir().join(directory);
    /// # std::fs::create_dir_all(&directory)?;
    /// # let path = directory.join("limiter");
    /// let quota = TokenBucket::new(Rate::per_hour(5));
    /// let limiter = Limiter::builder(quota).per::<str>().build()?;
    /// assert!(limiter.check("alice").is_allowed());
    /// limiter.save_to(&path)?;
    ///
    /// // Another day, another process:
    /// let limiter = Limiter::builder(quota).per::<str>().restore(File::open(&path)?)?;
    /// assert_eq!(limiter.check("alice").remaining(), 3);
    /// # std::fs::remove_dir_all(&directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save_to(&self, path: impl AsRef<Path>) -> io::Result<usize> {
        replace(path.as_ref(), |file| self.save(file))
    }

    /// The limiter's time: read it once and pass it to several requests [`at`](Account::at) it.
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
    pub fn stats_of(&self, limit: usize) -> Option<Stats> {
        self.core.tables.numbered(limit).map(|table| table.stats())
    }

    /// How finely the limiter counts: its first limit.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        self.core.resolution(0)
    }

    /// [`resolution`](Self::resolution) of one limit, by its number as given to the builder, from
    /// 0. `None` when there is no such limit.
    #[must_use]
    pub fn resolution_of(&self, limit: usize) -> Option<Resolution> {
        (limit < self.core.tables.limits()).then(|| self.core.resolution(limit))
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C> fmt::Debug for Limiter<K, A, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("rules", &self.core.rules())
            .field("max_keys", &self.core.space.keys())
            .finish_non_exhaustive()
    }
}
