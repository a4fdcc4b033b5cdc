//! The memory for bodies that are read before an upstream is taken, and how clients share it.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::listen::{Client, may_have_more};
use crate::metrics::BufferCounts;

/// The memory for all bodies. Only bodies that did not come with their heads take its lock.
pub(super) struct BodyMemory {
    most: usize,
    shares: Mutex<Shares>,
    counts: Arc<BufferCounts>,
}

#[derive(Default)]
struct Shares {
    held: usize,
    clients: HashMap<Client, usize>,
}

/// The bytes that are held of one body, until this is dropped.
#[derive(Default)]
pub(super) struct Held {
    /// `None`: nothing is counted.
    memory: Option<Arc<BodyMemory>>,
    client: Client,
    bytes: usize,
    is_full: bool,
}

impl BodyMemory {
    pub(super) fn new(most: usize, counts: &Arc<BufferCounts>) -> Arc<Self> {
        counts.most.store(most as u64, Relaxed);
        Arc::new(Self { most, shares: Mutex::default(), counts: Arc::clone(counts) })
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Nothing yet of a client's body.
    pub(super) fn new(memory: &Arc<BodyMemory>, client: Client) -> Self {
        Self { memory: Some(Arc::clone(memory)), client, ..Self::default() }
    }

    /// Whether more of the body may be held: of one that waits, what others hold changes nothing.
    pub(super) fn has_room(&mut self) -> bool {
        if self.bytes == 0 {
            self.look();
        }
        !self.is_full
    }

    /// So many bytes more are held.
    pub(super) fn add(&mut self, bytes: usize) {
        let Some(memory) = &self.memory else { return };
        self.bytes += bytes;
        let mut shares = memory.lock();
        shares.held += bytes;
        *shares.clients.entry(self.client).or_default() += bytes;
        memory.counts.held.store(shares.held as u64, Relaxed);
        drop(shares);
        self.look();
    }

    /// Looks whether its client may have more. Once it may not, the body has no room.
    fn look(&mut self) {
        let Some(memory) = self.memory.as_ref().filter(|_| !self.is_full) else { return };
        let shares = memory.lock();
        let has = shares.clients.get(&self.client).copied().unwrap_or_default();
        self.is_full = !may_have_more(has, memory.most.saturating_sub(shares.held));
        drop(shares);
        if self.is_full {
            memory.counts.full.fetch_add(1, Relaxed);
        }
    }

    /// None are held any more.
    pub(super) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let Some(memory) = self.memory.as_ref().filter(|_| bytes > 0) else { return };
        let mut shares = memory.lock();
        shares.held -= bytes;
        if let Some(has) = shares.clients.get_mut(&self.client) {
            *has -= bytes;
            if *has == 0 {
                shares.clients.remove(&self.client);
            }
        }
        memory.counts.held.store(shares.held as u64, Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_room_to_others() {
        let counts = Arc::default();
        let memory = BodyMemory::new(900, &counts);
        let new = |client| Held::new(&memory, Client::numbered(client));
        let mut greedy = Vec::new();
        loop {
            let mut body = new(1);
            if !body.has_room() {
                break;
            }
            body.add(10);
            greedy.push(body);
        }
        assert!(greedy[0].has_room(), "it waits for its client, and not for others");
        let mut honest = new(2);
        for _ in 0..8 {
            assert!(honest.has_room());
            honest.add(10);
        }
        let count = |of: &std::sync::atomic::AtomicU64| of.load(Relaxed);
        // The last of them filled the share, and one had no room.
        assert_eq!((greedy.len(), count(&counts.full)), (80, 2 + u64::from(!honest.has_room())));
        assert_eq!((count(&counts.held), count(&counts.most)), (880, 900));
        drop((greedy, honest));
        assert_eq!((count(&counts.held), memory.lock().clients.len()), (0, 0));
    }

    #[test]
    fn a_body_that_finds_no_room_is_counted_once() {
        let counts = Arc::default();
        let memory = BodyMemory::new(0, &counts);
        let mut body = Held::new(&memory, Client::default());
        assert!(!body.has_room() && !body.has_room());
        assert_eq!(counts.full.load(Relaxed), 1);
        assert!(Held::default().has_room());
    }
}
