//! The permits of one lease, which threads spend without a lock.
//!
//! ```text
//!   63                    24 23            0
//!  +------------------------+---------------+
//!  |       generation       | permits left  |
//!  +------------------------+---------------+
//! ```
//!
//! The fields beside the word change only while the lease is closed, and each opening and each
//! closing changes the generation. So a thread that read another lease's fields does not win the
//! compare-exchange of the word that it read before them.
//!
//! | edge | release             | acquire                  | carries                           |
//! |------|---------------------|--------------------------|-----------------------------------|
//! | P1   | the word, opened    | a spender's first load   | the fields of the opened lease    |
//! | P2   | a field's store     | a spender's load of it   | that the lease before it is closed |
//!
//! `loom-tests/tests/remote.rs` fails without P1, and without the look at the generation. P2 keeps
//! the stores of fields behind the closing; loom runs a thread in its order, so no model needs P2.

use std::time::Duration;

use crate::deny::Fingerprint;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const LEFT_BITS: u32 = 24;
const LEFT: u64 = (1 << LEFT_BITS) - 1;

/// Which lease a permit is of: one of the openings and closings of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

/// The store's answer beside the permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The permits end at this time of the node.
    pub(crate) until: Duration,
    /// The units that the store had left after the grant.
    pub(crate) rest: u64,
    /// When the key is as good as new, if no request comes.
    pub(crate) reset: Duration,
}

/// Permits that a request has spent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) generation: Generation,
    pub(crate) terms: Terms,
    /// The lease's permits: those granted, and those left now.
    pub(crate) size: u64,
    pub(crate) left: u64,
}

impl Spent {
    /// Whether half of the lease's permits are spent, and were not before this cost.
    pub(crate) fn passes_half(&self, cost: u64) -> bool {
        (self.left..self.left + cost).contains(&(self.size / 2))
    }
}

/// The permits of a lease at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) spent: u64,
    pub(crate) left: u64,
}

/// One place for a lease. It begins closed, with no permits.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    word: AtomicU64,
    key: AtomicU64,
    until: AtomicU64,
    size: AtomicU64,
    rest: AtomicU64,
    reset: AtomicU64,
}

impl Permits {
    /// Spends permits of this key's lease, before its end.
    ///
    /// **Cost.** Seven loads and a compare-exchange; no lock, no allocation.
    pub(crate) fn spend(&self, key: Fingerprint, cost: u64, now: Duration) -> Option<Spent> {
        let mut word = self.word.load(Acquire); // P1
        loop {
            let left = (word & LEFT).checked_sub(cost)?;
            let (is_of_key, terms) = (self.key.load(Acquire) == key, self.terms()); // P2
            let size = self.size.load(Acquire); // P2
            if !is_of_key || now >= terms.until {
                return None;
            }
            match self.word.compare_exchange_weak(word, word - cost, Relaxed, Acquire) {
                Ok(_) => return Some(Spent { generation: generation(word), terms, size, left }),
                Err(other) => word = other, // P1
            }
        }
    }

    /// Gives spent permits back to their lease, if that has not ended. False if it has.
    pub(crate) fn put_back(&self, of: Generation, cost: u64, now: Duration) -> bool {
        let mut word = self.word.load(Acquire); // P1
        loop {
            let is_good = generation(word) == of && now < self.terms().until;
            if !is_good || (word & LEFT) + cost > self.size.load(Acquire) {
                return false;
            }
            match self.word.compare_exchange_weak(word, word + cost, Relaxed, Acquire) {
                Ok(_) => return true,
                Err(other) => word = other, // P1
            }
        }
    }

    /// Opens a lease of `size` permits, of which `left` are not spent; returns the rest of
    /// the lease before. Only one thread opens or closes at a time.
    pub(crate) fn open(&self, key: Fingerprint, size: u64, left: u64, terms: Terms) -> (Generation, Ended) {
        let (word, ended) = self.end();
        self.key.store(key, Release); // P2
        self.until.store(nanos(terms.until), Release); // P2
        self.size.store(size, Release); // P2
        self.rest.store(terms.rest, Release); // P2
        self.reset.store(nanos(terms.reset), Release); // P2
        let opened = after(word) | (left & LEFT);
        self.word.store(opened, Release); // P1
        (generation(opened), ended)
    }

    /// Closes this lease, if no other is here since.
    pub(crate) fn close(&self, of: Generation) -> Option<Ended> {
        (generation(self.word.load(Relaxed)) == of).then(|| self.end().1)
    }

    /// Closes the current lease, if it is this key's.
    pub(crate) fn close_if_of(&self, key: Fingerprint) -> Ended {
        if self.key.load(Relaxed) == key { self.end().1 } else { Ended::default() }
    }

    /// Permits that may be spent at this time.
    pub(crate) fn left(&self, now: Duration) -> u64 {
        if now < self.terms().until { self.word.load(Relaxed) & LEFT } else { 0 }
    }

