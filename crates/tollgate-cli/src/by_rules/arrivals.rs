//! The requests of a log in the order of their arrivals.
//!
//! ```text
//!   lines, by their ends --> [waiting, by arrival] --> requests whose arrival is so far back that
//!                                                      only one that lasts longer than any before
//!                                                      could still come first
//! ```
//!
//! A log is written as requests end, so that a request comes after all that end before it, however
//! late they arrived. Each waits until the log has gone on by the longest duration that was seen
//! yet, and by a minute at least; or until too many wait. Without durations none waits.

use std::collections::BTreeMap;

/// The most requests that wait.
const MOST: usize = 1 << 20;

/// How long requests wait at least, in nanoseconds, where lines have durations.
const LEAST: u64 = 60_000_000_000;

/// Requests that wait for earlier ones.
#[derive(Debug)]
pub(super) struct Arrivals<R> {
    /// By arrival, then in the order of the log.
    waiting: BTreeMap<(u64, u64), R>,
    /// How many there have been.
    added: u64,
    /// The longest duration that was seen.
    longest: u64,
    /// The latest end.
    now: u64,
}

impl<R> Default for Arrivals<R> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), added: 0, longest: 0, now: 0 }
    }
}

impl<R> Arrivals<R> {
    /// From now on the lines have durations of their own.
    pub(super) fn expect_durations(&mut self) {
        self.longest = self.longest.max(LEAST);
    }

    pub(super) fn add(&mut self, arrives: u64, lasts: u64, request: R) {
        self.longest = self.longest.max(lasts);
        self.now = self.now.max(arrives.saturating_add(lasts));
        self.waiting.insert((arrives, self.added), request);
        self.added += 1;
    }

    /// Takes out the earliest request, if no earlier one is expected.
    pub(super) fn next(&mut self) -> Option<(u64, R)> {
        let has_room = self.waiting.len() <= MOST;
        let first = self.waiting.first_entry()?;
        let is_early = first.key().0 > self.now.saturating_sub(self.longest);
        if is_early && has_room {
            return None;
        }
        let ((arrives, _), request) = first.remove_entry();
        Some((arrives, request))
    }

    /// Takes out the earliest request of a log that has ended.
    pub(super) fn next_of_the_rest(&mut self) -> Option<(u64, R)> {
        self.waiting.pop_first().map(|((arrives, _), request)| (arrives, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The arrivals that are released after each request, by arrival and duration in seconds, and
    /// in the end.
    fn released(arrivals: &mut Arrivals<()>, requests: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let mut all = Vec::new();
        for (arrives, lasts) in requests {
            arrivals.add(arrives * SECOND, lasts * SECOND, ());
            all.push(std::iter::from_fn(|| arrivals.next()).map(|(at, _)| at / SECOND).collect());
        }
        all.push(std::iter::from_fn(|| arrivals.next_of_the_rest()).map(|(at, _)| at / SECOND).collect());
        all
    }

    #[test]
    fn without_durations_no_request_waits() {
        let requests = [(5, 0), (7, 0), (6, 0), (6, 0)];
        let expected: [&[u64]; 5] = [&[5], &[7], &[6], &[6], &[]];
        assert_eq!(released(&mut Arrivals::default(), &requests), expected);
        // Nor where all last equally long.
        let requests = [(5, 2), (7, 2), (6, 2)];
        assert_eq!(released(&mut Arrivals::default(), &requests), [vec![5], vec![7], vec![6], vec![]]);
    }

    #[test]
    fn arrivals_come_in_order_however_requests_end() {
        let mut arrivals = Arrivals::default();
        arrivals.expect_durations();
        let requests = [(100, 0), (90, 11), (101, 1), (60, 60), (150, 1), (40, 90), (161, 2), (300, 0)];
        let expected: [&[u64]; 9] = [&[], &[], &[], &[60], &[90], &[40], &[], &[100, 101, 150, 161], &[300]];
        assert_eq!(released(&mut arrivals, &requests), expected, "40 is late, and 90 s are expected then");
    }
}
