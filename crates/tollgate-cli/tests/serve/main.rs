//! `tollgate serve` as a process: signals, systemd, state, and what it says when it does not start.

#[path = "../../../tollgate-redis/tests/support/clock.rs"]
mod clock;
mod grpc;
mod life;
mod pages;
mod park;
mod park_redis;
mod proxy;
mod proxy_socket;
mod session;
mod soak;
mod start;
mod systemd;
#[path = "../../../tollgate-server/tests/tools/mod.rs"]
#[allow(dead_code)]
mod tools;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const RULES: &str = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '10/s,burst=20' }]\n";

/// How long anything may take here, on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// A folder with rules, that is removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-serve-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        let folder = Self(path);
        folder.write("rules.toml", RULES);
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a name in UTF-8").to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("it is written");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tollgate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
}

/// `tollgate serve` with the rules of this folder, on ports of the system's choice.
fn serve(folder: &Folder, options: &[&str]) -> Command {
    let mut command = tollgate();
    command.args(["serve", "--rules", &folder.path("rules.toml")]);
    for listener in ["--http", "--admin"] {
        if !options.contains(&listener) {
            command.args([listener, "127.0.0.1:0"]);
        }
    }
    command.args(options);
    command
}

/// A server, which is killed with the value.
struct Running {
    child: Child,
    lines: Receiver<String>,
    /// What it has said.
    said: String,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        Self::of(command.stderr(Stdio::piped()).spawn().expect("the binary starts"))
    }

    /// A child whose standard error is piped.
    fn of(mut child: Child) -> Self {
        let (tell, lines) = channel();
        let err = BufReader::new(child.stderr.take().expect("it is piped"));
        thread::spawn(move || err.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines, said: String::new() }
    }

    /// Waits for a line with these words, and returns it.
    fn says(&mut self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let left = LONG.saturating_sub(begun.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else { panic!("no {words:?} in\n{}", self.said) };
            self.said += &line;
            self.said.push('\n');
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The address of a listener, once it serves.
    fn address(&mut self, listener: &str) -> String {
        let line = self.says(&format!("listening for {listener}"));
        let (_, address) = line.split_once("address=").expect("it has one");
        address.split(' ').next().expect("a word").to_owned()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Kills it, and waits until its files and ports are free.
    fn kill(&mut self) {
        self.signal("KILL");
        assert_eq!(self.ends(), None, "it ended before");
    }

    /// Waits for the end, and returns the exit code.
    fn ends(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status.code();
            }
            assert!(begun.elapsed() < LONG, "it does not end:\n{}", self.said);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exit code and standard error of a server that does not start.
fn fails(mut command: Command) -> (Option<i32>, String) {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut running = Running::of(child.expect("the binary starts"));
    let code = running.ends();
    let said = running.lines.iter().collect::<Vec<_>>().join("\n");
    (code, said)
}

fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}
