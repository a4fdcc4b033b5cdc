//! Everything at once over sockets: all that asks, in threads, over the same keys, with a store,
//! reloads, resets and restarts.
//!
//! No limit refills while the test runs. So the units that a key was admitted, less those given
//! back, are at most its limit, and as many again for each reset. Where no reset came, the key has
//! exactly the rest at the end. One key may have less: a reset ends the receipts of one in a
//! thousand other keys, and what they would have given back stays charged.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tollgate_server::{Server, Settings};
use tollgate_testing::folder::Folder;
use tollgate_testing::http;
use tollgate_testing::random::Random;
use tollgate_testing::servers::{self, Addresses, loopback};
use tollgate_testing::stores::{self, Store};

use super::proto::Code;
use super::{Client, call};

const CLIENTS: u64 = 4;

/// The limits of a client: by the process, by the store, by `CL.THROTTLE`.
const LOCAL: u64 = 150;
const STORED: u64 = 120;
const CALLS: u64 = 90;

const THREADS: u64 = 4;
const STEPS: u64 = 150;
const RESTARTS: usize = 2;

/// The rules that take turns: other conditions, the same numbers.
fn rules(url: &str, turn: usize) -> String {
    let except = ["", "except.path = '/health',", "except.method = 'PUT',"][turn % 3];
    format!(
        "version = 1
stores.redis = {{ url = '{url}', deadline = '20s' }}
rule = [
    {{ name = 'local', {except} key = 'client', limits = '{LOCAL}/520w,burst={LOCAL}' }},
    {{ name = 'stored', {except} key = 'client', limits = '{STORED}/520w,burst={STORED}', store = 'redis' }},
]
"
    )
}

/// The units of each key.
#[derive(Default)]
struct Counts {
    /// Admitted and not given back, by the rules that the requests asked.
    local: [AtomicU64; CLIENTS as usize],
    stored: [AtomicU64; CLIENTS as usize],
    calls: [AtomicU64; CLIENTS as usize],
    /// Resets of `local`, and the most that each may forgive.
    resets: [AtomicU64; CLIENTS as usize],
    verbs: [AtomicU64; VERBS],
    restarts: AtomicUsize,
}

const VERBS: usize = 10;

fn address(client: u64) -> String {
    format!("203.0.113.{client}")
}

async fn begin(folder: &Path) -> (Server, Addresses) {
    let mut settings = Settings::new(folder.join("rules.toml"));
    let listeners = [&mut settings.http, &mut settings.admin, &mut settings.grpc, &mut settings.resp];
    listeners.into_iter().for_each(|listener| listener.push(loopback()));
    settings.state = Some(folder.join("state"));
    settings.strict_state = true;
    settings.state_interval = Duration::from_millis(50);
    servers::begin(settings).await
}

