//! Decides a log by two rules files at once, each on a thread of its own:
//!
//! ```text
//!                                +-- chunk --> [decider: old file] -- side --+
//!   records --> [caller: chunk] -+                                           +--> caller: `each`
//!                                +-- chunk --> [decider: new file] -- side --+
//! ```
//!
//! While the deciders are at one chunk, the caller makes the next.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::clients::Client;
use super::judge::Judge;
use super::log::Logged;
use super::request::{Layout, LogRequest};
use super::{RequestLog, Trial};
use crate::failure::Failure;
use crate::ingest::{Parts, Wanted};
use crate::reading::{ReadSummary, Reading};

/// So many requests are decided at a time: many enough that handing them over is nothing to it.
const CHUNK: usize = 1 << 12;

/// So many chunks the deciders may have at a time.
const UNDERWAY: usize = 2;

/// The file and the line of a record.
pub(crate) type At = (usize, u64);

/// A log, and the files that decide it.
pub(crate) struct SideBySide(Trial<2>);

/// Requests with all that rules ask of them.
#[derive(Default)]
struct Chunk {
    requests: Vec<Held>,
    /// The texts of all wanted parts, end to end.
    texts: Vec<u8>,
    /// The ends of a request's parts, counted from its first.
    ends: Vec<u32>,
    found: Box<[bool]>,
}

struct Held {
    at: At,
    t_ns: u64,
    client: Option<Client>,
    status: Option<u16>,
    /// Where its texts begin.
    texts: usize,
}

/// What one file decides of a chunk.
#[derive(Default)]
struct Side {
    /// Of each request, where its refusals end. It is admitted without any.
    ends: Vec<usize>,
    refusals: Vec<Refusal>,
    keys: Vec<u8>,
}

struct Refusal {
    rule: usize,
    /// Where the key ends; it begins where the one before ends.
    key_end: usize,
}

/// The decision of one file.
#[derive(Clone, Copy)]
pub(crate) struct Decided<'s> {
    side: &'s Side,
    request: usize,
}

impl<'s> Decided<'s> {
    pub(crate) fn is_admitted(self) -> bool {
        self.refusals().is_empty()
    }

    /// The rules that refuse the request, by their indices in the file, with the keys.
    pub(crate) fn refusing(self) -> impl Iterator<Item = (usize, &'s [u8])> {
        let side = self.side;
        self.refusals().map(move |at| {
            let begin = at.checked_sub(1).map_or(0, |before| side.refusals[before].key_end);
            let Refusal { rule, key_end } = side.refusals[at];
            (rule, &side.keys[begin..key_end])
        })
    }

    fn refusals(self) -> std::ops::Range<usize> {
        let ends = &self.side.ends;
        self.request.checked_sub(1).map_or(0, |before| ends[before])..ends[self.request]
    }
}

impl SideBySide {
    pub(crate) fn new(trial: Trial<2>) -> Self {
        Self(trial)
    }

    pub(crate) fn log(&self) -> &RequestLog {
        &self.0.log
    }

    pub(crate) fn judges(&self) -> &[Judge; 2] {
        &self.0.judges
    }

    /// Reads the log, and gives `each` the decisions of both files, in the log's order.
    ///
    /// # Errors
    ///
    /// Those of [`Reading::each_with_parts`], [`RequestLog::request`] and [`Judge::open`].
    pub(crate) fn read(
        &mut self,
        reading: &Reading,
        mut each: impl FnMut(At, Decided<'_>, Decided<'_>),
    ) -> Result<ReadSummary, Failure> {
        let Trial { log, judges } = &mut self.0;
        let (layout, wanted) = (log.layout().clone(), log.wanted().as_slice().to_vec());
        thread::scope(|scope| {
            let deciders = judges.each_mut().map(|judge| Decider::start(scope, judge, &layout, &wanted));
            let mut deciders = Deciders { deciders, underway: VecDeque::new() };
            let mut chunk = Chunk::default();
            let read = reading.each_with_parts(wanted.clone(), |record| {
                chunk.push((record.file, record.line), &log.request(&record)?);
                if chunk.requests.len() == CHUNK {
                    deciders.give(take(&mut chunk));
                    chunk = deciders.finish_to(UNDERWAY - 1, &mut each)?;
                }
                Ok(())
            })?;
            deciders.give(chunk);
            deciders.finish_to(0, &mut each)?;
            Ok(read)
        })
    }
}

