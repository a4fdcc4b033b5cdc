//! A log as requests of rules, with their times and clients.

use std::sync::Arc;
use std::time::Duration;

use tollgate_logs::{Batch, Part};
use tollgate_rules::Ending;

use super::args::LogArgs;
use super::arrivals::Arrivals;
use super::clients::{Client, Clients};
use super::lasting::{At, Lasting};
use super::needs::{CLIENT, DURATION, WantedParts};
use super::request::{Layout, LogRequest};
use crate::failure::Failure;
use crate::reading::LogTime;

/// Turns records into requests, in the order of their arrivals.
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
    lasting: Lasting,
    arrivals: Arrivals<Place>,
}

/// The records of a batch, and what they say as requests.
#[derive(Debug, Default)]
struct Loaded {
    batch: Batch,
    /// How many lines of its file precede the batch.
    before: u64,
    /// One for each record of the batch.
    facts: Vec<Facts>,
}

/// Requests in the order of their arrivals.
pub(crate) struct Requests {
    layout: Arc<Layout>,
    /// When each is decided, and where it is.
    all: Vec<(u64, Place)>,
}

/// A request among those of its batch.
type Place = (Arc<Loaded>, usize);

/// What the log knows of a request beside its parts.
#[derive(Clone, Copy, Debug)]
struct Facts {
    lasts: Duration,
    client: Option<Client>,
    status: Option<u16>,
    settles: Option<u64>,
}

/// A request of a log.
pub(crate) struct Logged<'l> {
    pub(crate) request: LogRequest<'l>,
    /// When it is decided: at its arrival.
    pub(crate) t_ns: u64,
    /// `None` if the record has none.
    pub(crate) client: Option<Client>,
    facts: Facts,
    /// Where it stands among the requests that are decided with it.
    pub(crate) index: usize,
}

/// The status of a request that was refused when the log was written.
const REFUSED: u16 = 429;

impl Logged<'_> {
    /// Whether a limit refused it when the log was written: how it would have ended is unknown.
    pub(crate) fn was_refused(&self) -> bool {
        self.facts.status == Some(REFUSED)
    }

    /// How it ends. A request without a response has no status that a rule could name. Of one that
    /// was refused the charge stays: it is what the request is expected to cost.
    pub(crate) fn ending(&self) -> Ending {
        let Facts { lasts: after, status, settles: cost, .. } = self.facts;
        match self.was_refused() {
            true => Ending { after, status: None, cost: None },
            false => Ending { after, status: Some(status.unwrap_or(0)), cost },
        }
    }
}

impl RequestLog {
    pub(super) fn new(wanted: WantedParts, sources: Vec<String>, clients: Clients, args: &LogArgs) -> Self {
        let mapped = wanted.as_slice().iter().enumerate().filter(|(_, wanted)| wanted.field.is_some());
        Self {
            unseen: mapped.map(|(index, _)| index).collect(),
            layout: Layout::of(wanted.as_slice()).into(),
            wanted,
            sources,
            time: LogTime::default(),
            clients,
            found: None,
            lasting: Lasting::new(args),
            arrivals: Arrivals::default(),
        }
    }

    pub(crate) fn wanted(&self) -> &WantedParts {
        &self.wanted
    }

    /// Reads a batch that `before` lines of its file precede. Returns the requests that are to be
    /// decided now: those of which no earlier one is expected.
    ///
    /// # Errors
    ///
    /// Records of a trace; a file that lacks parts which the first file has, or has more.
    pub(super) fn requests(&mut self, batch: Batch, before: u64) -> Result<Requests, Failure> {
        let (mut facts, mut arrivals) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        if !batch.is_empty() && self.found.as_ref().is_none_or(|(file, _)| *file != batch.file()) {
            self.begin_file(&batch)?;
        }
        for index in 0..batch.len() {
            let parts = batch.parts(index);
            if !self.unseen.is_empty() {
                self.unseen.retain(|&index| parts.get(index).is_empty());
            }
            let at = || (batch.file(), batch.line(index, before));
            let (arrives, lasts) = self.lasting.times(batch.t_ns(index), parts.get(DURATION), at);
            arrivals.push((arrives, lasts));
            facts.push(Facts {
                lasts: Duration::from_nanos(lasts),
                client: self.clients.client(parts.get(CLIENT)),
                status: self.layout.status(&parts),
                settles: self.lasting.settles(self.layout.settles(&parts), at),
            });
        }
        let loaded = Arc::new(Loaded { batch, before, facts });
        let mut all = Vec::with_capacity(arrivals.len());
        for (index, (arrives, lasts)) in arrivals.into_iter().enumerate() {
            self.arrivals.add(arrives, lasts, (Arc::clone(&loaded), index));
            while let Some(next) = self.arrivals.next() {
                all.push(self.decided(next));
            }
        }
        Ok(Requests { layout: Arc::clone(&self.layout), all })
    }

