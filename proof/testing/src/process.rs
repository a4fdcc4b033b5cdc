//! Programs as processes, which end with their value.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take here, on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

/// A process, which is killed with the value.
#[derive(Debug)]
pub struct Process {
    /// The process itself.
    pub child: Child,
    /// The lines of its standard error, if that is piped.
    lines: Receiver<String>,
    /// What it has said.
    pub said: String,
}

impl Process {
    /// Starts a program whose standard error is read.
    pub fn start(mut command: Command) -> Self {
        Self::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()))
    }

    /// Starts a program in a folder, where it writes its `log`, and waits until it listens here.
    pub fn listening(command: &mut Command, folder: &Path, address: SocketAddr) -> Self {
        let log = File::create(folder.join("log")).expect("the folder can be written to");
        let command = command.current_dir(folder).env("HOME", folder);
        let mut process = Self::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log));
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            let is_early = begun.elapsed() < 2 * LONG && process.runs();
            assert!(is_early, "{}", std::fs::read_to_string(folder.join("log")).unwrap_or_default());
            thread::sleep(Duration::from_millis(20));
        }
        process
    }

    /// Starts a program as the command says. Its standard error is read if it is piped.
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the program can be executed");
        let (tell, lines) = channel();
        if let Some(err) = child.stderr.take().map(BufReader::new) {
            thread::spawn(move || err.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        }
        Self { child, lines, said: String::new() }
    }

    /// Waits for a line with these words, and returns it.
    pub fn says(&mut self, words: &str) -> String {
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

    /// All that it still says until it ends.
    pub fn rest(&self) -> String {
        self.lines.iter().collect::<Vec<_>>().join("\n")
    }

    /// Whether it has not ended.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("kill is there").success(), "{name}");
    }

    /// Kills it as `kill -9` does, and waits until its files and ports are free.
    pub fn kill(&mut self) {
        self.signal("KILL");
        assert_eq!(self.ends(), None, "it ended before");
    }

    /// Waits for the end, and returns the exit code.
    pub fn ends(&mut self) -> Option<i32> {
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

impl Drop for Process {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
