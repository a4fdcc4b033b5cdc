//! The admissions of a key in few bytes, and their count over every interval.

use std::time::Duration;

/// The longest interval whose admissions are counted one by one. In longer ones, those that were on
/// their way at the beginning of the interval are left out: at most one for each task.
const ONE_BY_ONE: f64 = 10.0;

/// What an interval of `w` seconds with `n` restarts of the store admits at most:
/// `burst + rate * w + for_restart * n`.
pub(crate) struct Bound {
    pub(crate) burst: f64,
    pub(crate) rate: f64,
    pub(crate) for_restart: f64,
}

/// The admissions of one key: when each was sent and answered, in seconds.
#[derive(Default)]
pub(crate) struct Record(Vec<[f64; 2]>);

impl Record {
    pub(crate) fn push(&mut self, sent: Duration, answered: Duration) {
        self.0.push([sent.as_secs_f64(), answered.as_secs_f64()]);
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<[f64; 2]>()) as u64
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Asserts the bound over every interval. Returns the largest part that was used of the
    /// allowance beyond the rate.
    pub(crate) fn hold(&mut self, name: &str, bound: &Bound, restarts: &[(Duration, Duration)]) -> f64 {
        self.0.sort_by(|a, b| a[1].total_cmp(&b[1]));
        let mut most_used = 0_f64;
        let mut look = |count: usize, from: f64, to: f64| {
            // A restart that overlaps the interval may lie in it.
            let overlaps = |(begun, ended): &&(Duration, Duration)| {
                begun.as_secs_f64() <= to && ended.as_secs_f64() >= from
            };
            let emptied = restarts.iter().filter(overlaps).count();
            let beyond = bound.burst + bound.for_restart * emptied as f64;
            let used = (count as f64 - bound.rate * (to - from)) / beyond;
            assert!(
                used <= 1.0 + 1e-6,
                "{name}: {count} from {from} to {to} s with {emptied} restarts: {used} of what is allowed"
            );
            most_used = most_used.max(used);
        };
        for (first, &[from, _]) in self.0.iter().enumerate() {
            // Later ones may be answered before: look back over those on their way.
            let begin =
                self.0[..first].iter().rposition(|&[_, answered]| answered < from).map_or(0, |at| at + 1);
            let mut count = 0;
            for &[sent, answered] in &self.0[begin..] {
                if answered - from > ONE_BY_ONE {
                    break;
                }
                if sent >= from {
                    count += 1;
                    look(count, from, answered);
                }
            }
        }
        // Longer intervals, from the sending of each hundredth admission to the answer of another.
        let mut by_sent: Vec<f64> = self.0.iter().map(|admission| admission[0]).collect();
        by_sent.sort_by(f64::total_cmp);
        for (before, &from) in by_sent.iter().enumerate().step_by(100) {
            for (after, &[_, to]) in self.0.iter().enumerate().step_by(100) {
                if to - from > ONE_BY_ONE && after >= before {
                    look(after + 1 - before, from, to);
                }
            }
        }
        most_used
    }
}

#[test]
#[should_panic(expected = "of what is allowed")]
fn one_admission_above_the_bound_is_found() {
    let mut record = Record::default();
    for millis in [0, 900, 950, 1_000] {
        record.push(Duration::from_millis(millis), Duration::from_millis(millis));
    }
    record.hold("test", &Bound { burst: 2.0, rate: 1.0, for_restart: 0.0 }, &[]);
}
