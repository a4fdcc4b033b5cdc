//! Requests that are kept in Redis, by all processes that share it.
//!
//! ```text
//!   keep ----> stream of the queue --- first ---> pending: one process has it for itself
//!                  ^     ^                           |      |       \
//!                  |     '------ finish: later ------'      |        '- finish: ended
//!                  |                                     finish: dead
//!                  '---------- sent again ------------ dead <'
//! ```
//!
//! Each queue is a stream of its own with a consumer group. A process that sends the first request
//! of a queue has it *pending* in the group, and no other request of the queue is handed out then:
//! so a queue is in order, however many processes drain it. One stream for all queues would hand
//! the second request of a key to another process while the first is on its way.
//!
//! A pending request that was idle for [`LEASE`] is handed out again: its process has died, or
//! stands still. A process that lives renews it, and stops sending in time if it cannot.
//!
//! The index of queues that are due says only where to look: an entry of it that is too early costs
//! a look, and each script that leaves a request in a queue leaves the queue in the index.

mod durability;
mod finish;
mod scripts;
mod store;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tollgate_redis::rules::connect;
use tollgate_redis::{Charged, Data, Failed, Redis, Script};
use tollgate_rules::{Park as Bounds, StoreServer};

use super::index::{Counts, ENDED};
use super::{Entry, Filter, First, Id, Kept, NotKept, ParkError, QueueName, Unchanged};
use super::{now, queue_name};
use durability::Durability;
use scripts::{Names, SCRIPTS};

/// How long a process has a request for itself after it has said so.
const LEASE: Duration = Duration::from_secs(10);

/// The longest time that a command waits for its answer. A request may bring a large body, and is
/// not in a hurry.
const DEADLINE: Duration = Duration::from_secs(2);

/// The pause between two looks at the queues that are due.
const LOOK: Duration = Duration::from_millis(100);

/// How many queues one look finds.
const FOUND: usize = 256;

/// The pause between two looks at the counts, and after a failure.
const SECOND: Duration = Duration::from_secs(1);

/// How many entries of a list one script reads.
const PAGE: usize = 500;

/// The requests of one server.
pub(crate) struct RedisPark(Arc<Inner>);

struct Inner {
    /// The address without the password.
    name: String,
    redis: Redis,
    names: Names,
    /// How long a decision waits for the server.
    deadline: Duration,
    /// The name of this process in the groups.
    consumer: String,
    durability: Durability,
    state: Mutex<State>,
    /// Wakes the task that looks for queues that are due.
    added: Notify,
    ends: CancellationToken,
}

#[derive(Default)]
struct State {
    /// The queues that tasks of this process drain, or are told to.
    drained: HashSet<QueueName>,
    /// What the server keeps, as it was known last, and the events of this process.
    counts: BTreeMap<Box<str>, Counts>,
    has_begun: bool,
}

/// What the server says of a request: its place, and its entry.
struct Stored {
    raw: Vec<u8>,
    /// As the server writes it: `-` of one that has ended.
    place: String,
    entry: Entry,
}

impl Stored {
    fn read(raw: Vec<u8>) -> Result<Self, ParkError> {
        let end = raw.iter().position(|byte| *byte == b' ').ok_or(ParkError::Unreadable)?;
        let place = String::from_utf8(raw[..end].into()).map_err(|_| ParkError::Unreadable)?;
        let entry = serde_json::from_slice(&raw[end + 1..]).map_err(|_| ParkError::Unreadable)?;
        Ok(Self { raw, place, entry })
    }
}

/// An id of a stream as a number.
fn place(text: &[u8]) -> Option<u128> {
    let (millis, number) = std::str::from_utf8(text).ok()?.split_once('-')?;
    Some(u128::from(millis.parse::<u64>().ok()?) << 64 | u128::from(number.parse::<u64>().ok()?))
}

fn place_text(place: u128) -> String {
    format!("{}-{}", place >> 64, place & u128::from(u64::MAX))
}

