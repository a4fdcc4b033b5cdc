//! A cluster: a connection and a breaker for each master, and the map of the slots.
//!
//! ```text
//!   request --> slot of its first key --> master --> breaker, connection --> answered
//!                     ^                                   |
//!                     '------ MOVED: the map learns ------+
//!                             ASK: this request alone goes there
//! ```
//!
//! A redirection says that nothing was executed, so the request is sent to the other server.
//! Nothing else is sent again. A task asks the servers for the map: when a request was redirected
//! or failed, while a breaker is open, and every ten seconds. A master that the map names no more
//! loses its breaker with its place: a new master of its slots begins with a closed one.

pub(crate) mod slot;
mod view;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::connection::{CONNECT, Connection, Reply, Seed, command};
use crate::guard::{BreakerCounts, Guard, Probe};
use crate::script::Script;
use crate::{BuildError, Charged, Failed, FailureKind};
use slot::SLOTS;
use view::{Address, Range};

/// How often a request follows a redirection.
const REDIRECTS: u32 = 3;

/// The pauses between two looks at the map: at least, while a breaker is open, and otherwise.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(10)];

/// How long a server that owns no slots is kept after a request was redirected to it.
const KEPT: Duration = Duration::from_secs(30);

/// How long a server is awaited that is asked for the map.
const PATIENCE: Duration = Duration::from_secs(1);

/// The masters of a cluster.
pub(crate) struct Cluster {
    seeds: Vec<Seed>,
    prefix: String,
    deadline: Duration,
    start: Instant,
    runtime: Handle,
    map: RwLock<Map>,
    /// Wakes the task that looks at the map.
    wish: Arc<Notify>,
    refreshing: Mutex<()>,
    /// Which server is asked first for the map: another one each time.
    turn: AtomicUsize,
    /// How often the breakers of masters that are gone have opened.
    gone: AtomicU64,
    /// Whether the map was looked for once.
    looked: watch::Sender<bool>,
}

struct Map {
    nodes: Vec<Arc<Node>>,
    /// For each slot the place of its master in `nodes`, plus 1. 0: no master.
    owners: Vec<u16>,
}

/// A server of the cluster.
struct Node {
    address: Address,
    connection: Arc<Connection>,
    guard: Arc<Guard>,
    /// A slot that it owns, in which its probes write.
    slot: Arc<AtomicU16>,
    /// When a request was last redirected to it, in milliseconds after the cluster's start.
    redirected: AtomicU64,
}

impl Cluster {
    /// Begins to ask these servers for the map, and to keep it. Needs a Tokio runtime.
    ///
    /// # Errors
    ///
    /// A wrong address.
    pub(crate) fn open(seeds: Vec<Seed>, prefix: &str, deadline: Duration) -> Result<Arc<Self>, BuildError> {
        for seed in &seeds {
            seed.source()?;
        }
        let cluster = Arc::new(Self {
            seeds,
            prefix: prefix.to_owned(),
            deadline,
            start: Instant::now(),
            runtime: Handle::current(),
            map: RwLock::new(Map { nodes: Vec::new(), owners: vec![0; usize::from(SLOTS)] }),
            wish: Arc::default(),
            refreshing: Mutex::default(),
            turn: AtomicUsize::new(0),
            gone: AtomicU64::new(0),
            looked: watch::Sender::new(false),
        });
        tokio::spawn(keep_map(Arc::downgrade(&cluster), Arc::clone(&cluster.wish)));
        Ok(cluster)
    }

