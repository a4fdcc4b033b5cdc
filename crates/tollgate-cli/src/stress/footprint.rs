//! What a limiter takes of the machine's memory, and whether that is what its documentation says.

use std::fs;

/// What a thread and its counts may take beside the table: its stack, and a histogram of which it touches some.
const A_THREAD: u64 = 1 << 20;

/// Bytes, after all that was checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    /// Of the table, in use, by the limiter's own account.
    pub(super) table: u64,
    /// What the limiter said that its table may come to take.
    pub(super) most: u64,
    /// By how much the process grew, as the operating system counts it; `None` where it does not say.
    pub(super) grown: Option<u64>,
    pub(super) threads: usize,
}

impl Footprint {
    /// The most that the process may have grown by.
    pub(super) fn allowed(&self) -> u64 {
        self.most + A_THREAD * (self.threads as u64 + 1)
    }

    pub(super) fn is_within(&self) -> bool {
        self.table <= self.most && self.grown.is_none_or(|grown| grown <= self.allowed())
    }
}

/// Bytes of this process that are in memory; `None` where the system does not say so in the way of Linux.
pub(super) fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_take_what_it_said_and_threads_a_little_more() {
        let said = Footprint { table: 1024, most: 1024, grown: None, threads: 2 };
        assert!(said.is_within());
        assert!(!Footprint { table: 1025, ..said }.is_within());
        assert!(Footprint { grown: Some(1024 + (3 << 20)), ..said }.is_within());
        assert!(!Footprint { grown: Some(1025 + (3 << 20)), ..said }.is_within());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_that_is_touched_is_seen() {
        let before = resident().expect("Linux says so");
        let touched = vec![1_u8; 32 << 20];
        let grown = resident().expect("Linux says so").saturating_sub(before);
        assert!(grown > 24 << 20, "{} bytes were touched, {grown} seen", touched.len());
    }
}
