//! Requests that are kept in a file, by one process.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;
use tollgate_rules::Park as Bounds;

use super::index::{Counts, Full, Index};
use super::store::{Change, Store};
use super::{Entry, Filter, First, Id, Kept, Later, NotKept, ParkError, ParkStore, QueueName, Unchanged};
use super::{now, queue_name};

/// All requests of a file.
pub struct FilePark {
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

impl FilePark {
    /// Opens the file, or makes it, and reads its entries.
    pub fn open(path: &Path) -> Result<Self, ParkError> {
        let (store, entries) = Store::open(path)?;
        Ok(Self::over(store, entries))
    }

    pub(super) fn over(store: Store, entries: Vec<(u64, Entry)>) -> Self {
        let (sender, begun) = unbounded_channel();
        let index = Mutex::new(Index::default());
        let shared = Arc::new(Shared { index, begun: sender, waiting: AtomicUsize::new(0) });
        shared.change(|index| entries.into_iter().for_each(|(number, entry)| index.restore(number, entry)));
        Self { shared, store, begun: Mutex::new(Some(begun)) }
    }

    /// How many requests of this rule and key wait.
    pub(crate) fn waiting(&self, rule: &str, key: &[u8]) -> usize {
        match self.shared.waiting.load(Relaxed) {
            0 => 0,
            _ => self.shared.lock().waiting_in(&queue_name(rule, key)),
        }
    }

    async fn add(&self, entry: Entry, bounds: &Bounds, request: Vec<u8>) -> Result<usize, NotKept> {
        let (sender, written) = oneshot::channel();
        let queue = queue_name(&entry.rule, &entry.key);
        {
            // Under the lock, so that the file has entries in the order of their queue.
            let mut index = self.shared.lock();
            let (number, entry) = index.add(entry, bounds).map_err(|Full| NotKept::Full)?;
            let changes = vec![Change::entry(number, &entry), Change::Request(number, request)];
            let shared = Arc::clone(&self.shared);
            self.store.write(changes, move |result| {
                // Here and not below: the client may have left.
                shared.change(|index| index.stored(number, result.is_ok()));
                let _ = sender.send(result);
            });
        }
        match written.await {
            Ok(Ok(())) => Ok(self.shared.lock().waiting_in(&queue)),
            Ok(Err(error)) => Err(NotKept::Store(error)),
            Err(_) => Err(NotKept::Store(ParkError::Closed)),
        }
    }

    async fn load_first(&self, queue: &QueueName) -> Option<First> {
        let (number, entry) = self.shared.change(|index| index.begin_front(queue))?;
        let loaded = self.store.load(number).await;
        let read = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| Kept::from_bytes(&bytes));
        let kept = loaded.and_then(|bytes| read(bytes).ok_or(ParkError::Unreadable));
        Some(First { place: number.into(), entry, kept, since: Instant::now() })
    }

    /// Changes an entry in memory and in the file, and waits for the file.
    async fn write(&self, number: u64, change: impl FnOnce(&mut Entry) -> bool) -> Result<Entry, Unchanged> {
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

    fn number_at_rest(&self, id: Id) -> Result<u64, Unchanged> {
        let index = self.shared.lock();
        let number = index.number(id).ok_or(Unchanged::Unknown)?;
        if index.is_at_rest(number) { Ok(number) } else { Err(Unchanged::Unfit) }
    }

    async fn page(&self, filter: &Filter) -> Vec<(u64, Entry)> {
        let (mut page, mut from) = (Vec::new(), filter.after);
        loop {
            let next = self.shared.lock().find(filter, from, &mut page);
            let Some(next) = next else { return page };
            from = next;
            // Requests to be parked may wait for the lock, and other tasks for this thread.
            yield_now().await;
        }
    }
}

impl ParkStore for FilePark {
    fn name(&self) -> &str {
        "file"
    }

    fn begun(&self) -> Option<UnboundedReceiver<QueueName>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep<'a>(
        &'a self,
        entry: Entry,
        bounds: &'a Bounds,
        request: Vec<u8>,
    ) -> Later<'a, Result<usize, NotKept>> {
        Box::pin(self.add(entry, bounds, request))
    }

    fn first<'a>(&'a self, queue: &'a QueueName) -> Later<'a, Result<Option<First>, ParkError>> {
        Box::pin(async { Ok(self.load_first(queue).await) })
    }

    /// No other process has the file.
    fn lost<'a>(&'a self, _: &'a First) -> Later<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn finish<'a>(&'a self, first: &'a First, entry: Entry, _: Duration) -> Later<'a, Result<(), Unchanged>> {
        let Ok(number) = u64::try_from(first.place) else {
            return Box::pin(async { Err(Unchanged::Unknown) });
        };
        if entry.has_news_of(&first.entry) {
            return Box::pin(async move {
                let set = |known: &mut Entry| {
                    *known = entry;
                    true
                };
                self.write(number, set).await.map(drop)
            });
        }
        self.shared.lock().pause(number);
        Box::pin(async { Ok(()) })
    }

    fn change(
        &self,
        id: Id,
        change: fn(&mut Entry, now: u64) -> bool,
    ) -> Later<'_, Result<Entry, Unchanged>> {
        Box::pin(async move {
            let number = self.number_at_rest(id)?;
            self.write(number, |entry| change(entry, now())).await
        })
    }

    fn entry(&self, id: Id) -> Later<'_, Result<Option<Entry>, ParkError>> {
        let index = self.shared.lock();
        let entry = index.number(id).and_then(|number| index.entry(number)).cloned();
        Box::pin(async { Ok(entry) })
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Later<'a, Result<Vec<(u64, Entry)>, ParkError>> {
        Box::pin(async { Ok(self.page(filter).await) })
    }

    fn counts(&self) -> Vec<(Box<str>, Counts)> {
        self.shared.lock().counts()
    }

    /// Writes the changes that are waiting, and closes the file.
    fn close(&self) -> Later<'_, ()> {
        Box::pin(self.store.close())
    }
}
