//! A log as requests of rules, with their times and clients.

use super::clients::{Client, Clients};
use super::needs::{CLIENT, WantedParts};
use super::request::{Layout, LogRequest};
use crate::failure::Failure;
use crate::ingest::Record;
use crate::reading::LogTime;

/// Turns records into requests, in the order of the log.
#[derive(Debug)]
pub(crate) struct RequestLog {
    wanted: WantedParts,
    layout: Layout,
    sources: Vec<String>,
    pub(crate) time: LogTime,
    pub(crate) clients: Clients,
    /// What the first file has of the wanted parts, and the number of the file read last.
    found: Option<(usize, Box<[bool]>)>,
    /// The mapped parts of which no record had a value yet.
    unseen: Vec<usize>,
}

/// A request of a log.
pub(crate) struct Logged<'l> {
    pub(crate) request: LogRequest<'l>,
    /// When it is decided.
    pub(crate) t_ns: u64,
    /// `None` if the record has none.
    pub(crate) client: Option<Client>,
    pub(crate) status: Option<u16>,
}

impl RequestLog {
    pub(super) fn new(wanted: WantedParts, sources: Vec<String>, clients: Clients) -> Self {
        let mapped = wanted.as_slice().iter().enumerate().filter(|(_, wanted)| wanted.field.is_some());
        Self {
            unseen: mapped.map(|(index, _)| index).collect(),
            layout: Layout::of(wanted.as_slice()),
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

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The request that a record is.
    ///
    /// # Errors
    ///
    /// A record of a trace; a file that lacks parts which the first file has, or has more.
    pub(crate) fn request<'l>(&'l mut self, record: &Record<'l>) -> Result<Logged<'l>, Failure> {
        if self.found.as_ref().is_none_or(|(file, _)| *file != record.file) {
            self.begin_file(record)?;
        }
        let t_ns = self.time.decided_at(record.t_ns);
        let parts = record.parts;
        if !self.unseen.is_empty() {
            self.unseen.retain(|&index| parts.get(index).is_empty());
        }
        let client = self.clients.client(parts.get(CLIENT));
        Ok(Logged {
            status: self.layout.status(&parts),
            request: LogRequest { layout: &self.layout, parts, client: client.map(|client| client.address) },
            t_ns,
            client,
        })
    }

    fn begin_file(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        let name = |file: usize| self.sources.get(file).map_or("", String::as_str);
        let now = record.parts.found();
        if record.is_trace {
            return Err(Failure::Usage(format!(
                "{}: a trace has keys, but rules need requests: give an access log, or --limit in place of --rules",
                name(record.file)
            )));
        }
        if let Some((_, found)) = &self.found
            && let Some(index) = found.iter().zip(now).position(|(first, now)| first != now)
        {
            let (with, without) = if now[index] { (record.file, 0) } else { (0, record.file) };
            return Err(Failure::Usage(format!(
                "{} has {} and {} has not: rules need the same of all files; read them one by one, or use --map",
                name(with),
                self.wanted.as_slice()[index].part,
                name(without),
            )));
        }
        self.found = Some((record.file, now.into()));
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
