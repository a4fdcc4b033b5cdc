//! The questions. A workload builds its keys and its contestants when it is run, and drops them after.

mod algorithms;
mod hot;
mod latency;
mod many;
mod memory;
mod names;
mod scale;
mod threads;

use crate::contest::Contest;
use crate::fault::Fault;
use crate::measure::{Outcome, Unit};

pub(crate) use memory::resident_of;

/// How much is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Passes that count.
    pub(crate) passes: usize,
    /// Too few of everything to measure: a check that all works.
    pub(crate) is_quick: bool,
}

impl Effort {
    /// So many keys.
    fn keys(self, keys: usize) -> usize {
        if self.is_quick { keys.min(1_000) } else { keys }
    }

    /// So many checks a pass.
    fn asks(self, asks: usize) -> usize {
        if self.is_quick { asks.min(2_000) } else { asks }
    }
}

type Run = Box<dyn Fn(Effort, &mut dyn FnMut()) -> Result<Outcome, Fault>>;

/// One question.
pub(crate) struct Workload {
    /// As the tables, the filter and the targets call it.
    pub(crate) name: String,
    /// What its figures count.
    pub(crate) unit: Unit,
    run: Run,
}

impl Workload {
    /// Contestants timed in turn.
    fn contest<K: Sync + 'static>(
        name: impl Into<String>,
        open: impl Fn(Effort) -> Contest<K> + 'static,
    ) -> Self {
        let name = name.into();
        let called = name.clone();
        let run =
            move |effort: Effort, tick: &mut dyn FnMut()| open(effort).run(&called, effort.passes, tick);
        Self { name, unit: Unit::NanosACheck, run: Box::new(run) }
    }

    /// Measures; `tick` is called after each pass.
    pub(crate) fn run(&self, effort: Effort, tick: &mut dyn FnMut()) -> Result<Outcome, Fault> {
        (self.run)(effort, tick)
    }
}

/// Those whose names contain the filter, the cheap ones first; those of scale only if it is about them.
pub(crate) fn workloads(filter: &str) -> Vec<Workload> {
    let scale = if filter.contains(scale::NAME) { scale::workloads() } else { Vec::new() };
    let kinds = [
        hot::workloads(),
        algorithms::workloads(),
        names::workloads(),
        many::workloads(),
        threads::workloads(),
        latency::workloads(),
        memory::workloads(),
        scale,
    ];
    kinds.into_iter().flatten().filter(|workload| workload.name.contains(filter)).collect()
}