    /// Closes the lease and returns the closed word.
    fn end(&self) -> (u64, Ended) {
        let mut word = self.word.load(Relaxed);
        while let Err(other) = self.word.compare_exchange_weak(word, after(word), Relaxed, Relaxed) {
            word = other;
        }
        let (size, left) = (self.size.load(Relaxed), word & LEFT);
        self.size.store(0, Release); // P2
        (after(word), Ended { spent: size.saturating_sub(left), left })
    }

    fn terms(&self) -> Terms {
        let load = |field: &AtomicU64| field.load(Acquire); // P2
        Terms {
            until: Duration::from_nanos(load(&self.until)),
            rest: load(&self.rest),
            reset: Duration::from_nanos(load(&self.reset)),
        }
    }
}

fn generation(word: u64) -> Generation {
    Generation(word >> LEFT_BITS)
}

/// The next generation's word, with no permits.
fn after(word: u64) -> u64 {
    (word >> LEFT_BITS).wrapping_add(1) << LEFT_BITS
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn until(millis: u64) -> Terms {
        Terms { until: ms(millis), rest: 0, reset: ms(millis) }
    }

    #[test]
    fn no_permit_is_spent_at_its_end() {
        let permits = Permits::default();
        let _ = permits.open(7, 3, 3, until(50));
        assert_eq!(permits.spend(7, 1, ms(50) - Duration::from_nanos(1)).unwrap().left, 2);
        assert!(permits.spend(7, 1, ms(50)).is_none());
        assert_eq!((permits.left(ms(49)), permits.left(ms(50))), (2, 0));
    }

    #[test]
    fn no_permit_is_spent_twice_or_for_another_key() {
        let permits = Permits::default();
        let _ = permits.open(7, 3, 3, until(50));
        assert!(permits.spend(8, 1, ms(0)).is_none() && permits.spend(7, 4, ms(0)).is_none());
        assert_eq!(permits.spend(7, 2, ms(0)).unwrap().left, 1);
        assert!(permits.spend(7, 2, ms(0)).is_none());
    }

    #[test]
    fn a_permit_is_put_back_into_its_own_lease_only() {
        let permits = Permits::default();
        let _ = permits.open(7, 3, 3, until(50));
        let spent = permits.spend(7, 2, ms(0)).unwrap();
        assert!(!permits.put_back(spent.generation, 2, ms(50)), "it has ended");
        assert!(permits.put_back(spent.generation, 2, ms(49)));
        assert!(!permits.put_back(spent.generation, 2, ms(49)), "more than were granted");
        let (_, ended) = permits.open(7, 9, 5, until(90));
        assert_eq!(ended, Ended { spent: 0, left: 3 });
        assert!(!permits.put_back(spent.generation, 1, ms(49)), "another lease");
    }

    #[test]
    fn a_lease_is_closed_once() {
        let permits = Permits::default();
        let (first, _) = permits.open(7, 9, 4, until(50));
        assert_eq!(permits.close(first), Some(Ended { spent: 5, left: 4 }));
        assert_eq!(permits.close(first), None);
        assert!(permits.spend(7, 1, ms(0)).is_none());
        let (second, ended) = permits.open(7, 2, 2, until(50));
        assert_eq!((ended, permits.close(first)), (Ended::default(), None));
        assert_eq!(permits.close(second), Some(Ended { spent: 0, left: 2 }));
    }

    /// Each lease is of another key than the one before, and its end tells its key.
    #[test]
    fn threads_spend_each_permit_once_and_for_its_key() {
        const ROUNDS: u64 = 20_000;
        let (permits, done) = (Permits::default(), AtomicBool::new(false));
        let (granted, spent) = thread::scope(|scope| {
            let spenders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut spent = 0;
                        while !done.load(Relaxed) {
                            for key in [1, 2] {
                                let Some(permit) = permits.spend(key, 1, Duration::ZERO) else { continue };
                                assert_eq!(permit.terms.rest % 2, key % 2, "another key's permit");
                                assert!(permit.left < permit.size && permit.size <= 40);
                                spent += 1;
                                if permit.left % 5 == 0 && permits.put_back(permit.generation, 1, ms(0)) {
                                    spent -= 1;
                                }
                            }
                        }
                        spent
                    })
                })
                .collect();
            let (mut granted, mut ended) = (0, Ended::default());
            for round in 1..=ROUNDS {
                let (key, size) = (2 - round % 2, 1 + round % 40);
                let terms = Terms { rest: round, ..until(round) };
                let before = permits.open(key, size, size, terms).1;
                granted += size;
                ended = Ended { spent: ended.spent + before.spent, left: ended.left + before.left };
                if round % 16 == 0 {
                    thread::yield_now();
                }
            }
            let last = permits.end().1;
            done.store(true, Relaxed);
            let spent: u64 = spenders.into_iter().map(|spender| spender.join().unwrap()).sum();
            assert_eq!(spent, ended.spent + last.spent, "what the leases say");
            (granted - ended.left - last.left, spent)
        });
        assert_eq!(granted, spent);
    }
}
