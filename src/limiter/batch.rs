//! Many keys at once: the lines of the next ones are on their way while one is decided.
//!
//! ```text
//!  keys   . . . . . . . . . . . . . . . .
//!             |<---- window ---->|
//!      decided                    named and prefetched next
//! ```
//!
//! A check of a key that is not in the cache is a wait for memory, and the processor overlaps only as many checks as its
//! registers hold. A prefetch holds none: so the window decides how many lines are on their way.

use std::borrow::Borrow;
use std::fmt;
use std::iter::{Fuse, FusedIterator};

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::key::Key;
use crate::limiter::Limiter;
use crate::limiter::prepared::Named;
use crate::time::Timestamp;

/// How many keys are named ahead of the one that is decided: enough for a line to come while so many are decided, on a
/// processor that has so many lines on their way. `benches/README.md` has others.
const WINDOW: usize = 32;

impl<K: Key + ?Sized, A: Algorithm, C: Clock> Limiter<K, A, C> {
    /// Checks many keys, in their order, at one time: the clock is read once, here.
    ///
    /// The result is an iterator of one [`Decision`] for each key. A key is charged when its decision is taken from the
    /// iterator, not before, so to **drop the iterator early leaves the remaining keys unchecked**. A key that comes
    /// twice is charged twice, one after the other. Everything is decided as by [`check_at`](Self::check_at) one by one
    /// at the time of this call, which says what a time that has become old can do: take the decisions at once.
    ///
    /// `keys` is a slice, an array, a `Vec`, or any iterator of keys or references to them; keys are taken from it up to
    /// 32 ahead of their decisions. (Where a key comes twice under a sliding log, ask each decision for its numbers before
    /// taking the next.)
    ///
    /// **Cost.** One reading of the clock for all. For each key what a check costs, a few loads and one compare-exchange,
    /// with the memory of the next 32 keys fetched meanwhile: this pays from about four keys that are not in the cache. No
    /// allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(2))).build()?;
    /// let allowed: Vec<bool> = limiter.check_many(&[7, 8, 7, 7]).map(|decision| decision.is_allowed()).collect();
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
    pub fn check_many<I>(&self, keys: I) -> Batch<'_, K, A, C, I::IntoIter>
    where
        I: IntoIterator<Item: Borrow<K>>,
    {
        self.check_many_at(keys, self.clock.now())
    }

    /// [`check_many`](Self::check_many) at a time that the caller already has: the clock is not read.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Rate, TokenBucket};
    ///
    /// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
    /// let now = limiter.now();
    /// assert_eq!(limiter.check_many_at(&[7, 7], now).filter(|decision| decision.is_allowed()).count(), 1);
    /// let later = now + Duration::from_secs(1);
    /// assert!(limiter.check_many_at(&[7, 8], later).all(|decision| decision.is_allowed()));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    #[inline]
    pub fn check_many_at<I>(&self, keys: I, now: Timestamp) -> Batch<'_, K, A, C, I::IntoIter>
    where
        I: IntoIterator<Item: Borrow<K>>,
    {
        let keys = keys.into_iter().fuse();
        let window = [Named { name: 0, compiled: &self.versions.first().default }; WINDOW];
        let mut batch = Batch { limiter: self, keys, now, window, first: 0, ahead: 0 };
        for (named, key) in batch.window.iter_mut().zip(&mut batch.keys) {
            *named = self.fetched(key.borrow());
            batch.ahead += 1;
        }
        batch
    }

    /// The key named, and its line on its way.
    #[inline]
    fn fetched(&self, key: &K) -> Named<'_, A::Rule> {
        let named = self.named(key);
        self.prefetch(named.name);
        named
    }
}

/// The decisions of [`Limiter::check_many`], in the order of the keys.
///
/// **Guarantee.** A key is charged when its decision is taken, at the time of the batch; keys whose decisions are not
/// taken are not charged.
///
/// **Cost.** See there. It is some 600 bytes, and borrows nothing but the limiter and what the keys borrow.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::<u64>::builder(TokenBucket::new(Rate::per_second(1))).build()?;
/// let mut batch = limiter.check_many(&[1, 2, 3]);
/// assert!(batch.next().is_some_and(|decision| decision.is_allowed()));
/// assert_eq!(batch.len(), 2);
/// drop(batch);
/// assert!(limiter.check(&2).is_allowed(), "nobody took its decision");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a key is checked when its decision is taken"]
pub struct Batch<'l, K: ?Sized, A: Algorithm, C, I> {
    limiter: &'l Limiter<K, A, C>,
    keys: Fuse<I>,
    now: Timestamp,
    /// A ring of the keys that are named and not decided, in order: `ahead` of them, from place `first`.
    window: [Named<'l, A::Rule>; WINDOW],
    first: usize,
    ahead: usize,
}

impl<'l, K, A, C, I> Iterator for Batch<'l, K, A, C, I>
where
    K: Key + ?Sized,
    A: Algorithm,
    C: Clock,
    I: Iterator<Item: Borrow<K>>,
{
    type Item = Decision<'l>;

    #[inline]
    fn next(&mut self) -> Option<Decision<'l>> {
        if self.ahead == 0 {
            return None;
        }
        let place = &mut self.window[self.first % WINDOW];
        let named = *place;
        // The window is full while there are keys: the next one takes the place that this one leaves.
        match self.keys.next() {
            Some(key) => *place = self.limiter.fetched(key.borrow()),
            None => self.ahead -= 1,
        }
        self.first = self.first.wrapping_add(1);
        let now = self.now;
        Some(self.limiter.charge(named, 1, move || now))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.keys.size_hint();
        (least.saturating_add(self.ahead), most.and_then(|most| most.checked_add(self.ahead)))
    }
}

impl<K, A, C, I> ExactSizeIterator for Batch<'_, K, A, C, I>
where
    K: Key + ?Sized,
    A: Algorithm,
    C: Clock,
    I: ExactSizeIterator<Item: Borrow<K>>,
{
}

impl<K, A, C, I> FusedIterator for Batch<'_, K, A, C, I>
where
    K: Key + ?Sized,
    A: Algorithm,
    C: Clock,
    I: Iterator<Item: Borrow<K>>,
{
}

impl<K: ?Sized, A: Algorithm, C, I> fmt::Debug for Batch<'_, K, A, C, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("now", &self.now).finish_non_exhaustive()
    }
}
