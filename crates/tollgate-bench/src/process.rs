//! A server as a process of its own, on a core of its own.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The core of the servers.
pub(crate) const SERVER: &str = "0";

/// The cores of servers with two threads, one of which is the loader's.
pub(crate) const BOTH: &str = "0,1";

/// The core of the program that loads them.
pub(crate) const LOADER: &str = "1";

/// The cores that both need.
pub(crate) const CORES: usize = 2;

/// A server that listens. It is killed when this is dropped.
pub(crate) struct Process {
    process: Child,
    pub(crate) port: u16,
}

impl Process {
    /// Starts a server on the servers' core. `arguments` adds the program and its arguments, with a
    /// port that is free. Returns once it listens there.
    pub(crate) fn start(
        name: &str,
        arguments: impl FnOnce(&mut Command, u16) -> Result<(), String>,
    ) -> Result<Self, String> {
        Self::start_on(SERVER, name, arguments)
    }

    /// Starts a server on these cores, as taskset takes them.
    pub(crate) fn start_on(
        cores: &str,
        name: &str,
        arguments: impl FnOnce(&mut Command, u16) -> Result<(), String>,
    ) -> Result<Self, String> {
        let port = free_port()?;
        let mut command = Command::new("taskset");
        command.args(["-c", cores]);
        arguments(&mut command, port)?;
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = Self { process: process.map_err(|error| format!("{name}: {error}"))?, port };
        for _ in 0..1_000 {
            if let Ok(Some(ended)) = server.process.try_wait() {
                return Err(format!("the server {name} ended: {ended}"));
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("the server {name} does not listen"))
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the user and system time of the process so far.
    pub(crate) fn cpu_micros(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        cpu_ticks(&stat).map(|ticks| ticks * 10_000.0).ok_or_else(|| format!("{path}: {stat}"))
    }

    /// Returns the resident memory of the process, in bytes.
    pub(crate) fn resident(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/statm", self.process.id());
        let statm = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.map(|pages| pages * 4096).ok_or_else(|| format!("{path}: {statm}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    Ok(address.map_err(|error| format!("no port is free: {error}"))?.port())
}

/// Returns the user and system time of `/proc/PID/stat`, in hundredths of a second.
fn cpu_ticks(stat: &str) -> Option<f64> {
    // The name is in brackets and may contain blanks. User and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_after_any_process_name() {
        let stat = "7 (a) b 1 2) S 1 7 7 0 -1 4194304 100 0 0 0 23 19 0 0 20 0 3 0 1 2 3";
        assert_eq!(cpu_ticks(stat), Some(42.0));
    }
}
