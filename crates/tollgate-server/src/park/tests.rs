//! Parked requests over storages that are slow, or fail.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tollgate_rules::Park as Bounds;

use super::store::Store;
use super::{Filter, Kept, NotKept, Park, State};

/// A disk that can be full, or stand still where it is synced.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    bytes: InMemoryBackend,
    is_full: AtomicBool,
    stands: Mutex<bool>,
    moves: Condvar,
}

impl Disk {
    fn stand(&self, stands: bool) {
        *self.0.stands.lock().unwrap() = stands;
        self.0.moves.notify_all();
    }

    fn park(&self) -> Park {
        let disk = self.clone();
        let (store, entries) = Store::over(move || disk.clone()).unwrap();
        Park::over(store, entries)
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

async fn keep(park: &Park, target: &str) -> Result<(), NotKept> {
    park.keep("rule", b"k\0\xff", &Bounds::default(), &kept(target)).await.map(drop)
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
    let shown = |park: &Park| -> Vec<_> {
        let all = park.list(&Filter { most: 9, ..Filter::default() }, |_| true);
        all.into_iter().map(|(_, entry)| entry.shown).collect()
    };
    assert_eq!(shown(&park), ["PUT /1", "PUT /3"]);
    assert_eq!(park.waiting("rule", b"k\0\xff"), 2);
    park.close().await;
    assert!(matches!(keep(&park, "/4").await, Err(NotKept::Store(_))));
    assert_eq!(shown(&disk.park()), ["PUT /1", "PUT /3"]);
}

#[tokio::test]
async fn another_process_begins_where_one_ended() {
    let disk = Disk::default();
    let park = disk.park();
    for target in ["/1", "/2", "/3"] {
        keep(&park, target).await.unwrap();
    }
    let queue = park.begun().unwrap().recv().await.unwrap();
    let (number, _) = park.front(&queue).unwrap();
    park.sent(number, 200).await.unwrap();
    let (number, _) = park.front(&queue).unwrap();
    for _ in 0..Bounds::default().tries {
        park.failed(number, 500).await.unwrap();
    }
    park.close().await;

    let park = disk.park();
    let queue = park.begun().unwrap().recv().await.unwrap();
    let (number, entry) = park.front(&queue).unwrap();
    assert_eq!((&*entry.shown, entry.state), ("PUT /3", State::Parked));
    assert_eq!(park.begin(number).await.unwrap().unwrap(), kept("/3"));
    assert!(park.cancel(entry.id).await.is_err(), "it is being sent");
    let filter = Filter { state: Some(State::Dead), most: 9, ..Filter::default() };
    let [(dead, entry)] = &park.list(&filter, |_| true)[..] else { panic!("not one is dead") };
    assert_eq!((&*entry.shown, entry.status), ("PUT /2", Some(500)));
    park.resend(entry.id).await.unwrap();
    park.sent(number, 200).await.unwrap();
    assert_eq!(park.front(&queue).unwrap().0, *dead, "it comes after all others");
    assert_eq!(park.begin(*dead).await.unwrap().unwrap(), kept("/2"));
}
