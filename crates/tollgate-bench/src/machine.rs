//! The machine and the build of the figures, as far as the system tells.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

/// The facts that a reader of the figures needs.
pub(crate) struct Machine {
    /// The processor's name for itself.
    pub(crate) processor: String,
    /// The number of hardware threads.
    pub(crate) threads: usize,
    /// The load average of the last minute before the run: other processes disturb the figures.
    pub(crate) load: Option<f64>,
    /// The operating system.
    pub(crate) system: Option<String>,
    /// The version of `rustc` on the path.
    pub(crate) compiler: Option<String>,
    /// The commit of the sources, with a note if they differ from it.
    pub(crate) commit: Option<String>,
}

impl Machine {
    /// Describes this machine.
    pub(crate) fn now() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = fs::read_to_string("/proc/loadavg").ok();
        Self {
            processor: model.map_or(std::env::consts::ARCH, |(_, name)| name).to_owned(),
            threads: threads(),
            load: load.and_then(|load| load.split(' ').next()?.parse().ok()),
            system: command_output("uname", &["-sr"]),
            compiler: command_output("rustc", &["--version"])
                .map(|version| version.split(" (").next().unwrap_or("").to_owned()),
            commit: commit(),
        }
    }

    /// Returns the lines for the head of a page.
    pub(crate) fn lines(&self) -> String {
        let load = self.load.map_or_else(String::new, |load| format!("; load {load}"));
        let commit = self.commit.as_deref().unwrap_or("unknown");
        format!("* Machine: {}, {} threads{load}.\n* Commit {commit}.", self.processor, self.threads)
    }
}

/// Returns the commit of the sources.
fn commit() -> Option<String> {
    let here = env!("CARGO_MANIFEST_DIR");
    let commit = command_output("git", &["-C", here, "rev-parse", "--short", "HEAD"])?;
    // Documents and pictures do not affect the figures.
    let changed = command_output(
        "git",
        &["-C", here, "status", "--porcelain", "--", ":/*.rs", ":/*.toml", ":/Cargo.lock"],
    );
    Some(if changed.is_none_or(|changed| changed.is_empty()) { commit } else { commit + " with changes" })
}

/// Runs a command and returns its output, if it succeeds.
pub(crate) fn command_output(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Returns the number of hardware threads.
pub(crate) fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Returns how long this thread was ready to run without a processor since it began. Only Linux
/// tells; elsewhere it is zero.
pub(crate) fn time_without_processor() -> Duration {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = schedstat.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