/// Posts JSON by a connection of its own: the status and the body.
fn post(address: SocketAddr, path: &str, body: &Value) -> (u16, Value) {
    let host = address.to_string();
    let answer = http::ask(address, "POST", path, &[("host", &host), ("x-tollgate", "1")], &body.to_string());
    (answer.status.as_u16(), serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
}

/// The five integers of a command, or its error.
fn redis(address: SocketAddr, command: &str) -> Result<[i64; 5], String> {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    if line != "*5\r\n" {
        return Err(line);
    }
    Ok([(); 5].map(|()| {
        line.clear();
        stream.read_line(&mut line).unwrap();
        line.trim_end()[1..].parse().unwrap()
    }))
}

struct Thread {
    counts: Arc<Counts>,
    /// Locked by each step. A restart waits for all steps, and no step meets a closed server.
    addresses: Arc<RwLock<Addresses>>,
    random: Random,
    tickets: Vec<(String, u64, u64)>,
    runtime: Handle,
    may_reset: bool,
}

impl Thread {
    /// Counts units that rules admitted to a client: both rules, or `local` alone.
    fn admitted(&self, client: u64, units: u64, is_local: bool) {
        self.counts.local[client as usize].fetch_add(units, SeqCst);
        if !is_local {
            self.counts.stored[client as usize].fetch_add(units, SeqCst);
        }
    }

    fn step(&mut self) {
        let addresses = Arc::clone(&self.addresses);
        let open = addresses.read().unwrap();
        let (to, client, cost) = (*open, self.random.u64(..CLIENTS), self.random.u64(1..=3));
        let name = address(client);
        let verb = self.random.u64(..(VERBS as u64));
        match verb {
            0 => {
                let said =
                    redis(to.resp(), &format!("CL.THROTTLE c{client} {} 1 10000000 {cost}", CALLS - 1));
                if said.unwrap()[0] == 0 {
                    self.counts.calls[client as usize].fetch_add(cost, SeqCst);
                }
            }
            1 => {
                if redis(to.resp(), &format!("TG.CHECK local {name} COST {cost}")).unwrap()[0] == 0 {
                    self.admitted(client, cost, true);
                }
            }
            2 => {
                let five = redis(to.resp(), &format!("TG.PEEK local {name} COST {cost}")).unwrap();
                assert!(five[2] <= LOCAL as i64, "{five:?}");
                assert!(redis(to.resp(), &format!("TG.CHECK stored {name}")).is_err(), "a store keeps it");
            }
            3 => {
                let (_, said) = post(to.http(), "/v1/peek", &json!({ "client": name, "cost": cost }));
                assert!(said["remaining"].as_u64().is_some(), "{said}");
            }
            4 | 5 => {
                let body = json!({ "client": name, "cost": cost, "ticket": verb == 4 });
                let (status, said) = post(to.http(), "/v1/check", &body);
                assert!(status == 200 || status == 429, "{status}: {said}");
                match said["ticket"].as_str() {
                    Some(ticket) if status == 200 => self.tickets.push((ticket.into(), client, cost)),
                    _ if status == 200 => self.admitted(client, cost, false),
                    _ => {}
                }
            }
            6 => {
                let others = [(client, cost), (self.random.u64(..CLIENTS), 1)];
                let one = |(client, cost): &(u64, u64)| json!({ "client": address(*client), "cost": cost });
                let together = self.random.bool();
                let body = json!({ "requests": others.map(|other| one(&other)), "together": together });
                let (_, said) = post(to.http(), "/v1/check", &body);
                for ((client, cost), said) in others.into_iter().zip(said["results"].as_array().unwrap()) {
                    if said["outcome"] == "admitted" {
                        self.admitted(client, cost, false);
                    }
                }
            }
            7 => {
                let others = [client, self.random.u64(..CLIENTS)];
                let count = self.random.usize(1..=2);
                let names = others.map(address);
                let entries = [[("remote_address", &*names[0])], [("remote_address", &*names[1])]];
                let descriptors: [&[_]; 2] = [&entries[0], &entries[1]];
                let mut asked = call("d", &descriptors[..count]);
                asked.hits_addend = cost as u32;
                let said =
                    self.runtime.block_on(async { Client::connect(to.grpc()).await.send(asked).await });
                if said.unwrap().overall_code() == Code::Ok {
                    others[..count].iter().for_each(|client| self.admitted(*client, cost, false));
                }
            }
            8 => {
                if let Some((ticket, client, cost)) = self.tickets.pop() {
                    self.settle(to, &ticket, client, cost);
                }
            }
            _ if self.may_reset && client == 0 => {
                let order = json!({ "request": { "client": name }, "do": "reset" });
                // Counted first: requests that meet the reset may be admitted by the new limit.
                self.counts.resets[client as usize].fetch_add(1, SeqCst);
                assert_eq!(post(to.admin(), "/admin/keys/local", &order).0, 200);
            }
            _ => {
                let order = json!({ "request": { "client": name }, "do": "peek" });
                assert_eq!(post(to.admin(), "/admin/keys/local", &order).0, 200);
            }
        }
        self.counts.verbs[verb as usize].fetch_add(1, SeqCst);
    }

    fn settle(&mut self, to: Addresses, ticket: &str, client: u64, cost: u64) {
        let (body, kept) = match self.random.u64(..3) {
            0 => (json!({ "ticket": ticket, "cancel": true }), 0),
            1 => (json!({ "ticket": ticket, "status": 200 }), cost),
            // A request that named no other cost than 1 keeps it.
            _ if cost == 1 => (json!({ "ticket": ticket, "cost": 1 }), 1),
            _ => (json!({ "ticket": ticket, "cost": cost - 1 }), cost - 1),
        };
        let (status, _) = post(to.http(), "/v1/settle", &body);
        // A restart loses tickets: they stay charged.
        let kept = if status == 200 { kept } else { cost };
        assert!(status == 200 || status == 404, "{status}");
        self.admitted(client, kept, false);
    }
}

/// The units that a client has left, once the refunds of the store have come.
fn left(to: Addresses, client: u64) -> [u64; 2] {
    let local = redis(to.resp(), &format!("TG.PEEK local {} COST 0", address(client))).unwrap()[2] as u64;
    let (_, said) = post(to.http(), "/v1/peek", &json!({ "client": address(client), "cost": 0 }));
    let least = said["remaining"].as_u64().unwrap();
    // The tighter of both is shown.
    [local, if said["rule"] == "stored" { least } else { u64::MAX }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_stays_within_its_bound_whoever_asks() {
    let Some(store) = stores::Server::start(Store::Redis) else { return };
    let folder = Folder::new();
    let file = folder.write("rules.toml", rules(&store.url(), 0));
    let (server, first) = begin(folder.path()).await;
    let mut server = Some(server);
    let (counts, addresses) = (Arc::new(Counts::default()), Arc::new(RwLock::new(first)));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let mut thread = Thread {
                counts: Arc::clone(&counts),
                addresses: Arc::clone(&addresses),
                random: Random::with_seed(thread),
                tickets: Vec::new(),
                runtime: Handle::current(),
                may_reset: thread == 0,
            };
            std::thread::spawn(move || {
                (0..STEPS).for_each(|_| thread.step());
                while thread.counts.restarts.load(SeqCst) < RESTARTS {
                    thread.step();
                }
                let addresses = Arc::clone(&thread.addresses);
                while let Some((ticket, client, cost)) = thread.tickets.pop() {
                    let open = addresses.read().unwrap();
                    thread.settle(*open, &ticket, client, cost);
                }
            })
        })
        .collect();
    let mut turn = 0;
    while !threads.iter().all(|thread| thread.is_finished()) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        turn += 1;
        std::fs::write(&file, rules(&store.url(), turn)).unwrap();
        let done: u64 = counts.verbs.iter().map(|verb| verb.load(SeqCst)).sum();
        let restarts = counts.restarts.load(SeqCst);
        if restarts < RESTARTS && done > (restarts as u64 + 1) * THREADS * STEPS / 3 {
            let held = Arc::clone(&addresses);
            let folder = &folder;
            // No step is under way while the server restarts with its state.
            tokio::task::block_in_place(|| {
                let mut open = held.write().unwrap();
                Handle::current().block_on(async {
                    server.take().unwrap().end().await.unwrap();
                    let (begun, addresses) = begin(folder.path()).await;
                    (server, *open) = (Some(begun), addresses);
                });
                counts.restarts.fetch_add(1, SeqCst);
            });
        } else {
            tokio::task::block_in_place(|| server.as_ref().unwrap().reload().unwrap());
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let to = *addresses.read().unwrap();
    // Without conditions, as both are asked.
    std::fs::write(&file, rules(&store.url(), 0)).unwrap();
    tokio::task::block_in_place(|| server.as_ref().unwrap().reload().unwrap());
    let get = |number: &AtomicU64| number.load(SeqCst);
    assert!(counts.verbs.iter().all(|verb| get(verb) > THREADS * STEPS / 40), "{:?}", counts.verbs);
    let mut with_less = 0;
    for client in 0..CLIENTS {
        let one = client as usize;
        let (local, stored, resets) =
            (get(&counts.local[one]), get(&counts.stored[one]), get(&counts.resets[one]));
        assert!(local <= LOCAL * (1 + resets), "client {client}: {local} by the process, {resets} resets");
        assert!(stored <= STORED, "client {client}: {stored} by the store");
        let calls = get(&counts.calls[one]);
        assert!(calls <= CALLS, "client {client}: {calls} by calls");
        let look = redis(to.resp(), &format!("CL.THROTTLE c{client} {} 1 10000000 0", CALLS - 1)).unwrap();
        assert_eq!(look[2] as u64, CALLS - calls, "client {client} by calls");
        let expected = [LOCAL.saturating_sub(local), STORED - stored];
        let said = || format!("{expected:?} expected, {resets} resets");
        let mut found = tokio::task::block_in_place(|| left(to, client));
        // Refunds of the store are on their way.
        for attempt in 0.. {
            if found[1] == expected[1] || (found[1] == u64::MAX && found[0] <= expected[1]) {
                break;
            }
            assert!(attempt < 300, "client {client}: {found:?} left, {}", said());
            tokio::time::sleep(Duration::from_millis(20)).await;
            found = tokio::task::block_in_place(|| left(to, client));
        }
        if resets == 0 {
            assert!(found[0] <= expected[0], "client {client}: {found:?} left, {}", said());
            with_less += u64::from(found[0] < expected[0]);
        }
    }
    assert!(with_less <= 1, "{with_less} clients have less than they should");
    let reached = (0..CLIENTS as usize).filter(|client| get(&counts.stored[*client]) + 3 >= STORED).count();
    assert!(reached > 0, "no client came near its limit: {:?}", counts.stored);
    server.take().unwrap().end().await.unwrap();
}
