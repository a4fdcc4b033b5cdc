//! The bytes of requests that are not whole yet.
//!
//! A client that begins many requests and ends none of them would fill the memory of all. So what
//! the connections of a listener hold of unfinished requests has a bound, and a connection may
//! hold no more than an [eighth](SHARE) of the bytes that are free:
//!
//! ```text
//!   the bytes of a listener      0 |---- held by all ----|-------- free --------| most
//!   what a connection may hold     |- an eighth of free -|   but LEAST in any case
//! ```
//!
//! So one connection alone holds a ninth, and each that comes finds eight ninths of the bytes
//! that were free before. Requests that are short, or came whole at once, find room in any case.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::Presence;

/// The bytes that a connection may hold however many the others do. A buffer that grows may be
/// twice as long as its content.
const LEAST: usize = 32 << 10;

/// Which part of the free bytes a connection may hold beyond that.
const SHARE: usize = 8;

/// Of a listener, all of its addresses together.
#[derive(Debug, Default)]
pub struct Unfinished {
    most: AtomicUsize,
    held: AtomicUsize,
}

/// Of a connection.
#[derive(Debug)]
pub(super) struct OfConnection {
    all: Arc<Unfinished>,
    held: AtomicUsize,
}

/// What one request holds, until this is dropped.
pub struct Held {
    presence: Arc<Presence>,
    /// What it holds beside its bytes.
    beside: usize,
    bytes: usize,
}

/// A connection holds as many bytes as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Unfinished {
    /// Sets the bound.
    pub fn bound(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    /// Those that are held, and the most.
    pub fn bytes(&self) -> (usize, usize) {
        (self.held.load(Relaxed), self.most.load(Relaxed))
    }
}

impl OfConnection {
    pub(super) fn new(all: &Arc<Unfinished>) -> Self {
        Self { all: Arc::clone(all), held: AtomicUsize::new(0) }
    }

    fn take(&self, bytes: usize) -> Result<(), NoRoom> {
        let own = self.held.fetch_add(bytes, Relaxed) + bytes;
        let all = self.all.held.fetch_add(bytes, Relaxed) + bytes;
        let free = self.all.most.load(Relaxed).saturating_sub(all);
        if own <= LEAST.max(free / SHARE) {
            return Ok(());
        }
        self.give_back(bytes);
        Err(NoRoom)
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
        self.all.held.fetch_sub(bytes, Relaxed);
    }
}

impl Held {
    /// A request of a connection, which holds nothing yet. It will hold so many bytes `beside`
    /// those that are told.
    pub fn new(presence: &Arc<Presence>, beside: usize) -> Self {
        Self { presence: Arc::clone(presence), beside, bytes: 0 }
    }

    /// The request now holds so many bytes. An error changes nothing.
    pub fn hold(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let (bytes, of) = (bytes + self.beside, self.presence.unfinished());
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => of.take(more)?,
            None => of.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// The request is whole, or dropped.
    pub fn release(&mut self) {
        if self.bytes > 0 {
            self.presence.unfinished().give_back(self.bytes);
            self.bytes = 0;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;

    const MOST: usize = 9 << 20;

    fn listener() -> Arc<Unfinished> {
        let all = Arc::<Unfinished>::default();
        all.bound(MOST);
        all
    }

    fn connection(all: &Arc<Unfinished>) -> Arc<Presence> {
        Presence::new(&CancellationToken::new(), Instant::now(), all)
    }

    /// Begins requests that hold a KiB more at each turn, until no more is held.
    fn greedy(all: &Arc<Unfinished>, connections: usize) -> Vec<Held> {
        let mut held: Vec<_> = (0..connections).map(|_| Held::new(&connection(all), 0)).collect();
        let mut bytes = 0;
        let mut grows = true;
        while grows {
            bytes += 1 << 10;
            grows = false;
            for one in &mut held {
                grows |= one.hold(bytes).is_ok();
            }
        }
        held
    }

    #[test]
    fn one_connection_holds_a_ninth_of_its_listener() {
        let all = listener();
        let held = greedy(&all, 1);
        assert_eq!(all.bytes(), (MOST / 9, MOST));
        // By many requests, too.
        let presence = connection(&listener());
        let mut many: Vec<_> = (0..MOST >> 10).map(|_| Held::new(&presence, 0)).collect();
        let held_by_many = many.iter_mut().filter_map(|one| one.hold(1 << 10).ok()).count();
        assert_eq!(held_by_many << 10, MOST / 9);
        drop(held);
        assert_eq!(all.bytes(), (0, MOST));
    }

    #[test]
    fn many_connections_leave_a_newcomer_as_much_as_each_has() {
        for connections in [4, 40, 200] {
            let all = listener();
            let mut held = greedy(&all, connections);
            let least = held.iter().map(|one| one.bytes).min().unwrap();
            let most = held.iter().map(|one| one.bytes).max().unwrap();
            assert!(all.bytes().0 < MOST && most - least <= 1 << 10, "{connections}: {least} to {most}");
            let newcomer = greedy(&all, 1);
            assert!(newcomer[0].bytes * 4 >= most * 3, "{connections}: {} of {most}", newcomer[0].bytes);
            held.clear();
            drop(newcomer);
            assert_eq!(all.bytes().0, 0);
        }
    }

    #[test]
    fn a_connection_may_hold_little_however_much_the_others_hold() {
        let all = listener();
        all.bound(0);
        let presence = connection(&all);
        let mut one = Held::new(&presence, 1 << 10);
        let mut other = Held::new(&presence, 0);
        assert_eq!((one.hold(LEAST - (2 << 10)), other.hold(1 << 10)), (Ok(()), Ok(())));
        assert_eq!((one.hold(LEAST), other.hold((1 << 10) + 1)), (Err(NoRoom), Err(NoRoom)));
        assert_eq!(all.bytes().0, LEAST, "what was refused is not held");
        one.release();
        assert_eq!((other.hold(LEAST), all.bytes().0), (Ok(()), LEAST));
        assert_eq!((other.hold(0), all.bytes().0), (Ok(()), 0));
    }
}
