//! The futures that wait for units of a key, in the order in which they came.
//!
//! ```text
//!   a waiter:  joins the line -------> marks the word that refuses it -----> sleeps
//!                                                 |
//!   a guard:         gives back, and reads the word as it was before
//!                                                 |
//!                    it is marked: wakes the first of the line
//! ```
//!
//! The mark is in the key's word ([`in_flight`](crate::algorithm)), so a guard of a key without
//! waiters touches nothing of this. It cannot miss one: the mark is set from the very value that
//! refuses, and a subtraction from a marked word finds the mark.
//!
//! One wake-up follows from another. A waiter that leaves the line wakes the next: it may have been
//! woken for units that the next can take, or there is room for both. So a guard wakes one only.
//!
//! A mark is taken off by a guard that finds an empty line, while it holds the lock: a waiter that
//! joins later marks later. A slot that gets another key loses its mark, too: by then all units
//! have come back, and the last guard has woken the first of the line.
//!
//! No code of a caller runs under a lock: wakers are made, woken and dropped outside.

use std::array::from_fn;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::task::Waker;

use crossbeam_utils::CachePadded;

use crate::sync::{Mutex, MutexGuard};
use crate::table::Fingerprint;

/// How many locks the keys share.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// The waiters of all keys.
pub(super) struct Waiters([CachePadded<Mutex<Lines>>; SHARDS]);

/// The lines of some keys: each waiter by its key and its number. `None`: it was woken, and has not
/// looked again yet.
#[derive(Default)]
struct Lines {
    waiting: BTreeMap<(u64, u64), Option<Waker>>,
    /// How many have joined so far.
    joined: u64,
}

impl Lines {
    /// The first of the key. Take its waker, and wake it once the lock is free.
    fn first(&mut self, key: Fingerprint) -> Option<&mut Option<Waker>> {
        let line = (key.bits(), 0)..=(key.bits(), u64::MAX);
        self.waiting.range_mut(line).next().map(|(_, waker)| waker)
    }
}

impl Waiters {
    pub(super) fn new() -> Self {
        Self(from_fn(|_| CachePadded::default()))
    }

    fn lines(&self, key: Fingerprint) -> MutexGuard<'_, Lines> {
        self.0[key.share_of(SHARDS)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the first waiter of the key. If there is none, calls `unmark` before one can join.
    pub(super) fn wake_first(&self, key: Fingerprint, unmark: impl FnOnce()) {
        let mut lines = self.lines(key);
        let first = match lines.first(key) {
            Some(waker) => waker.take(),
            None => {
                unmark();
                None
            }
        };
        drop(lines);
        first.into_iter().for_each(Waker::wake);
    }

    /// Wakes everyone.
    pub(super) fn wake_all(&self) {
        for lines in &self.0 {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            let all: Vec<Waker> = lines.waiting.values_mut().filter_map(Option::take).collect();
            drop(lines);
            all.into_iter().for_each(Waker::wake);
        }
    }
}

/// A place in the line of a key. Dropped, it is left, and the next is woken.
pub(super) struct Place<'l> {
    waiters: &'l Waiters,
    key: Fingerprint,
    number: u64,
}

impl<'l> Place<'l> {
    /// The last of the line. It is not woken before it is [kept](Self::keep).
    pub(super) fn join(waiters: &'l Waiters, key: Fingerprint) -> Self {
        let mut lines = waiters.lines(key);
        lines.joined += 1;
        let number = lines.joined;
        lines.waiting.insert((key.bits(), number), None);
        Self { waiters, key, number }
    }

    /// Is woken by this waker from now on. Look at the word after that.
    pub(super) fn keep(&self, waker: &Waker) {
        let waker = Some(waker.clone());
        let before = self.waiters.lines(self.key).waiting.insert((self.key.bits(), self.number), waker);
        drop(before);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.waiters.lines(self.key);
        let left = lines.waiting.remove(&(self.key.bits(), self.number));
        let next = lines.first(self.key).and_then(Option::take);
        drop(lines);
        drop(left);
        next.into_iter().for_each(Waker::wake);
    }
}
