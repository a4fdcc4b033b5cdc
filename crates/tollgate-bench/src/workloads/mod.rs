//! The workloads. A workload builds its keys and contestants when it runs and drops them
//! afterwards.

mod algorithms;
mod hot;
mod key_types;
mod latency;
mod many;
mod memory;
mod scale;
mod threads;

use crate::contest::Contest;
use crate::error::BenchError;
use crate::measure::{Outcome, Unit};

pub(crate) use memory::resident_of;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// The passes of each workload.
    pub(crate) passes: usize,
    /// Too few keys and checks for a measurement: tests that all contestants work.
    pub(crate) is_quick: bool,
}

impl Effort {
    /// The number of keys: `keys`, or fewer in a quick run.
    fn keys(self, keys: usize) -> usize {
        if self.is_quick { keys.min(1_000) } else { keys }
    }

    /// The number of checks: `checks`, or fewer in a quick run.
    fn checks(self, checks: usize) -> usize {
        if self.is_quick { checks.min(2_000) } else { checks }
    }
}

type Run = Box<dyn Fn(Effort, &mut dyn FnMut()) -> Result<Outcome, BenchError>>;

/// A measurement of several contestants.
pub(crate) struct Workload {
    /// Its name in tables, the filter and targets.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    run: Run,
}

impl Workload {
    /// A workload whose contestants are timed in turn.
    fn contest<K: Sync + 'static>(
        name: impl Into<String>,
        open: impl Fn(Effort) -> Contest<K> + 'static,
    ) -> Self {
        let name = name.into();
        let workload = name.clone();
        let run =
            move |effort: Effort, tick: &mut dyn FnMut()| open(effort).run(&workload, effort.passes, tick);
        Self { name, unit: Unit::NanosACheck, run: Box::new(run) }
    }

    /// Measures all passes. Calls `tick` after each.
    pub(crate) fn run(&self, effort: Effort, tick: &mut dyn FnMut()) -> Result<Outcome, BenchError> {
        (self.run)(effort, tick)
    }
}

/// Returns the workloads whose names contain the filter, the cheap ones first. The workloads of
/// `scale` are included only if the filter names them.
pub(crate) fn workloads(filter: &str) -> Vec<Workload> {
    let scale = if filter.contains(scale::NAME) { scale::workloads() } else { Vec::new() };
    let kinds = [
        hot::workloads(),
        algorithms::workloads(),
        key_types::workloads(),
        many::workloads(),
        threads::workloads(),
        latency::workloads(),
        memory::workloads(),
        scale,
    ];
    kinds.into_iter().flatten().filter(|workload| workload.name.contains(filter)).collect()
}
