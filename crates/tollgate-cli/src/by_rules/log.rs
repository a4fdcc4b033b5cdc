//! A log as requests of rules, with their times and clients.

use std::sync::Arc;

use super::clients::{Client, Clients};
use super::needs::{CLIENT, WantedParts};
use super::request::{Layout, LogRequest};
use crate::failure::Failure;
use crate::ingest::Batch;
use crate::reading::LogTime;

/// Turns records into requests, in the order of the log.
#[derive(Debug)]
pub(crate) struct RequestLog {
    wanted: WantedParts,
    layout: Arc<Layout>,
    sources: Vec<String>,
    pub(crate) time: LogTime,
    pub(crate) clients: Clients,
    /// What the first file has of the wanted parts, and the number of the file read last.
    found: Option<(usize, Box<[bool]>)>,
    /// The mapped parts of which no record had a value yet.
    unseen: Vec<usize>,
}

/// The requests of a batch of records.
pub(crate) struct Requests {
    batch: Batch,
    /// How many lines of its file precede the batch.
    before: u64,
    layout: Arc<Layout>,
    /// One for each record of the batch.
    facts: Vec<Facts>,
}

/// The file and the line of a request.
pub(crate) type At = (usize, u64);

/// What the log knows of a request beside its parts.
#[derive(Clone, Copy)]
struct Facts {
    t_ns: u64,
    client: Option<Client>,
    status: Option<u16>,
}

/// A request of a log.
pub(crate) struct Logged<'l> {
    pub(crate) request: LogRequest<'l>,
    /// When it is decided.
    pub(crate) t_ns: u64,
    /// `None` if the record has none.
    pub(crate) client: Option<Client>,
    pub(crate) status: Option<u16>,
    /// Where it stands among the requests of its batch.
    pub(crate) index: usize,
}

impl RequestLog {
    pub(super) fn new(wanted: WantedParts, sources: Vec<String>, clients: Clients) -> Self {
        let mapped = wanted.as_slice().iter().enumerate().filter(|(_, wanted)| wanted.field.is_some());
        Self {
            unseen: mapped.map(|(index, _)| index).collect(),
            layout: Layout::of(wanted.as_slice()).into(),
            wanted,
            sources,
            time: LogTime::default(),
            clients,
            found: None,
        }
    }

    pub(crate) fn wanted(&self) -> &WantedParts {
        &self.wanted
    }

    /// The requests of a batch that `before` lines of its file precede.
    ///
    /// # Errors
    ///
    /// Records of a trace; a file that lacks parts which the first file has, or has more.
    pub(super) fn requests(&mut self, batch: Batch, before: u64) -> Result<Requests, Failure> {
        let mut facts = Vec::with_capacity(batch.len());
        if batch.len() > 0 && self.found.as_ref().is_none_or(|(file, _)| *file != batch.file) {
            self.begin_file(&batch)?;
        }
        for index in 0..batch.len() {
            let parts = batch.parts(index);
            if !self.unseen.is_empty() {
                self.unseen.retain(|&index| parts.get(index).is_empty());
            }
            facts.push(Facts {
                t_ns: self.time.decided_at(batch.t_ns(index)),
                client: self.clients.client(parts.get(CLIENT)),
                status: self.layout.status(&parts),
            });
        }
        Ok(Requests { batch, before, layout: Arc::clone(&self.layout), facts })
    }

    fn begin_file(&mut self, batch: &Batch) -> Result<(), Failure> {
        let name = |file: usize| self.sources.get(file).map_or("", String::as_str);
        let now = batch.parts(0).found();
        if batch.is_trace {
            return Err(Failure::Usage(format!(
                "{}: a trace has keys, but rules need requests: give an access log, or --limit in place of --rules",
                name(batch.file)
            )));
        }
        if let Some((_, found)) = &self.found
            && let Some(index) = found.iter().zip(now).position(|(first, now)| first != now)
        {
            let (with, without) = if now[index] { (batch.file, 0) } else { (0, batch.file) };
            return Err(Failure::Usage(format!(
                "{} has {} and {} has not: rules need the same of all files; read them one by one, or use --map",
                name(with),
                self.wanted.as_slice()[index].part,
                name(without),
            )));
        }
        self.found = Some((batch.file, now.into()));
        Ok(())
    }

    /// Checks that each mapped field was in some record.
    ///
    /// # Errors
    ///
    /// A field that was in none.
    pub(crate) fn check_mapped(&self) -> Result<(), Failure> {
        let Some(wanted) = self.unseen.first().map(|&index| &self.wanted.as_slice()[index]) else {
            return Ok(());
        };
        let field = wanted.field.as_deref().unwrap_or_default();
        let part = &wanted.part;
        Err(Failure::Usage(format!("--map {part}={field}: no record has a value in the field {field:?}")))
    }

    /// What the user should know before believing the figures.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        if self.clients.host_names() > 0 {
            notes.push(format!(
                "{} clients are names, not addresses: each counts as one client, and is in no network of a rule",
                crate::report::figures::grouped(self.clients.host_names() as u64)
            ));
        }
        let unused = self.wanted.unused();
        notes.extend(unused.map(|map| format!("--map {}={}: no rule uses it", map.part, map.field)));
        notes
    }
}

impl Requests {
    /// The requests in the order of the log.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Logged<'_>> {
        self.facts.iter().enumerate().map(|(index, facts)| {
            let &Facts { t_ns, client, status } = facts;
            let parts = self.batch.parts(index);
            let address = client.map(|client| client.address);
            let request = LogRequest { layout: &self.layout, parts, client: address };
            Logged { request, t_ns, client, status, index }
        })
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.facts.len()
    }

    /// The file and the line of the request with this index.
    pub(crate) fn at(&self, index: usize) -> At {
        (self.batch.file, self.batch.line(index, self.before))
    }

    /// Whether the request with this index is the last of its batch: in a live log, the next line
    /// may not be written yet.
    pub(crate) fn is_last(&self, index: usize) -> bool {
        index + 1 == self.len()
    }

    /// The memory, for other records.
    pub(super) fn into_batch(self) -> Batch {
        self.batch
    }
}
