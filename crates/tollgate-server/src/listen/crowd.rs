//! The connections of a listener: which one is idle longest, and how many a client has.
//!
//! Only who accepts connections looks here, so there is no lock. A connection that has ended is
//! noticed by its reference, which is dead, and forgotten at the next look at all.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Client, Presence, Unfinished};

/// Of those that are idle, the part that each look finds. So a look, which reads as many as
/// there are, comes once for many connections that are closed.
const FOUND: usize = 8;

/// Of the most connections, the part for which no look follows one that found none.
const REST: usize = 16;

/// All connections of a listener.
pub(super) struct Crowd {
    most: usize,
    began: Instant,
    open: Vec<Weak<Presence>>,
    /// Those that are to be closed first, the very first one last, and since when they are idle.
    idle: Vec<(u64, Weak<Presence>)>,
    /// The clients of those that wait until another one has ended.
    waiting: Vec<(Client, Weak<Waits>)>,
    /// For how many connections no look follows.
    rests: usize,
    most_of_client: Option<usize>,
    clients: HashMap<Client, Weak<OfClient>>,
    unfinished: Arc<Unfinished>,
}

/// What the connections of a client share.
#[derive(Debug)]
pub(super) struct OfClient;

/// A connection waits for its place until this is dropped.
#[derive(Debug)]
pub(super) struct Waits;

/// A client has as many connections as it may have.
#[derive(Debug)]
pub(super) struct TooMany;

impl Crowd {
    pub(super) fn new(most: usize, most_of_client: Option<usize>, unfinished: Arc<Unfinished>) -> Self {
        let (began, (open, idle, waiting, clients)) = (Instant::now(), Default::default());
        Self { most, began, open, idle, waiting, rests: 0, most_of_client, clients, unfinished }
    }

    /// A connection has come. It ends with these.
    pub(super) fn join(&mut self, ends: &CancellationToken) -> Arc<Presence> {
        let one = Presence::new(ends, self.began, &self.unfinished);
        if self.open.len() > 2 * self.most {
            self.open.retain(is_open);
        }
        self.open.push(Arc::downgrade(&one));
        one
    }

    /// One more connection of a client, which has it until the value is dropped. `None`: its
    /// connections are not counted.
    pub(super) fn of_client(&mut self, client: Client) -> Result<Option<Arc<OfClient>>, TooMany> {
        let Some(most) = self.most_of_client else { return Ok(None) };
        if self.clients.len() > 2 * self.most {
            self.clients.retain(|_, all| is_open(all));
        }
        let all = self.clients.entry(client).or_default();
        if all.strong_count() >= most {
            return Err(TooMany);
        }
        let shared = all.upgrade().unwrap_or_else(|| Arc::new(OfClient));
        *all = Arc::downgrade(&shared);
        Ok(Some(shared))
    }

    /// Closes the connection that is idle longest, of those that are not closed yet, for one of
    /// this client. `None`: none is idle, or only such as were answered just now, while another one
    /// of the client waits: a burst of its connections takes no place of clients at work.
    pub(super) fn close_idle_longest(&mut self, client: Client) -> Option<(Arc<Presence>, Arc<Waits>)> {
        let one = self.idle_longest()?;
        self.waiting.retain(|(_, waits)| is_open(waits));
        if one.is_at_work() && self.waiting.iter().any(|(waiting, _)| *waiting == client) {
            self.rests = self.most / REST;
            return None;
        }
        one.close();
        let waits = Arc::new(Waits);
        self.waiting.push((client, Arc::downgrade(&waits)));
        Some((one, waits))
    }

    fn idle_longest(&mut self) -> Option<Arc<Presence>> {
        if let Some(known) = self.next_known() {
            return Some(known);
        }
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        self.look();
        let found = self.next_known();
        if found.is_none() {
            self.rests = self.most / REST;
        }
        found
    }

    /// The next one of those that were found, if it was idle ever since.
    fn next_known(&mut self) -> Option<Arc<Presence>> {
        while let Some((since, one)) = self.idle.pop() {
            if let Some(one) = one.upgrade()
                && one.idle_since() == Some(since)
                && !one.is_closing()
            {
                return Some(one);
            }
        }
        None
    }

    /// Finds those that are idle longest.
    fn look(&mut self) {
        self.open.retain(is_open);
        let idle = self.open.iter().filter_map(|weak| {
            let one = weak.upgrade().filter(|one| !one.is_closing())?;
            Some((one.idle_since()?, Weak::clone(weak)))
        });
        self.idle = idle.collect();
        // The order of those that are equal is that of their coming, turned round with the others.
        self.idle.reverse();
        self.idle.sort_by_key(|(since, _)| Reverse(*since));
        let found = self.idle.len().div_ceil(FOUND);
        self.idle.drain(..self.idle.len() - found);
        self.idle.shrink_to_fit();
    }
}

