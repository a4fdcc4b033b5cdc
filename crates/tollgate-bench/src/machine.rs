//! The machine on which the figures were taken, and the build, as far as they tell.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

/// What the reader of a figure must know.
pub(crate) struct Machine {
    /// As the processor calls itself.
    pub(crate) processor: String,
    /// Threads that run at once.
    pub(crate) threads: usize,
    /// How many processes wanted to run in the last minute, on average: others' work is in every figure.
    pub(crate) load: Option<f64>,
    /// Its operating system.
    pub(crate) system: Option<String>,
    /// The compiler found here.
    pub(crate) compiler: Option<String>,
    /// The commit of the sources here, with a note if they differ from it.
    pub(crate) commit: Option<String>,
}

impl Machine {
    /// This one, now.
    pub(crate) fn now() -> Self {
        let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = fs::read_to_string("/proc/loadavg").ok();
        Self {
            processor: model.map_or(std::env::consts::ARCH, |(_, name)| name).to_owned(),
            threads: threads(),
            load: load.and_then(|load| load.split(' ').next()?.parse().ok()),
            system: said("uname", &["-sr"]),
            compiler: said("rustc", &["--version"])
                .map(|told| told.split(" (").next().unwrap_or("").to_owned()),
            commit: commit(),
        }
    }

    /// As the head of a page says it.
    pub(crate) fn lines(&self) -> String {
        let load = self.load.map_or_else(String::new, |load| format!("; load {load}"));
        let commit = self.commit.as_deref().unwrap_or("unknown");
        format!("* Machine: {}, {} threads{load}.\n* Commit {commit}.", self.processor, self.threads)
    }
}

/// What `cargo run` has built.
fn commit() -> Option<String> {
    let here = env!("CARGO_MANIFEST_DIR");
    let commit = said("git", &["-C", here, "rev-parse", "--short", "HEAD"])?;
    // Figures do not come of documents and pictures.
    let changed =
        said("git", &["-C", here, "status", "--porcelain", "--", ":/*.rs", ":/*.toml", ":/Cargo.lock"]);
    Some(if changed.is_none_or(|changed| changed.is_empty()) { commit } else { commit + " with changes" })
}

/// What a command prints, if there is one that succeeds.
pub(crate) fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Threads that run at once.
pub(crate) fn threads() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// How long this thread was ready to run since it began, and had no processor. Linux says it.
pub(crate) fn waited() -> Duration {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split(' ').nth(1).and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
