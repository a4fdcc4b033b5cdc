//! The memory that a limiter takes, and whether it stays within the announced size.

use std::fs;

/// The bytes that a thread may take beside the table, for its stack and its histogram.
const PER_THREAD: u64 = 1 << 20;

/// Bytes in use after the last check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    /// Of the table, as the limiter counts them.
    pub(super) table: u64,
    /// The most that the table may take, as its builder announced.
    pub(super) announced: u64,
    /// How much the process grew, as the operating system counts it; `None` where it does not say.
    pub(super) grown: Option<u64>,
    pub(super) threads: usize,
}

impl Footprint {
    /// The most that the process may have grown.
    pub(super) fn allowed(&self) -> u64 {
        self.announced + PER_THREAD * (self.threads as u64 + 1)
    }

    pub(super) fn is_within(&self) -> bool {
        self.table <= self.announced && self.grown.is_none_or(|grown| grown <= self.allowed())
    }
}

/// Bytes of this process in memory, without those of files: the program's own code comes into
/// memory as it is run. `None` on systems without Linux's `/proc/self/status`.
pub(super) fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_what_was_announced_threads_little_more() {
        let announced = Footprint { table: 1024, announced: 1024, grown: None, threads: 2 };
        assert!(announced.is_within());
        assert!(!Footprint { table: 1025, ..announced }.is_within());
        assert!(Footprint { grown: Some(1024 + (3 << 20)), ..announced }.is_within());
        assert!(!Footprint { grown: Some(1025 + (3 << 20)), ..announced }.is_within());
    }

    /// Set in the process that runs one test alone.
    #[cfg(target_os = "linux")]
    const ALONE: &str = "TOLLGATE_TEST_ALONE";

    /// In a process of its own: tests beside it give memory back meanwhile.
    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_is_touched_is_seen() {
        if std::env::var_os(ALONE).is_some() {
            let before = resident().expect("Linux says so");
            let touched = std::hint::black_box(vec![1_u8; 32 << 20]);
            let grown = resident().expect("Linux says so").saturating_sub(before);
            assert!(grown > 24 << 20, "{} bytes were touched, {grown} seen", touched.len());
            return;
        }
        let myself = std::env::current_exe().expect("a test is a program");
        let alone = std::process::Command::new(myself)
            .args(["--exact", "stress::footprint::tests::memory_that_is_touched_is_seen"])
            .env(ALONE, "1")
            .output()
            .expect("a test can be run again");
        let told = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && told.contains("1 passed"), "{told}");
    }
}
