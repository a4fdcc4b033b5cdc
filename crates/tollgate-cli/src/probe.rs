//! The command's parts without a process around them, for tests and fuzz targets.
//!
//! The command runs the same code; only the source of the bytes and the destination of the answers
//! differ.

use std::ops::ControlFlow;

use tollgate_logs::{Batch, Format, Options, Progress, read_blocks};

use crate::replay;
use crate::spec::Spec;

/// The outcome of one line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOutcome {
    /// The line of `--decisions`; empty without one.
    pub decision: String,
    /// How many units it gave back.
    pub back: u64,
    /// How many units it credited.
    pub credited: u64,
    /// Whether it is a refund or a cancel that found nothing to give back.
    pub found_nothing: bool,
}

/// Replays a trace of at most 1 MiB under one limit with room for so many keys.
///
/// # Errors
///
/// The command's message: about a limit that the engine refuses, or an operation that the limit
/// lacks.
pub fn replay(limit: Spec, max_keys: usize, trace: &[u8]) -> Result<Vec<RecordOutcome>, String> {
    let options = Options { format: Format::Trace, ..Options::default() };
    let mut batch = Batch::default();
    let each = |read: Batch, _| {
        batch = read;
        ControlFlow::Continue(Batch::default())
    };
    read_blocks("memory", &options, b"", [trace], &Progress::default(), each)
        .map_err(|error| error.to_string())?;
    let outcomes =
        replay::in_memory(limit, max_keys, batch.records(0)).map_err(|failure| failure.to_string())?;
    let (mut before, mut credits) = (replay::GivenBack::default(), 0);
    let outcomes = outcomes.into_iter().map(|outcome| {
        let total = outcome.given_back;
        let credited = outcome.credited.units - credits;
        credits = outcome.credited.units;
        let (back, found_nothing) = (total.units - before.units, total.found_nothing > before.found_nothing);
        before = total;
        RecordOutcome { decision: outcome.decision, back, credited, found_nothing }
    });
    Ok(outcomes.collect())
}
