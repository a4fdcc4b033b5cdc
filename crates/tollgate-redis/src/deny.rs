//! Refusals that the store gave, remembered until the time that it named.
//!
//! Let the store refuse a cost `c` at its time `s` with the wait `w`. Charges only ever lengthen a
//! wait, so the store refuses every cost of at least `c` until `s + w`. This node sent the request
//! before `s`; so, by its own clock, it can answer for the store until `sent + w`. (A refund, a
//! reset or a higher quota shortens waits: a refund or reset through this limiter forgets the
//! entry, those of other nodes are noticed when the entry ends, after a second at the latest.)
//!
//! The cache never admits, and may forget any entry at any time: that costs a trip to the store.

use std::time::Duration;

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU64, fence};

/// The longest time for which a refusal is remembered.
const LONGEST: Duration = Duration::from_secs(1);

/// A refusal by the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The cost that was refused.
    pub(crate) cost: u64,
    /// How long until that cost may be admitted at the earliest.
    pub(crate) wait: Duration,
    /// How long until the limit that refused it is as good as new, if no request comes.
    pub(crate) reset: Duration,
    /// The number of the limit that refused it.
    pub(crate) limit: u64,
    /// The most that this limit admits at once.
    pub(crate) most: u64,
    /// The units that were left: fewer than the cost.
    pub(crate) remaining: u64,
}

/// Refusals by key, direct-mapped: two keys of one slot displace each other.
///
/// Each slot is a sequence lock: its version is odd while a thread writes the slot. A reader that
/// finds an odd version, or another one after it read the words, has read nothing.
///
/// | edge | release            | acquire               | carries                          |
/// |------|--------------------|-----------------------|----------------------------------|
/// | D1   | the version, even  | a reader's first load | the words that the writer stored |
/// | D2   | the writer's fence | the reader's fence    | the odd version, with new words  |
/// | D3   | `forget`'s fence   | `remember`'s fence    | the time of forgetting; or the   |
/// |      |                    |                       | other way round, the entry       |
///
/// `loom-tests/tests/remote.rs` fails without D3. Threads in the tests of this file fail without
/// the second look at the version. A processor that keeps its stores in order does not need D1 and
/// D2, so there no test fails without them.
#[derive(Debug)]
pub(crate) struct DenyCache {
    slots: Box<[Slot]>,
    longest: Duration,
    evicted: AtomicU64,
    /// Just after a refusal was last forgotten, of any key.
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The words of a slot: the fingerprint, the end in nanoseconds, and the refusal.
const WORDS: usize = 8;
type Words = [u64; WORDS];
/// What a key is known by, as in the tables of `tollgate`: a keyed hash of 64 bits. 0 is no key's.
pub(crate) type Fingerprint = u64;

impl DenyCache {
    /// A cache of at most this many entries, rounded up to a power of two.
    pub(crate) fn new(entries: usize) -> Self {
        let slots = (0..entries.next_power_of_two()).map(|_| Slot::default()).collect();
        Self { slots, longest: LONGEST, evicted: 0.into(), forgotten: 0.into() }
    }

    /// Remembers nothing for longer than this: other nodes' refunds are frequent.
    pub(crate) fn at_most(mut self, longest: Duration) -> Self {
        self.longest = self.longest.min(longest);
        self
    }

    /// The refusal that a request of this cost would meet in the store, if that is known.
    ///
    /// **Cost.** Nine loads; no lock, no allocation.
    pub(crate) fn refused(&self, fingerprint: Fingerprint, cost: u64, now: Duration) -> Option<Refusal> {
        let words = self.slot(fingerprint).read()?;
        let [key, until, refused, ready, reset, limit, most, remaining] = words;
        let now = nanos(now);
        let known = key == fingerprint && now < until && cost >= refused;
        known.then(|| Refusal {
            cost: refused,
            wait: Duration::from_nanos(ready.saturating_sub(now)),
            reset: Duration::from_nanos(reset.saturating_sub(now)),
            limit,
            most,
            remaining,
        })
    }

    /// Remembers a refusal of a request that was sent at `sent`, for its wait and at most for a
    /// second.
    pub(crate) fn remember(&self, fingerprint: Fingerprint, refusal: Refusal, sent: Duration) {
        let Refusal { cost, wait, reset, limit, most, remaining } = refusal;
        let after = |time: Duration| nanos(sent).saturating_add(nanos(time));
        let until = after(wait.min(self.longest));
        let words = [fingerprint, until, cost, after(wait), after(reset), limit, most, remaining];
        let displaced = self.slot(fingerprint).write(|old| {
            let lives = old[1] > nanos(sent);
            (words, lives && old[0] != fingerprint)
        });
        if displaced == Some(true) {
            self.evicted.fetch_add(1, Relaxed);
        }
        fence(SeqCst); // D3
        if nanos(sent) < self.forgotten.load(Relaxed) {
            self.clear(fingerprint);
        }
    }

