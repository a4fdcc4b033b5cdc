//! The connections of a listener: which one is idle longest, and how many a client has.
//!
//! Only who accepts connections looks here, so there is no lock. A connection that has ended is
//! noticed by its reference, which is dead, and forgotten at the next look at all.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Client, Presence, Room, Unfinished};

/// Of those that are idle, the part that each look finds. So a look, which reads as many as
/// there are, comes once for many connections that are closed.
const FOUND: usize = 8;

/// Of the most connections, the part for which no look follows one that found none.
const REST: usize = 16;

/// Of the turns above the limit, the part that a client may have.
const TURNS: usize = 4;

/// All connections of a listener.
pub(super) struct Crowd {
    most: usize,
    began: Instant,
    open: Vec<Weak<Presence>>,
    /// Those that are to be closed first, the very first one last, and since when they are idle.
    idle: Vec<(u64, Weak<Presence>)>,
    /// For how many connections no look follows.
    rests: usize,
    /// The connections of a client; `None`: as many as it likes.
    most_of_client: Option<usize>,
    clients: Clients,
    /// The turns of a client above the limit.
    most_turns: usize,
    turns: Clients,
    unfinished: Arc<Unfinished>,
}

/// How many of something each client has.
#[derive(Default)]
struct Clients(HashMap<Client, Weak<OfClient>>);

/// One of what a client has, until this is dropped.
#[derive(Debug)]
pub(super) struct OfClient;

/// A client has as many as it may have.
#[derive(Debug)]
pub(super) struct TooMany;

