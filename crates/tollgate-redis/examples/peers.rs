//! How much do other limiters in Redis, and this one, admit too much under the same faults?
//!
//! ```text
//! cargo run -p tollgate-redis --example peers -- \
//!     [--redis-cell libredis_cell.so] [--redis-rate lua.go]
//! ```
//!
//! `--redis-cell` is the module, built from its sources; `--redis-rate` the file of that name of
//! `github.com/go-redis/redis_rate`, whose script `allowN` it takes. A peer without its file is
//! left out, and named. It takes two minutes, with `redis-server` on PATH and Debian's `faketime`.
//!
//! Each peer has servers of its own and the same load: four tasks that ask for one key every 2 ms.
//! The table says how many requests were admitted beyond `burst + rate * W`, in the interval where
//! that is most; a request counts if it was sent and answered in the interval.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{Limiter, Mode, Redis};
use tollgate_testing::stores::{Proxy, Server, Store};

const RATE: u64 = 10;
const BURST: u64 = 50;
const DEADLINE: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);

/// The keys of the flood, each with a limit of two a day.
const FLOOD: u64 = 12_000;

/// Who decides.
#[derive(Clone)]
enum Peer {
    /// `None`: each check asks the store.
    Tollgate(Option<Mode>),
    Cell(String),
    Rate(Arc<str>),
}

impl Peer {
    fn name(&self) -> &'static str {
        match self {
            Self::Tollgate(None) => "Tollgate, strict",
            Self::Tollgate(_) => "Tollgate, leased",
            Self::Cell(_) => "redis-cell",
            Self::Rate(_) => "redis_rate",
        }
    }

    /// Starts a server as this peer needs it.
    fn server(&self, more: &[&str], is_faked: bool) -> Option<Server> {
        let module = match self {
            Self::Cell(module) => format!("--loadmodule {module}"),
            _ => String::new(),
        };
        let mut arguments = more.to_vec();
        if !module.is_empty() {
            arguments.push(&module);
        }
        match is_faked {
            true => Server::start_faked_with(Store::Redis, &arguments),
            false => Server::start_with(Store::Redis, &arguments),
        }
    }

    /// Connects with a limit of `rate` in `seconds`.
    async fn connect(&self, url: String, rate: u64, seconds: u64, burst: u64) -> Client {
        let ask = match self {
            Self::Tollgate(mode) => {
                let redis = Redis::builder(&*url).deadline(DEADLINE).build().await.expect("an address");
                let per = Rate::new(rate, Duration::from_secs(seconds));
                let limiter = redis.limiter("peers", [TokenBucket::new(per).burst(burst)]);
                Ask::Tollgate(limiter.mode(mode.unwrap_or_default()).build().expect("a limiter"))
            }
            Self::Cell(_) => Ask::Cell,
            Self::Rate(text) => Ask::Rate(Arc::new(redis::Script::new(text))),
        };
        let peer = redis::Client::open(url).expect("an address");
        Client { ask, peer, link: Arc::default(), rate, seconds, burst }
    }
}

#[derive(Clone)]
enum Ask {
    Tollgate(Limiter),
    Cell,
    Rate(Arc<redis::Script>),
}

/// A peer's client. It connects again after a failure, and asks nothing twice but for a script that
/// the server does not know.
#[derive(Clone)]
struct Client {
    ask: Ask,
    peer: redis::Client,
    link: Arc<Mutex<Option<MultiplexedConnection>>>,
    rate: u64,
    seconds: u64,
    burst: u64,
}

impl Client {
    /// Whether a request is admitted. `None`: it failed.
    async fn check(&self, key: &str) -> Option<bool> {
        if let Ask::Tollgate(limiter) = &self.ask {
            return Some(limiter.check(key).await.ok()?.is_allowed());
        }
        let answer = timeout(DEADLINE, self.peer(key)).await.unwrap_or(None);
        if answer.is_none() {
            *self.link.lock().await = None;
        }
        answer
    }

    async fn peer(&self, key: &str) -> Option<bool> {
        let mut link = self.link.lock().await;
        let mut connection = match link.take() {
            Some(connection) => connection,
            None => self.peer.get_multiplexed_async_connection().await.ok()?,
        };
        *link = Some(connection.clone());
        drop(link);
        match &self.ask {
            Ask::Rate(script) => {
                let mut call = script.key(key);
                call.arg(self.burst).arg(self.rate).arg(self.seconds).arg(1);
                let answer: (i64, i64, String, String) = call.invoke_async(&mut connection).await.ok()?;
                Some(answer.0 > 0)
            }
            _ => {
                // Its burst is one more than it is told.
                let mut call = redis::cmd("CL.THROTTLE");
                call.arg(key).arg(self.burst - 1).arg(self.rate).arg(self.seconds).arg(1);
                let answer: Vec<i64> = call.query_async(&mut connection).await.ok()?;
                Some(answer.first() == Some(&0))
            }
        }
    }
}

/// When admitted requests were sent and answered, in seconds.
type Admitted = Vec<[f64; 2]>;

/// Tasks that ask for a key.
struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Admitted>>,
}

impl Load {
    fn start(client: &Client) -> Self {
        let (stop, start) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let task = |_| {
            let (client, stop) = (client.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut admitted = Admitted::new();
                while !stop.load(Relaxed) {
                    let sent = start.elapsed().as_secs_f64();
                    if client.check("alice").await == Some(true) {
                        admitted.push([sent, start.elapsed().as_secs_f64()]);
                    }
                    sleep(Duration::from_millis(2)).await;
                }
                admitted
            })
        };
        Self { tasks: (0..4).map(task).collect(), stop }
    }

    /// The most admissions beyond the limit in any interval.
    async fn beyond(self) -> f64 {
        self.stop.store(true, Relaxed);
        let mut admitted = Admitted::new();
        for task in self.tasks {
            admitted.extend(task.await.expect("a task of the load"));
        }
        admitted.sort_by(|a, b| a[1].total_cmp(&b[1]));
        let mut most = 0_f64;
        for &[from, _] in &admitted {
            let mut count = 0;
            for &[sent, answered] in &admitted {
                if sent >= from {
                    count += 1;
                    most = most.max(f64::from(count) - BURST as f64 - RATE as f64 * (answered - from));
                }
            }
        }
        most
    }
}

