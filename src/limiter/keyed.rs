//! A limit for each of many keys.

use std::borrow::Borrow;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::algorithm::{Algorithm, Inherit, Resolution, TokenBucket};
use crate::clock::{Clock, TscClock};
use crate::core::{Core, Keyed, Limits, Usage};
use crate::decision::Decision;
use crate::error::BuildError;
use crate::key::Key;
use crate::limiter::time_and_tier::TierOf;
use crate::limiter::{Batch, Builder, ByClock, Face, Prepared, View};
use crate::receipt::Receipt;
use crate::table::Stats;
use crate::time::Timestamp;

/// A limit for each of many keys, shared by all threads.
///
/// **Guarantee.** Each key gets what its [algorithm](Algorithm) promises, from any number of
/// threads. Memory is bounded by [`Builder::max_keys`], and comes into use as keys do. What happens
/// when more keys are in debt than fit is chosen by [`WhenFull`](crate::WhenFull).
///
/// **Cost.** A check of a key that the table knows reads the clock and touches, mostly, one cache
/// line: a few loads and one compare-exchange, retried when another thread charged the same key
/// meanwhile. (It has the four lines of the key's bucket fetched, in case the key is in another
/// one.) A refusal of a key that the table knows writes nothing. A key's first check takes three
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
/// let limiter = Limiter::<str>::builder(quota).build()?;
/// if limiter.check("198.51.100.7").is_allowed() {
///     // serve
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Limiter<K: ?Sized, A: Algorithm = TokenBucket, C = TscClock> {
    pub(super) core: Core<Keyed<A>, C>,
    pub(super) tier_of: Option<TierOf<K>>,
}

impl<K: Key + ?Sized, A: Algorithm> Limiter<K, A> {
    /// Begins to describe a limiter that gives each key this quota.
    pub fn builder(quota: A) -> Builder<K, Keyed<A>, TscClock> {
        Builder::new(vec![quota])
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Decides a request of cost 1, and charges it if it is admitted.
    #[inline]
    pub fn check(&self, key: &K) -> Decision<'_> {
        self.view().check(key)
    }

