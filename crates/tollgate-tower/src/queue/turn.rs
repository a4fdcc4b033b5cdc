//! The turn of one request in a queue.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tollgate::Timestamp;

use super::turns::QueueTurns;

/// The turn of a request in the queue of its key. Dropping it lets no other request have it: the
/// request departs, or the engine has taken the turn back.
pub(crate) struct QueueTurn {
    pub(super) turns: Arc<QueueTurns>,
    pub(super) key: Arc<[u8]>,
    /// What the request costs. Its departure may have room for more.
    pub(super) cost: u64,
    /// The [change count](QueueTurns::change_count), read before the charge.
    pub(super) change_count: u64,
    pub(super) place: Arc<Place>,
    /// Whether it may move up.
    pub(super) waits: bool,
    /// Whether its request has departed by it, so that no other one may have it.
    is_used: bool,
}

/// When a request departs, which may become earlier while it waits.
pub(super) struct Place(Mutex<Held>);

/// The departure that a request has.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) departure: Timestamp,
    /// The cost that the engine's queue was charged for it.
    pub(super) units: u64,
    /// Whether the request was charged for it, and has the receipt.
    pub(super) is_own: bool,
    /// Wakes the request that waits for it.
    pub(super) waker: Option<Waker>,
}

impl QueueTurn {
    pub(super) fn new(
        turns: Arc<QueueTurns>,
        key: Arc<[u8]>,
        cost: u64,
        change_count: u64,
        held: Held,
    ) -> Self {
        let place = Arc::new(Place(Mutex::new(held)));
        Self { turns, key, cost, change_count, place, waits: false, is_used: false }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn departure(&self) -> Timestamp {
        self.place.lock().departure
    }

    /// The cost that the engine's queue was charged for it.
    pub(crate) fn units(&self) -> u64 {
        self.place.lock().units
    }

    /// Whether its own request was charged for it. Of one that was not, the receipt is of another
    /// turn, which another request has or may get: it must not go back to the engine.
    pub(crate) fn is_own(&self) -> bool {
        self.place.lock().is_own
    }

    /// Lets the request wait for the turn, and move up when one before it leaves.
    pub(crate) fn wait(&mut self, now: Timestamp) {
        Arc::clone(&self.turns).wait(self, now);
    }

    /// Has this called when the departure becomes earlier.
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut held = self.place.lock();
        if !held.waker.as_ref().is_some_and(|before| before.will_wake(waker)) {
            held.waker = Some(waker.clone());
        }
    }

    /// Moves up no more. [`departure`](Self::departure) and [`is_own`](Self::is_own) stay as they
    /// are.
    pub(crate) fn stay(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.turns.withdraw(&self.key, &self.place);
        }
    }

    /// The request departs: those behind it may move up further.
    pub(crate) fn depart(&mut self, now: Timestamp) {
        self.is_used = true;
        if self.waits {
            self.stay();
            self.turns.move_up(&self.key, now);
        }
    }

    /// Lets other requests have the turn: those that wait behind it move up, and the last one's
    /// departure is free.
    pub(crate) fn abandon(mut self, now: Timestamp) {
        self.stay();
        if !self.is_used {
            self.turns.offer(&self, now);
        }
    }
}

impl Place {
    pub(super) fn lock(&self) -> MutexGuard<'_, Held> {
        // A waker that panics as it is cloned has changed nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        self.stay();
    }
}

impl fmt::Debug for QueueTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueTurn").field("departure", &self.departure()).finish_non_exhaustive()
    }
}
