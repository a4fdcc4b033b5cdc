//! What callers may still give back, by ids that cannot be guessed.
//!
//! An id has 122 random bits. A ticket is taken out of its table under the mutex of one of the
//! table's parts: of two calls that settle the same ticket, one finds it.
//!
//! A client [may have](may_have_more) eight ninths of a part alone, and the next one finds room.
//! Tickets go to the parts in turn, so what holds for a part holds for the table.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_rustls::rustls::crypto::SecureRandom;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tollgate::Timestamp;
use tollgate_net::listen::{Client, may_have_more};
use tollgate_rules::Ticket;

use crate::clock::ServerClock;
use crate::metrics::TicketCounts;

/// How long what a request was charged can be given back.
pub(super) const TICKET_LIFE: Duration = Duration::from_secs(60);

/// How many parts a table has, each with a mutex of its own.
const PARTS: usize = 64;

/// The bytes of a ticket, with its places in the tables: that of one rule with one limit takes 400,
/// each more 100 to 350.
const BYTES: usize = 512;

static RANDOM: LazyLock<&'static dyn SecureRandom> = LazyLock::new(|| default_provider().secure_random);

/// The name of a ticket, which its owner alone knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TicketId(u128);

/// Tickets of which each is taken at most once.
pub(super) struct Tickets {
    parts: Box<[Mutex<Part>]>,
    /// The most tickets of a part.
    most: usize,
    displaces: bool,
    next: AtomicUsize,
    counts: Arc<TicketCounts>,
}

#[derive(Default)]
struct Part {
    tickets: HashMap<TicketId, Kept>,
    /// The same tickets, by their ends.
    ends: Ends,
    /// The same, of each client.
    clients: HashMap<Client, Ends>,
}

struct Kept {
    end: Timestamp,
    client: Client,
    ticket: Ticket<ServerClock>,
}

type Ends = BTreeSet<(Timestamp, TicketId)>;

/// How many tickets of each kind are kept, if the operator does not say: as many as take a
/// sixteenth of the memory for the rules.
pub(super) fn usual(memory_budget: usize) -> usize {
    memory_budget / 16 / BYTES
}

impl Tickets {
    /// A table of about `most` tickets. Whether one that finds no room displaces the ticket of its
    /// client that would end first, or is refused.
    pub(super) fn new(most: usize, displaces: bool, counts: Arc<TicketCounts>) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        let most = most.max(1).div_ceil(PARTS);
        counts.most.store((most * PARTS) as u64, Relaxed);
        Self { parts, most, displaces, next: AtomicUsize::new(0), counts }
    }

    /// Keeps a client's ticket until `end`. It comes back if there is no room.
    #[expect(clippy::result_large_err, reason = "it is rare, and the ticket is of the caller")]
    pub(super) fn keep(
        &self,
        client: Client,
        ticket: Ticket<ServerClock>,
        now: Timestamp,
        end: Timestamp,
    ) -> Result<TicketId, Ticket<ServerClock>> {
        let number = self.next.fetch_add(1, Relaxed) % PARTS;
        let Some(id) = TicketId::random(number) else { return Err(ticket) };
        let mut lost = Vec::new();
        let mut part = self.part(number);
        while let Some(&(end, first)) = part.ends.first()
            && end <= now
        {
            lost.extend(part.take(first));
        }
        if !part.has_room(client, self.most) {
            if !self.displaces {
                self.counts.refused.fetch_add(1, Relaxed);
                self.gone(lost.len());
                return Err(ticket);
            }
            let first = part.first_of(client);
            lost.extend(first.and_then(|first| part.take(first)));
            self.counts.lost.fetch_add(1, Relaxed);
        }
        // Before another call can take it.
        self.counts.kept.fetch_add(1, Relaxed);
        part.insert(id, Kept { end, client, ticket });
        drop(part);
        self.gone(lost.len());
        // A lost ticket stays charged, and its places in flight are given back.
        drop(lost);
        Ok(id)
    }

    /// Takes a ticket out. `None`: it was taken, has ended, was lost, or never was.
    pub(super) fn take(&self, id: TicketId, now: Timestamp) -> Option<Ticket<ServerClock>> {
        let Kept { end, ticket, .. } = self.part(id.part()).take(id)?;
        self.gone(1);
        (now < end).then_some(ticket)
    }

    /// Lets go of the tickets that have ended. They stay charged, and their places in flight are
    /// given back.
    pub(super) fn forget_ended(&self, now: Timestamp) {
        for number in 0..PARTS {
            let mut part = self.part(number);
            let mut ended = Vec::new();
            while let Some(&(end, first)) = part.ends.first()
                && end <= now
            {
                ended.extend(part.take(first));
            }
            if part.tickets.is_empty() {
                *part = Part::default();
            }
            drop(part);
            self.gone(ended.len());
            drop(ended);
        }
    }

    /// Counts tickets that are kept no longer.
    fn gone(&self, tickets: usize) {
        self.counts.kept.fetch_sub(tickets as u64, Relaxed);
    }

    fn part(&self, number: usize) -> MutexGuard<'_, Part> {
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// Whether a client may have another ticket, where there may be `most`.
    fn has_room(&self, client: Client, most: usize) -> bool {
        let has = self.clients.get(&client).map_or(0, BTreeSet::len);
        may_have_more(has, most.saturating_sub(self.tickets.len()))
    }

    /// The client's ticket that would end first. If it has none, that of any client.
    fn first_of(&self, client: Client) -> Option<TicketId> {
        self.clients.get(&client).unwrap_or(&self.ends).first().map(|&(_, id)| id)
    }

    fn insert(&mut self, id: TicketId, kept: Kept) {
        self.ends.insert((kept.end, id));
        self.clients.entry(kept.client).or_default().insert((kept.end, id));
        self.tickets.insert(id, kept);
    }

    fn take(&mut self, id: TicketId) -> Option<Kept> {
        let kept = self.tickets.remove(&id)?;
        self.ends.remove(&(kept.end, id));
        if let Some(ends) = self.clients.get_mut(&kept.client) {
            ends.remove(&(kept.end, id));
            if ends.is_empty() {
                self.clients.remove(&kept.client);
            }
        }
        Some(kept)
    }
}

