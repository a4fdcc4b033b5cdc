//! Requests that were refused for a time, and are kept for later.
//!
//! ```text
//!   refused -> keep -> store (durable) -> 202
//!                         \-> front of its queue -> sent upstream by the proxy -> ended
//! ```
//!
//! A request belongs to the queue of a rule and a key. Its entry leaves the queue only when it has
//! ended, so what a process did not finish, the next one begins again.
//!
//! | file | what |
//! |------|------|
//! | `entry` | the record of a parked request |
//! | `kept` | the request itself, as it is stored |
//! | `index` | all entries in memory: queues, bounds, counts |
//! | `store` | the file |

mod entry;
mod index;
mod kept;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

pub(crate) use entry::{Entry, Id, State};
pub(crate) use index::{Counts, EVENTS};
use index::{Full, Index};
pub(crate) use kept::Kept;
pub use store::ParkError;
use store::{Change, Store};

use crate::metrics::unix_time;

/// Names a queue: the rule, and the key.
pub(crate) type QueueName = Arc<[u8]>;

/// Why a request was not kept.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// A bound of its rule is reached.
    Full,
    /// The file was not written.
    Store(ParkError),
}

/// Why an entry was not changed.
#[derive(Debug)]
pub(crate) enum Unchanged {
    /// There is no such entry.
    Unknown,
    /// It is in another state, or is being sent.
    Unfit,
    /// The file was not written.
    Store(ParkError),
}

/// All requests that are kept.
pub(crate) struct Park {
    shared: Arc<Shared>,
    store: Store,
    /// The queues that have begun to have a request, for the one that drains them.
    begun: Mutex<Option<UnboundedReceiver<QueueName>>>,
}

struct Shared {
    index: Mutex<Index>,
    begun: UnboundedSender<QueueName>,
    /// How many requests wait. Zero is seen without the lock.
    waiting: AtomicUsize,
}

/// Selects entries for [`Park::list`].
#[derive(Default)]
pub(crate) struct Filter {
    pub(crate) rule: Option<String>,
    pub(crate) state: Option<State>,
    /// The entries after this one.
    pub(crate) after: u64,
    pub(crate) most: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the index, and tells of queues that begin.
    fn change<T>(&self, change: impl FnOnce(&mut Index) -> T) -> T {
        let mut index = self.lock();
        let done = change(&mut index);
        self.waiting.store(index.waiting(), Relaxed);
        for queue in index.take_begun() {
            // The receiver is dropped when the server ends.
            let _ = self.begun.send(queue);
        }
        done
    }
}

/// Now, in milliseconds of Unix time.
fn now() -> u64 {
    u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX)
}

impl Park {
    /// Opens the file, or makes it, and reads its entries.
    pub(crate) fn open(path: &Path) -> Result<Self, ParkError> {
        let (store, entries) = Store::open(path)?;
        Ok(Self::over(store, entries))
    }

    fn over(store: Store, entries: Vec<(u64, Entry)>) -> Self {
        let (sender, begun) = unbounded_channel();
        let index = Mutex::new(Index::default());
        let shared = Arc::new(Shared { index, begun: sender, waiting: AtomicUsize::new(0) });
        shared.change(|index| entries.into_iter().for_each(|(number, entry)| index.restore(number, entry)));
        Self { shared, store, begun: Mutex::new(Some(begun)) }
    }

    /// The queues that begin to have a request. `None` after the first call.
    pub(crate) fn begun(&self) -> Option<UnboundedReceiver<QueueName>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How many requests of this rule and key wait.
    pub(crate) fn waiting(&self, rule: &str, key: &[u8]) -> usize {
        match self.shared.waiting.load(Relaxed) {
            0 => 0,
            _ => self.shared.lock().waiting_in(&index::queue_name(rule, key)),
        }
    }

    /// Keeps a request. When this is done, a kill of the process does not lose it.
    pub(crate) async fn keep(
        &self,
        rule: &str,
        key: &[u8],
        bounds: &tollgate_rules::Park,
        kept: &Kept,
    ) -> Result<Entry, NotKept> {
        let stored = kept.to_bytes();
        let entry = Entry::new(rule, key, bounds, kept, stored.len(), now());
        let Some(entry) = entry else { return Err(NotKept::Store(ParkError::NoRandom)) };
        let (sender, written) = oneshot::channel();
        let entry = {
            // Under the lock, so that the file has entries in the order of their queue.
            let mut index = self.shared.lock();
            let (number, entry) = index.add(entry, bounds).map_err(|Full| NotKept::Full)?;
            let changes = vec![Change::entry(number, &entry), Change::Request(number, stored)];
            let shared = Arc::clone(&self.shared);
            self.store.write(changes, move |result| {
                // Here and not below: the client may have left.
                shared.change(|index| index.stored(number, result.is_ok()));
                let _ = sender.send(result);
            });
            entry
        };
        match written.await {
            Ok(Ok(())) => Ok(entry),
            Ok(Err(error)) => Err(NotKept::Store(error)),
            Err(_) => Err(NotKept::Store(ParkError::Closed)),
        }
    }

