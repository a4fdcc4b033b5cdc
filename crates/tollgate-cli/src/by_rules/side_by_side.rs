//! Decides a log by two rules files at once. A thread reads the requests, and then each file
//! decides them on a thread of its own.

use std::thread;

use super::clients::Client;
use super::judge::Judge;
use super::log::Logged;
use super::request::{Layout, LogRequest};
use super::{RequestLog, Trial};
use crate::failure::Failure;
use crate::ingest::{Parts, Record};

/// So many requests are decided at a time: many enough that starting a thread is nothing to it.
const CHUNK: usize = 1 << 14;

/// The file and the line of a record.
pub(crate) type At = (usize, u64);

/// A log, the files that decide it, and the requests that are not decided yet.
pub(crate) struct SideBySide {
    trial: Trial<2>,
    chunk: Chunk,
}

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
        Self { trial, chunk: Chunk::default() }
    }

    pub(crate) fn log(&self) -> &RequestLog {
        &self.trial.log
    }

    pub(crate) fn judges(&self) -> &[Judge; 2] {
        &self.trial.judges
    }

    /// Takes the request that a record is, and gives `each` the decisions of requests before it.
    ///
    /// # Errors
    ///
    /// Those of [`Trial::step`].
    pub(crate) fn add(
        &mut self,
        record: &Record<'_>,
        each: impl FnMut(At, Decided<'_>, Decided<'_>),
    ) -> Result<(), Failure> {
        let (logged, _) = self.trial.step(record)?;
        self.chunk.push((record.file, record.line), &logged);
        if self.chunk.requests.len() >= CHUNK {
            self.decide(each);
        }
        Ok(())
    }

    /// Decides the requests that were taken, and gives `each` the decisions of both files.
    pub(crate) fn decide(&mut self, mut each: impl FnMut(At, Decided<'_>, Decided<'_>)) {
        let Self { trial: Trial { log, judges: [old, new] }, chunk } = self;
        let (layout, held) = (log.layout(), &*chunk);
        let [old, new] = thread::scope(|scope| {
            let new = scope.spawn(|| Side::of(new, held, layout));
            [Side::of(old, held, layout), new.join().expect("deciding does not panic")]
        });
        for (request, held) in chunk.requests.iter().enumerate() {
            each(held.at, Decided { side: &old, request }, Decided { side: &new, request });
        }
        chunk.clear();
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
    fn of(judge: &mut Judge, chunk: &Chunk, layout: &Layout) -> Self {
        let mut side = Self { ends: Vec::with_capacity(chunk.requests.len()), ..Self::default() };
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
        side
    }
}