fn is_open<T>(one: &Weak<T>) -> bool {
    one.strong_count() > 0
}

#[cfg(test)]
mod tests {
    use super::super::presence::AT_WORK;
    use super::*;

    const ADA: Client = Client::numbered(1);
    const BOB: Client = Client::numbered(2);

    #[tokio::test(start_paused = true)]
    async fn the_connection_idle_longest_is_found_first() {
        let (ends, mut crowd) = (CancellationToken::new(), Crowd::new(100, None, Arc::default()));
        let all: Vec<_> = (0..100).map(|_| crowd.join(&ends)).collect();
        let at = |one: &Arc<Presence>| all.iter().position(|other| Arc::ptr_eq(one, other)).unwrap();
        let busy = all[0].engage();
        all[1].has_part(true);
        drop(all[3].engage());
        tokio::time::advance(AT_WORK / 2).await;
        drop(all[2].engage());
        let mut found = Vec::new();
        while let Some((one, _)) = crowd.close_idle_longest(ADA) {
            found.push(at(&one));
        }
        // Those that were answered are idle later.
        assert_eq!(found, (4..100).chain([3, 2]).collect::<Vec<_>>());
        drop(busy);
        crowd.rests = 0;
        let found = crowd.close_idle_longest(ADA).map(|(one, _)| at(&one));
        assert_eq!(found, Some(0), "it is idle now");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_at_work_outlives_any_burst_of_silent_ones() {
        let (ends, mut crowd) = (CancellationToken::new(), Crowd::new(64, None, Arc::default()));
        let mut all: Vec<_> = (0..64).map(|_| crowd.join(&ends)).collect();
        let at_work = all.remove(40);
        for round in 0..20 {
            drop(at_work.engage());
            tokio::time::advance(AT_WORK / 4).await;
            let mut waiting = Vec::new();
            for _ in 0..200 {
                let Some((found, waits)) = crowd.close_idle_longest(ADA) else { continue };
                assert!(!Arc::ptr_eq(&found, &at_work));
                let new = crowd.join(&ends);
                // One that waits is not closed.
                waiting.extend((round % 2 == 0).then(|| (new.engage(), waits)));
                all.push(new);
            }
            waiting.into_iter().for_each(|(engaged, _)| engaged.end_unanswered());
            all.retain(|one| !one.is_closing());
        }
        // It is idle as others are once it has nothing to do.
        tokio::time::advance(AT_WORK * 2).await;
        crowd.rests = 0;
        let mut found = std::iter::from_fn(|| crowd.close_idle_longest(ADA));
        assert!(found.any(|(one, _)| Arc::ptr_eq(&one, &at_work)));
    }

    #[tokio::test(start_paused = true)]
    async fn among_clients_at_work_a_newcomer_finds_its_place() {
        let (ends, mut crowd) = (CancellationToken::new(), Crowd::new(8, None, Arc::default()));
        let all: Vec<_> = (0..8).map(|_| crowd.join(&ends)).collect();
        all.iter().for_each(|one| drop(one.engage()));
        let (one, waits) = crowd.close_idle_longest(ADA).unwrap();
        assert!(Arc::ptr_eq(&one, &all[0]));
        assert!(crowd.close_idle_longest(ADA).is_none(), "one at a time");
        crowd.rests = 0;
        assert!(crowd.close_idle_longest(BOB).is_some(), "of each client");
        drop(waits);
        assert!(crowd.close_idle_longest(ADA).is_some());
    }

    #[test]
    fn what_does_something_again_is_not_found() {
        let (ends, mut crowd) = (CancellationToken::new(), Crowd::new(32, None, Arc::default()));
        let all: Vec<_> = (0..32).map(|_| crowd.join(&ends)).collect();
        // Four are found.
        assert!(Arc::ptr_eq(&crowd.idle_longest().unwrap(), &all[0]));
        let _busy = all[1].engage();
        drop(all[2].engage());
        assert!(Arc::ptr_eq(&crowd.idle_longest().unwrap(), &all[3]));
    }

    #[test]
    fn a_connection_that_has_ended_leaves_nothing() {
        let (ends, mut crowd) = (CancellationToken::new(), Crowd::new(8, Some(1), Arc::default()));
        for number in 0..1_000 {
            let client = Client::numbered(number);
            let _one = (crowd.join(&ends), crowd.of_client(client).unwrap());
            assert!(crowd.of_client(client).is_err());
        }
        assert!(crowd.open.len() < 20 && crowd.clients.len() < 20);
        assert!(crowd.close_idle_longest(ADA).is_none());
    }
}
