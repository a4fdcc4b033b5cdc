//! Requests that several processes of `tollgate proxy` keep in one Redis, over kills of them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::park::{all_come, client, kills, upstream};
use crate::{Folder, LONG, Running, tollgate, tools};

/// How many keys two processes share before one of them is killed.
const KEYS: usize = 3;

/// A server that syncs each write, which ends with the value.
struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    fn start(folder: &Folder) -> Option<Self> {
        let program = tools::find("redis-server")?;
        // Another process may take the free port first.
        for _ in 0..20 {
            let free = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = free.local_addr().expect("it is bound").port();
            drop(free);
            let mut command = Command::new(&program);
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir", &folder.path("")]);
            command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut redis = Self { child: command.spawn().expect("it starts"), port };
            let begun = Instant::now();
            while begun.elapsed() < LONG && redis.child.try_wait().is_ok_and(|end| end.is_none()) {
                if redis.ask("PING").is_ok_and(|answer| answer.starts_with("+PONG")) {
                    return Some(redis);
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("redis-server does not start");
    }

    fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[test]
fn another_proxy_sends_what_a_killed_one_had() {
    let folder = Folder::new("park-redis-kills");
    let Some(redis) = Redis::start(&folder) else { return };
    let rules = format!(
        "version = 1
        stores.shared = {{ url = 'redis://127.0.0.1:{}', deadline = '10s' }}
        rule = [{{ name = 'each', key = 'header.x-key', limits = '200/s,burst=1', store = 'shared',
            on_refusal = 'park', park = {{ requests = 100000, requests_per_key = 100000 }} }}]",
        redis.port,
    );
    folder.write("rules.toml", &rules);
    // Long enough that most kills come while a request is on its way.
    let (url, seen) = upstream(Duration::from_millis(20));
    let start = || {
        let mut command = tollgate();
        command.args(["proxy", "--rules", &folder.path("rules.toml"), "--listen", "127.0.0.1:0"]);
        command.args(["--admin", "127.0.0.1:0", "--upstream", &url]);
        let mut proxy = Running::start(command);
        let address = proxy.address("proxy");
        (proxy, address)
    };
    let (kills, number, mut kept) = (kills(), Arc::new(AtomicU64::new(0)), Vec::new());
    // Of two processes, the older one is killed each time: each process takes over, and is killed.
    let mut older = start();
    for kill in 0..kills {
        let (newer, ends) = (start(), Arc::new(AtomicBool::new(false)));
        // Keys of their own: those of a killed process stand still until its time is over.
        let clients: Vec<_> = [&older.1, &newer.1]
            .into_iter()
            .flat_map(|address| (0..KEYS).map(move |key| (address.clone(), format!("{kill}-{key}"))))
            .map(|(address, key)| {
                let (number, ends) = (Arc::clone(&number), Arc::clone(&ends));
                thread::spawn(move || client(&address, &key, &number, &ends))
            })
            .collect();
        thread::sleep(Duration::from_millis(150 + kill % 7 * 30));
        older.0.signal("KILL");
        ends.store(true, Relaxed);
        kept.extend(clients.into_iter().flat_map(|client| client.join().expect("no panic")));
        older = newer;
    }
    assert!(kept.len() >= usize::try_from(kills).expect("it is small"), "only {} were kept", kept.len());
    all_come(&kept, &seen);
    let seen = seen.lock().expect("no panic");
    let twice = kept.iter().filter(|parked| seen[&parked.target].len() > 1).count();
    assert!(twice > 0, "no process was killed while it sent a request");
    eprintln!("{kills} kills, {} requests kept, none lost, {twice} sent once more", kept.len());
}
