//! The breaker: while the store fails, checks fail at once instead of each at its deadline.
//!
//! ```text
//!           5 failures in a row, or half of 20 or more in a second,
//!           or a connection that is refused, breaks, or is silent
//!  closed ------------------------------------------------------------> open
//!     ^                                                                  |
//!     +------------------------- 3 good probes in a row -----------------+
//! ```
//!
//! A trip that gets no answer in time is no failure while the store answers others (`pulse`). One
//! breaker watches one master. It reads no clock and starts no timer: times are arguments,
//! counted from the limiter's start, and the probes are sent by the guard's task.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Failures in a row that open the breaker.
const IN_A_ROW: u32 = 5;
/// How many outcomes of a second make their share of failures count.
const ENOUGH: u32 = 20;
/// The time over which that share is counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Good probes in a row that close the breaker.
const GOOD_PROBES: u32 = 3;
/// The time to the first probe, and between good ones.
const FIRST_PROBE: Duration = Duration::from_millis(100);
/// The longest time between probes.
const SLOWEST_PROBE: Duration = Duration::from_secs(1);

/// Whether the store is asked at all.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// Counts the transitions: odd while the breaker is open.
    ///
    /// Relaxed: it guards no other memory, and a check that reads it late is one more check of the
    /// time before.
    transitions: AtomicU64,
    state: Mutex<State>,
}

/// The right to ask the store once, given out while the breaker was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its outcome must be recorded"]
pub(crate) struct Pass(u64);

/// How a trip to the store ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trip {
    /// The store answered. A refusal is an answer.
    Answered,
    /// The store failed.
    Failed,
    /// The connection was refused, broke, or is silent.
    Broken,
}

/// What follows a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// The breaker has closed.
    Closed,
    /// The next probe is due after this time.
    Again(Duration),
}

#[derive(Debug, Default)]
struct State {
    /// The last failures without an answer between them.
    in_a_row: u32,
    /// When the current window began: with the first outcome after the last window.
    window: Duration,
    outcomes: u32,
    failures: u32,
    /// The last good probes in a row.
    good_probes: u32,
    /// The last time between probes.
    pause: Duration,
}

impl Breaker {
    /// Lets a check pass, unless the breaker is open.
    ///
    /// **Cost.** One load.
    pub(crate) fn pass(&self) -> Option<Pass> {
        let transitions = self.transitions.load(Relaxed);
        transitions.is_multiple_of(2).then_some(Pass(transitions))
    }

    /// Records how a trip ended. Returns whether that opened the breaker.
    ///
    /// A trip that began before the last transition says nothing about the store after it.
    pub(crate) fn record(&self, pass: Pass, trip: Trip, now: Duration) -> bool {
        let mut state = self.state();
        if self.transitions.load(Relaxed) != pass.0 {
            return false;
        }
        let opens = state.count(trip, now);
        if opens {
            *state = State { pause: FIRST_PROBE, ..State::default() };
            self.transitions.fetch_add(1, Relaxed);
        }
        opens
    }

    /// Records how a probe of the open breaker ended.
    pub(crate) fn probed(&self, good: bool) -> Probed {
        let mut state = self.state();
        if self.transitions.load(Relaxed).is_multiple_of(2) {
            return Probed::Closed;
        }
        if good {
            state.good_probes += 1;
            state.pause = FIRST_PROBE;
        } else {
            state.good_probes = 0;
            state.pause = SLOWEST_PROBE.min(state.pause * 2);
        }
        if state.good_probes < GOOD_PROBES {
            return Probed::Again(state.pause);
        }
        *state = State::default();
        self.transitions.fetch_add(1, Relaxed);
        Probed::Closed
    }

