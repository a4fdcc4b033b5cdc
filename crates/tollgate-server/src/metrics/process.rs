//! What the operating system says of this process.

use std::fs;

use rustix::process::{Resource, getrlimit};

use super::text::Text;

/// Clock ticks of Linux in a second, as user programs see them: fixed at 100.
const TICKS: f64 = 100.0;

/// Writes `process_*`, by the names that all of Prometheus' libraries use. What cannot be read is
/// left out.
pub(super) fn write(text: &mut Text) {
    if let Some(stat) = Stat::read() {
        text.family("process_cpu_seconds_total", "counter", "Processor time of the process.")
            .sample(&[], stat.cpu_ticks as f64 / TICKS);
        text.family("process_virtual_memory_bytes", "gauge", "Virtual memory.")
            .sample(&[], stat.virtual_bytes);
        if let Some(bytes) = resident_bytes() {
            text.family("process_resident_memory_bytes", "gauge", "Resident memory.").sample(&[], bytes);
        }
        if let Some(boot) = boot_time() {
            text.family("process_start_time_seconds", "gauge", "When the process started, in Unix time.")
                .sample(&[], boot + stat.start_ticks as f64 / TICKS);
        }
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        text.family("process_open_fds", "gauge", "Open file descriptors.").sample(&[], files.count());
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        text.family("process_max_fds", "gauge", "The most file descriptors.").sample(&[], most);
    }
}

/// Of `/proc/self/stat`.
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    virtual_bytes: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The fields after the program's name, which may have spaces and brackets in it.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // By proc(5) the state after the name is field 3.
        let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
        Some(Self { cpu_ticks: field(14)? + field(15)?, start_ticks: field(22)?, virtual_bytes: field(23)? })
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// When the machine started, in seconds of Unix time.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_hides_no_field() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194304 1 0 0 0 250 50 0 0 20 0 3 0 12345 1000000 200";
        let stat = Stat::parse(stat).unwrap();
        assert_eq!((stat.cpu_ticks, stat.start_ticks, stat.virtual_bytes), (300, 12345, 1_000_000));
        assert!(Stat::parse("7 (a").is_none());
    }
}