    /// Decides a request of any cost, all or nothing, and charges it if it is admitted.
    ///
    /// Cost 0 is admitted and changes nothing. A cost above the limit [never](Decision::is_never)
    /// is, and changes nothing.
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> Decision<'_> {
        self.view().check_n(key, cost)
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    pub fn peek(&self, key: &K) -> Decision<'_> {
        self.view().peek(key)
    }

    /// The limiter at a time that the caller already has: see [`now`](Self::now).
    ///
    /// A time earlier than the key's latest charge counts as the time of that charge. A caller that
    /// lags by more than it takes a key to recover may find the key forgotten, and so admit at its
    /// own late time what it would have admitted in time.
    #[inline]
    pub fn at(&self, now: Timestamp) -> View<'_, K, Keyed<A>, C, Timestamp> {
        self.view().at(now)
    }

    /// The limiter under another of its quotas, whichever tier the key is of: tier 0 is the
    /// builder's own. `None` for a number that is no tier's.
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
    pub fn tier(&self, number: usize) -> Option<View<'_, K, Keyed<A>, C>> {
        let tier = Keyed::<A>::tier(&self.core.versions, number)?;
        Some(View { tier: Some(tier), ..self.view() })
    }

    /// Hashes the key and asks the processor for its slot's cache line, so that a check soon after
    /// waits for neither.
    ///
    /// Changes nothing: the key is charged when the result is [checked](Prepared::check). The key
    /// itself is not needed any more. The verbs that are not of every day are there, too:
    /// [`reserve`](Prepared::reserve), [`wait`](Prepared::wait), [`lease`](Prepared::lease),
    /// [`reset`](Prepared::reset).
    ///
    /// **Cost.** One hash, one look for the key's tier where there is
    /// [`tier_by`](Builder::tier_by), and one prefetch, which nothing waits for. No load from
    /// the table, no allocation. The fetched line is the right one for about three
    /// keys in four; the others wait for another, as in any check.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(100))).build()?;
    /// let client = limiter.prepare("198.51.100.7");
    /// // ... parse the rest of the request ...
    /// assert!(client.check_n(10).is_allowed());
    /// assert_eq!(client.peek().remaining(), 89);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn prepare(&self, key: &K) -> Prepared<'_, Keyed<A>, C> {
        self.view().prepare(key)
    }

    /// Checks many keys, in their order, at one time: the clock is read once, here.
    ///
    /// The result is an iterator of one [`Decision`] for each key. A key is charged when its
    /// decision is taken from the iterator, not before, so to **drop the iterator early leaves
    /// the remaining keys unchecked**. A key that comes twice is charged twice, one after the
    /// other. Everything is decided as one by one [at](Self::at) the time of this call: take
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
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(2))).build()?;
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
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
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
    pub fn check_many<I>(&self, keys: I) -> Batch<'_, K, Keyed<A>, C, I::IntoIter>
    where
        I: IntoIterator<Item: Borrow<K>>,
    {
        self.view().check_many(keys)
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
    ///   Nothing comes back that a later [reservation](Prepared::reserve) or queued departure rests
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
    /// give nothing back. A [`reset`](Prepared::reset) ends the key's receipts, and
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
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_minute(5))).build()?;
    /// let decision = limiter.check_n("alice", 3);
    /// assert_eq!(decision.remaining(), 2);
    /// // The server had no time for it:
    /// assert_eq!(limiter.refund(decision), 3);
    /// // Of five, a request of 1 would leave four:
    /// assert_eq!(limiter.peek("alice").remaining(), 4);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund(&self, charge: impl Into<Receipt>) -> u64 {
        self.view().refund(charge)
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
    /// let limiter = Limiter::<str>::builder(TokenBucket::new(Rate::per_hour(1_000))).build()?;
    /// let mut receipt = limiter.check_n("alice", 400).receipt(); // an estimate
    /// // The answer took 250:
    /// assert_eq!(limiter.refund_part(&mut receipt, 150), 150);
    /// // Of a thousand, a request of 1 would leave 749:
    /// assert_eq!(limiter.peek("alice").remaining(), 749);
    /// // No, 200:
    /// assert_eq!(limiter.refund_part(&mut receipt, 50), 50);
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn refund_part(&self, receipt: &mut Receipt, units: u64) -> u64 {
        self.view().refund_part(receipt, units)
    }

    /// Makes another quota current for every key of tier 0 (of all keys, where there are no tiers),
    /// and says what becomes of their state. The keys are not touched: each is worked out anew
    /// at its next check.
    ///
    /// **Guarantee.** The change is one instant. A check after `reconfigure` has returned is
    /// decided by the new quota, and a check that goes on meanwhile wholly by the old one, as
    /// if it had come before, or wholly by the new one: never by a mixture, and never to wait.
    /// Each key starts with what [`Inherit`] says that it had available then, and from there on
    /// gets what the new quota promises. A debt is lost by what `inherit` says only; all else about
    /// a key stays as it is: its slot, its tier, a shared allowance.
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
    /// A time before the change ([`at`](Self::at)) counts as that of the change. A request admitted
    /// before it can be [refunded](Self::refund) until the key is charged under the new quota.
    /// [Prepared](crate::Prepared) keys, [tiers](Self::tier) and batches see the new quota at
    /// their next check; a [lease](crate::Lease) spends the permits that it holds until their
    /// ttl, but none after `Inherit::Reset`.
    ///
    /// **Cost.** About a kilobyte for each tier, kept until the limiter is dropped, and the time to
    /// work out the new quotas' numbers; writers take turns, and wait for a [save](Self::save). A
    /// check never waits. A check costs some more instructions once the limiter has been
    /// reconfigured, and while older debts remain a little for each change in between. The words
    /// make room: each change takes a second or two of their ten years, the time in which the
    /// largest debt runs out, and the time by which callers' own times or reservations were ahead
    /// of the clock; for most limits that is tens of millions of changes. (A fixed window takes a
    /// number or two of its twenty years' windows.) Then it is an error, and so is a change while a
    /// debt from 1,024 changes ago remains; with more than 16 tiers, from 16,384 divided by their
    /// number, and at least from 16.
    ///
    /// # Errors
    ///
    /// What [`build`](crate::Builder::build) would say of the quota; [`BuildError::CannotInherit`]
    /// and [`BuildError::ChangedTooOften`]. The old quota stays current then.
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
    /// assert_eq!(limiter.check("alice").remaining(), 2); // the debt of 3 remains, and this one
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn reconfigure(&self, quota: A, inherit: Inherit) -> Result<(), BuildError> {
        self.core.change_first(quota, inherit)
    }

    /// [`reconfigure`](Self::reconfigure) for all tiers at one instant: `quotas[0]` is tier 0's. A
    /// key inherits what it has available under the tier that it is next checked under.
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
        self.core.change(|olds| {
            if quotas.len() != olds.len() {
                return Err(BuildError::CannotInherit { field: "tiers" });
            }
            Ok((quotas.to_vec(), vec![inherit; quotas.len()]))
        })
    }

    /// Writes down every key's debt, for [`Builder::restore`](crate::Builder::restore) in the next
    /// process. Returns how many keys that is.
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
    /// To a file: [`save_to`](Self::save_to), so that a crash leaves the old one.
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
    /// let limiter = Limiter::<str>::builder(quota).build()?;
    /// assert_eq!(limiter.check_n("alice", 4).remaining(), 1);
    /// let mut file = Vec::new();
    /// assert_eq!(limiter.save(&mut file)?, 1);
    ///
    /// // Another day, another process:
    /// let limiter = Limiter::<str>::builder(quota).restore(&file[..])?;
    /// assert!(limiter.check("alice").is_allowed());
    /// assert!(!limiter.check("alice").is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self, out: impl Write) -> io::Result<usize> {
        self.core.save(out)
    }

    /// [`save`](Self::save) to a file, which is then whole, or the one that was there before: also
    /// after a crash, a full disk or a loss of power. Returns how many debts of keys it holds.
    ///
    /// It is written beside `path`, under the name with `.new` behind it, to the disk, and renamed.
    /// Only its owner may read it, where the system has such permissions (Unix): it is a secret.
    /// Call it from one thread at a time.
    ///
    /// # Errors
    ///
    /// Those of the file system. The file at `path` is as it was then.
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
    /// let limiter = Limiter::<str>::builder(quota).build()?;
    /// assert!(limiter.check("alice").is_allowed());
    /// limiter.save_to(&path)?;
    ///
    /// // Another day, another process:
    /// let limiter = Limiter::<str>::builder(quota).restore(File::open(&path)?)?;
    /// assert_eq!(limiter.check("alice").remaining(), 3);
    /// # std::fs::remove_dir_all(&directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save_to(&self, path: impl AsRef<Path>) -> io::Result<usize> {
        self.core.save_to(path.as_ref())
    }

    /// The limiter's time: read it once and pass it to several requests [`at`](Self::at) it.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// How many keys are in debt, and how much memory they take. Reads the whole table.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.core.usage()
    }

    /// How often keys came, went, and found no room.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// How finely the limiter counts.
    #[must_use]
    pub fn resolution(&self) -> Resolution {
        self.core.resolution()
    }

    #[inline(always)]
    fn view(&self) -> View<'_, K, Keyed<A>, C> {
        View { core: &self.core, tier_of: self.tier_of.as_ref(), tier: None, time: ByClock }
    }
}

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Face<K, C> for Keyed<A> {
    type Limiter = Limiter<K, A, C>;

    fn limiter(core: Core<Self, C>, tier_of: Option<TierOf<K>>) -> Limiter<K, A, C> {
        Limiter { core, tier_of }
    }
}

impl<K: ?Sized, A: Algorithm, C> fmt::Debug for Limiter<K, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("rules", &self.core.rules())
            .field("max_keys", &self.core.max_keys)
            .finish_non_exhaustive()
    }
}