    /// Waits for the first map.
    ///
    /// # Errors
    ///
    /// The servers refuse the password or scripts, or are no members of a cluster.
    pub(crate) async fn first_map(&self) -> Result<(), BuildError> {
        match self.refresh().await {
            Err(failed) if matches!(failed.kind, FailureKind::Auth | FailureKind::Script) => {
                Err(BuildError::Refused(failed))
            }
            Err(failed) => {
                tracing::warn!(%failed, "no server of the cluster tells its map");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// What a request fails with at once, while the breaker of the slot's master is open.
    pub(crate) fn not_sent(&self, slot: u16) -> Option<Failed> {
        self.owner(slot)?.guard.not_sent()
    }

    /// The breakers together: open if one is open.
    pub(crate) fn counts(&self) -> BreakerCounts {
        let map = self.read();
        let gone = self.gone.load(Relaxed);
        let mut all = BreakerCounts { is_open: false, opened: gone, closed: gone };
        for counts in map.nodes.iter().map(|node| node.guard.counts()) {
            all.is_open |= counts.is_open;
            all.opened += counts.opened;
            all.closed += counts.closed;
        }
        all
    }

    /// The end of the deadline of what begins at this time.
    pub(crate) fn until(&self, sent: Duration) -> Instant {
        self.start + sent + self.deadline
    }

    /// Keeps the deadline of a check of several requests. Each request passes its own breaker,
    /// which has its own timer and must hear of a timeout, so this one is later.
    pub(crate) async fn trip<T>(
        &self,
        until: Instant,
        trip: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Failed> {
        match timeout_at(until + self.deadline / 4, trip).await {
            Ok(Ok(_)) if Instant::now() > until => Err(Failed::timeout()),
            Ok(result) => result,
            Err(_) => Err(Failed::timeout()),
        }
    }

    /// Executes a script on the master of its first key's slot, before `until`. `body` appends the
    /// number of keys, the keys and the arguments.
    pub(crate) async fn run(
        &self,
        until: Instant,
        script: &Script,
        body: impl Fn(&mut Cmd),
    ) -> Result<Value, Failed> {
        let request = command("EVALSHA", &script.hash, &body);
        let slot = match request.args_iter().nth(3) {
            Some(redis::Arg::Simple(name)) => slot::of_name(name),
            _ => 0,
        };
        let Some(mut node) = self.owner_by(until, slot).await else {
            self.wish.notify_one();
            return Err(Failed::no_master(slot));
        };
        let mut is_asking = false;
        for _ in 0..=REDIRECTS {
            let reply = {
                let ask = pin!(node.connection.run_until(until, script, &body, is_asking));
                node.guard.trip(until, ask).await
            };
            let redirect = match reply {
                Ok(Reply::Value(value)) => return Ok(value),
                Ok(Reply::Elsewhere(redirect)) => redirect,
                Err(failed) => {
                    // While a breaker is open, the task looks without being told.
                    use FailureKind::{BreakerOpen, Busy, Memory, Script};
                    if !matches!(failed.kind, BreakerOpen | Busy | Memory | Script) {
                        self.wish.notify_one();
                    }
                    return Err(failed);
                }
            };
            let Some(address) = view::address(&redirect.to, &node.address.0) else { break };
            let owns = redirect.has_moved.then_some(redirect.slot);
            node = self.redirected(address, owns)?;
            is_asking = !redirect.has_moved;
        }
        Err(Failed::new(FailureKind::Moved, Charged::No))
    }

    /// Waits until each master has a connection, or an attempt has failed.
    pub(crate) async fn first_attempt(&self) {
        self.first_look(Instant::now() + CONNECT).await;
        let nodes = self.read().nodes.clone();
        join_all(nodes.iter().map(|node| node.connection.first_attempt())).await;
    }

    /// The connections of all masters.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        self.read().nodes.iter().map(|node| Arc::clone(&node.connection)).collect()
    }

    /// The master of this slot. Waits until `until` for the first map.
    async fn owner_by(&self, until: Instant, slot: u16) -> Option<Arc<Node>> {
        let known = self.owner(slot);
        if known.is_some() || *self.looked.borrow() {
            return known;
        }
        self.first_look(until).await;
        self.owner(slot)
    }

    /// Waits until the map was looked for once.
    async fn first_look(&self, until: Instant) {
        let mut looked = self.looked.subscribe();
        // By then there is a map or none.
        let _ = timeout_at(until, looked.wait_for(|looked| *looked)).await;
    }

    fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let map = self.read();
        let place = usize::from(*map.owners.get(usize::from(slot))?).checked_sub(1)?;
        map.nodes.get(place).cloned()
    }

    /// The server that a request was redirected to. If the slot has moved, the map learns it.
    fn redirected(&self, address: Address, owns: Option<u16>) -> Result<Arc<Node>, Failed> {
        let mut map = self.write();
        let place = match map.nodes.iter().position(|node| node.address == address) {
            Some(place) => place,
            None => {
                map.nodes.push(self.node(&address)?);
                map.nodes.len() - 1
            }
        };
        let node = Arc::clone(&map.nodes[place]);
        let millis = u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX);
        node.redirected.store(millis, Relaxed);
        if let Some(slot) = owns.filter(|&slot| slot < SLOTS) {
            map.owners[usize::from(slot)] = place_number(place);
            node.slot.store(slot, Relaxed);
            self.wish.notify_one();
        }
        Ok(node)
    }

    /// A server with a connection of its own and a closed breaker.
    fn node(&self, address: &Address) -> Result<Arc<Node>, Failed> {
        let source = self.seeds[0].at(&address.0, address.1).source();
        let source = source.map_err(|error| Failed::answer(error.to_string()))?;
        // A request that was redirected may run on another one.
        let connection = {
            let _entered = self.runtime.enter();
            Arc::new(Connection::open(source, self.deadline))
        };
        let slot = Arc::new(AtomicU16::new(0));
        let server = format!("{}:{}", address.0, address.1);
        let probe = probe(&connection, &slot, &self.prefix);
        let (pulse, runtime) = (connection.pulse(), self.runtime.clone());
        let guard = Guard::new(server, self.deadline, probe, pulse, runtime);
        let redirected = AtomicU64::new(0);
        Ok(Arc::new(Node { address: address.clone(), connection, guard, slot, redirected }))
    }

    /// Asks one server after the other for the map, until one answers.
    async fn refresh(&self) -> Result<(), Failed> {
        // One at a time: a map that was asked for earlier must not replace a later one.
        let _alone = self.refreshing.lock().await;
        let mut nodes = self.read().nodes.clone();
        let turn = self.turn.fetch_add(1, Relaxed) % nodes.len().max(1);
        nodes.rotate_left(turn);
        // A server with an open breaker may be cut off, and its map old.
        nodes.sort_by_key(|node| node.guard.is_open());
        let mut last = Failed::new(FailureKind::Connection, Charged::No);
        for node in nodes {
            match ask(&node.connection, &node.address.0).await {
                Ok(ranges) => return self.learn(&ranges).await,
                Err(failed) => last = failed,
            }
        }
        for seed in &self.seeds {
            let Ok(source) = seed.source() else { continue };
            let connection = Connection::open(source, self.deadline);
            let answer = match connection.first_attempt().await {
                Ok(()) => ask(&connection, seed.host()).await,
                Err(failed) => Err(failed),
            };
            match answer {
                Ok(ranges) => return self.learn(&ranges).await,
                Err(failed) => last = failed,
            }
        }
        Err(last)
    }

    /// Takes over a map. New masters are connected before requests go to them.
    async fn learn(&self, ranges: &[Range]) -> Result<(), Failed> {
        let known = self.read().nodes.clone();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        let mut owners = vec![0; usize::from(SLOTS)];
        for (first, last, address) in ranges {
            let place = match nodes.iter().position(|node| node.address == *address) {
                Some(place) => place,
                None => {
                    let known = known.iter().find(|node| node.address == *address);
                    nodes.push(known.cloned().map_or_else(|| self.node(address), Ok)?);
                    nodes[nodes.len() - 1].slot.store(*first, Relaxed);
                    nodes.len() - 1
                }
            };
            owners[usize::from(*first)..=usize::from(*last)].fill(place_number(place));
        }
        let attempts = join_all(nodes.iter().map(|node| node.connection.first_attempt()));
        // What the attempts end with, the requests will see.
        let _ = timeout(CONNECT, attempts).await;
        let mut map = self.write();
        for node in std::mem::take(&mut map.nodes) {
            let redirected = Duration::from_millis(node.redirected.load(Relaxed));
            if nodes.iter().any(|other| Arc::ptr_eq(other, &node)) {
                continue;
            }
            let replaced = nodes.iter().any(|other| other.address == node.address);
            if !replaced && !redirected.is_zero() && self.now() < redirected + KEPT {
                nodes.push(node);
            } else {
                self.gone.fetch_add(node.guard.counts().opened, Relaxed);
                let server = format!("{}:{}", node.address.0, node.address.1);
                tracing::info!(server, "the server is no master of the cluster any more");
            }
        }
        *map = Map { nodes, owners };
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The task ends.
        self.wish.notify_one();
    }
}

/// A cluster has at most as many masters as slots.
fn place_number(place: usize) -> u16 {
    u16::try_from(place + 1).unwrap_or(0)
}

async fn ask(connection: &Connection, host: &str) -> Result<Vec<Range>, Failed> {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    view::read(&connection.ask(Instant::now() + PATIENCE, &command).await?, host)
}

/// The probes of a master write in a slot that it owns. A server that owns it no more answers with
/// a redirection: it is up, and no request goes to it.
fn probe(connection: &Arc<Connection>, slot: &Arc<AtomicU16>, prefix: &str) -> Probe {
    let (connection, slot, prefix) = (Arc::clone(connection), Arc::clone(slot), prefix.to_owned());
    let script = Arc::new(Script::new(PROBE));
    Box::new(move || {
        let (connection, script) = (connection.clone(), script.clone());
        let key = slot::name_within(&prefix, slot.load(Relaxed));
        Box::pin(async move {
            let body = |command: &mut Cmd| {
                command.arg(1).arg(&key);
            };
            connection.reply(&script, body).await.map(drop)
        })
    })
}

/// The script of a probe.
pub(crate) const PROBE: &str = "return redis.call('SET', KEYS[1], 1, 'PX', 1000)";

/// Looks at the map, and says how long it is then left. `None`: the cluster is gone.
async fn look(cluster: &Weak<Cluster>) -> Option<Duration> {
    let cluster = cluster.upgrade()?;
    let refreshed = cluster.refresh().await;
    cluster.looked.send_replace(true);
    let is_well = refreshed.is_ok() && !cluster.counts().is_open;
    Some(if is_well { PAUSES[2] } else { PAUSES[1] })
}

/// Looks at the map until the cluster is dropped.
async fn keep_map(cluster: Weak<Cluster>, wish: Arc<Notify>) {
    loop {
        let Some(pause) = look(&cluster).await else { return };
        let _ = timeout(pause, wish.notified()).await;
        sleep(PAUSES[0]).await;
    }
}