    /// Forgets the refusal of a key: its debt has been refunded or reset. A refusal of a request
    /// that was sent until now may be older than that, and is not remembered, of whichever key.
    pub(crate) fn forget(&self, fingerprint: Fingerprint, now: Duration) {
        self.forgotten.fetch_max(nanos(now).saturating_add(1), Relaxed);
        fence(SeqCst); // D3
        self.clear(fingerprint);
    }

    fn clear(&self, fingerprint: Fingerprint) {
        self.slot(fingerprint).write(|old| {
            let words = if old[0] == fingerprint { Words::default() } else { old };
            (words, ())
        });
    }

    /// Entries that another key displaced before their end.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    fn slot(&self, fingerprint: Fingerprint) -> &Slot {
        &self.slots[fingerprint as usize & (self.slots.len() - 1)]
    }
}

impl Slot {
    /// What a writer stored, whole; `None` while one writes.
    fn read(&self) -> Option<Words> {
        let before = self.version.load(Acquire); // D1
        let words = self.words.each_ref().map(|word| word.load(Relaxed));
        fence(Acquire); // D2
        let whole = before.is_multiple_of(2) && self.version.load(Relaxed) == before;
        whole.then_some(words)
    }

    /// Replaces the words. Gives up while another thread writes: the entry is lost.
    fn write<T>(&self, change: impl FnOnce(Words) -> (Words, T)) -> Option<T> {
        let version = self.version.load(Relaxed);
        // D1: the last writer's words are read below.
        let claim = |version| self.version.compare_exchange(version, version + 1, Acquire, Relaxed);
        if version % 2 == 1 || claim(version).is_err() {
            return None;
        }
        fence(Release); // D2
        let (words, result) = change(self.words.each_ref().map(|word| word.load(Relaxed)));
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Relaxed);
        }
        self.version.store(version + 2, Release); // D1
        Some(result)
    }
}

