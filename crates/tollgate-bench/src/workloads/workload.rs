//! A workload, and the size of a run.

use crate::contest::{Contest, Order};
use crate::error::BenchError;
use crate::measure::{Outcome, Unit};

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// The passes of each workload.
    pub(crate) passes: usize,
    /// Too few keys and checks for a measurement: tests that all contestants work.
    pub(crate) is_quick: bool,
    /// Whether each contestant is measured alone, not in turns.
    pub(crate) is_alone: bool,
    /// Tells by the names of a workload and a contestant whether the contestant takes part.
    pub(crate) takes_part: fn(&str, &str) -> bool,
}

/// The checks of a contestant that is measured alone.
const CHECKS_ALONE: usize = 3_000_000;

impl Effort {
    /// The number of keys: `keys`, or fewer in a quick run.
    pub(super) fn keys(self, keys: usize) -> usize {
        if self.is_quick { keys.min(1_000) } else { keys }
    }

    /// The number of checks: `checks`, or fewer in a quick run.
    pub(super) fn checks(self, checks: usize) -> usize {
        if self.is_quick { checks.min(2_000) } else { checks }
    }

    /// The number of checks of keys that recover. In a quick run the keys are few, and the time is
    /// too short for them to recover.
    pub(super) fn checks_of_recovered(self, checks: usize) -> usize {
        if self.is_quick { checks.min(100) } else { checks }
    }

    fn order(self) -> Order {
        if self.is_alone { Order::Alone { checks: self.checks(CHECKS_ALONE) } } else { Order::InTurns }
    }
}

pub(super) type Run = Box<dyn Fn(Effort, &mut dyn FnMut()) -> Result<Outcome, BenchError>>;

/// A measurement of several contestants.
pub(crate) struct Workload {
    /// Its name in tables, the filter and targets.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(super) run: Run,
}

impl Workload {
    /// A workload whose contestants are timed in turns, or each alone.
    pub(super) fn contest<K: Sync + 'static>(
        name: impl Into<String>,
        open: impl Fn(Effort) -> Contest<K> + 'static,
    ) -> Self {
        let name = name.into();
        let workload = name.clone();
        let run = move |effort: Effort, tick: &mut dyn FnMut()| {
            let mut contest = open(effort);
            contest.contestants.retain(|contestant| (effort.takes_part)(&workload, &contestant.name));
            contest.run(&workload, effort.passes, effort.order(), tick)
        };
        Self { name, unit: Unit::NanosACheck, run: Box::new(run) }
    }

    /// Returns whether the contestants can be measured alone. Memory always is, and latency never.
    pub(crate) fn has_alone(&self) -> bool {
        self.unit == Unit::NanosACheck
    }

    /// Measures all passes. Calls `tick` after each.
    pub(crate) fn run(&self, effort: Effort, tick: &mut dyn FnMut()) -> Result<Outcome, BenchError> {
        (self.run)(effort, tick)
    }
}
