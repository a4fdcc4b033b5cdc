//! Replays records in memory and returns every outcome, for [`crate::probe`].

use std::cell::OnceCell;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_logs::Record;

use super::decisions::Decisions;
use super::limit::Limit;
use super::limiter::ReplayLimiter;
use super::lines::Lines;
use super::outcome::{Counts, Credited, GivenBack};
use super::simulation::Simulation;
use crate::failure::Failure;
use crate::spec::{Spec, refusal};

/// The outcome of one record.
pub(crate) struct RecordOutcome {
    /// The line of `--decisions` without its line feed; empty without one.
    pub(crate) decision: String,
    /// All that was given back so far.
    pub(crate) given_back: GivenBack,
    /// All that was credited so far.
    pub(crate) credited: Credited,
}

/// Replays the records under one limit.
///
/// # Errors
///
/// A limit that the engine refuses; an operation that the limit lacks.
pub(crate) fn in_memory<'r>(
    spec: Spec,
    max_keys: usize,
    records: impl Iterator<Item = Record<'r>>,
) -> Result<Vec<RecordOutcome>, Failure> {
    let limit = Limit::new(spec, Some(max_keys), 1).map_err(|error| Failure::Usage(refusal(spec, &error)))?;
    let (limits, names, limiter) = ([limit], ["memory".to_owned()], OnceCell::<ReplayLimiter>::new());
    let lines = SharedBuffer::default();
    let decisions =
        Decisions::to(Lines::to(Box::new(lines.clone()), "memory".to_owned(), &names), &[spec.to_string()]);
    let mut simulation =
        Simulation::new(&limits, None, &limiter, &names, Counts::new(false), Some(decisions));
    records
        .map(|record| {
            simulation.step(&record)?;
            simulation.flush()?;
            let decision =
                String::from_utf8_lossy(&std::mem::take(&mut *lines.bytes())).trim_end().to_owned();
            let &Counts { given_back, credited, .. } = &simulation.counts;
            Ok(RecordOutcome { decision, given_back, credited })
        })
        .collect()
}

/// A buffer with two owners: one writes, the other empties it.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
