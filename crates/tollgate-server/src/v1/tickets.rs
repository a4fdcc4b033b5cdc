//! What callers may still give back, by ids that cannot be guessed.
//!
//! An id has 122 random bits. A ticket is taken out of its table under the mutex of one of the
//! table's parts: of two calls that settle the same ticket, one finds it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_rustls::rustls::crypto::SecureRandom;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tollgate::Timestamp;
use tollgate_rules::Ticket;

use crate::clock::ServerClock;

/// How long what a request was charged can be given back.
pub(super) const TICKET_LIFE: Duration = Duration::from_secs(60);

/// How many parts a table has, each with a mutex of its own.
const PARTS: usize = 64;

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
}

#[derive(Default)]
struct Part {
    tickets: HashMap<TicketId, (Timestamp, Ticket<ServerClock>)>,
    /// The same tickets, by their ends.
    ends: BTreeSet<(Timestamp, TicketId)>,
}

impl Tickets {
    /// A table of at most `most` tickets. Whether one that finds no room displaces the ticket that
    /// would end first, or is refused.
    pub(super) fn new(most: usize, displaces: bool) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { parts, most: most.div_ceil(PARTS), displaces, next: AtomicUsize::new(0) }
    }

    /// Keeps a ticket until `end`. It comes back if there is no room.
    pub(super) fn keep(
        &self,
        ticket: Ticket<ServerClock>,
        now: Timestamp,
        end: Timestamp,
    ) -> Result<TicketId, Ticket<ServerClock>> {
        let number = self.next.fetch_add(1, Relaxed) % PARTS;
        let Some(id) = TicketId::random(number) else { return Err(ticket) };
        let mut lost = Vec::new();
        let mut part = self.part(number);
        while let Some(&(end, first)) = part.ends.first()
            && (end <= now || (self.displaces && part.tickets.len() >= self.most))
        {
            lost.extend(part.take(first, end));
        }
        if part.tickets.len() >= self.most {
            return Err(ticket);
        }
        part.ends.insert((end, id));
        part.tickets.insert(id, (end, ticket));
        drop(part);
        // A lost ticket stays charged, and its places in flight are given back.
        drop(lost);
        Ok(id)
    }

    /// Takes a ticket out. `None`: it was taken, has ended, was lost, or never was.
    pub(super) fn take(&self, id: TicketId, now: Timestamp) -> Option<Ticket<ServerClock>> {
        let mut part = self.part(id.part());
        let &(end, _) = part.tickets.get(&id)?;
        let ticket = part.take(id, end)?;
        drop(part);
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
                ended.extend(part.take(first, end));
            }
            if part.tickets.is_empty() {
                *part = Part::default();
            }
            drop(part);
            drop(ended);
        }
    }

    fn part(&self, number: usize) -> MutexGuard<'_, Part> {
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    fn take(&mut self, id: TicketId, end: Timestamp) -> Option<Ticket<ServerClock>> {
        self.ends.remove(&(end, id));
        self.tickets.remove(&id).map(|(_, ticket)| ticket)
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
    use tollgate_rules::{LiveRules, Memory, read};

    use super::super::service::Service;
    use super::*;
    use crate::core::Core;
    use crate::settings::Settings;

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
        let answer = service.post_waiting(path, body.as_bytes()).await;
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
        service.tickets = Tickets::new(PARTS, true);
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

    #[tokio::test]
    async fn an_acquisition_without_room_charges_and_holds_nothing() {
        let limits = format!("['fixed-window:1000/d', 'in-flight:{}']", PARTS + 1);
        let mut service = service(&ManualClock::new(), &limits);
        service.places = Tickets::new(PARTS, false);
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