async fn loaded(peer: &Peer, url: String) -> Load {
    Load::start(&peer.connect(url, RATE, 1, BURST).await)
}

/// A fault, and how many requests a peer admits beyond the limit. `None`: a program is missing.
async fn beyond(peer: &Peer, fault: &str) -> Option<f64> {
    let is_faked = fault.contains("clock");
    let mut server = peer.server(&[], is_faked)?;
    match fault {
        "none" => {
            let load = loaded(peer, server.url()).await;
            sleep(2 * SECOND).await;
            Some(load.beyond().await)
        }
        "the server's clock steps 1 h forward" => {
            let load = loaded(peer, server.url()).await;
            sleep(SECOND).await;
            server.step_clock("+1h");
            sleep(SECOND).await;
            Some(load.beyond().await)
        }
        "its clock steps 1 h back, and forward again" => {
            let load = loaded(peer, server.url()).await;
            sleep(SECOND).await;
            server.step_clock("-1h");
            sleep(SECOND).await;
            server.step_clock("+0");
            sleep(SECOND).await;
            Some(load.beyond().await)
        }
        "kill -9, restarted empty" => {
            let load = loaded(peer, server.url()).await;
            sleep(SECOND).await;
            server.kill();
            server.restart();
            sleep(2 * SECOND).await;
            Some(load.beyond().await)
        }
        "`SCRIPT FLUSH` every 20 ms" => {
            let load = loaded(peer, server.url()).await;
            for _ in 0..100 {
                sleep(Duration::from_millis(20)).await;
                server.ask::<()>(&["SCRIPT", "FLUSH"]);
            }
            Some(load.beyond().await)
        }
        "failover to a replica that lags by 1 s" => {
            let link = Proxy::to(server.port());
            let replica = peer.server(&[&format!("--replicaof 127.0.0.1 {}", link.port())], false)?;
            let begun = Instant::now();
            while !replica.ask::<String>(&["INFO", "replication"]).contains("master_link_status:up") {
                assert!(begun.elapsed() < 30 * SECOND, "the replica does not connect");
                sleep(Duration::from_millis(20)).await;
            }
            let address = Proxy::to(server.port());
            link.down(true);
            let load = loaded(peer, address.url()).await;
            sleep(SECOND).await;
            server.kill();
            replica.ask::<()>(&["REPLICAOF", "NO", "ONE"]);
            address.lead_to(replica.port());
            sleep(2 * SECOND).await;
            Some(load.beyond().await)
        }
        _ => per_eviction(peer).await,
    }
}

/// Admissions beyond the limit for each evicted key, when a flood of keys fills the memory.
async fn per_eviction(peer: &Peer) -> Option<f64> {
    let server = peer.server(&["--maxmemory-policy allkeys-lru"], false)?;
    let info = |section: &str, name: &str| {
        let text: String = server.ask(&["INFO", section]);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let room = info("memory", "used_memory") + 600_000;
    server.ask::<()>(&["CONFIG", "SET", "maxmemory", &room.to_string()]);
    let client = peer.connect(server.url(), 2, 86_400, 2).await;
    let mut admitted = 0;
    for _ in 0..2 {
        for key in 0..FLOOD {
            let key = format!("key-{key}");
            for _ in 0..3 {
                admitted += u64::from(client.check(&key).await?);
            }
        }
    }
    let evicted = info("stats", "evicted_keys").max(1);
    Some(admitted.saturating_sub(2 * FLOOD) as f64 / evicted as f64)
}

const FAULTS: [&str; 7] = [
    "none",
    "the server's clock steps 1 h forward",
    "its clock steps 1 h back, and forward again",
    "kill -9, restarted empty",
    "`SCRIPT FLUSH` every 20 ms",
    "failover to a replica that lags by 1 s",
    "a key is evicted (its limit: 2 a day)",
];

/// The script `allowN`: the text in the first backquotes.
fn script(file: &str) -> Option<Arc<str>> {
    Some(std::fs::read_to_string(file).ok()?.split('`').nth(1)?.into())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().skip_while(|word| *word != name).nth(1).cloned();
    let mut peers = vec![Peer::Tollgate(None), Peer::Tollgate(Some(Mode::leased(1)))];
    match after("--redis-cell").filter(|file| std::path::Path::new(file).is_file()) {
        Some(module) => peers.push(Peer::Cell(module)),
        None => println!("MISSING: redis-cell (--redis-cell libredis_cell.so)"),
    }
    match after("--redis-rate").as_deref().and_then(script) {
        Some(text) => peers.push(Peer::Rate(text)),
        None => println!("MISSING: redis_rate (--redis-rate lua.go)"),
    }
    println!("{RATE} a second, burst {BURST}: admitted beyond burst + rate * W\n");
    let names: Vec<_> = peers.iter().map(Peer::name).collect();
    println!("| fault | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    for fault in FAULTS {
        print!("| {fault} |");
        for peer in &peers {
            // A runtime of its own, so that nothing of the peer before is under way.
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            match runtime.block_on(beyond(peer, fault)) {
                Some(beyond) => print!(" {beyond:.1} |"),
                None => print!(" - |"),
            }
        }
        println!();
    }
}