    /// The time to the first probe.
    pub(crate) const fn first_probe() -> Duration {
        FIRST_PROBE
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a trip, and returns whether the breaker must open.
    fn count(&mut self, trip: Trip, now: Duration) -> bool {
        if now.saturating_sub(self.window) >= WINDOW {
            (self.window, self.outcomes, self.failures) = (now, 0, 0);
        }
        self.outcomes += 1;
        if trip == Trip::Answered {
            self.in_a_row = 0;
            return false;
        }
        self.in_a_row += 1;
        self.failures += 1;
        trip == Trip::Broken
            || self.in_a_row >= IN_A_ROW
            || self.outcomes >= ENOUGH && self.failures * 2 >= self.outcomes
    }
}

/// Between three quarters of a pause and five quarters, by a random number, so that the nodes do
/// not all probe a restarted server at once.
pub(crate) fn jittered(pause: Duration, random: u64) -> Duration {
    pause * 3 / 4 + pause.mul_f64(0.5 * (random as f64 / u64::MAX as f64))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const START: Duration = Duration::from_secs(5);

    fn opens_after(trips: &[Trip]) -> Option<usize> {
        let breaker = Breaker::default();
        trips.iter().position(|&trip| breaker.record(breaker.pass().unwrap(), trip, START))
    }

    fn open() -> Breaker {
        let breaker = Breaker::default();
        assert!(breaker.record(breaker.pass().unwrap(), Trip::Broken, START));
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it() {
        assert_eq!(opens_after(&[Trip::Failed; 6]), Some(4));
        let mut trips = [Trip::Failed; 9];
        trips[4] = Trip::Answered;
        assert_eq!(opens_after(&trips), None, "an answer ends the row");
    }

    #[test]
    fn half_of_twenty_in_a_second_open_it() {
        let pairs = [Trip::Answered, Trip::Failed].repeat(20);
        assert_eq!(opens_after(&pairs), Some(19));
        let thirds = [Trip::Answered, Trip::Answered, Trip::Failed].repeat(20);
        assert_eq!(opens_after(&thirds), None);
        let breaker = Breaker::default();
        for n in 0..40 {
            let trip = if n % 2 == 0 { Trip::Answered } else { Trip::Failed };
            let now = START + Duration::from_millis(60) * n;
            assert!(!breaker.record(breaker.pass().unwrap(), trip, now), "17 in a second are too few");
        }
    }

    #[test]
    fn a_broken_connection_opens_it_at_once() {
        assert_eq!(opens_after(&[Trip::Answered, Trip::Broken]), Some(1));
        assert_eq!(open().pass(), None);
    }

    #[test]
    fn answers_alone_never_open_it() {
        assert_eq!(opens_after(&[Trip::Answered; 1_000]), None);
    }

    #[test]
    fn three_good_probes_in_a_row_close_it() {
        let breaker = open();
        let again = |millis| Probed::Again(Duration::from_millis(millis));
        let pauses = [false, false, false, false, false].map(|good| breaker.probed(good));
        assert_eq!(pauses, [again(200), again(400), again(800), again(1_000), again(1_000)]);
        assert_eq!(
            [true, true, false].map(|good| breaker.probed(good)),
            [again(100), again(100), again(200)]
        );
        assert_eq!(breaker.pass(), None);
        assert_eq!(
            [true, true, true].map(|good| breaker.probed(good)),
            [again(100), again(100), Probed::Closed]
        );
        assert!(breaker.pass().is_some());
    }

    #[test]
    fn trips_from_before_a_transition_count_no_more() {
        let breaker = Breaker::default();
        let stale = breaker.pass().unwrap();
        assert!(breaker.record(stale, Trip::Broken, START));
        assert!(!breaker.record(stale, Trip::Broken, START), "it opens once");
        for _ in 0..3 {
            let _ = breaker.probed(true);
        }
        for _ in 0..10 {
            assert!(!breaker.record(stale, Trip::Broken, START));
        }
        assert!(breaker.pass().is_some());
    }

    #[test]
    fn jitter_stays_within_a_quarter() {
        let pause = Duration::from_millis(400);
        assert_eq!(jittered(pause, 0), Duration::from_millis(300));
        assert_eq!(jittered(pause, u64::MAX), Duration::from_millis(500));
    }

    #[test]
    fn threads_open_it_exactly_once() {
        for _ in 0..200 {
            let (breaker, opened) = (Breaker::default(), AtomicU32::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        while let Some(pass) = breaker.pass() {
                            if breaker.record(pass, Trip::Failed, START) {
                                opened.fetch_add(1, Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(opened.load(Relaxed), 1);
        }
    }

    /// The rule, from the list of all trips since the breaker closed.
    fn naive(history: &[(Duration, Trip)]) -> bool {
        let bad = |trip: Trip| trip != Trip::Answered;
        let mut window = Vec::new();
        for &(at, trip) in history {
            if window.first().is_none_or(|&(first, _)| at - first >= WINDOW) {
                window.clear();
            }
            window.push((at, trip));
        }
        let failures = window.iter().filter(|(_, trip)| bad(*trip)).count();
        let (last, row) =
            (history.last().unwrap().1, history.iter().rev().take_while(|(_, trip)| bad(*trip)));
        bad(last)
            && (last == Trip::Broken
                || row.count() >= 5
                || window.len() >= 20 && failures * 2 >= window.len())
    }

    proptest! {
        #[test]
        fn it_opens_exactly_by_its_rule(
            trips in prop::collection::vec((0_u64..80, prop_oneof![
                8 => Just(Trip::Answered), 6 => Just(Trip::Failed), 1 => Just(Trip::Broken)]), 1..200)
        ) {
            let (breaker, mut now, mut history) = (Breaker::default(), START, Vec::new());
            for (millis, trip) in trips {
                now += Duration::from_millis(millis);
                history.push((now, trip));
                let opens = naive(&history);
                prop_assert_eq!(breaker.record(breaker.pass().unwrap(), trip, now), opens);
                if opens {
                    prop_assert!(breaker.pass().is_none());
                    while breaker.probed(true) != Probed::Closed {}
                    history.clear();
                }
            }
        }
    }
}
