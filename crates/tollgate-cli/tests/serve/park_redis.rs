//! Requests that several processes of `tollgate proxy` keep in one Redis, over kills of both and a
//! full disk.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use crate::park::{Asked, all_come, client, kept_by, kills, upstream};
use tollgate_testing::folder::free_port;
use tollgate_testing::process::{LONG, Process};
use tollgate_testing::tools;

use crate::{Folder, address_of, tollgate};

/// How many keys two processes share before one of them is killed.
const KEYS: usize = 3;

/// A server that syncs each write, which ends with the value.
struct Redis {
    program: PathBuf,
    folder: String,
    process: Process,
    port: u16,
}

impl Redis {
    fn start(folder: &Folder) -> Option<Self> {
        Self::start_within(folder, "unlimited")
    }

    /// Starts a server whose files may have so many blocks of 512 bytes.
    fn start_within(folder: &Folder, blocks: &str) -> Option<Self> {
        let (program, folder) = (tools::find("redis-server")?, folder.path(""));
        // Another process may take the free port first.
        for _ in 0..20 {
            let port = free_port();
            let process = Self::spawn(&program, &folder, port, blocks);
            let mut redis = Self { program: program.clone(), folder: folder.clone(), process, port };
            if redis.is_ready() {
                return Some(redis);
            }
        }
        panic!("redis-server does not start");
    }

    fn spawn(program: &Path, folder: &str, port: u16, blocks: &str) -> Process {
        let mut command = Command::new("sh");
        // The signal of the limit is ignored, so that a write fails instead.
        command.args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", blocks]).arg(program);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir", folder]);
        command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        Process::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    fn is_ready(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LONG && self.process.runs() {
            if self.ask("PING").is_ok_and(|answer| answer.starts_with("+PONG")) {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// Kills the server as `kill -9` does, and starts it again.
    fn restart(&mut self) {
        let _ = (self.process.child.kill(), self.process.child.wait());
        self.process = Self::spawn(&self.program, &self.folder, self.port, "unlimited");
        assert!(self.is_ready(), "it starts again on port {}", self.port);
    }

    /// Rules that keep requests there.
    fn rules(&self) -> String {
        format!(
            "version = 1
            stores.shared = {{ url = 'redis://127.0.0.1:{}', deadline = '10s' }}
            rule = [{{ name = 'each', key = 'header.x-key', limits = '200/s,burst=1', store = 'shared',
                on_failure = 'refuse', on_refusal = 'park',
                park = {{ requests = 100000, requests_per_key = 100000 }} }}]",
            self.port,
        )
    }

    fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// A proxy, and its address.
fn start(folder: &Folder, upstream: &str) -> (Process, String) {
    let mut command = tollgate();
    command.args(["proxy", "--rules", &folder.path("rules.toml"), "--listen", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0", "--upstream", upstream]);
    let mut proxy = Process::start(command);
    let address = address_of(&mut proxy, "proxy");
    (proxy, address)
}

#[test]
fn another_proxy_sends_what_a_killed_one_had() {
    let folder = Folder::new();
    let Some(redis) = Redis::start(&folder) else { return };
    folder.write("rules.toml", &redis.rules());
    // Long enough that most kills come while a request is on its way.
    let (url, seen) = upstream(Duration::from_millis(20));
    let (kills, asked, mut kept) = (kills(), Arc::<Asked>::default(), Vec::new());
    // Of two processes, the older one is killed each time: each process takes over, and is killed.
    let mut older = start(&folder, &url);
    for kill in 0..kills {
        let newer = start(&folder, &url);
        asked.ends.store(false, Relaxed);
        // Keys of their own: those of a killed process stand still until its time is over.
        let clients = [&older.1, &newer.1]
            .into_iter()
            .flat_map(|address| (0..KEYS).map(move |key| (address, format!("{kill}-{key}"))))
            .map(|(address, key)| client(address, key, &asked))
            .collect();
        thread::sleep(Duration::from_millis(150 + kill % 7 * 30));
        older.0.signal("KILL");
        asked.ends.store(true, Relaxed);
        kept.extend(kept_by(clients));
        older = newer;
    }
    assert!(kept.len() >= usize::try_from(kills).expect("it is small"), "only {} were kept", kept.len());
    let twice = all_come(&kept, &seen);
    assert!(twice > 0, "no process was killed while it sent a request");
    eprintln!("{kills} kills of proxies, {} requests kept, none lost, {twice} sent once more", kept.len());
}

#[test]
fn kills_of_redis_lose_nothing_that_was_answered_202() {
    let folder = Folder::new();
    let Some(mut redis) = Redis::start(&folder) else { return };
    folder.write("rules.toml", &redis.rules());
    let (url, seen) = upstream(Duration::ZERO);
    let (_proxy, address) = start(&folder, &url);
    let (kills, asked) = (kills(), Arc::<Asked>::default());
    let clients = (0..4).map(|key| client(&address, format!("{key}"), &asked)).collect();
    for kill in 0..kills {
        thread::sleep(Duration::from_millis(100 + kill % 7 * 30));
        // A busy disk syncs few requests in that time.
        asked.keeps(10);
        redis.restart();
    }
    asked.ends.store(true, Relaxed);
    let kept = kept_by(clients);
    let twice = all_come(&kept, &seen);
    eprintln!("{kills} kills of Redis, {} requests kept, none lost, {twice} sent once more", kept.len());
}

#[test]
fn a_full_disk_of_redis_loses_nothing_that_was_kept() {
    let folder = Folder::new();
    // Redis ends when a write fails.
    let Some(mut redis) = Redis::start_within(&folder, "2048") else { return };
    folder.write("rules.toml", &redis.rules());
    let (url, seen) = upstream(Duration::ZERO);
    let (_proxy, address) = start(&folder, &url);
    let asked = Asked::with(&format!("?{}", "x".repeat(4000)));
    let clients = (0..4).map(|key| client(&address, format!("{key}"), &asked)).collect();
    asked.refuses(100);
    assert!(!redis.process.runs(), "it has room");
    asked.ends.store(true, Relaxed);
    let kept = kept_by(clients);
    assert!(kept.len() > 20, "only {} were kept", kept.len());
    redis.restart();
    let twice = all_come(&kept, &seen);
    eprintln!("Redis without room: {} requests kept, none lost, {twice} sent once more", kept.len());
}
