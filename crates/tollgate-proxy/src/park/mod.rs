//! Requests that were refused for a time, and are kept for later.
//!
//! ```text
//!   refused -> keep -> store (durable) -> 202
//!                         \-> first of its queue -> sent upstream by the proxy -> ended
//! ```
//!
//! A request belongs to the queue of a rule and a key. Its entry leaves the queue only when it has
//! ended, so what a process did not finish, the next one begins again.
//!
//! | file | what |
//! |------|------|
//! | `entry` | the record of a parked request |
//! | `kept` | the request itself, as it is stored |
//! | `parks` | the store of each rule |
//! | `file` | requests that are kept in a file, by one process |
//! | `index` | its entries in memory: queues, bounds, counts |
//! | `store` | the file |
//! | `redis` | requests that are kept in Redis, by all processes that share it |
//! | `probe` | what a store reads back, for fuzz targets |

mod entry;
mod file;
mod index;
mod kept;
mod parks;
mod probe;
mod redis;
mod store;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tollgate_rules::Park as Bounds;

pub use entry::{Entry, Id, State};
pub use file::FilePark;
pub use index::{Counts, EVENTS};
pub use kept::Kept;
pub use parks::Parks;
pub(crate) use parks::Place;
pub use probe::ParkProbe;
pub use store::ParkError;

/// Names a queue: the rule, and the key.
pub type QueueName = Arc<[u8]>;

/// What a store does.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where requests are kept.
pub trait ParkStore: Send + Sync {
    /// As labels and the administration say it.
    fn name(&self) -> &str;

    /// The queues whose first request may be sent now. `None` after the first call.
    fn begun(&self) -> Option<UnboundedReceiver<QueueName>>;

    /// Keeps a request, if it is within the bounds of its rule. When this is done, a kill of the
    /// process does not lose it. Returns how many of its queue wait.
    fn keep<'a>(
        &'a self,
        entry: Entry,
        bounds: &'a Bounds,
        request: Vec<u8>,
    ) -> Later<'a, Result<usize, NotKept>>;

    /// The first request of a queue, which the caller has for itself until it
    /// [finishes](Self::finish) it, or [loses](Self::lost) it. `None`: there is none now, and
    /// [`begun`](Self::begun) tells of the queue when there is one again.
    fn first<'a>(&'a self, queue: &'a QueueName) -> Later<'a, Result<Option<First>, ParkError>>;

    /// Is ready when the caller has the request no longer for itself. It must not send it then.
    fn lost<'a>(&'a self, first: &'a First) -> Later<'a, ()>;

    /// The request is not being sent any more, and this is its entry now. If it still waits, it is
    /// sent again after `pause`.
    fn finish<'a>(
        &'a self,
        first: &'a First,
        entry: Entry,
        pause: Duration,
    ) -> Later<'a, Result<(), Unchanged>>;

    /// Changes an entry that is not being sent, if `change` says that it may.
    fn change(&self, id: Id, change: fn(&mut Entry, now: u64) -> bool)
    -> Later<'_, Result<Entry, Unchanged>>;

    /// The entry of a request; `None`: it has none of this number.
    fn entry(&self, id: Id) -> Later<'_, Result<Option<Entry>, ParkError>>;

    /// A page of entries with their numbers, the oldest first.
    fn list<'a>(&'a self, filter: &'a Filter) -> Later<'a, Result<Vec<(u64, Entry)>, ParkError>>;

    /// The kept requests of each rule, and the ends of its requests in this process.
    fn counts(&self) -> Vec<(Box<str>, Counts)>;

    /// Ends the work of this process with the store.
    fn close(&self) -> Later<'_, ()>;
}

/// The first request of a queue.
pub struct First {
    /// Where the store has it.
    place: u128,
    pub(crate) entry: Entry,
    /// The request. An error: the store has lost it.
    pub(crate) kept: Result<Kept, ParkError>,
    /// Since when the caller has it for itself, at the latest.
    since: Instant,
}

/// Why a request was not kept.
#[derive(Debug)]
pub enum NotKept {
    /// A bound of its rule is reached.
    Full,
    /// The store does not have it.
    Store(ParkError),
}

/// Why an entry was not changed.
#[derive(Debug)]
pub enum Unchanged {
    /// There is no such entry.
    Unknown,
    /// It is in another state, or is being sent.
    Unfit,
    /// The store does not have the change.
    Store(ParkError),
}

/// Selects entries for [`ParkStore::list`].
pub struct Filter {
    /// The name of their rule; `None`: any.
    pub rule: Option<String>,
    /// `None`: any.
    pub state: Option<State>,
    /// What else selects.
    pub fits: Box<dyn Fn(&Entry) -> bool + Send + Sync>,
    /// The least number.
    pub after: u64,
    /// The most entries.
    pub most: usize,
}

impl Filter {
    fn fits(&self, entry: &Entry) -> bool {
        self.rule.as_deref().is_none_or(|rule| *rule == *entry.rule)
            && self.state.is_none_or(|state| state == entry.state)
            && (self.fits)(entry)
    }
}

/// Now, in milliseconds of Unix time.
pub fn now() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)
}

fn queue_name(rule: &str, key: &[u8]) -> QueueName {
    // A rule's name has no zero byte.
    [rule.as_bytes(), &[0], key].concat().into()
}
