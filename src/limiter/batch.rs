//! Many keys at once: the lines of the next ones are fetched while one is decided.
//!
//! ```text
//!  keys   . . . . . . . . . . . . . . . .
//!             |<---- window ---->|
//!      decided                    hashed and prefetched next
//! ```
//!
//! A check of a key that is not in the cache waits for memory, and the processor overlaps only as
//! many checks as its registers hold. A prefetch holds none, so the window decides how many lines
//! are fetched at a time.

use std::borrow::Borrow;
use std::fmt;
use std::iter::{Fuse, FusedIterator};

use crate::clock::Clock;
use crate::core::{Asked, Limits};
use crate::key::Key;
use crate::limiter::View;
use crate::table::Fingerprint;
use crate::time::Timestamp;

/// How many keys are hashed ahead of the one that is decided: enough for a line to come while so
/// many are decided, on a processor that fetches so many at a time. `benches/README.md` has others.
const WINDOW: usize = 32;

/// The decisions of [`Limiter::check_many`](crate::Limiter::check_many), in the order of the keys.
///
/// **Guarantee.** A key is charged when its decision is taken, at the time of the batch; keys whose
/// decisions are not taken are not charged.
///
/// **Cost.** As said there. A batch has some 600 bytes, and borrows nothing but the limiter and
/// what the keys borrow.
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
/// assert!(limiter.check(&2).is_allowed(), "its decision was not taken");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a key is checked when its decision is taken"]
pub struct Batch<'l, K: ?Sized, L: Limits, C, I> {
    view: View<'l, K, L, C, Timestamp>,
    keys: Fuse<I>,
    /// A ring of the keys that are hashed and not decided, in order: `ahead` of them, from index
    /// `first`.
    window: [Asked<'l, L>; WINDOW],
    first: usize,
    ahead: usize,
}

impl<'l, K, L, C, I> Batch<'l, K, L, C, I>
where
    K: Key + ?Sized,
    L: Limits,
    C: Clock,
    I: Iterator<Item: Borrow<K>>,
{
    pub(super) fn new(view: View<'l, K, L, C, Timestamp>, keys: I) -> Self {
        let none = Asked { fingerprint: Fingerprint::UNTOUCHED, tier: L::default_tier(&view.core.versions) };
        let mut batch = Self { view, keys: keys.fuse(), window: [none; WINDOW], first: 0, ahead: 0 };
        for (asked, key) in batch.window.iter_mut().zip(&mut batch.keys) {
            *asked = fetched(&view, key.borrow());
            batch.ahead += 1;
        }
        batch
    }
}

/// The key hashed, and its line on its way.
#[inline]
fn fetched<'l, K: Key + ?Sized, L: Limits, C: Clock>(
    view: &View<'l, K, L, C, Timestamp>,
    key: &K,
) -> Asked<'l, L> {
    let asked = view.asked(key);
    view.core.prefetch(asked.fingerprint);
    asked
}

impl<'l, K, L, C, I> Iterator for Batch<'l, K, L, C, I>
where
    K: Key + ?Sized,
    L: Limits,
    C: Clock,
    I: Iterator<Item: Borrow<K>>,
{
    type Item = L::Decision<'l>;

    #[inline]
    fn next(&mut self) -> Option<L::Decision<'l>> {
        if self.ahead == 0 {
            return None;
        }
        let next = &mut self.window[self.first % WINDOW];
        let asked = *next;
        // The window is full while there are keys: the next key takes the index of this one.
        match self.keys.next() {
            Some(key) => *next = fetched(&self.view, key.borrow()),
            None => self.ahead -= 1,
        }
        self.first = self.first.wrapping_add(1);
        let now = self.view.time;
        Some(self.view.core.check(asked, 1, move || now))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.keys.size_hint();
        (least.saturating_add(self.ahead), most.and_then(|most| most.checked_add(self.ahead)))
    }
}

impl<K, L, C, I> ExactSizeIterator for Batch<'_, K, L, C, I>
where
    K: Key + ?Sized,
    L: Limits,
    C: Clock,
    I: ExactSizeIterator<Item: Borrow<K>>,
{
}

impl<K, L, C, I> FusedIterator for Batch<'_, K, L, C, I>
where
    K: Key + ?Sized,
    L: Limits,
    C: Clock,
    I: Iterator<Item: Borrow<K>>,
{
}

impl<K: ?Sized, L: Limits, C, I> fmt::Debug for Batch<'_, K, L, C, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("now", &self.view.time).finish_non_exhaustive()
    }
}