    /// The requests that wait, when the log has ended.
    pub(super) fn rest(&mut self) -> Requests {
        let rest: Vec<_> = std::iter::from_fn(|| self.arrivals.next_of_the_rest()).collect();
        let all = rest.into_iter().map(|next| self.decided(next)).collect();
        Requests { layout: Arc::clone(&self.layout), all }
    }

    /// A request with the time at which it is decided: a late one at its turn.
    fn decided(&mut self, (arrives, place): (u64, Place)) -> (u64, Place) {
        let now = self.time.decided_at(arrives);
        if arrives < now {
            self.lasting.note_late(place.0.at(place.1));
        }
        (now, place)
    }

    fn begin_file(&mut self, batch: &Batch) -> Result<(), Failure> {
        let name = |file: usize| self.sources.get(file).map_or("", String::as_str);
        let now = batch.parts(0).found();
        if batch.is_trace() {
            return Err(Failure::Usage(format!(
                "{}: a trace has keys, but rules need requests: give an access log, or --limit in place of --rules",
                name(batch.file())
            )));
        }
        // A file without durations is read as one of which they are missing.
        let is_other = |(at, (first, now)): (usize, (&bool, &bool))| at != DURATION && first != now;
        if let Some((_, found)) = &self.found
            && let Some(index) = found.iter().zip(now).enumerate().position(is_other)
        {
            let (with, without) = if now[index] { (batch.file(), 0) } else { (0, batch.file()) };
            return Err(Failure::Usage(format!(
                "{} has {} and {} has not: rules need the same of all files; read them one by one, or use --map",
                name(with),
                self.wanted.as_slice()[index].part,
                name(without),
            )));
        }
        if self.lasting.begin_file(batch.times()) {
            self.arrivals.expect_durations();
        }
        self.found = Some((batch.file(), now.into()));
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
        notes.extend(self.lasting.notes(&self.sources, self.time.span()));
        let unused = self.wanted.unused();
        notes.extend(unused.map(|map| format!("--map {}={}: no rule uses it", map.part, map.field)));
        notes
    }

    /// Whether it says what requests really cost.
    pub(super) fn tells_costs(&self) -> bool {
        self.wanted.as_slice().iter().any(|wanted| wanted.part == Part::Settles)
    }

    /// Whether it is known, or assumed, how long requests last.
    pub(super) fn knows_durations(&self) -> bool {
        self.lasting.is_known()
    }
}

impl Loaded {
    /// The file and the line of the request with this index.
    fn at(&self, index: usize) -> At {
        (self.batch.file(), self.batch.line(index, self.before))
    }
}

impl Requests {
    /// The requests in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Logged<'_>> {
        self.all.iter().enumerate().map(|(index, (t_ns, (loaded, place)))| {
            let facts = loaded.facts[*place];
            let parts = loaded.batch.parts(*place);
            let address = facts.client.map(|client| client.address);
            let request = LogRequest { layout: &self.layout, parts, client: address };
            Logged { request, t_ns: *t_ns, client: facts.client, facts, index }
        })
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The file and the line of the request with this index.
    pub(crate) fn at(&self, index: usize) -> At {
        let (_, (loaded, place)) = &self.all[index];
        loaded.at(*place)
    }

    /// Whether the request with this index is the last that is decided now: in a live log, the next
    /// line may not be written yet.
    pub(crate) fn is_last(&self, index: usize) -> bool {
        index + 1 == self.len()
    }

    /// The memory of a batch that no other request needs, for other records.
    pub(super) fn into_batch(self) -> Option<Batch> {
        let freed = self.all.into_iter().filter_map(|(_, (loaded, _))| Arc::into_inner(loaded));
        freed.last().map(|loaded| loaded.batch)
    }
}
