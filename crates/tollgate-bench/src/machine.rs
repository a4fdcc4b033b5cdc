//! The machine on which the figures were taken, as far as it tells.

use std::fs;
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
        }
    }
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
