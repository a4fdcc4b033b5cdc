//! The records of one block of lines: entries of one size, and all keys end to end.
//!
//! ```text
//!   keys     1 9 4 . 1 8 7 . 1 6 8 . 2 3 0 | 2 0 0 1 : d b 8 : : / 6 4 | ...
//!   entries  { time, cost, line, op, key_end ^ }              { ... ^ }
//! ```
//!
//! In a trace, the id of a record follows its key. What rules ask of a record stands in buffers of
//! its own.
//!
//! The consumer, on another core, reads some 45 bytes a record instead of the whole line. It
//! returns a consumed batch with its memory to a parser, so that parsing allocates nothing.

use std::sync::Arc;

use tollgate::CallQuota;

use crate::durations::RequestTimes;
use crate::malformed::{Malformed, Refusal, SAMPLES, excerpt};
use crate::parts::{PartTexts, Parts, PartsOfFile};

/// The operation that a record asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Decide, and charge when admitted.
    Check,
    /// Decide only.
    Peek,
    /// Give back what a check took.
    Refund,
    /// Take now to act later.
    Reserve,
    /// Give back what a reservation took.
    Cancel,
    /// Decide as a check of what there is, at most the cost.
    CheckUpTo,
    /// Charge late, over the limit if need be.
    Debit,
    /// Give on top of the limit.
    Credit,
    /// Forget the key.
    Reset,
}

/// One request of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Index of the file in the list of sources.
    pub file: usize,
    /// Line number in that file; the first line is 1.
    pub line: u64,
    /// Nanoseconds since the Unix epoch; in a trace, the number in the line.
    pub t_ns: u64,
    /// The key that is limited. A log may hold any bytes.
    pub key: &'a [u8],
    /// How much it takes; for a refund or a credit, how much it gives at most.
    pub cost: u64,
    /// What it asks for.
    pub op: Op,
    /// The name by which a later refund or cancel finds this record, or by which this one finds an
    /// earlier record; empty without one.
    pub id: &'a [u8],
    /// How long a reservation may wait.
    pub max_wait_ns: u64,
    /// The quota that comes with the request, which alone decides it.
    pub quota: Option<CallQuota>,
    /// Whether it belongs to a trace, whose later records may give back what it takes.
    pub is_trace: bool,
    /// Whether it ends its block. In a live source, the next line may not be written yet.
    pub is_last: bool,
}

/// A record in a batch. Its key begins where the id of the entry before ends.
#[derive(Debug)]
struct Entry {
    t_ns: u64,
    cost: u64,
    key_end: u32,
    /// The id follows the key.
    id_len: u32,
    /// Counted from the start of the batch; the first line is 0.
    line: u32,
    op: Op,
    /// Whether it brings a quota.
    has_quota: bool,
}

/// The records of one block of lines.
#[derive(Debug, Default)]
pub struct Batch {
    /// Index of the file in the list of sources.
    pub(crate) file: usize,
    /// Lines of all kinds.
    pub(crate) lines: u64,
    /// Records that lack the part that is the key; their key is `-`.
    pub(crate) without_key: u64,
    /// Refused lines.
    pub(crate) malformed: u64,
    /// The first refused lines. Their numbers count from the start of the batch, from 0.
    pub(crate) samples: Vec<Malformed>,
    /// All keys and ids. A parser appends the key of a record before it pushes the record.
    pub(crate) keys: Vec<u8>,
    entries: Vec<Entry>,
    /// Boxed, since a batch is sent in messages.
    parts: Box<PartTexts>,
    /// How long each reservation may wait, in their order.
    waits: Vec<u64>,
    /// The quotas of the records that bring one, in their order.
    quotas: Vec<CallQuota>,
    /// Whether its records are those of a trace.
    pub(crate) is_trace: bool,
}

impl Batch {
    /// Empties the batch for the next block; keeps the memory.
    pub(crate) fn restart(&mut self, file: usize) {
        let Self { mut keys, mut entries, mut parts, mut waits, mut quotas, mut samples, .. } =
            std::mem::take(self);
        keys.clear();
        entries.clear();
        parts.restart();
        waits.clear();
        quotas.clear();
        samples.clear();
        *self = Self { file, keys, entries, parts, waits, quotas, samples, ..Self::default() };
    }

    /// Says what the block's file has of the wanted parts.
    pub(crate) fn begin_parts(&mut self, file: &Arc<PartsOfFile>) {
        self.parts.begin(file);
    }

