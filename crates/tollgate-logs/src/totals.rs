//! The totals of a reading, whether it reached the end or not.

use std::fmt;

use crate::batch::Batch;
use crate::error::LogError;
use crate::malformed::{Malformed, SAMPLES};

/// How many lines were read, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Lines of all kinds: records, malformed, blank, comments and headers.
    pub lines: u64,
    /// Lines that were a record.
    pub records: u64,
    /// Records that lack the part that is the key; their key is `-`.
    pub without_key: u64,
    /// Lines that could not be read.
    pub malformed: u64,
    /// The first malformed lines.
    pub samples: Vec<Malformed>,
}

impl Totals {
    /// Adds a batch that `before` lines of its file precede.
    pub(crate) fn add(&mut self, batch: &Batch, before: u64) {
        self.lines += batch.lines;
        self.records += batch.len() as u64;
        self.without_key += batch.without_key;
        self.malformed += batch.malformed;
        let room = SAMPLES - self.samples.len();
        let numbered = |sample: &Malformed| Malformed { line: before + 1 + sample.line, ..sample.clone() };
        self.samples.extend(batch.samples.iter().take(room).map(numbered));
    }
}

/// An error that stopped the reading. Everything before it was delivered and is counted.
#[derive(Debug)]
pub struct Stopped {
    /// The totals of all records before it.
    pub totals: Totals,
    /// What stopped it.
    pub error: LogError,
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