fn fault(failed: &Failed) -> ParkError {
    ParkError::Store(failed.to_string())
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

impl RedisPark {
    /// Begins to connect. Needs a Tokio runtime.
    pub(super) fn open(server: &StoreServer) -> Result<Self, ParkError> {
        // A connection of its own: a large body would keep decisions waiting behind it.
        let redis = connect(server, server.deadline.max(DEADLINE))
            .map_err(|error| ParkError::Store(error.to_string()))?;
        let consumer = Id::random()?.to_string();
        let (name, names) = (server.to_string(), Names::new(redis.prefix()));
        Ok(Self(Arc::new(Inner {
            durability: Durability::new(name.clone()),
            name,
            redis,
            names,
            deadline: server.deadline,
            consumer,
            state: Mutex::default(),
            added: Notify::new(),
            ends: CancellationToken::new(),
        })))
    }

    /// Sends no more requests: another connection does.
    pub(super) fn retire(&self) {
        self.0.ends.cancel();
    }

    /// Whether requests of this rule and key wait. `None`: the server does not say so within the
    /// deadline of its rules.
    pub(crate) async fn has_waiting(&self, rule: &str, key: &[u8]) -> Option<bool> {
        let stream = self.0.names.stream(&queue_name(rule, key));
        let waiting = timeout(self.0.deadline, self.0.run(&SCRIPTS.waiting, &[&stream], &[])).await;
        Some(waiting.ok()?.ok()? != Data::Number(0))
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, rule: &str, event: &str) {
        self.state().counts.entry(rule.into()).or_default().tell(event);
    }

    /// Counts what has become of a request.
    fn tell_of(&self, entry: &Entry) {
        if let Some(event) = entry.state.event() {
            self.tell(&entry.rule, event);
        }
    }

    async fn run(&self, script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) -> Result<Data, Failed> {
        self.redis.run(script, keys, arguments).await
    }

    async fn add(self: Arc<Self>, entry: Entry, bounds: Bounds, request: Vec<u8>) -> Result<usize, NotKept> {
        self.durability.holds(&self.redis).await.map_err(NotKept::Store)?;
        let queue = queue_name(&entry.rule, &entry.key);
        let (stream, id) = (self.names.stream(&queue), entry.id.to_string());
        let (json, bytes) = (json(&entry), entry.bytes.to_string());
        let most =
            [bounds.requests as u64, bounds.requests_per_key as u64, bounds.bytes, bounds.bytes_per_key];
        let [most, most_of_key, most_bytes, most_bytes_of_key] = most.map(|most| most.to_string());
        let arguments: [&[u8]; 10] = [
            entry.rule.as_bytes(),
            &queue,
            id.as_bytes(),
            &json,
            &request,
            bytes.as_bytes(),
            most.as_bytes(),
            most_of_key.as_bytes(),
            most_bytes.as_bytes(),
            most_bytes_of_key.as_bytes(),
        ];
        match self.run(&SCRIPTS.add, &self.names.of_request(&stream), &arguments).await {
            Ok(Data::Number(0)) => {
                self.tell(&entry.rule, "full");
                Err(NotKept::Full)
            }
            Ok(Data::Number(waiting)) => {
                self.tell(&entry.rule, "parked");
                self.added.notify_one();
                Ok(usize::try_from(waiting).unwrap_or(1))
            }
            Ok(_) => Err(NotKept::Store(ParkError::Unreadable)),
            Err(failed) => {
                if failed.charged == Charged::Perhaps {
                    tokio::spawn(self.take_out(entry.id));
                }
                Err(NotKept::Store(fault(&failed)))
            }
        }
    }

    /// Takes out a request that the server may have kept, although its client was told that it is
    /// refused.
    async fn take_out(self: Arc<Self>, id: Id) {
        loop {
            tokio::select! {
                () = self.ends.cancelled() => return,
                () = sleep(SECOND) => {}
            }
            match self.change_entry(id, Entry::cancel).await {
                Err(Unchanged::Store(_)) => {}
                // Unknown: it was not kept. Unfit: it is on its way.
                Ok(_) | Err(Unchanged::Unknown | Unchanged::Unfit) => return,
            }
        }
    }

    async fn take_first(&self, queue: &QueueName) -> Result<Option<First>, ParkError> {
        if self.ends.is_cancelled() {
            return Ok(None);
        }
        let (since, stream, lease) = (Instant::now(), self.names.stream(queue), millis(LEASE));
        let keys: [&[u8]; 3] = [&stream, &self.names.entries, &self.names.due];
        let arguments: [&[u8]; 3] = [self.consumer.as_bytes(), lease.as_bytes(), queue];
        let taken = self.run(&SCRIPTS.first, &keys, &arguments).await.map_err(|failed| fault(&failed))?;
        let Data::List(parts) = taken else {
            self.state().drained.remove(queue);
            return Ok(None);
        };
        let Ok([Data::Bytes(at), Data::Bytes(stored), Data::Bytes(request)]) = <[_; 3]>::try_from(parts)
        else {
            return Err(ParkError::Unreadable);
        };
        let kept = Kept::from_bytes(&request).ok_or(ParkError::Unreadable);
        let (place, entry) = (place(&at).ok_or(ParkError::Unreadable)?, Stored::read(stored)?.entry);
        Ok(Some(First { place, entry, kept, since }))
    }

    /// Renews the right to a request until that is lost.
    async fn renew(&self, first: &First) {
        let queue = queue_name(&first.entry.rule, &first.entry.key);
        let (stream, place, lease) = (self.names.stream(&queue), place_text(first.place), millis(LEASE));
        let keys: [&[u8]; 2] = [&stream, &self.names.due];
        let arguments: [&[u8]; 4] = [self.consumer.as_bytes(), lease.as_bytes(), &queue, place.as_bytes()];
        // The server counts from when it executes a command, which is later than this.
        let mut until = first.since + LEASE;
        let mut next = first.since + LEASE / 3;
        while Instant::now() < until {
            sleep_until(next).await;
            let asked = Instant::now();
            match timeout_at(until, self.run(&SCRIPTS.renew, &keys, &arguments)).await {
                Ok(Ok(Data::Number(1))) => until = asked + LEASE,
                Ok(Err(_)) => {}
                // It has another owner, or it is too late.
                Ok(Ok(_)) | Err(_) => return,
            }
            next = (asked + LEASE / 3).min(until);
        }
    }

    /// Gives a request another entry. `by` is its only sender; `None`: it must be at rest. Returns
    /// whether it was so.
    async fn put(
        &self,
        stored: &Stored,
        entry: &Entry,
        by: Option<&str>,
        pause: Duration,
    ) -> Result<bool, Failed> {
        let queue = queue_name(&entry.rule, &entry.key);
        let (stream, id, json) = (self.names.stream(&queue), entry.id.to_string(), json(entry));
        let (lease, pause, bytes, most) =
            (millis(LEASE), millis(pause), entry.bytes.to_string(), ENDED.to_string());
        let table = |entry: &Entry| if entry.state.is_held() { entry.state.name() } else { "ended" };
        let arguments: [&[u8]; 13] = [
            by.unwrap_or_default().as_bytes(),
            lease.as_bytes(),
            &queue,
            entry.rule.as_bytes(),
            id.as_bytes(),
            table(&stored.entry).as_bytes(),
            table(entry).as_bytes(),
            stored.place.as_bytes(),
            &stored.raw,
            &json,
            bytes.as_bytes(),
            pause.as_bytes(),
            most.as_bytes(),
        ];
        let keys = self.names.of_request(&stream);
        let is_put = self.run(&SCRIPTS.change, &keys, &arguments).await? == Data::Number(1);
        if is_put {
            self.tell_of(entry);
        }
        Ok(is_put)
    }

    async fn stored(&self, id: Id) -> Result<Option<Stored>, ParkError> {
        let id = id.to_string();
        match self.run(&SCRIPTS.entry, &[&self.names.entries], &[id.as_bytes()]).await {
            Ok(Data::Nil) => Ok(None),
            Ok(Data::Bytes(raw)) => Stored::read(raw).map(Some),
            Ok(_) => Err(ParkError::Unreadable),
            Err(failed) => Err(fault(&failed)),
        }
    }

    async fn change_entry(
        &self,
        id: Id,
        change: fn(&mut Entry, now: u64) -> bool,
    ) -> Result<Entry, Unchanged> {
        let stored = self.stored(id).await.map_err(Unchanged::Store)?.ok_or(Unchanged::Unknown)?;
        let mut entry = stored.entry.clone();
        if !change(&mut entry, now()) {
            return Err(Unchanged::Unfit);
        }
        match self.put(&stored, &entry, None, Duration::ZERO).await {
            Ok(true) => {
                self.added.notify_one();
                Ok(entry)
            }
            Ok(false) => Err(Unchanged::Unfit),
            Err(failed) => Err(Unchanged::Store(fault(&failed))),
        }
    }

    async fn page(&self, filter: &Filter) -> Result<Vec<(u64, Entry)>, ParkError> {
        let (mut page, mut after) = (Vec::new(), filter.after);
        let (keys, most): ([&[u8]; 2], _) = ([&self.names.order, &self.names.entries], PAGE.to_string());
        while page.len() < filter.most {
            let from = after.to_string();
            let found = self.run(&SCRIPTS.list, &keys, &[from.as_bytes(), most.as_bytes()]).await;
            let Data::List(found) = found.map_err(|failed| fault(&failed))? else {
                return Err(ParkError::Unreadable);
            };
            let is_last = found.len() < 2 * PAGE;
            for pair in found.chunks_exact(2) {
                let number = if let Data::Bytes(text) = &pair[1] { number(text) } else { None };
                let number = number.ok_or(ParkError::Unreadable)?;
                after = number + 1;
                // One that was forgotten meanwhile has none.
                let Data::Bytes(raw) = &pair[0] else { continue };
                let entry = Stored::read(raw.clone())?.entry;
                if filter.fits(&entry) && page.len() < filter.most {
                    page.push((number, entry));
                }
            }
            if is_last {
                break;
            }
        }
        Ok(page)
    }

    /// Looks for queues that are due, until the server ends.
    async fn look(self: Arc<Self>, sender: UnboundedSender<QueueName>) {
        let (mut counted, mut pause) = (None, Duration::ZERO);
        loop {
            tokio::select! {
                () = self.ends.cancelled() => return,
                () = sender.closed() => return,
                () = sleep(pause) => {}
                () = self.added.notified() => {}
            }
            pause = match self.find_due(&sender).await {
                Ok(is_all) => {
                    if is_all {
                        LOOK
                    } else {
                        Duration::ZERO
                    }
                }
                Err(failed) => {
                    tracing::debug!(%failed, store = self.name, "parked requests are not looked for");
                    SECOND
                }
            };
            if counted.is_none_or(|at: Instant| at.elapsed() >= SECOND) {
                counted = Some(Instant::now());
                if let Ok(Data::List(counts)) = self.run(&SCRIPTS.counts, &[&self.names.counts], &[]).await {
                    self.state().count(&counts);
                }
                // It tells what it finds itself, and is told when a request is to be kept.
                let _ = self.durability.holds(&self.redis).await;
            }
        }
    }

    /// Returns whether these were all.
    async fn find_due(&self, sender: &UnboundedSender<QueueName>) -> Result<bool, Failed> {
        let found = self.run(&SCRIPTS.due, &[&self.names.due], &[FOUND.to_string().as_bytes()]).await?;
        let Data::List(found) = found else { return Ok(true) };
        let (is_all, mut has_news) = (found.len() < FOUND, false);
        for queue in found {
            let Data::Bytes(queue) = queue else { continue };
            let queue = QueueName::from(queue);
            if self.state().drained.insert(Arc::clone(&queue)) {
                has_news = true;
                let _ = sender.send(queue);
            }
        }
        // Queues that are drained already would be found again at once.
        Ok(is_all || !has_news)
    }
}

impl State {
    /// Takes over the server's counts.
    fn count(&mut self, fields: &[Data]) {
        for counts in self.counts.values_mut() {
            (counts.parked, counts.dead, counts.bytes) = (0, 0, 0);
        }
        for pair in fields.chunks_exact(2) {
            let [Data::Bytes(name), Data::Bytes(value)] = pair else { continue };
            let name = std::str::from_utf8(name).ok().and_then(|name| name.split_once(':'));
            let (Some((what, rule)), Some(value)) = (name, number(value)) else { continue };
            let counts = self.counts.entry(rule.into()).or_default();
            let count = usize::try_from(value).unwrap_or(usize::MAX);
            match what {
                "parked" => counts.parked = count,
                "dead" => counts.dead = count,
                _ => counts.bytes = value,
            }
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn json(entry: &Entry) -> Vec<u8> {
    // Its types have no maps with keys that are no text, which alone could fail.
    serde_json::to_vec(entry).unwrap_or_default()
}
