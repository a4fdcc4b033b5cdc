//! A limit for each of many keys whose quota comes with each call.
//!
//! | file | what |
//! |------|------|
//! | `prepared` | the verbs, for one key |
//! | `decision` | the answer, and why there is none |
//! | `builder` | the settings |
//! | `saved` | the debts for the next process |
//!
//! # Orderings
//!
//! | edge | release | acquire | carries |
//! |------|---------|---------|---------|
//! | P1 | `count_reset`, while the reset holds the key's word | `resets` | that the word is held |
//!
//! By P1 a charge that follows a load of the new count comes after the hold, so the reset that
//! forgives the charge counts again: see `core/give_back.rs`.

mod builder;
mod decision;
mod prepared;
mod saved;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::marker::PhantomData;

use crate::algorithm::{CallQuota, PerCallRule, Rule};
use crate::clock::{Clock, TscClock};
use crate::core::Usage;
use crate::key::{Key, KeyHasher};
use crate::limiter::ByClock;
use crate::sync::{AtomicU64, Ordering};
use crate::table::dated::Dated;
use crate::table::term::Term;
use crate::table::{Fingerprint, Stats, Table};
use crate::time::Timestamp;
use Ordering::{Acquire, Release};

pub use builder::PerCallBuilder;
pub use decision::{CallDecision, CallError};
pub use prepared::PreparedCall;

/// A limit for each of many keys, shared by all threads, whose quota comes with each call: limits
/// that each user has in a database or a token, or the numbers of a `CL.THROTTLE` command.
///
/// The limiter keeps one number for each key, the *theoretical arrival time* (TAT) in nanoseconds,
/// and no quota. A request at `now`, with a [`CallQuota`] of an emission interval and a tolerance:
///
/// ```text
///   charge = cost * emission
///   admitted  iff  max(TAT, now) + charge - now <= tolerance
///   then TAT = max(TAT, now) + charge
/// ```
///
/// That is exact, in whole nanoseconds. A quota that is the same at each call is a token bucket of
/// `tolerance / emission` tokens, which refills one each `emission`. There is nothing to
/// [reconfigure](crate::Limiter::reconfigure). The debts can be [saved](Self::save) for the next
/// process. Where the quotas are known beforehand, a [`Limiter`](crate::Limiter) with
/// [tiers](crate::Builder::tier) does more.
///
/// **Guarantee.** From any number of threads: the admitted charges of a key in any interval of
/// length `D` add up to at most `D` and the largest tolerance that came with them. Any later call
/// may bring other numbers: the debt is a time, and stays. A key whose TAT has passed is as one
/// that was never seen. An error charges nothing. A clock that steps back adds nothing to a key
/// that the table knows; one that has lost its slot may get as much as the step refills.
///
/// **A full table is an error**, [`CallError::Full`]: neither a refusal nor an admission. No debt
/// is forgotten. A new key that finds its bucket full of keys in debt inherits the slot with the
/// least debt, *with that debt*, if it is at most half of the call's tolerance. A key is in debt
/// until its TAT, so memory follows the tolerances: bound them where strangers choose both keys and
/// numbers.
///
/// **Cost.** As of a [`Limiter`](crate::Limiter): a few loads and one compare-exchange on one cache
/// line for a key that the table knows, and a refusal of such a key writes nothing. No call takes a
/// lock, allocates or frees, or waits for another thread. The table begins with 64 KiB and grows as
/// keys come, to 27 to 52 bytes a key.
///
/// # Examples
///
/// ```
/// use tollgate::{CallQuota, PerCallLimiter, Rate};
///
/// let limiter = PerCallLimiter::<str>::builder().max_keys(1_000_000).build()?;
///
/// // The numbers of this user, from the database.
/// let quota = CallQuota::new(Rate::per_minute(10), 20)?;
/// let decision = limiter.check("alice", quota, 1)?;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 19);
///
/// // Now they are smaller: nothing is left beside the debt of six seconds.
/// let quota = CallQuota::new(Rate::per_minute(1), 1)?;
/// let decision = limiter.check("alice", quota, 1)?;
/// assert!(!decision.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PerCallLimiter<K: ?Sized, C = TscClock> {
    state: State<C>,
    key: PhantomData<fn(&K)>,
}

/// What the calls of all keys share.
struct State<C> {
    table: Table,
    /// The rule has no versions.
    term: Term,
    hasher: KeyHasher,
    clock: C,
    /// How often a key was reset.
    resets: AtomicU64,
    /// The limiter's number among those of its kind in this process: decisions carry it.
    number: u64,
    max_keys: usize,
}

impl<C: Clock> State<C> {
    /// The rule as the table is handed it.
    fn dated<'r>(&'r self, rule: &'r PerCallRule) -> Dated<'r, PerCallRule> {
        Dated { rule, term: &self.term }
    }

    /// How often a key was reset, modulo 2^32. Load it before the key's word.
    #[inline]
    fn resets(&self) -> u32 {
        self.resets.load(Acquire) as u32 // P1
    }

    /// Counts a reset while it holds the key's word: its number.
    fn count_reset(&self) -> u32 {
        (self.resets.fetch_add(1, Release) + 1) as u32 // P1
    }
}

impl<K: Key + ?Sized> PerCallLimiter<K> {
    /// Begins to describe a limiter.
    pub fn builder() -> PerCallBuilder<K, TscClock> {
        PerCallBuilder::new()
    }
}

