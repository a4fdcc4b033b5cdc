//! A real cluster of masters, which the tests start and change themselves.

use std::time::{Duration, Instant};

use super::{Server, Store};

/// Waits until a server says so.
pub fn wait_for(server: &Server, command: &[&str], words: &str) {
    let begun = Instant::now();
    // A server that is starting may refuse the question.
    while !server.try_ask::<String>(command).is_ok_and(|answer| answer.contains(words)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{command:?} does not say {words}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a replica has what its master has now. `WAIT` would do so only for what its own
/// connection wrote.
pub fn wait_for_replica(replica: &Server, master: &Server) {
    let offset = |server: &Server, field: &str| -> u64 {
        let said: String = server.ask(&["INFO", "replication"]);
        let offset = said.lines().find_map(|line| line.strip_prefix(field));
        offset.and_then(|offset| offset.trim().parse().ok()).unwrap_or_else(|| panic!("no {field} in {said}"))
    };
    let (written, begun) = (offset(master, "master_repl_offset:"), Instant::now());
    while offset(replica, "slave_repl_offset:") < written {
        assert!(begun.elapsed() < Duration::from_secs(60), "the replica stays behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Masters, each of which owns an equal part of the slots.
pub struct Cluster {
    /// The first of them owns the first slots.
    pub masters: Vec<Server>,
}

impl Cluster {
    /// Starts a cluster. `None` if the program is missing.
    pub fn start(store: Store, masters: usize) -> Option<Self> {
        let masters = (0..masters).map(|_| member(store)).collect::<Option<Vec<_>>>()?;
        let cluster = Self { masters };
        for (place, server) in cluster.masters.iter().enumerate() {
            let [first, last] = [cluster.first_slot(place), cluster.first_slot(place + 1) - 1];
            server.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            server.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()]);
        }
        for server in &cluster.masters[1..] {
            cluster.meet(server);
        }
        cluster.wait_for_members(&cluster.masters.iter().collect::<Vec<_>>());
        Some(cluster)
    }

    /// Adds a server that has no slots.
    pub fn add(&self, store: Store) -> Option<Server> {
        let server = member(store)?;
        self.meet(&server);
        let mut members: Vec<&Server> = self.masters.iter().collect();
        members.push(&server);
        self.wait_for_members(&members);
        Some(server)
    }

    /// The addresses of all masters.
    pub fn urls(&self) -> Vec<String> {
        self.masters.iter().map(Server::url).collect()
    }

    /// The place of the master that owned a key's slot at the start.
    pub fn owner(&self, key: &str) -> usize {
        let slot = self.slot(key);
        (0..self.masters.len()).rfind(|&place| self.first_slot(place) <= slot).unwrap()
    }

    /// The slot of a key of a limiter.
    pub fn slot(&self, key: &str) -> usize {
        let name = format!("{{k:{key}}}");
        // Any server calculates it, but the first may be down.
        let slot = self.masters.iter().find_map(|server| server.try_ask(&["CLUSTER", "KEYSLOT", &name]).ok());
        slot.expect("a master is up")
    }

    /// Begins to move a slot from one master to another.
    pub fn begin_move(&self, slot: usize, from: usize, to: usize) -> Move<'_> {
        let [source, target] = [&self.masters[from], &self.masters[to]];
        let moving = Move { cluster: self, slot: slot.to_string(), source, target };
        moving.set(target, "IMPORTING", source);
        moving.set(source, "MIGRATING", target);
        moving
    }

    fn first_slot(&self, place: usize) -> usize {
        16_384 * place / self.masters.len()
    }

    fn meet(&self, server: &Server) {
        self.masters[0].ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &server.port().to_string()]);
    }

    fn wait_for_members(&self, members: &[&Server]) {
        for server in members {
            wait_for(server, &["CLUSTER", "INFO"], "cluster_state:ok");
            // A server without all slots is well, too: see `member`.
            wait_for(server, &["CLUSTER", "INFO"], "cluster_slots_assigned:16384");
            wait_for(server, &["CLUSTER", "INFO"], &format!("cluster_known_nodes:{}", members.len()));
        }
    }
}

/// A slot on its way from one master to another. Its keys move one by one: between them, a command
/// for several keys has some on each side.
pub struct Move<'c> {
    cluster: &'c Cluster,
    slot: String,
    /// The master that owns it.
    pub source: &'c Server,
    /// The master that will own it.
    pub target: &'c Server,
}

impl Move<'_> {
    /// The names of the slot's keys that a master has.
    pub fn names(&self, of: &Server) -> Vec<String> {
        of.ask(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"])
    }

    /// Moves a key.
    pub fn migrate(&self, name: &str) {
        let port = self.target.port().to_string();
        let _: String = self.source.ask(&["MIGRATE", "127.0.0.1", &port, name, "0", "5000"]);
    }

    /// Tells all masters that the slot has moved, its new owner first.
    pub fn end(&self) {
        self.set(self.target, "NODE", self.target);
        for server in self.cluster.masters.iter().filter(|server| server.port() != self.target.port()) {
            self.set(server, "NODE", self.target);
        }
    }

    /// Tells a master what happens to the slot, and which other one it concerns.
    fn set(&self, server: &Server, what: &str, other: &Server) {
        let id: String = other.ask(&["CLUSTER", "MYID"]);
        server.ask::<()>(&["CLUSTER", "SETSLOT", &self.slot, what, &id]);
    }
}

/// One that serves its own slots while other masters are down.
fn member(store: Store) -> Option<Server> {
    Server::start_with(store, &["--cluster-enabled yes", "--cluster-require-full-coverage no"])
}