    /// Whether some record has a wanted part of which that is true.
    pub(super) fn any_part(&self, wanted: usize, is_true: impl FnMut(&[u8]) -> bool) -> bool {
        self.parts.any(wanted, is_true)
    }

    /// When the requests of the block's file arrive and end.
    #[must_use]
    pub fn times(&self) -> &RequestTimes {
        &self.parts.file.times
    }

    /// Appends the next wanted part of the current line, whose record is pushed before or after.
    pub(crate) fn push_part(&mut self, text: &[u8]) {
        self.parts.push(text);
    }

    /// Adds the record of the current line, whose key the parser appended to `keys`.
    pub(crate) fn push(&mut self, t_ns: u64, cost: u64, op: Op) {
        // A block has at most a MiB, and a key is longer than its line by an IPv6 prefix's text at
        // most: the numbers of lines and of bytes fit in 32 bits.
        let (key_end, line) = (self.keys.len() as u32, (self.lines - 1) as u32);
        self.entries.push(Entry { t_ns, cost, key_end, id_len: 0, line, op, has_quota: false });
    }

    /// [`push`](Self::push) for a record of a trace, which may have an id. `max_wait_ns` is for
    /// reservations.
    pub(crate) fn push_traced(&mut self, t_ns: u64, cost: u64, op: Op, id: &[u8], max_wait_ns: u64) {
        self.is_trace = true;
        self.push(t_ns, cost, op);
        self.keys.extend_from_slice(id);
        self.entries.last_mut().expect("it was just pushed").id_len = id.len() as u32;
        if op == Op::Reserve {
            self.waits.push(max_wait_ns);
        }
    }

    /// Has the record that was just pushed bring its quota.
    pub(crate) fn push_quota(&mut self, quota: CallQuota) {
        self.entries.last_mut().expect("a record was just pushed").has_quota = true;
        self.quotas.push(quota);
    }

    /// Counts the current line as malformed, and drops what its parser appended to `keys`.
    pub(crate) fn refuse(&mut self, text: &[u8], reason: Refusal) {
        self.keys.truncate(self.entries.last().map_or(0, |entry| (entry.key_end + entry.id_len) as usize));
        self.parts.truncate(self.entries.len());
        self.malformed += 1;
        if self.samples.len() < SAMPLES {
            let line = self.lines - 1;
            self.samples.push(Malformed { file: self.file, line, reason, excerpt: excerpt(text) });
        }
    }

    /// The index of the file in the list of sources.
    #[must_use]
    pub fn file(&self) -> usize {
        self.file
    }

    /// Whether the records are those of a trace.
    #[must_use]
    pub fn is_trace(&self) -> bool {
        self.is_trace
    }

    /// The number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The time of the record with this index.
    #[must_use]
    pub fn t_ns(&self, index: usize) -> u64 {
        self.entries[index].t_ns
    }

    /// The line of the record with this index, when `before` lines of the file precede the batch.
    #[must_use]
    pub fn line(&self, index: usize, before: u64) -> u64 {
        before + 1 + u64::from(self.entries[index].line)
    }

    /// The wanted parts of the record with this index.
    #[must_use]
    pub fn parts(&self, index: usize) -> Parts<'_> {
        self.parts.of(index)
    }

    /// The records in the order of their lines, when `before` lines of the file precede the batch.
    pub fn records(&self, before: u64) -> impl Iterator<Item = Record<'_>> {
        let mut key_start = 0;
        let mut waits = self.waits.iter().copied();
        let mut quotas = self.quotas.iter().copied();
        self.entries.iter().enumerate().map(move |(index, entry)| {
            let key_end = entry.key_end as usize;
            let id_end = key_end + entry.id_len as usize;
            let (key, id) = (&self.keys[key_start..key_end], &self.keys[key_end..id_end]);
            key_start = id_end;
            let &Entry { t_ns, cost, op, .. } = entry;
            Record {
                file: self.file,
                line: self.line(index, before),
                t_ns,
                key,
                cost,
                op,
                id,
                max_wait_ns: if op == Op::Reserve { waits.next().unwrap_or(0) } else { 0 },
                quota: if entry.has_quota { quotas.next() } else { None },
                is_trace: self.is_trace,
                is_last: index + 1 == self.entries.len(),
            }
        })
    }
}
