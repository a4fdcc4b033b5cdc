//! A witness of whether the servers' core was there at all.
//!
//! The host of a virtual machine takes cores away, for milliseconds, and tells of it only in sums.
//! A server that has no core does not answer, and works off its backlog afterwards: neither is a
//! stall of its own. The witness is a thread on the servers' core that wakes every quarter of a
//! millisecond, before all others. Where it wakes late, no thread had the core. A server that
//! computes, or another thread that keeps it from its core, does not hold up the witness. What the
//! kernel does for the server without a pause may, and counts as taken then.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::build;
use crate::process::SERVER;

/// How long the witness sleeps.
const NAP: Duration = Duration::from_micros(250);

/// From this delay on, the core was taken.
const TAKEN: Duration = Duration::from_millis(1);

/// For how many times as long as the core was taken its backlog is worked off, at most.
const BACKLOG: u32 = 2;

/// The watching thread.
pub(super) struct Witness {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Gap>>,
}

/// A time for which the core was taken.
#[derive(Clone, Copy, Debug)]
struct Gap {
    from: Instant,
    to: Instant,
}

/// The times for which the core was taken.
#[derive(Debug, Default)]
pub(super) struct Gaps(Vec<Gap>);

impl Witness {
    /// Begins to watch. Needs the right to raise a thread's priority: without it, this thread would
    /// wait behind the server.
    pub(super) fn start() -> Result<Self, String> {
        let ends = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let told_to_end = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let _ = tell.send(take_place());
            watch(&told_to_end)
        });
        told.recv().map_err(|error| error.to_string())??;
        Ok(Self { ends, thread })
    }

    /// Ends watching.
    pub(super) fn end(self) -> Gaps {
        self.ends.store(true, Relaxed);
        Gaps(self.thread.join().unwrap_or_default())
    }
}

/// Moves this thread to the servers' core, before all others.
fn take_place() -> Result<(), String> {
    let own =
        std::fs::read_link("/proc/thread-self").map_err(|error| format!("/proc/thread-self: {error}"))?;
    let own = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (program, arguments) in
        [("taskset", ["-c", "-p", SERVER, &own]), ("renice", ["-n", "-20", "-p", &own])]
    {
        if !build::succeeds(program, &arguments) {
            return Err(format!("{program} failed for a thread of this program: run it as root"));
        }
    }
    Ok(())
}

fn watch(ends: &AtomicBool) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut from = Instant::now();
    while !ends.load(Relaxed) {
        thread::sleep(NAP);
        let to = Instant::now();
        if to - from > NAP + TAKEN {
            gaps.push(Gap { from, to });
        }
        from = to;
    }
    gaps
}

impl Gaps {
    /// Whether the core was taken while an answer was awaited, or so shortly before that the
    /// server still worked off the backlog.
    pub(super) fn held_up(&self, due: Instant, answered: Instant) -> bool {
        let holds = |gap: &Gap| due <= gap.to + (gap.to - gap.from) * BACKLOG && gap.from <= answered;
        self.0.iter().any(holds)
    }

    /// For how long the core was taken at most.
    pub(super) fn longest(&self) -> Duration {
        self.0.iter().map(|gap| gap.to - gap.from).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_held_up_by_gaps_and_their_backlog() {
        let zero = Instant::now();
        let at = |millis: u64| zero + Duration::from_millis(millis);
        let gaps = Gaps(vec![Gap { from: at(100), to: at(110) }, Gap { from: at(200), to: at(202) }]);
        for (due, answered, is_held_up) in [
            (90, 99, false),
            (90, 100, true),
            (105, 106, true),
            (130, 131, true),
            (131, 132, false),
            (131, 199, false),
            (131, 200, true),
            (206, 300, true),
            (207, 300, false),
        ] {
            assert_eq!(gaps.held_up(at(due), at(answered)), is_held_up, "{due} .. {answered}");
        }
        assert_eq!(gaps.longest(), Duration::from_millis(10));
    }
}