    /// The first request of a queue. `None`: there is none, and the queue is told by
    /// [`begun`](Self::begun) when there is one again.
    pub(crate) fn front(&self, queue: &QueueName) -> Option<(u64, Entry)> {
        self.shared.change(|index| index.front(queue))
    }

    /// The request of an entry, to be sent. `None`: it was cancelled meanwhile.
    pub(crate) async fn begin(&self, number: u64) -> Result<Option<Kept>, ParkError> {
        if !self.shared.lock().begin(number) {
            return Ok(None);
        }
        let read = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| Kept::from_bytes(&bytes));
        let loaded = self.store.load(number).await;
        // One that the file has lost stays first in its queue: it may not be asked for in a spin.
        let loaded = loaded.and_then(|bytes| read(bytes).ok_or(ParkError::Unreadable));
        if loaded.is_err() {
            self.shared.lock().pause(number);
        }
        loaded.map(Some)
    }

    /// The request is to be sent again later: it was not sent, or this did not count.
    pub(crate) fn pause(&self, number: u64) {
        self.shared.lock().pause(number);
    }

    /// The upstream did not take the request. Returns its state: it is dead after the last try.
    pub(crate) async fn failed(&self, number: u64, status: u16) -> Result<State, Unchanged> {
        let changed = self.change(number, |entry| {
            entry.tries = entry.tries.saturating_add(1);
            entry.status = Some(status);
            if entry.tries >= entry.most_tries {
                entry.end(State::Dead, now());
            }
            true
        });
        changed.await.map(|entry| entry.state)
    }

    /// The request has ended with this status.
    pub(crate) async fn sent(&self, number: u64, status: u16) -> Result<Entry, Unchanged> {
        let changed = self.change(number, |entry| {
            entry.tries = entry.tries.saturating_add(1);
            entry.status = Some(status);
            entry.end(State::Sent, now());
            true
        });
        changed.await
    }

    /// The request was too old.
    pub(crate) async fn expired(&self, number: u64) -> Result<Entry, Unchanged> {
        self.change(number, |entry| {
            entry.end(State::Expired, now());
            true
        })
        .await
    }

    /// Cancels a request that waits or is dead, unless it is being sent.
    pub(crate) async fn cancel(&self, id: Id) -> Result<Entry, Unchanged> {
        let number = self.number_at_rest(id)?;
        self.change(number, |entry| {
            let may = matches!(entry.state, State::Parked | State::Dead);
            if may {
                entry.end(State::Cancelled, now());
            }
            may
        })
        .await
    }

    /// Has a dead request sent again, after all others of its queue.
    pub(crate) async fn resend(&self, id: Id) -> Result<Entry, Unchanged> {
        let number = self.number_at_rest(id)?;
        self.change(number, |entry| entry.revive(now())).await
    }

    fn number_at_rest(&self, id: Id) -> Result<u64, Unchanged> {
        let index = self.shared.lock();
        let number = index.number(id).ok_or(Unchanged::Unknown)?;
        if index.is_at_rest(number) { Ok(number) } else { Err(Unchanged::Unfit) }
    }

    /// Changes an entry in memory and in the file, and waits for the file.
    async fn change(&self, number: u64, change: impl FnOnce(&mut Entry) -> bool) -> Result<Entry, Unchanged> {
        let (sender, written) = oneshot::channel();
        let entry = self.shared.change(|index| {
            let entry = index.change(number, change)?;
            let mut changes = vec![Change::entry(number, &entry)];
            if !entry.state.is_held() {
                changes.push(Change::NoRequest(number));
            }
            changes.extend(index.forget_oldest().map(Change::Nothing));
            // The result is awaited below, unless the caller has left.
            self.store.write(changes, move |result| drop(sender.send(result)));
            Ok(entry)
        })?;
        match written.await {
            Ok(Ok(())) => Ok(entry),
            Ok(Err(error)) => Err(Unchanged::Store(error)),
            Err(_) => Err(Unchanged::Store(ParkError::Closed)),
        }
    }

    pub(crate) fn entry(&self, id: Id) -> Option<Entry> {
        let index = self.shared.lock();
        index.entry(index.number(id)?).cloned()
    }

    /// A page of entries with their numbers, the oldest first.
    pub(crate) fn list(&self, filter: &Filter, fits: impl Fn(&Entry) -> bool) -> Vec<(u64, Entry)> {
        let index = self.shared.lock();
        let all = index.after(filter.after);
        let fitting = all.filter(|(_, entry)| {
            filter.rule.as_deref().is_none_or(|rule| *rule == *entry.rule)
                && filter.state.is_none_or(|state| state == entry.state)
                && fits(entry)
        });
        fitting.take(filter.most).map(|(number, entry)| (number, entry.clone())).collect()
    }

    /// What is kept of each rule, and what became of its requests.
    pub(crate) fn counts(&self) -> Vec<(Box<str>, Counts)> {
        self.shared.lock().counts()
    }

    /// Writes what is still to be written, and closes the file.
    pub(crate) async fn close(&self) {
        self.store.close().await;
    }
}