impl<K: Key + ?Sized, C: Clock> PerCallLimiter<K, C> {
    /// Decides a request of any cost by this quota, all or nothing, and charges it if it is
    /// admitted.
    ///
    /// Cost 0 is admitted, changes nothing and shows the key as it is. A cost above the quota's
    /// [limit](CallQuota::limit) [never](CallDecision::is_never) is, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`CallError`]: the table is full, or a number is too large to compute with. Nothing is
    /// charged then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CallQuota, ManualClock, PerCallLimiter};
    ///
    /// let limiter = PerCallLimiter::<u64>::builder().clock(ManualClock::new()).build()?;
    /// let quota = CallQuota::from_nanos(1_000, 5_000)?;
    /// let decision = limiter.check(&7, quota, 4)?;
    /// assert!(decision.is_allowed());
    /// assert_eq!((decision.limit(), decision.remaining()), (5, 1));
    /// assert_eq!(decision.reset_after(), Duration::from_nanos(4_000));
    ///
    /// let decision = limiter.check(&7, quota, 2)?;
    /// assert_eq!(decision.retry_after(), Some(Duration::from_nanos(1_000)));
    ///
    /// assert_eq!(limiter.check(&7, quota, 0)?.remaining(), 1);
    /// assert!(limiter.check(&7, quota, 6)?.is_never());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn check(&self, key: &K, quota: CallQuota, cost: u64) -> Result<CallDecision, CallError> {
        self.key(key).check(quota, cost)
    }

    /// What [`check`](Self::check) would answer. Changes nothing and writes nothing.
    ///
    /// # Errors
    ///
    /// [`CallError`], where `check` would be an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, PerCallLimiter, Rate};
    ///
    /// let limiter = PerCallLimiter::<str>::builder().build()?;
    /// let quota = CallQuota::new(Rate::per_hour(1), 1)?;
    /// assert!(limiter.peek("alice", quota, 1)?.is_allowed());
    /// assert!(limiter.check("alice", quota, 1)?.is_allowed(), "to peek charged nothing");
    /// assert!(!limiter.peek("alice", quota, 1)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, key: &K, quota: CallQuota, cost: u64) -> Result<CallDecision, CallError> {
        self.key(key).peek(quota, cost)
    }

    /// Gives back up to `units` of what an admitted request took: how many, a begun one counting as
    /// a whole. Again and again, until its whole cost has been asked back. The decision knows its
    /// key and its quota.
    ///
    /// **Guarantee.** Never mints: under any quotas, the key's TAT stays at least what it would
    /// be without the units that were given back. They come back as from a
    /// [bucket](crate::Limiter::refund): all of the cost at once, and less as time passes. The
    /// units asked for are spent, whether or not they came back.
    ///
    /// Nothing comes back by a refusal, a [peek](Self::peek) or cost 0, by the decision of another
    /// limiter, or after a [`reset`](PreparedCall::reset) of the key. The time must not be earlier
    /// than that of the key's latest charge.
    ///
    /// **Cost.** Four compare-exchanges when no other thread interferes, and one more atomic
    /// operation when the request is not the newest.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, PerCallLimiter, Rate};
    ///
    /// let limiter = PerCallLimiter::<str>::builder().build()?;
    /// let quota = CallQuota::new(Rate::per_hour(10), 10)?;
    /// let mut decision = limiter.check("alice", quota, 8)?;
    /// // It took less than was estimated:
    /// assert_eq!(limiter.refund(&mut decision, 5), 5);
    /// assert_eq!(limiter.peek("alice", quota, 1)?.remaining(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund(&self, charge: &mut CallDecision, units: u64) -> u64 {
        self.state.refund(charge, units, || self.state.clock.now())
    }

    /// Hashes the key and asks the processor for its slot's cache line, so that a check soon after
    /// waits for neither: see [`Limiter::prepare`](crate::Limiter::prepare). The key at a given
    /// time and the verbs that are not of every day are there, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, PerCallLimiter, Rate};
    ///
    /// let limiter = PerCallLimiter::<str>::builder().build()?;
    /// // One reading of the clock for a batch of commands.
    /// let (alice, now) = (limiter.prepare("alice"), limiter.now());
    /// let quota = CallQuota::new(Rate::per_second(1), 1)?;
    /// assert!(alice.at(now).check(quota, 1)?.is_allowed());
    /// assert!(!alice.at(now).check(quota, 1)?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn prepare(&self, key: &K) -> PreparedCall<'_, C> {
        let prepared = self.key(key);
        self.state.table.view(prepared.fingerprint).prefetch(prepared.fingerprint);
        prepared
    }

    /// Reads the limiter's clock: for [`PreparedCall::at`].
    #[must_use]
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.state.clock.now()
    }

    /// How many keys are in debt, and how much memory they take. Reads the whole table.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let State { table, max_keys, .. } = &self.state;
        let rule = PerCallRule::ANY;
        let at = rule.moment(self.now());
        Usage {
            live_keys: table.views().map(|view| view.live(self.state.dated(&rule), at)).sum(),
            max_keys: *max_keys,
            memory_in_use: table.bytes(),
        }
    }

    /// How often keys came, went, and found no room: a [`CallError::Full`] of a check counts as
    /// [`refused_full`](Stats::refused_full).
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.state.table.stats()
    }

    #[inline(always)]
    fn key(&self, key: &K) -> PreparedCall<'_, C> {
        let fingerprint = Fingerprint::from_bits(key.fingerprint(&self.state.hasher));
        PreparedCall { state: &self.state, fingerprint, time: ByClock }
    }
}

impl<K: ?Sized, C> fmt::Debug for PerCallLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCallLimiter").field("max_keys", &self.state.max_keys).finish_non_exhaustive()
    }
}