/// Nanoseconds since the limiter's start.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashMap;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    const ALICE: Fingerprint = 1;
    const BOB: Fingerprint = 2;
    const CAROL: Fingerprint = 3;

    fn refusal(cost: u64, wait: Duration) -> Refusal {
        Refusal { cost, wait, reset: wait, limit: 0, most: 10, remaining: cost - 1 }
    }

    #[test]
    fn a_refusal_is_remembered_until_it_is_ready() {
        let cache = DenyCache::new(64);
        let nano = Duration::from_nanos(1);
        cache.remember(ALICE, refusal(3, ms(50)), ms(100));
        for (cost, now, wait) in [
            (3, ms(100), Some(ms(50))),
            (9, ms(120), Some(ms(30))),
            (2, ms(100), None),
            (3, ms(150) - nano, Some(nano)),
            (3, ms(150), None),
        ] {
            let answer = wait.map(|wait| refusal(3, wait));
            assert_eq!(cache.refused(ALICE, cost, now), answer, "cost {cost} at {now:?}");
        }
        assert_eq!(cache.refused(BOB, 3, ms(100)), None);
    }

    #[test]
    fn a_refusal_is_remembered_for_at_most_a_second() {
        let cache = DenyCache::new(64);
        let day = ms(86_400_000);
        cache.remember(ALICE, refusal(1, day), ms(100));
        let told = refusal(1, day - ms(999));
        assert_eq!(cache.refused(ALICE, 1, ms(1_099)), Some(told), "the whole wait is told");
        assert_eq!(cache.refused(ALICE, 1, ms(1_100)), None);
    }

    #[test]
    fn beside_leases_a_refusal_is_remembered_for_a_ttl() {
        let cache = DenyCache::new(64).at_most(ms(50));
        cache.remember(ALICE, refusal(1, ms(86_400_000)), ms(100));
        assert!(cache.refused(ALICE, 1, ms(149)).is_some());
        assert_eq!(cache.refused(ALICE, 1, ms(150)), None);
    }

    #[test]
    fn a_key_whose_debt_is_given_back_is_forgotten() {
        let cache = DenyCache::new(1);
        cache.remember(ALICE, refusal(1, ms(500)), ms(0));
        cache.forget(BOB, ms(0));
        assert!(cache.refused(ALICE, 1, ms(1)).is_some(), "another key of the slot stays");
        cache.forget(ALICE, ms(1));
        assert!(cache.refused(ALICE, 1, ms(1)).is_none());
    }

    #[test]
    fn a_refusal_from_before_a_reset_is_not_remembered() {
        let cache = DenyCache::new(64);
        cache.forget(ALICE, ms(10));
        cache.remember(ALICE, refusal(1, ms(500)), ms(9));
        assert!(cache.refused(ALICE, 1, ms(11)).is_none());
        cache.remember(ALICE, refusal(1, ms(500)), ms(11));
        assert!(cache.refused(ALICE, 1, ms(12)).is_some());
    }

    #[test]
    fn a_flood_of_keys_displaces_entries_and_counts_them() {
        let cache = DenyCache::new(1);
        cache.remember(ALICE, refusal(1, ms(500)), ms(0));
        cache.remember(ALICE, refusal(1, ms(600)), ms(0));
        assert_eq!(cache.evicted(), 0, "the same key");
        cache.remember(BOB, refusal(1, ms(700)), ms(1));
        assert_eq!((cache.evicted(), cache.refused(ALICE, 1, ms(2))), (1, None));
        cache.remember(CAROL, refusal(1, ms(900)), ms(800));
        assert_eq!(cache.evicted(), 1, "bob's had ended");
    }

    /// Threads write and read entries of few slots whose words follow from the key and the cost.
    #[test]
    fn threads_never_read_a_mixed_entry() {
        let cache = DenyCache::new(1);
        let made = |key: u64, cost: u64| Refusal {
            cost,
            wait: Duration::from_nanos(1_000_000 + key * 1_000 + cost),
            reset: Duration::from_nanos(key * 10_000 + cost),
            limit: key * 100 + cost,
            most: key << 16 | cost,
            remaining: key << 32 | cost,
        };
        let hits: u64 = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let cache = &cache;
                    scope.spawn(move || {
                        let mut hits = 0;
                        for n in 0..50_000_u64 {
                            let (key, cost) = (1 + (n + thread) % 3, 1 + n % 7);
                            if thread % 2 == 0 {
                                cache.remember(key, made(key, cost), Duration::ZERO);
                            }
                            if let Some(read) = cache.refused(key, 10, Duration::ZERO) {
                                assert_eq!(read, made(key, read.cost), "the words of two entries");
                                hits += 1;
                            }
                        }
                        hits
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert!(hits > 0);
    }

    /// A bucket in the store, in nanoseconds: the earliest time when it is full again.
    #[derive(Default)]
    struct Store(HashMap<u8, u64>);

    const INTERVAL: u64 = 10_000_000;
    const BURST: u64 = 10;

    impl Store {
        /// The wait, or `None` if the cost is admitted and charged.
        fn check(&mut self, key: u8, cost: u64, now: u64) -> Option<u64> {
            let full = self.0.entry(key).or_default();
            let after = (*full).max(now) + cost * INTERVAL;
            let wait = after.saturating_sub(now + BURST * INTERVAL);
            if wait == 0 {
                *full = after;
            }
            (wait > 0).then_some(wait)
        }
    }

    proptest! {
        /// Each refusal by a node's cache is one by the store at that time; two nodes charge it.
        #[test]
        fn only_what_the_store_would_refuse_is_refused(
            checks in prop::collection::vec((0_usize..2, 0_u8..4, 1_u64..=BURST, 0_u64..30_000_000, prop_oneof![Just(0), 0_u64..5_000_000]), 1..300)
        ) {
            let (caches, mut store, mut now) = ([DenyCache::new(2), DenyCache::new(2)], Store::default(), 0);
            for (node, key, cost, pause, trip) in checks {
                now += pause;
                let sent = Duration::from_nanos(now);
                match caches[node].refused(key.into(), cost, sent) {
                    Some(refusal) => {
                        let wait = store.check(key, cost, now);
                        prop_assert!(wait.is_some(), "the store admits it");
                        prop_assert!(refusal.wait <= Duration::from_nanos(wait.unwrap()));
                    }
                    None => {
                        now += trip;
                        if let Some(wait) = store.check(key, cost, now) {
                            let refused = refusal(cost, Duration::from_nanos(wait));
                            caches[node].remember(key.into(), refused, sent);
                        }
                    }
                }
            }
        }
    }
}
