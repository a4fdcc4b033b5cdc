//! Logs in memory as requests that outlive their batches.

use std::ops::ControlFlow;

use tollgate::CallQuota;
use tollgate_logs::{Batch, Op, Options, Part, Progress, Record, Wanted, read_blocks, read_duration};

/// A request of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) line: u64,
    pub(crate) t_ns: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) cost: u64,
    pub(crate) op: Op,
    pub(crate) id: Vec<u8>,
    pub(crate) max_wait_ns: u64,
    pub(crate) quota: Option<CallQuota>,
}

/// A log that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) lines: u64,
    pub(crate) malformed: u64,
    pub(crate) without_key: u64,
    /// Requests that say how long they last.
    pub(crate) durations: u64,
    pub(crate) requests: Vec<Request>,
}

/// Reads a text as two blocks, the first of which ends with the line at `cut`. The log is the same
/// wherever the cut is.
pub(crate) fn read(options: &Options, text: &[u8], cut: usize) -> Result<Log, String> {
    let duration = Wanted { part: Part::Duration, field: None, unit: None };
    let options = Options { wanted: vec![duration], ..options.clone() };
    let end = text[cut..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |at| cut + at + 1);
    let mut log = Log::default();
    let each = |batch: Batch, before| {
        log.requests.extend(batch.records(before).map(Request::from));
        let is_read = |&index: &usize| {
            let text = batch.parts(index).get(0);
            read_duration(text, batch.times().unit).is_ok_and(|lasts| lasts.is_some())
        };
        log.durations += (0..batch.len()).filter(is_read).count() as u64;
        ControlFlow::Continue(batch)
    };
    let blocks = [&text[..end], &text[end..]];
    let totals = read_blocks("memory", &options, text, blocks, &Progress::default(), each);
    let totals = totals.map_err(|error| error.to_string())?;
    (log.lines, log.malformed, log.without_key) = (totals.lines, totals.malformed, totals.without_key);
    assert_eq!(totals.records, log.requests.len() as u64);
    Ok(log)
}

impl From<Record<'_>> for Request {
    fn from(record: Record<'_>) -> Self {
        let Record { line, t_ns, cost, op, max_wait_ns, quota, .. } = record;
        Self { line, t_ns, key: record.key.into(), cost, op, id: record.id.into(), max_wait_ns, quota }
    }
}
