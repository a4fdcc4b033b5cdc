//! Figures: one for each pass, their medians and quartiles, and ratios within a pass.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The time of a pass divided by the checks of all threads, in nanoseconds.
    NanosACheck,
    /// The 99.9th percentile of the latency, in nanoseconds.
    NanosAtP999,
    /// Resident bytes divided by the keys.
    BytesAKey,
}

impl Unit {
    /// Returns the name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NanosACheck => "ns a check",
            Self::NanosAtP999 => "ns at p99.9",
            Self::BytesAKey => "bytes a key",
        }
    }
}

/// The end of the name of a contestant that was measured alone, not in turns.
const ALONE: &str = ", alone";

/// Returns the name of a contestant's figures when it is alone.
pub(crate) fn alone(contestant: &str) -> String {
    format!("{contestant}{ALONE}")
}

/// Returns the contestant to compare `name` with: the first in the same order.
pub(crate) fn first_beside<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    names.find(|other| other.ends_with(ALONE) == name.ends_with(ALONE))
}

/// The figures of one workload.
pub(crate) struct Outcome {
    pub(crate) workload: String,
    pub(crate) unit: Unit,
    /// One for each contestant.
    pub(crate) scores: Vec<Score>,
}

/// The figures of one contestant.
pub(crate) struct Score {
    pub(crate) name: String,
    /// Whether the contestant is a floor, which decides nothing.
    pub(crate) is_floor: bool,
    /// One figure for each pass.
    pub(crate) passes: Vec<f64>,
    /// The admitted checks, and all checks.
    pub(crate) admitted: (usize, usize),
    /// How long its threads waited for a processor, and how long they were timed.
    pub(crate) waited: (Duration, Duration),
    /// The latencies of all passes, if the workload measures them.
    pub(crate) latencies: Option<Histogram<u64>>,
}

impl Score {
    /// A score without passes.
    pub(crate) fn new(name: &str, is_floor: bool) -> Self {
        Self {
            name: name.to_owned(),
            is_floor,
            passes: Vec::new(),
            admitted: (0, 0),
            waited: Default::default(),
            latencies: None,
        }
    }

    /// Adds a pass.
    pub(crate) fn add(&mut self, figure: f64, admitted: usize, checks: usize) {
        self.passes.push(figure);
        self.admitted = (self.admitted.0 + admitted, self.admitted.1 + checks);
    }

    /// Adds time in which the threads waited for a processor, out of the time `of`.
    pub(crate) fn add_wait(&mut self, waited: Duration, of: Duration) {
        self.waited = (self.waited.0 + waited, self.waited.1 + of);
    }

    /// Returns the share of the time in which the threads waited for a processor. Other processes
    /// cause it, not the contestant.
    pub(crate) fn waited_share(&self) -> f64 {
        let (waited, of) = self.waited;
        if of.is_zero() { 0.0 } else { waited.as_secs_f64() / of.as_secs_f64() }
    }

    /// Returns whether other processes disturbed the figures.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.waited_share() > 0.05
    }

    /// Returns whether the contestant was measured alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.name.ends_with(ALONE)
    }

    /// Returns the median and the quartiles of the figures.
    pub(crate) fn spread(&self) -> Spread {
        Spread::of(self.passes.clone())
    }

    /// Returns the ratio of these figures to those of another contestant, pass by pass.
    pub(crate) fn ratio_to(&self, other: &Self) -> Spread {
        Spread::of(self.passes.iter().zip(&other.passes).map(|(own, other)| own / other).collect())
    }
}

impl Outcome {
    /// Returns the score of a contestant.
    pub(crate) fn score(&self, name: &str) -> Option<&Score> {
        self.scores.iter().find(|score| score.name == name)
    }
}

/// The median, and the quartiles around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// A quarter is below.
    pub(crate) low: f64,
    /// Half are below.
    pub(crate) median: f64,
    /// A quarter is above.
    pub(crate) high: f64,
}

impl Spread {
    /// The spread of one or more figures.
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let count = figures.len();
        let middle = |a: usize, b: usize| f64::midpoint(figures[a], figures[b]);
        Self {
            low: figures[count / 4],
            median: middle((count - 1) / 2, count / 2),
            high: figures[(count - 1) - count / 4],
        }
    }

    /// Returns the spread of the reciprocals.
    pub(crate) fn inverse(self) -> Self {
        Self { low: 1.0 / self.high, median: 1.0 / self.median, high: 1.0 / self.low }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(passes: &[f64]) -> Score {
        let mut score = Score::new("a", false);
        passes.iter().for_each(|&figure| score.add(figure, 1, 1));
        score
    }

    #[test]
    fn a_spread_is_the_median_between_its_quartiles() {
        let spread = Spread { low: 2.0, median: 3.0, high: 4.0 };
        assert_eq!(score(&[5.0, 1.0, 3.0, 2.0, 4.0]).spread(), spread);
        assert_eq!(score(&[4.0, 1.0]).spread().median, 2.5);
        assert_eq!(score(&[7.0]).spread(), Spread { low: 7.0, median: 7.0, high: 7.0 });
        assert_eq!(
            Spread { low: 2.0, median: 4.0, high: 5.0 }.inverse(),
            Spread { low: 0.2, median: 0.25, high: 0.5 }
        );
    }

    #[test]
    fn contestants_alone_are_compared_with_one_alone() {
        let names = ["us", "them", "us, alone", "them, alone"];
        let first = |name| first_beside(names.into_iter(), name);
        assert_eq!((first("them"), first(&alone("them"))), (Some("us"), Some("us, alone")));
    }

    #[test]
    fn a_ratio_is_taken_within_each_pass() {
        // The machine was ten times slower in the second pass, which does not affect the ratio.
        let (fast, slow) = (score(&[1.0, 10.0, 1.1]), score(&[2.0, 20.0, 2.2]));
        assert_eq!(fast.ratio_to(&slow), Spread { low: 0.5, median: 0.5, high: 0.5 });
    }
}