impl Crowd {
    pub(super) fn new(room: Room, most_of_client: Option<usize>, unfinished: Arc<Unfinished>) -> Self {
        let (most, most_turns, began) = (room.most, (room.refused / TURNS).max(1), Instant::now());
        let (open, idle, rests, clients, turns) = Default::default();
        Self { most, began, open, idle, rests, most_of_client, clients, most_turns, turns, unfinished }
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

    /// One more connection of a client. `None`: its connections are not counted.
    pub(super) fn of_client(&mut self, client: Client) -> Result<Option<Arc<OfClient>>, TooMany> {
        let Some(most) = self.most_of_client else { return Ok(None) };
        self.clients.tidy(2 * self.most);
        self.clients.one_more(client, most).map(Some)
    }

    /// One more turn of a client: for a connection above the limit, which waits for another one to
    /// end, or is told that there are too many.
    pub(super) fn turn_of(&mut self, client: Client) -> Result<Arc<OfClient>, TooMany> {
        self.turns.tidy(2 * self.most);
        self.turns.one_more(client, self.most_turns)
    }

    pub(super) fn has_turn(&self, client: Client) -> bool {
        self.turns.has(client) > 0
    }

    /// Closes the connection that is idle longest, of those that are not closed yet. `None`: none
    /// is idle; or only such as were answered just now, and those are to stay.
    pub(super) fn close_idle_longest(&mut self, also_at_work: bool) -> Option<Arc<Presence>> {
        let (since, one) = self.idle_longest()?;
        if one.is_at_work() && !also_at_work {
            self.idle.push((since, Arc::downgrade(&one)));
            return None;
        }
        one.close();
        Some(one)
    }

    fn idle_longest(&mut self) -> Option<(u64, Arc<Presence>)> {
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
    fn next_known(&mut self) -> Option<(u64, Arc<Presence>)> {
        while let Some((since, one)) = self.idle.pop() {
            if let Some(one) = one.upgrade()
                && one.idle_since() == Some(since)
                && !one.is_closing()
            {
                return Some((since, one));
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

impl Clients {
    fn has(&self, client: Client) -> usize {
        self.0.get(&client).map_or(0, Weak::strong_count)
    }

    /// One more for a client that has fewer than `most`.
    fn one_more(&mut self, client: Client, most: usize) -> Result<Arc<OfClient>, TooMany> {
        let all = self.0.entry(client).or_default();
        if all.strong_count() >= most {
            return Err(TooMany);
        }
        let one = all.upgrade().unwrap_or_else(|| Arc::new(OfClient));
        *all = Arc::downgrade(&one);
        Ok(one)
    }

    /// Forgets the clients that have none, if there are more than so many.
    fn tidy(&mut self, most: usize) {
        if self.0.len() > most {
            self.0.retain(|_, all| is_open(all));
        }
    }
}

fn is_open<T>(one: &Weak<T>) -> bool {
    one.strong_count() > 0
}

#[cfg(test)]
mod tests {
    use super::super::presence::{AT_WORK, Engaged};
    use super::*;

    fn of(most: usize, most_of_client: Option<usize>) -> (CancellationToken, Crowd) {
        let room = Room { most, refused: 8 };
        (CancellationToken::new(), Crowd::new(room, most_of_client, Arc::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_idle_longest_is_found_first() {
        let (ends, mut crowd) = of(100, None);
        let all: Vec<_> = (0..100).map(|_| crowd.join(&ends)).collect();
        let at = |one: &Arc<Presence>| all.iter().position(|other| Arc::ptr_eq(one, other)).unwrap();
        let busy = all[0].engage();
        all[1].has_part(true);
        drop(all[3].engage());
        tokio::time::advance(AT_WORK / 2).await;
        drop(all[2].engage());
        let found: Vec<_> =
            std::iter::from_fn(|| crowd.close_idle_longest(true)).map(|one| at(&one)).collect();
        // Those that were answered are idle later.
        assert_eq!(found, (4..100).chain([3, 2]).collect::<Vec<_>>());
        drop(busy);
        crowd.rests = 0;
        let found = crowd.close_idle_longest(true).map(|one| at(&one));
        assert_eq!(found, Some(0), "it is idle now");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_at_work_outlives_any_burst_of_silent_ones() {
        let (ends, mut crowd) = of(64, None);
        let mut all: Vec<_> = (0..64).map(|_| crowd.join(&ends)).collect();
        let at_work = all.remove(40);
        for round in 0..20 {
            drop(at_work.engage());
            tokio::time::advance(AT_WORK / 4).await;
            let mut waiting = Vec::new();
            for _ in 0..200 {
                let Some(found) = crowd.close_idle_longest(false) else { continue };
                assert!(!Arc::ptr_eq(&found, &at_work));
                let new = crowd.join(&ends);
                // One that waits is not closed.
                waiting.extend((round % 2 == 0).then(|| new.engage()));
                all.push(new);
            }
            waiting.into_iter().for_each(Engaged::end_unanswered);
            all.retain(|one| !one.is_closing());
        }
        // It is idle as others are once it has nothing to do.
        tokio::time::advance(AT_WORK * 2).await;
        crowd.rests = 0;
        let mut found = std::iter::from_fn(|| crowd.close_idle_longest(false));
        assert!(found.any(|one| Arc::ptr_eq(&one, &at_work)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_beside_clients_at_work_keeps_nobody_else_out() {
        let (ends, mut crowd) = of(64, None);
        let all: Vec<_> = (0..64).map(|_| crowd.join(&ends)).collect();
        all.iter().for_each(|one| drop(one.engage()));
        (0..100).for_each(|_| assert!(crowd.close_idle_longest(false).is_none()));
        assert!(Arc::ptr_eq(&crowd.close_idle_longest(true).unwrap(), &all[0]));
    }

    #[test]
    fn a_client_has_a_part_of_the_turns() {
        let (_, mut crowd) = of(4, None);
        let [ada, bob] = [1, 2].map(Client::numbered);
        assert!(!crowd.has_turn(ada));
        let [one, _other] = [(); 2].map(|()| crowd.turn_of(ada).unwrap());
        assert!(crowd.has_turn(ada) && crowd.turn_of(ada).is_err() && crowd.turn_of(bob).is_ok());
        drop(one);
        assert!(crowd.turn_of(ada).is_ok());
        // Of few there is one.
        let mut crowd = Crowd::new(Room { most: 4, refused: 1 }, None, Arc::default());
        let _one = crowd.turn_of(ada).unwrap();
        assert!(crowd.turn_of(ada).is_err() && crowd.turn_of(bob).is_ok());
    }

    #[test]
    fn what_does_something_again_is_not_found() {
        let (ends, mut crowd) = of(32, None);
        let all: Vec<_> = (0..32).map(|_| crowd.join(&ends)).collect();
        // Four are found.
        assert!(Arc::ptr_eq(&crowd.idle_longest().unwrap().1, &all[0]));
        let _busy = all[1].engage();
        drop(all[2].engage());
        assert!(Arc::ptr_eq(&crowd.idle_longest().unwrap().1, &all[3]));
    }

    #[test]
    fn a_connection_that_has_ended_leaves_nothing() {
        let (ends, mut crowd) = of(8, Some(1));
        for number in 0..1_000 {
            let client = Client::numbered(number);
            let _one = (crowd.join(&ends), crowd.of_client(client).unwrap(), crowd.turn_of(client).unwrap());
            assert!(crowd.of_client(client).is_err());
        }
        assert!(crowd.open.len() < 20 && crowd.clients.0.len() < 20 && crowd.turns.0.len() < 20);
        assert!(crowd.close_idle_longest(true).is_none());
    }
}
