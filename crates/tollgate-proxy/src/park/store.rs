//! The file: a database of redb, which one thread reads and writes.
//!
//! Changes that wait together are one transaction. It is synced to the disk before their callers
//! hear of it.
//!
//! A transaction that fails may be on the disk all the same: redb writes the new head of the file
//! before it syncs, and an opening takes the newest head whose checksums are right. So the requests
//! of such a transaction, which were refused, are taken out again as soon as the disk takes a
//! write. Only a process that dies before that leaves them to the next one.

use std::fmt;
use std::fs::OpenOptions;
use std::io::ErrorKind::InvalidData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use redb::{Database, DatabaseError, ReadableTable, StorageBackend, StorageError, TableDefinition};
use tokio::sync::oneshot;

use super::entry::Entry;

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");
const REQUESTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("requests");

/// The most orders of one transaction.
const TOGETHER: usize = 256;

/// The pause before a failed write is undone.
const PAUSE: Duration = Duration::from_secs(1);

/// The most memory for parts of the file.
const CACHE: usize = 16 << 20;

/// Why parked requests were not read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum ParkError {
    /// The database, or the server.
    Store(String),
    /// The server keeps nothing over a crash.
    NotDurable,
    /// The file is none of parked requests, or its first bytes are damaged. It is left as it is.
    Foreign,
    /// An entry that this version cannot read.
    Unreadable,
    /// The system has no random numbers.
    NoRandom,
    /// It is closed: the server ends.
    Closed,
}

/// A change of the file. Numbers are those of entries.
pub(super) enum Change {
    Entry(u64, Vec<u8>),
    Request(u64, Vec<u8>),
    /// The request goes, the entry stays.
    NoRequest(u64),
    /// The entry goes.
    Nothing(u64),
}

type Done = Box<dyn FnOnce(Result<(), ParkError>) + Send>;
type Loaded = oneshot::Sender<Result<Option<Vec<u8>>, ParkError>>;

enum Order {
    Write(Vec<Change>, Done),
    Load(u64, Loaded),
}

/// Opens the database, also again after a fault.
type Open = Box<dyn Fn() -> Result<Database, ParkError> + Send>;

/// The thread that has the file.
pub(super) struct Store {
    orders: Mutex<Option<mpsc::Sender<Order>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn fault(error: impl Into<redb::Error>) -> ParkError {
    ParkError::Store(error.into().to_string())
}

impl Change {
    pub(super) fn entry(number: u64, entry: &Entry) -> Self {
        // Its types have no maps with keys that are no text, which alone could fail.
        Self::Entry(number, serde_json::to_vec(entry).unwrap_or_default())
    }