/// The thread on which one file decides.
struct Decider {
    chunks: Sender<Arc<Chunk>>,
    /// What it decides of each chunk, in their order.
    sides: Receiver<Result<Side, Failure>>,
}

impl Decider {
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        judge: &'s mut Judge,
        layout: &'s Layout,
        wanted: &'s [Wanted],
    ) -> Self {
        let (chunks, given) = bounded::<Arc<Chunk>>(UNDERWAY);
        let (decided, sides) = bounded(UNDERWAY);
        scope.spawn(move || {
            for chunk in given {
                let side = Side::of(judge, &chunk, layout, wanted);
                // Before the side is sent: then the caller is the only one that has the chunk.
                drop(chunk);
                if decided.send(side).is_err() {
                    return;
                }
            }
        });
        Self { chunks, sides }
    }
}

/// Both deciders, and the chunks that they have.
struct Deciders {
    deciders: [Decider; 2],
    underway: VecDeque<Arc<Chunk>>,
}

impl Deciders {
    fn give(&mut self, chunk: Chunk) {
        let chunk = Arc::new(chunk);
        for decider in &self.deciders {
            decider.chunks.send(Arc::clone(&chunk)).expect("deciding does not panic");
        }
        self.underway.push_back(chunk);
    }

    /// Waits until the deciders have at most `left` chunks, and gives `each` what they decided of
    /// the others. Returns an empty chunk, if it can with the memory of one of those.
    fn finish_to(
        &mut self,
        left: usize,
        mut each: impl FnMut(At, Decided<'_>, Decided<'_>),
    ) -> Result<Chunk, Failure> {
        let mut free = Chunk::default();
        while self.underway.len() > left
            && let Some(chunk) = self.underway.pop_front()
        {
            let [old, new] = self
                .deciders
                .each_ref()
                .map(|decider| decider.sides.recv().expect("deciding does not panic"));
            let (old, new) = (old?, new?);
            for (request, held) in chunk.requests.iter().enumerate() {
                each(held.at, Decided { side: &old, request }, Decided { side: &new, request });
            }
            free = Arc::into_inner(chunk).unwrap_or_default();
            free.clear();
        }
        Ok(free)
    }
}

impl Chunk {
    fn push(&mut self, at: At, logged: &Logged<'_>) {
        let &Logged { ref request, t_ns, client, status } = logged;
        let parts = request.parts;
        if *self.found != *parts.found() {
            self.found = parts.found().into();
        }
        let begin = self.texts.len();
        for wanted in 0..parts.found().len() {
            self.texts.extend_from_slice(parts.get(wanted));
            self.ends.push((self.texts.len() - begin) as u32);
        }
        self.requests.push(Held { at, t_ns, client, status, texts: begin });
    }

    /// The requests in the order in which they were pushed.
    fn iter<'c>(&'c self, layout: &'c Layout) -> impl Iterator<Item = Logged<'c>> {
        let width = self.found.len();
        self.requests.iter().enumerate().map(move |(request, held)| {
            let ends = &self.ends[request * width..(request + 1) * width];
            let parts = Parts::new(&self.texts[held.texts..], ends, &self.found);
            let &Held { t_ns, client, status, .. } = held;
            let request = LogRequest { layout, parts, client: client.map(|client| client.address) };
            Logged { request, t_ns, client, status }
        })
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.texts.clear();
        self.ends.clear();
    }
}

impl Side {
    fn of(judge: &mut Judge, chunk: &Chunk, layout: &Layout, wanted: &[Wanted]) -> Result<Self, Failure> {
        let mut side = Self { ends: Vec::with_capacity(chunk.requests.len()), ..Self::default() };
        if let Some(first) = chunk.requests.first()
            && !judge.is_open()
        {
            judge.open(&chunk.found, wanted, first.t_ns)?;
        }
        for logged in chunk.iter(layout) {
            judge.decide(&logged, |judgement| {
                if !judgement.is_admitted() {
                    for refusing in judgement.refusing() {
                        side.keys.extend_from_slice(refusing.key);
                        side.refusals.push(Refusal { rule: refusing.rule, key_end: side.keys.len() });
                    }
                }
                side.ends.push(side.refusals.len());
            });
        }
        Ok(side)
    }
}
