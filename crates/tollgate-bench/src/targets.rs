//! The performance targets and their verdicts.

use crate::measure::{Outcome, Score, Spread, alone};
use crate::peers::FASTEST_PEER;

/// The figure that a target bounds.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// The ratio of two contestants' figures, at most the bound.
    Ratio(&'static str, &'static str),
    /// The ratio of two contestants' throughputs, at least the bound.
    Speedup(&'static str, &'static str),
    /// A contestant's figure, at most the bound.
    Plain(&'static str),
}

/// A bound on a figure of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) workload: &'static str,
    figure: Figure,
    pub(crate) bound: f64,
    /// The target is also met by a figure of at most this, in the workload's unit.
    or_plain: Option<f64>,
    /// Whether the target holds for contestants alone, too.
    pub(crate) is_also_alone: bool,
}

/// Whether a target is met.
pub(crate) struct Verdict {
    pub(crate) target: Target,
    /// The figure, in words.
    pub(crate) what: String,
    /// The bound, in words.
    pub(crate) bound: String,
    /// `None` if a contestant is missing; the target is missed then.
    pub(crate) measured: Option<Spread>,
    /// Whether the median is within the bound.
    pub(crate) is_met: bool,
    /// Whether other processes disturbed the contestants, so that the verdict is unreliable.
    pub(crate) is_disturbed: bool,
}

const fn ratio(workload: &'static str, of: &'static str, by: &'static str, bound: f64) -> Target {
    Target { workload, figure: Figure::Ratio(of, by), bound, or_plain: None, is_also_alone: false }
}

const fn speedup(workload: &'static str, of: &'static str, by: &'static str, bound: f64) -> Target {
    Target { workload, figure: Figure::Speedup(of, by), bound, or_plain: None, is_also_alone: false }
}

/// A bound on Tollgate's ratio to the fastest peer, in turns and alone.
const fn peer(workload: &'static str, bound: f64) -> Target {
    Target { is_also_alone: true, ..ratio(workload, "tollgate", FASTEST_PEER, bound) }
}

const LINE: &str = "floor: hash + clock + CAS";
const CAS: &str = "floor: CAS";
const BUCKET: &str = "tollgate: token bucket";

const BATCHES: &str = "tollgate (batches of 32)";
const TIME_GIVEN: &str = "tollgate (time given)";

/// The targets of `--targets`.
pub(crate) const TARGETS: [Target; 36] = [
    ratio("hot key, allow", "tollgate", "floor: clock + CAS", 1.10),
    peer("hot key, allow", 0.65),
    ratio("hot key, deny", "tollgate", FASTEST_PEER, 0.55),
    peer("1k keys uniform, allow", 0.85),
    peer("1k keys, 100/s", 0.85),
    peer("50k keys uniform, allow", 0.85),
    peer("50k keys, 100/s", 0.85),
    peer("1M keys uniform, allow", 0.70),
    ratio("1M keys uniform, allow", "tollgate", LINE, 1.5),
    peer("10M keys uniform, allow", 0.60),
    ratio("10M keys uniform, allow", "tollgate", LINE, 1.7),
    ratio("1M keys Zipf 0.99, allow", "tollgate", FASTEST_PEER, 0.55),
    ratio("1M keys, batches of 32", BATCHES, FASTEST_PEER, 0.20),
    ratio("10M keys, batches of 32", BATCHES, FASTEST_PEER, 0.25),
    peer("1M recovered keys, 100/s", 0.6),
    peer("10M recovered keys, 100/s", 0.6),
    peer("1M recovered keys, 10/s", 0.6),
    peer("10M recovered keys, 10/s", 0.6),
    ratio("hot key, time given, allow", TIME_GIVEN, CAS, 1.25),
    ratio("hot key, coarse clock, allow", "tollgate (coarse clock)", CAS, 1.25),
    Target { or_plain: Some(3.0), ..ratio("hot key, time given, deny", TIME_GIVEN, CAS, 0.6) },
    ratio("string key of 16 bytes, hot", "tollgate", FASTEST_PEER, 0.7),
    ratio("string key of 16 bytes, hot", "tollgate (ahash)", FASTEST_PEER, 0.5),
    peer("1M new keys", 1.2),
    ratio("algorithms, hot key, allow", "tollgate: fixed window", BUCKET, 1.15),
    ratio("algorithms, hot key, allow", "tollgate: leaky bucket", BUCKET, 1.15),
    ratio("algorithms, hot key, allow", "tollgate: sliding window", BUCKET, 1.15),
    ratio("algorithms, hot key, allow", "tollgate: sliding log of 100", BUCKET, 2.0),
    ratio("several limits, hot key, allow", "tollgate: two limits", "tollgate: one limit", 1.4),
    speedup("hot key, allow, 2 threads", "tollgate", FASTEST_PEER, 2.0),
    speedup("hot key, deny, 2 threads", "tollgate", FASTEST_PEER, 3.0),
    speedup("hot key, lease, 2 threads", "tollgate (lease)", "tollgate (lease), 1 thread", 1.8),
    speedup("1M keys uniform, allow, 2 threads", "tollgate", "tollgate, 1 thread", 1.6),
    Target {
        is_also_alone: true,
        ..speedup("1M recovered keys, 100/s, 2 threads", "tollgate", "tollgate, 1 thread", 1.7)
    },
    Target { figure: Figure::Plain("tollgate"), ..ratio("10M keys, memory", "", "", 34.0) },
    ratio("latency during a flood, closed loop", "tollgate", FASTEST_PEER, 0.5),
];

