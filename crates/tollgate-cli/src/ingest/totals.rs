//! What a whole reading came to, whether it reached the end or not.

use std::fmt;

use super::batch::Batch;
use super::error::IngestError;
use super::malformed::{Malformed, SAMPLES};

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Lines of all kinds: records, malformed, blank, comments and headers.
    pub(crate) lines: u64,
    /// Lines that were a record.
    pub(crate) records: u64,
    /// Records that lack the part to count by; their key is `-`.
    pub(crate) without_key: u64,
    /// Lines that could not be read.
    pub(crate) malformed: u64,
    /// The first of those.
    pub(crate) samples: Vec<Malformed>,
}

impl Totals {
    /// Adds a batch whose file has `before` lines before it.
    pub(crate) fn add(&mut self, batch: &Batch, before: u64) {
        self.lines += batch.lines;
        self.records += batch.len();
        self.without_key += batch.without_key;
        self.malformed += batch.malformed;
        let room = SAMPLES - self.samples.len();
        let numbered = |sample: &Malformed| Malformed { line: before + 1 + sample.line, ..sample.clone() };
        self.samples.extend(batch.samples.iter().take(room).map(numbered));
    }
}

/// Reading ended with an error; everything before it was delivered and is counted here.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// What was read until then.
    pub(crate) totals: Totals,
    /// Why not more.
    pub(crate) error: IngestError,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Stopped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