impl TicketId {
    /// An id of this part. `None` if the system has no random numbers.
    fn random(part: usize) -> Option<Self> {
        let mut bytes = [0; 16];
        RANDOM.fill(&mut bytes).ok()?;
        let random = u128::from_be_bytes(bytes);
        Some(Self(random - random % PARTS as u128 + part as u128))
    }

    fn part(self) -> usize {
        (self.0 % PARTS as u128) as usize
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for TicketId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // A number may have a sign.
        if text.len() != 32 || text.starts_with('+') {
            return Err(());
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;
    use tollgate::ManualClock;
    use tollgate_rules::LiveRules;
    use tollgate_rules_file::{Memory, read};

    use super::super::service::Service;
    use super::*;
    use crate::core::Core;
    use crate::settings::Settings;
    use tollgate_net::listen::Peer;

    /// A service whose every part has one ticket at most.
    fn service(clock: &ManualClock, limits: &str) -> Service {
        let text = format!("version = 1\nrule = [{{ name = 'all', key = 'everyone', limits = {limits} }}]");
        let rules = read("rules.toml", &Memory::new("rules.toml", &*text)).into_rules().unwrap();
        let shown: ServerClock = Arc::new(clock.clone());
        let live = LiveRules::new(rules, [0; 32], Arc::clone(&shown)).unwrap();
        let core = Arc::new(Core::new(live, shown, 16, false).unwrap());
        Service::new(core, &Settings::new("rules.toml"))
    }

    /// The status of an answer, and what it says.
    async fn asks(service: &Service, path: &str, body: &str) -> (u16, Value) {
        asks_as(Peer::Unix, service, path, body).await
    }

    async fn asks_as(peer: Peer, service: &Service, path: &str, body: &str) -> (u16, Value) {
        let answer = service.post_as(peer, path, body.as_bytes()).await;
        let status = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn left(service: &Service) -> Value {
        asks(service, "/v1/peek", "{\"cost\":0}").await.1["remaining"].clone()
    }

    #[tokio::test]
    async fn displaced_tickets_stay_charged() {
        let clock = ManualClock::new();
        let mut service = service(&clock, "'fixed-window:1000/d'");
        service.tickets = Tickets::new(PARTS, true, Arc::default());
        let mut tickets = Vec::new();
        for _ in 0..2 * PARTS {
            clock.advance(Duration::from_millis(1));
            let (status, said) = asks(&service, "/v1/check", "{\"ticket\":true}").await;
            assert_eq!(status, 200);
            tickets.push(said["ticket"].as_str().unwrap().to_owned());
        }
        for (number, ticket) in tickets.iter().enumerate() {
            let body = format!("{{\"ticket\":\"{ticket}\",\"cancel\":true}}");
            // The oldest are lost.
            let expected = if number < PARTS { 404 } else { 200 };
            assert_eq!(asks(&service, "/v1/settle", &body).await.0, expected, "{number}");
        }
        assert_eq!(left(&service).await, 1000 - PARTS);
    }

    /// One client asks for as many as it can, another has a few from before and asks for more.
    #[tokio::test]
    async fn one_client_leaves_tickets_to_others() {
        let limits = "['fixed-window:100000/d', 'in-flight:100000']";
        let peer = |last: u8| Peer::Tcp(([192, 0, 2, last], 80).into());
        let (clock, [one, other]) = (ManualClock::new(), [peer(1), peer(2)]);
        let mut service = service(&clock, limits);
        service.tickets = Tickets::new(16 * PARTS, true, Arc::default());
        service.places = Tickets::new(16 * PARTS, false, Arc::default());
        let (check, acquire) = ("/v1/check", "/v1/acquire");
        for (path, end) in [(check, "/v1/settle"), (acquire, "/v1/release")] {
            let ask = async |peer| asks_as(peer, &service, path, "{\"ticket\":true}").await;
            let mut others = Vec::new();
            let mut admitted = 0;
            for number in 0..42 * PARTS {
                clock.advance(Duration::from_micros(1));
                if !(PARTS..41 * PARTS).contains(&number) {
                    let (status, said) = ask(other).await;
                    assert_eq!(status, 200, "{path}: {said}");
                    others.push(said["ticket"].as_str().unwrap().to_owned());
                } else {
                    admitted += usize::from(ask(one).await.0 == 200);
                }
            }
            // Its own oldest are lost, or it is refused.
            assert_eq!(admitted, if path == check { 40 * PARTS } else { 14 * PARTS }, "{path}");
            for ticket in others {
                let body = format!("{{\"ticket\":\"{ticket}\",\"cancel\":true}}");
                assert_eq!(asks(&service, end, &body).await.0, 200, "{path}");
            }
        }
        let counts = [&service.tickets, &service.places].map(|of| {
            let counts = [&of.counts.most, &of.counts.kept, &of.counts.lost, &of.counts.refused];
            counts.map(|count| count.load(Relaxed) as usize / PARTS)
        });
        assert_eq!(counts, [[16, 14, 26, 0], [16, 14, 0, 26]]);
    }

    #[tokio::test]
    async fn tickets_fit_the_memory_for_the_rules() {
        let mut service = service(&ManualClock::new(), "'9/s'");
        // 1 GiB, unless the file says another.
        assert_eq!([&service.tickets, &service.places].map(|of| of.most * PARTS), [1 << 17; 2]);
        let mut settings = Settings::new("rules.toml");
        settings.max_tickets = std::num::NonZeroUsize::new(100 * PARTS);
        service = Service::new(Arc::clone(&service.core), &settings);
        assert_eq!([&service.tickets, &service.places].map(|of| of.most), [100; 2]);
    }

    #[tokio::test]
    async fn an_acquisition_without_room_charges_and_holds_nothing() {
        let limits = format!("['fixed-window:1000/d', 'in-flight:{}']", PARTS + 1);
        let mut service = service(&ManualClock::new(), &limits);
        service.places = Tickets::new(PARTS, false, Arc::default());
        let mut tickets = Vec::new();
        for _ in 0..PARTS {
            let (status, said) = asks(&service, "/v1/acquire", "{}").await;
            assert_eq!(status, 200, "{said}");
            tickets.push(said["ticket"].as_str().unwrap().to_owned());
        }
        for _ in 0..3 {
            // One more may be in flight: it has no ticket, and did not take that place.
            assert_eq!(asks(&service, "/v1/acquire", "{}").await.0, 503);
            assert_eq!(asks(&service, "/v1/acquire", "{\"requests\":[{},{}]}").await.0, 200);
        }
        assert_eq!(left(&service).await, 1000 - PARTS);
        for ticket in tickets {
            let body = format!("{{\"ticket\":\"{ticket}\"}}");
            assert_eq!(asks(&service, "/v1/release", &body).await.0, 200);
        }
        for _ in 0..PARTS {
            assert_eq!(asks(&service, "/v1/acquire", "{}").await.0, 200);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tickets_that_have_ended_are_let_go() {
        let clock = ManualClock::new();
        let service = Arc::new(service(&clock, "'999/s'"));
        (0..200).for_each(|_| _ = service.post("/v1/check", b"{\"ticket\":true}"));
        let kept =
            || service.tickets.parts.iter().map(|part| part.lock().unwrap().tickets.len()).sum::<usize>();
        tokio::spawn(Arc::clone(&service).forget_ended_tickets());
        tokio::time::sleep(TICKET_LIFE).await;
        assert_eq!(kept(), 200);
        clock.advance(TICKET_LIFE);
        tokio::time::sleep(TICKET_LIFE + Duration::from_secs(1)).await;
        assert_eq!(kept(), 0);
    }
}
