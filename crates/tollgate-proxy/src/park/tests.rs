//! Parked requests over storages that are slow, or fail.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tollgate_rules::Park as Bounds;

use super::index::AT_ONCE;
use super::store::Store;
use super::{Entry, FilePark, Filter, First, Id, Kept, NotKept, ParkStore, QueueName, State, now};

/// A disk that can be full, or stand still where it is synced.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    bytes: InMemoryBackend,
    is_full: AtomicBool,
    /// Whether a sync fails, of which the disk has all the same.
    is_unsure: AtomicBool,
    stands: Mutex<bool>,
    moves: Condvar,
}

impl Disk {
    fn stand(&self, stands: bool) {
        *self.0.stands.lock().unwrap() = stands;
        self.0.moves.notify_all();
    }

    fn park(&self) -> FilePark {
        let disk = self.clone();
        let (store, entries) = Store::over(move || disk.clone()).unwrap();
        FilePark::over(store, entries)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.0.bytes.len()
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.0.bytes.read(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.set_len(len)
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        drop(self.0.moves.wait_while(self.0.stands.lock().unwrap(), |stands| *stands).unwrap());
        if self.0.is_unsure.load(SeqCst) {
            return Err(io::ErrorKind::Other.into());
        }
        self.0.bytes.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.0.is_full.load(SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.bytes.write(offset, data)
    }
}

fn kept(target: &str) -> Kept {
    let mut headers = HeaderMap::new();
    headers.insert("x-odd", HeaderValue::from_bytes(b"caf\xe9 \"\\").unwrap());
    let mut kept = Kept::new(("PUT", target), &headers, |_| true, ([192, 0, 2, 1].into(), true));
    kept.body = (&b"a\nb\0\xff"[..]).into();
    kept
}

async fn keep(park: &FilePark, target: &str) -> Result<Id, NotKept> {
    let (entry, request) = entry(target);
    let id = entry.id;
    park.keep(entry, &Bounds::default(), request).await.map(|_| id)
}

fn entry(target: &str) -> (Entry, Vec<u8>) {
    let (bounds, kept) = (Bounds::default(), kept(target));
    let request = kept.to_bytes();
    (Entry::new("rule", b"k\0\xff", &bounds, &kept, request.len(), now()).unwrap(), request)
}

async fn list(park: &FilePark, state: Option<State>) -> Vec<Entry> {
    let filter = Filter { rule: None, state, fits: Box::new(|_| true), after: 0, most: 9 };
    park.list(&filter).await.unwrap().into_iter().map(|(_, entry)| entry).collect()
}

async fn shown(park: &FilePark) -> Vec<String> {
    list(park, None).await.into_iter().map(|entry| entry.shown).collect()
}

async fn first(park: &FilePark, queue: &QueueName) -> First {
    park.first(queue).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_list_of_many_lets_others_have_their_turn() {
    let (store, _) = Store::over(Disk::default).unwrap();
    let entries = (0..3 * AT_ONCE as u64).map(|number| (number, entry("/").0)).collect();
    let park = FilePark::over(store, entries);
    let looked_at = Arc::new(AtomicUsize::new(0));
    let fits = {
        let looked_at = Arc::clone(&looked_at);
        // Every hundredth.
        move |_: &Entry| looked_at.fetch_add(1, SeqCst) % 100 == 99
    };
    let filter = Filter { rule: None, state: None, fits: Box::new(fits), after: 0, most: 9 };
    let mut listing = park.list(&filter);
    let page = poll_fn(|context| {
        let before = looked_at.load(SeqCst);
        let polled = listing.as_mut().poll(context);
        assert!(looked_at.load(SeqCst) - before <= AT_ONCE, "too many in one go");
        polled
    });
    let numbers: Vec<u64> = page.await.unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [99, 199, 299, 399, 499, 599, 699]);
}

/// An upstream answers the first request.
async fn answer(park: &FilePark, first: &First, status: u16) {
    let mut entry = first.entry.clone();
    entry.answer(status, status < 500, now());
    park.finish(first, entry, Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_kept_when_the_disk_has_it() {
    let disk = Disk::default();
    let park = Arc::new(disk.park());
    disk.stand(true);
    let keeping = tokio::spawn({
        let park = Arc::clone(&park);
        async move { keep(&park, "/").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!keeping.is_finished(), "it is answered before it is synced");
    let mut begun = park.begun().unwrap();
    assert!(begun.try_recv().is_err(), "it is sent before it is synced");
    disk.stand(false);
    keeping.await.unwrap().unwrap();
    assert!(begun.recv().await.is_some());
}

#[tokio::test]
async fn a_full_disk_keeps_nothing_and_loses_nothing() {
    let disk = Disk::default();
    let park = disk.park();
    keep(&park, "/1").await.unwrap();
    disk.0.is_full.store(true, SeqCst);
    assert!(matches!(keep(&park, "/2").await, Err(NotKept::Store(_))));
    disk.0.is_full.store(false, SeqCst);
    keep(&park, "/3").await.unwrap();
    assert_eq!(shown(&park).await, ["PUT /1", "PUT /3"]);
    assert_eq!(park.waiting("rule", b"k\0\xff"), 2);
    park.close().await;
    assert!(matches!(keep(&park, "/4").await, Err(NotKept::Store(_))));
    assert_eq!(shown(&disk.park()).await, ["PUT /1", "PUT /3"]);
}

#[tokio::test]
async fn a_refused_request_is_taken_out_of_the_file() {
    let disk = Disk::default();
    let park = disk.park();
    keep(&park, "/1").await.unwrap();
    disk.0.is_unsure.store(true, SeqCst);
    assert!(matches!(keep(&park, "/2").await, Err(NotKept::Store(_))));
    disk.0.is_unsure.store(false, SeqCst);
    park.close().await;
    assert_eq!(shown(&disk.park()).await, ["PUT /1"]);
}

#[tokio::test]
async fn another_process_begins_where_one_ended() {
    let disk = Disk::default();
    let park = disk.park();
    for target in ["/1", "/2", "/3"] {
        keep(&park, target).await.unwrap();
    }
    let queue = park.begun().unwrap().recv().await.unwrap();
    answer(&park, &first(&park, &queue).await, 200).await;
    for _ in 0..Bounds::default().tries {
        answer(&park, &first(&park, &queue).await, 500).await;
    }
    park.close().await;

    let park = disk.park();
    let queue = park.begun().unwrap().recv().await.unwrap();
    let sending = first(&park, &queue).await;
    assert_eq!((&*sending.entry.shown, sending.entry.state), ("PUT /3", State::Parked));
    assert_eq!(sending.kept.as_ref().unwrap(), &kept("/3"));
    assert!(park.change(sending.entry.id, Entry::cancel).await.is_err(), "it is being sent");
    let [dead] = &list(&park, Some(State::Dead)).await[..] else { panic!("not one is dead") };
    assert_eq!((&*dead.shown, dead.status), ("PUT /2", Some(500)));
    park.change(dead.id, Entry::revive).await.unwrap();
    answer(&park, &sending, 200).await;
    let last = first(&park, &queue).await;
    assert_eq!(last.entry.id, dead.id, "it comes after all others");
    assert_eq!(last.kept.unwrap(), kept("/2"));
}
