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

use std::iter::Fuse;
use std::marker::PhantomData;

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::key::Key;
use crate::limiter::core::Core;
use crate::limiter::decision::Decision;
use crate::table::Fingerprint;
use crate::time::Timestamp;

/// How many keys are hashed ahead of the one that is decided: enough for a line to come while so
/// many are decided, on a processor that fetches so many at a time. `benches/README.md` has others.
const WINDOW: usize = 32;

/// The decisions of [`Limiter::check_many`](crate::Limiter::check_many), in the order of the keys.
/// It has some 300 bytes.
pub(super) struct Batch<'l, K: ?Sized, A: Algorithm, const N: usize, C, I> {
    core: &'l Core<A, N, C>,
    now: Timestamp,
    keys: Fuse<I>,
    /// A ring of the keys that are hashed and not decided, in order: `ahead` of them, from index
    /// `first`.
    window: [Fingerprint; WINDOW],
    first: usize,
    ahead: usize,
    key: PhantomData<fn(&K)>,
}

impl<'l, K, A, const N: usize, C, I> Batch<'l, K, A, N, C, I>
where
    K: ?Sized,
    A: Algorithm,
    C: Clock,
    I: Iterator<Item: Key<K>>,
{
    pub(super) fn new(core: &'l Core<A, N, C>, keys: I) -> Self {
        let (now, window) = (core.clock.now(), [Fingerprint::UNTOUCHED; WINDOW]);
        let mut batch = Self { core, now, keys: keys.fuse(), window, first: 0, ahead: 0, key: PhantomData };
        for (fingerprint, key) in batch.window.iter_mut().zip(&mut batch.keys) {
            *fingerprint = fetched(core, &key);
            batch.ahead += 1;
        }
        batch
    }
}

/// The key hashed, and its line on its way.
#[inline]
fn fetched<K: ?Sized, A: Algorithm, const N: usize, C: Clock>(
    core: &Core<A, N, C>,
    key: &impl Key<K>,
) -> Fingerprint {
    let fingerprint = core.fingerprint(key);
    core.prefetch(fingerprint);
    fingerprint
}

impl<'l, K, A, const N: usize, C, I> Iterator for Batch<'l, K, A, N, C, I>
where
    K: ?Sized,
    A: Algorithm,
    C: Clock,
    I: Iterator<Item: Key<K>>,
{
    type Item = Decision<'l, N>;

    #[inline]
    fn next(&mut self) -> Option<Decision<'l, N>> {
        if self.ahead == 0 {
            return None;
        }
        let next = &mut self.window[self.first % WINDOW];
        let fingerprint = *next;
        // The window is full while there are keys: the next key takes the index of this one.
        match self.keys.next() {
            Some(key) => *next = fetched(self.core, &key),
            None => self.ahead -= 1,
        }
        self.first = self.first.wrapping_add(1);
        let (core, now) = (self.core, self.now);
        Some(core.check(core.default_tier(), fingerprint, 1, move || now))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.keys.size_hint();
        (least.saturating_add(self.ahead), most.and_then(|most| most.checked_add(self.ahead)))
    }
}