/// Returns the targets of a workload.
pub(crate) fn targets_of(workload: &str) -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().filter(move |target| target.workload == workload)
}

/// Returns whether a target that holds for contestants alone compares this contestant.
pub(crate) fn is_in_target(workload: &str, contestant: &str) -> bool {
    targets_of(workload).filter(|target| target.is_also_alone).any(|target| match target.figure {
        Figure::Ratio(of, other) | Figure::Speedup(of, other) => [of, other].contains(&contestant),
        Figure::Plain(of) => of == contestant,
    })
}

impl Target {
    /// Compares the target with the outcome of its workload: in turns, alone, or both, as measured.
    pub(crate) fn evaluate(self, outcome: &Outcome) -> Vec<Verdict> {
        let is_measured = |alone: bool| outcome.scores.iter().any(|score| score.is_alone() == alone);
        let orders = [false, true].into_iter().filter(|&alone| !alone || self.is_also_alone);
        orders.filter(|&alone| is_measured(alone)).map(|alone| self.verdict(outcome, alone)).collect()
    }

    /// Compares the target with the contestants in turns, or with each alone.
    fn verdict(self, outcome: &Outcome, is_alone: bool) -> Verdict {
        let unit = outcome.unit.name();
        let score = |of: &str| if is_alone { outcome.score(&alone(of)) } else { outcome.score(of) };
        let spread = |of: &str| score(of).map(Score::spread);
        let by = |of: &str, by: &str| Some(score(of)?.ratio_to(score(by)?));
        let (what, bound, measured, of) = match self.figure {
            Figure::Ratio(of, other) => {
                (format!("{of} / {other}"), format!("at most {}", self.bound), by(of, other), of)
            }
            Figure::Speedup(of, other) => {
                let measured = by(of, other).map(Spread::inverse);
                (format!("throughput of {of} / {other}"), format!("at least {}", self.bound), measured, of)
            }
            Figure::Plain(of) => (of.to_owned(), format!("at most {} {unit}", self.bound), spread(of), of),
        };
        let is_within = |measured: Spread| match self.figure {
            Figure::Speedup(..) => measured.median >= self.bound,
            Figure::Ratio(..) | Figure::Plain(_) => measured.median <= self.bound,
        };
        let or_plain = self.or_plain.map(|plain| format!(", or {plain} {unit}")).unwrap_or_default();
        let also = self.or_plain.zip(spread(of)).is_some_and(|(plain, spread)| spread.median <= plain);
        let is_met = measured.is_some_and(is_within) || also;
        let other = match self.figure {
            Figure::Ratio(_, other) | Figure::Speedup(_, other) => other,
            Figure::Plain(of) => of,
        };
        let is_disturbed = [of, other].iter().any(|name| score(name).is_some_and(Score::is_disturbed));
        let what = if is_alone { alone(&what) } else { what };
        Verdict { target: self, what, bound: bound + &or_plain, measured, is_met, is_disturbed }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::Unit;
    use crate::workloads::workloads;

    fn outcome(figures: &[(&str, f64)]) -> Outcome {
        let score = |&(name, figure): &(&str, f64)| {
            let mut score = Score::new(name, false);
            score.add(figure, 1, 1);
            score
        };
        Outcome {
            workload: "w".to_owned(),
            unit: Unit::NanosACheck,
            scores: figures.iter().map(score).collect(),
        }
    }

    fn evaluated(target: Target, outcome: &Outcome) -> Verdict {
        target.evaluate(outcome).remove(0)
    }

    #[test]
    fn a_ratio_is_met_up_to_its_bound() {
        let target = ratio("w", "ours", "theirs", 0.5);
        assert!(evaluated(target, &outcome(&[("ours", 5.0), ("theirs", 10.0)])).is_met);
        let verdict = evaluated(target, &outcome(&[("ours", 5.1), ("theirs", 10.0)]));
        assert!(
            !verdict.is_met && verdict.measured.is_some_and(|spread| (spread.median - 0.51).abs() < 1e-9)
        );
        assert!(!evaluated(target, &outcome(&[("ours", 1.0)])).is_met, "a contestant is missing");
    }

    #[test]
    fn a_speedup_compares_throughputs() {
        let target = speedup("w", "ours", "theirs", 2.0);
        assert!(evaluated(target, &outcome(&[("ours", 5.0), ("theirs", 10.0)])).is_met);
        assert!(!evaluated(target, &outcome(&[("ours", 5.1), ("theirs", 10.0)])).is_met);
    }

    #[test]
    fn a_disturbed_contestant_disturbs_its_targets() {
        let mut outcome = outcome(&[("ours", 5.0), ("theirs", 10.0)]);
        let target = ratio("w", "ours", "theirs", 0.5);
        assert!(!evaluated(target, &outcome).is_disturbed);
        outcome.scores[1].add_wait(Duration::from_millis(6), Duration::from_millis(100));
        assert!(evaluated(target, &outcome).is_disturbed && evaluated(target, &outcome).is_met);
    }

    #[test]
    fn either_of_two_bounds_suffices() {
        let target = Target { or_plain: Some(3.0), ..ratio("w", "ours", "theirs", 0.6) };
        assert!(evaluated(target, &outcome(&[("ours", 3.0), ("theirs", 1.0)])).is_met);
        assert!(evaluated(target, &outcome(&[("ours", 6.0), ("theirs", 10.0)])).is_met);
        assert!(!evaluated(target, &outcome(&[("ours", 6.1), ("theirs", 10.0)])).is_met);
        let plain = Target { figure: Figure::Plain("ours"), ..ratio("w", "", "", 34.0) };
        assert!(evaluated(plain, &outcome(&[("ours", 34.0)])).is_met);
        assert!(!evaluated(plain, &outcome(&[("ours", 34.1)])).is_met);
    }

    #[test]
    fn a_target_is_evaluated_in_each_measured_order() {
        let outcome = outcome(&[
            ("tollgate", 6.0),
            (FASTEST_PEER, 10.0),
            ("tollgate, alone", 5.0),
            (&alone(FASTEST_PEER), 10.0),
        ]);
        let verdicts = peer("w", 0.5).evaluate(&outcome);
        let found: Vec<_> = verdicts.iter().map(|verdict| (&*verdict.what, verdict.is_met)).collect();
        let (in_turns, alone) = ("tollgate / governor (ahash)", "tollgate / governor (ahash), alone");
        assert_eq!(found, [(in_turns, false), (alone, true)]);
        assert_eq!(ratio("w", "tollgate", FASTEST_PEER, 0.5).evaluate(&outcome).len(), 1, "in turns only");
    }

    #[test]
    fn every_target_has_its_workload() {
        let names: Vec<String> = workloads(&[]).into_iter().map(|workload| workload.name).collect();
        // The workloads of memory need Linux.
        let known = |target: &Target| {
            cfg!(not(target_os = "linux")) || names.iter().any(|name| name == target.workload)
        };
        TARGETS.iter().for_each(|target| assert!(known(target), "{}", target.workload));
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