    /// The request that this adds.
    fn added(&self) -> Option<u64> {
        if let Self::Request(number, _) = self { Some(*number) } else { None }
    }
}

impl Store {
    /// Opens the file, or makes it. Returns the entries in it.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<(u64, Entry)>), ParkError> {
        let path = path.to_owned();
        Self::by(Box::new(move || {
            // Requests have secrets of their clients.
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).map_err(|error| ParkError::Store(error.to_string()))?;
            Database::builder().set_cache_size(CACHE).create_file(file).map_err(|error| match error {
                DatabaseError::Storage(StorageError::Io(error)) if error.kind() == InvalidData => {
                    ParkError::Foreign
                }
                error => fault(error),
            })
        }))
    }

    /// The same over another storage than a file.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests have storages that fail"))]
    pub(super) fn over<B: StorageBackend>(
        backend: impl Fn() -> B + Send + 'static,
    ) -> Result<(Self, Vec<(u64, Entry)>), ParkError> {
        Self::by(Box::new(move || {
            Database::builder().set_cache_size(CACHE).create_with_backend(backend()).map_err(fault)
        }))
    }

    fn by(open: Open) -> Result<(Self, Vec<(u64, Entry)>), ParkError> {
        let database = open()?;
        let entries = read(&database)?;
        let (sender, orders) = mpsc::channel();
        let thread = std::thread::Builder::new().name("tollgate-park".into());
        let thread = thread.spawn(move || serve(&orders, &open, database));
        let thread = thread.map_err(|error| ParkError::Store(error.to_string()))?;
        let store = Self { orders: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) };
        Ok((store, entries))
    }

    fn order(&self, order: Order) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = match &*orders {
            Some(orders) => orders.send(order).map_err(|mpsc::SendError(order)| order).err(),
            None => Some(order),
        };
        drop(orders);
        // A load is answered by the drop of its sender.
        if let Some(Order::Write(_, done)) = refused {
            // Not here: the caller may hold the lock that `done` takes.
            std::thread::spawn(move || done(Err(ParkError::Closed)));
        }
    }

    /// Changes the file, and calls `done` when the change is on the disk. Changes are made in the
    /// order of these calls.
    pub(super) fn write(
        &self,
        changes: Vec<Change>,
        done: impl FnOnce(Result<(), ParkError>) + Send + 'static,
    ) {
        self.order(Order::Write(changes, Box::new(done)));
    }

    /// The bytes of a request.
    pub(super) async fn load(&self, number: u64) -> Result<Option<Vec<u8>>, ParkError> {
        let (sender, loaded) = oneshot::channel();
        self.order(Order::Load(number, sender));
        loaded.await.unwrap_or(Err(ParkError::Closed))
    }

    /// Waits for all changes, and closes the file.
    pub(super) async fn close(&self) {
        drop(self.orders.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has closed the file, too.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// The thread: takes orders until there is no sender.
fn serve(orders: &mpsc::Receiver<Order>, open: &Open, database: Database) {
    let (mut database, mut doubtful) = (Some(database), Vec::new());
    loop {
        let next = match doubtful.is_empty() {
            true => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => orders.recv_timeout(PAUSE),
        };
        let is_last = matches!(next, Err(RecvTimeoutError::Disconnected));
        let (mut changes, mut done, mut loads) = (Vec::new(), Vec::new(), Vec::new());
        for order in next.into_iter().chain(orders.try_iter().take(TOGETHER - 1)) {
            match order {
                Order::Write(own, then) => {
                    changes.extend(own);
                    done.push(then);
                }
                Order::Load(number, loaded) => loads.push((number, loaded)),
            }
        }
        if !done.is_empty() || !doubtful.is_empty() {
            let written = use_or_open(&mut database, open, |database| write(database, &doubtful, &changes));
            match &written {
                Ok(()) => doubtful.clear(),
                Err(error) => {
                    tracing::error!(%error, "parked requests were not written");
                    // After a fault of the disk redb wants to be opened anew.
                    database = None;
                    doubtful.extend(changes.iter().filter_map(Change::added));
                }
            }
            for then in done {
                then(copy(&written));
            }
        }
        for (number, loaded) in loads {
            let request = use_or_open(&mut database, open, |database| load(database, number));
            let _ = loaded.send(request);
        }
        if is_last {
            return;
        }
    }
}

fn copy(result: &Result<(), ParkError>) -> Result<(), ParkError> {
    result.as_ref().copied().map_err(|error| ParkError::Store(error.to_string()))
}

fn use_or_open<T>(
    database: &mut Option<Database>,
    open: &Open,
    act: impl FnOnce(&Database) -> Result<T, ParkError>,
) -> Result<T, ParkError> {
    let database = match database {
        Some(database) => database,
        None => database.insert(open()?),
    };
    act(database)
}

/// Takes out the doubtful requests, and makes the changes.
fn write(database: &Database, doubtful: &[u64], changes: &[Change]) -> Result<(), ParkError> {
    // It is durable when it is committed: redb's default.
    let transaction = database.begin_write().map_err(fault)?;
    {
        let mut entries = transaction.open_table(ENTRIES).map_err(fault)?;
        let mut requests = transaction.open_table(REQUESTS).map_err(fault)?;
        for number in doubtful {
            drop(entries.remove(number).map_err(fault)?);
            drop(requests.remove(number).map_err(fault)?);
        }
        for change in changes {
            match change {
                Change::Entry(number, bytes) => drop(entries.insert(number, &**bytes).map_err(fault)?),
                Change::Request(number, bytes) => drop(requests.insert(number, &**bytes).map_err(fault)?),
                Change::NoRequest(number) => drop(requests.remove(number).map_err(fault)?),
                Change::Nothing(number) => drop(entries.remove(number).map_err(fault)?),
            }
        }
    }
    transaction.commit().map_err(fault)
}

fn load(database: &Database, number: u64) -> Result<Option<Vec<u8>>, ParkError> {
    let transaction = database.begin_read().map_err(fault)?;
    let requests = transaction.open_table(REQUESTS).map_err(fault)?;
    Ok(requests.get(number).map_err(fault)?.map(|bytes| bytes.value().to_vec()))
}

/// The entries of a file. A file without tables is new.
fn read(database: &Database) -> Result<Vec<(u64, Entry)>, ParkError> {
    let transaction = database.begin_read().map_err(fault)?;
    let table = match transaction.open_table(ENTRIES) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table.map_err(fault)?,
    };
    let mut entries = Vec::new();
    for entry in table.iter().map_err(fault)? {
        let (number, bytes) = entry.map_err(fault)?;
        let entry = serde_json::from_slice(bytes.value()).map_err(|_| ParkError::Unreadable)?;
        entries.push((number.value(), entry));
    }
    Ok(entries)
}

impl fmt::Display for ParkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => f.write_str(error),
            Self::NotDurable => f.write_str(
                "the store keeps nothing over a crash: set its appendonly to yes, and appendfsync to always",
            ),
            Self::Foreign => f.write_str(
                "it is no file of parked requests, or is damaged, and is left as it is: \
                 name another file, which is made if it is not there",
            ),
            Self::Unreadable => f.write_str("it has entries that this version cannot read"),
            Self::NoRandom => f.write_str("the system has no random numbers"),
            Self::Closed => f.write_str("it is closed: the server ends"),
        }
    }
}

impl std::error::Error for ParkError {}
