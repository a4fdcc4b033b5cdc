//! Real stores, which the tests start and stop themselves.
//!
//! The programs are found on PATH or fetched into `target/tools`. A program that cannot be had is
//! named in `target/tools/missing`; with `TOLLGATE_TOOLS=required` that is a failure.

mod cluster;
mod proxy;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use cluster::{Cluster, Move, wait_for, wait_for_replica};
pub use proxy::Proxy;

use crate::faketime::Clock;
use crate::folder::{Folder, free_port};
use crate::tools::{self, runs};

/// A store's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// `redis-server`.
    Redis,
    /// `valkey-server`.
    Valkey,
}

impl Store {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    fn program(self) -> Option<PathBuf> {
        match self {
            Self::Redis => tools::find("redis-server"),
            Self::Valkey => tools::valkey(),
        }
    }
}

/// A running server with an empty store. Dropping it kills it and removes its folder.
pub struct Server {
    store: Store,
    program: PathBuf,
    first: Vec<String>,
    arguments: Vec<String>,
    /// `None`: the machine's.
    clock: Option<Clock>,
    child: Child,
    port: u16,
    folder: Folder,
}

impl Server {
    /// Starts a server without persistence. `None` if its program is missing.
    pub fn start(store: Store) -> Option<Self> {
        Self::start_with(store, &[])
    }

    /// Starts a server with these arguments more, such as `--maxmemory 2mb`.
    pub fn start_with(store: Store, arguments: &[&str]) -> Option<Self> {
        Self::start_as(store, &[], arguments, false)
    }

    /// Starts a server whose clock [`step_clock`](Self::step_clock) sets.
    pub fn start_faked(store: Store) -> Option<Self> {
        Self::start_faked_with(store, &[])
    }

    /// The same, with these arguments more.
    pub fn start_faked_with(store: Store, arguments: &[&str]) -> Option<Self> {
        Self::start_as(store, &[], arguments, true)
    }

    /// Starts a sentinel that watches no master yet.
    pub fn start_sentinel(store: Store) -> Option<Self> {
        Self::start_as(store, &["sentinel.conf", "--sentinel"], &[], false)
    }

    /// `first` are the arguments before all others. A sentinel wants a file, which it rewrites.
    fn start_as(store: Store, first: &[&str], arguments: &[&str], is_faked: bool) -> Option<Self> {
        let program = store.program()?;
        let first: Vec<String> = first.iter().map(|&argument| argument.to_owned()).collect();
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let folder = Folder::new();
        let clock = if is_faked { Some(Clock::right(folder.path())?) } else { None };
        // Another process may take the free port first, so the start is tried again.
        for _ in 0..20 {
            let port = free_port();
            let mut child = spawn(&program, port, folder.path(), &first, &arguments, clock.as_ref());
            if is_ready(&mut child, port) {
                return Some(Self { store, program, first, arguments, clock, child, port, folder });
            }
            let _ = (child.kill(), child.wait());
        }
        panic!("{} does not start: see {}", program.display(), folder.path().join("log").display());
    }

    /// The program that runs.
    pub fn store(&self) -> Store {
        self.store
    }

    /// The port of 127.0.0.1 that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, as clients take it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The path of the server's unix socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Sends one command on a connection of its own.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        self.try_ask(command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    /// The same; an error is returned.
    pub fn try_ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> redis::RedisResult<T> {
        let mut connection = redis::Client::open(self.url())?.get_connection()?;
        let mut built = redis::cmd(command[0]);
        for argument in &command[1..] {
            built.arg(argument);
        }
        built.query(&mut connection)
    }

    /// The names of its keys that this pattern matches.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        self.ask(&["KEYS", pattern])
    }

    /// Kills the server as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("the server was started by this process");
    }

    /// Starts a killed server again, on its port and with an empty store.
    pub fn restart(&mut self) {
        let (folder, arguments) = (self.folder.path(), &self.arguments);
        self.child = spawn(&self.program, self.port, folder, &self.first, arguments, self.clock.as_ref());
        assert!(is_ready(&mut self.child, self.port), "the server starts again on port {}", self.port);
    }

    /// Sets a faked clock to so much before or after the machine's, such as `-1h`.
    pub fn step_clock(&self, by: &str) {
        self.clock.as_ref().expect("it was started with a faked clock").set(by);
    }

    /// Stops the process where it is: SIGSTOP.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets a frozen process go on: SIGCONT.
    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        assert!(runs(kill.args([signal, &self.child.id().to_string()])), "kill {signal}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

fn spawn(
    program: &Path,
    port: u16,
    folder: &Path,
    first: &[String],
    arguments: &[String],
    clock: Option<&Clock>,
) -> Child {
    let log = File::create(folder.join("log")).expect("the temporary folder can be written to");
    let mut command = Command::new(program);
    command.current_dir(folder).args(first);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]).arg(folder);
    if first.is_empty() {
        command.args(["--save", "", "--appendonly", "no", "--unixsocket"]).arg(folder.join("socket"));
    } else {
        File::create(folder.join("sentinel.conf")).expect("the temporary folder can be written to");
    }
    command.args(arguments.iter().flat_map(|argument| argument.split(' ')));
    if let Some(clock) = clock {
        clock.drive(&mut command);
        // Its timers, and what waits for them, go by the machine's.
        command.env("DONT_FAKE_MONOTONIC", "1");
    }
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
    command.spawn().expect("the program can be executed")
}

/// Waits until the server answers a PING. False if the process ends first.
fn is_ready(child: &mut Child, port: u16) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(30) {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return false;
        }
        if answers(port) {
            // It may be another server's answer on a port that this one could not have.
            std::thread::sleep(Duration::from_millis(5));
            return child.try_wait().is_ok_and(|status| status.is_none());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Whether a server answers at all, also with an error (a password is missing, it is loading).
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut answer = [0; 8];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read(&mut answer).is_ok_and(|length| length > 0)
        && !answer.starts_with(b"-LOADING")
}
