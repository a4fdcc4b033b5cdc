//! Refunds: a trace may ask for them before the engine can give them.

use std::ops::ControlFlow;

use crate::ingest::{Malformed, Record, Totals};

/// The most lines that are shown.
const SHOWN: usize = 5;

/// Counts refunds as lines that could not be read: better than to pass over them in silence.
#[derive(Debug, Default)]
pub(super) struct Refunds {
    count: u64,
    samples: Vec<Malformed>,
}

impl Refunds {
    pub(super) fn refuse(&mut self, record: Record<'_>) -> ControlFlow<()> {
        self.count += 1;
        if self.samples.len() < SHOWN {
            self.samples.push(Malformed {
                file: record.file,
                line: record.line,
                reason: "refund comes with a later version",
                excerpt: format!("key {:?}", String::from_utf8_lossy(record.key)),
            });
        }
        ControlFlow::Continue(())
    }

    pub(super) fn add_to(self, totals: &mut Totals) {
        totals.records -= self.count;
        totals.malformed += self.count;
        totals.samples.extend(self.samples);
        totals.samples.sort_by_key(|sample| (sample.file, sample.line));
        totals.samples.truncate(SHOWN);
    }
}
