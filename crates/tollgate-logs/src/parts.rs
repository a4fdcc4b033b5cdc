//! The parts of a request that rules ask for, beside its key.

use std::fmt;
use std::sync::Arc;

use crate::batch::Batch;
use crate::durations::{self, NO_UNIT, RequestTimes, names_a_duration};
use crate::error::Problem;
use crate::malformed::Refusal;
use crate::time::Unit;

/// A part of a request, as rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// The client's address or host name.
    Client,
    /// The method.
    Method,
    /// The host.
    Host,
    /// The path and the query.
    Target,
    /// The status of the response.
    Status,
    /// A header, by its name in lower case.
    Header(String),
    /// What a trusted caller says of the request. No log has it unless its field is named.
    Label(String),
    /// The domain of a call by Envoy; likewise.
    Domain,
    /// An entry of its descriptor; likewise.
    Entry(String),
    /// How long the request lasts.
    Duration,
    /// What it really cost, as the response told; likewise.
    Settles,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => f.write_str("client"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Target => f.write_str("path"),
            Self::Status => f.write_str("status"),
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Label(name) => write!(f, "label.{name}"),
            Self::Domain => f.write_str("domain"),
            Self::Entry(name) => write!(f, "entry.{name}"),
            Self::Duration => f.write_str("duration"),
            Self::Settles => f.write_str("settles"),
        }
    }
}

/// A part that is wanted of every record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The part.
    pub part: Part,
    /// The field that holds it; without it, a usual name is looked for.
    pub field: Option<String>,
    /// The unit of a duration.
    pub unit: Option<Unit>,
}

/// What a file has of the wanted parts.
#[derive(Debug, Default)]
pub(crate) struct PartsOfFile {
    /// Of each wanted part, whether the file has a field for it.
    pub(super) found: Box<[bool]>,
    pub(super) times: RequestTimes,
}

impl PartsOfFile {
    /// Of a source that has these parts, and no duration.
    pub(crate) fn without_durations(found: Box<[bool]>) -> Arc<Self> {
        Arc::new(Self { found, times: RequestTimes::default() })
    }
}

/// The wanted parts of the records of a batch: all texts end to end, as many for each record as
/// parts are wanted. A part that a record lacks is empty.
#[derive(Debug, Default)]
pub(super) struct PartTexts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    pub(super) file: Arc<PartsOfFile>,
}

impl PartTexts {
    /// Empties it for the next block; keeps the memory.
    pub(super) fn restart(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.file = Arc::default();
    }

    pub(super) fn begin(&mut self, file: &Arc<PartsOfFile>) {
        self.file = Arc::clone(file);
    }

    /// Adds the next wanted part of the record that the parser reads. `-` stands for a part that
    /// the record lacks.
    pub(super) fn push(&mut self, text: &[u8]) {
        if text != b"-" {
            self.bytes.extend_from_slice(text);
        }
        // A block has at most a MiB, and no part is longer than its line.
        self.ends.push(self.bytes.len() as u32);
    }

    /// Drops what belongs to no record, when there are so many.
    pub(super) fn truncate(&mut self, records: usize) {
        self.ends.truncate(records * self.file.found.len());
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// Whether some record has a part of which that is true.
    pub(super) fn any(&self, wanted: usize, mut is_true: impl FnMut(&[u8]) -> bool) -> bool {
        let records = self.ends.len() / self.file.found.len().max(1);
        (0..records).any(|record| is_true(self.of(record).get(wanted)))
    }

    /// The parts of the record with this index.
    pub(super) fn of(&self, record: usize) -> Parts<'_> {
        let width = self.file.found.len();
        let first = record * width;
        let start = if first == 0 { 0 } else { self.ends.get(first - 1).copied().unwrap_or(0) };
        let ends = self.ends.get(first..first + width).unwrap_or_default();
        Parts { bytes: &self.bytes, ends, start, found: &self.file.found }
    }
}

/// The wanted parts of a record, in the order in which they are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    bytes: &'a [u8],
    ends: &'a [u32],
    start: u32,
    found: &'a [bool],
}

impl<'a> Parts<'a> {
    /// The text of a part; empty when the record lacks it.
    #[inline]
    #[must_use]
    pub fn get(&self, wanted: usize) -> &'a [u8] {
        let start = if wanted == 0 { self.start } else { self.ends.get(wanted - 1).copied().unwrap_or(0) };
        let end = self.ends.get(wanted).copied().unwrap_or(start);
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Of each wanted part, whether the record's file has a field for it.
    #[must_use]
    pub fn found(&self) -> &'a [bool] {
        self.found
    }
}

/// How many lines are searched for a part that no option names.
const SAMPLE: usize = 10_000;

/// What a file has of the wanted parts: those whose field an option names, and those of which
/// `push` finds a text in one of the `lines`. A field that is there and always empty tells nothing
/// of requests. Nor does a duration that cannot be read.
///
/// # Errors
///
/// A duration that `--map` names, if its unit is unknown.
pub(super) fn of_file<'l>(
    file: &str,
    wanted: &[Wanted],
    mut times: RequestTimes,
    lines: impl Iterator<Item = &'l [u8]>,
    mut push: impl FnMut(&[u8], &mut Batch) -> Result<(), Refusal>,
) -> Result<Arc<PartsOfFile>, Problem> {
    let mut batch = Batch::default();
    batch.begin_parts(&PartsOfFile::without_durations(wanted.iter().map(|_| true).collect()));
    if !wanted.is_empty() {
        lines.take(SAMPLE).for_each(|line| _ = push(line, &mut batch));
    }
    let mut found: Box<[bool]> = wanted
        .iter()
        .enumerate()
        .map(|(at, wanted)| wanted.field.is_some() || batch.any_part(at, |text| !text.is_empty()))
        .collect();
    let Some(at) = wanted.iter().position(|wanted| wanted.part == Part::Duration) else {
        times.field = None;
        return Ok(Arc::new(PartsOfFile { found, times }));
    };
    let has = |outcome: fn(&Result<Option<u64>, Refusal>) -> bool| {
        batch.any_part(at, |text| outcome(&durations::read(text, times.unit)))
    };
    let is_read = has(|read| matches!(read, Ok(Some(_))));
    let lacks_unit = !is_read && has(|read| *read == Err(NO_UNIT));
    match (&wanted[at].field, times.field.take()) {
        (Some(field), _) if lacks_unit => {
            return Err(Problem::UnknownUnit { file: file.to_owned(), field: field.clone() });
        }
        (Some(field), _) => times.field = Some(field.clone()),
        (None, field) if is_read => times.field = field,
        (None, field) => {
            found[at] = false;
            times.without_unit = field.filter(|_| lacks_unit);
        }
    }
    Ok(Arc::new(PartsOfFile { found, times }))
}

/// Usual names of the fields that hold a host. `server_name` is not among them: nginx writes the
/// name of its configuration there.
const HOSTS: &[&str] = &[
    "http_host",
    "request.host",
    "vhost",
    "clientrequesthost",
    "cs-host",
    ":authority",
    "authority",
    "requesthost",
    "host",
];

#[rustfmt::skip]
const STATUSES: &[&str] = &[
    "status", "status_code", "statuscode", "response_code", "http_status", "response_status",
    "sc-status", "edgeresponsestatus", "response.status", "response",
    "downstreamstatus",
];

const REFERERS: &[&str] =
    &["http_referer", "referer", "referrer", "request.referer", "clientrequestreferer", "cs(referer)"];

#[rustfmt::skip]
const AGENTS: &[&str] = &[
    "http_user_agent", "user_agent", "useragent", "agent", "request.user_agent",
    "clientrequestuseragent", "cs(user-agent)",
];

/// The field among `found` that usually holds the part.
pub(super) fn usual_field(
    part: &Part,
    found: &[String],
    clients: &[&str],
    methods: &[&str],
    paths: &[&str],
) -> Option<String> {
    let known = |usual: &[&str]| {
        let named = |usual: &&str| found.iter().find(|name| name.eq_ignore_ascii_case(usual));
        usual.iter().find_map(named).cloned()
    };
    match part {
        Part::Client => known(clients),
        Part::Method => known(methods),
        Part::Target => known(paths),
        // Logs of one host call the client's so.
        Part::Host => known(HOSTS).filter(|host| known(clients).as_ref() != Some(host)),
        Part::Status => known(STATUSES),
        Part::Header(name) => {
            let usual = match name.as_str() {
                "referer" => known(REFERERS),
                "user-agent" => known(AGENTS),
                _ => None,
            };
            usual.or_else(|| known(&[&format!("http_{}", name.replace('-', "_"))]))
        }
        Part::Duration => {
            // One whose name has a unit goes before one whose name has none.
            let mut names = found.iter().filter(|name| names_a_duration(name));
            let first = names.clone().next();
            names
                .find(|name| Unit::of_field(&name.to_ascii_lowercase()) != Unit::ByMagnitude)
                .or(first)
                .cloned()
        }
        Part::Label(_) | Part::Domain | Part::Entry(_) | Part::Settles => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_has_its_own_parts() {
        let mut texts = PartTexts::default();
        texts.begin(&PartsOfFile::without_durations([true, true].into()));
        for text in [&b"GET"[..], b"/a", b"-", b"/b", b"PUT", b""] {
            texts.push(text);
        }
        let parts = |record: usize| [texts.of(record).get(0), texts.of(record).get(1)];
        assert_eq!(parts(0), [&b"GET"[..], b"/a"]);
        assert_eq!(parts(1), [&b""[..], b"/b"]);
        assert_eq!(parts(2), [&b"PUT"[..], b""]);
        texts.truncate(1);
        texts.push(b"POST");
        texts.push(b"/c");
        assert_eq!([texts.of(1).get(0), texts.of(1).get(1)], [&b"POST"[..], b"/c"]);
    }

    #[test]
    fn the_clients_field_is_not_the_host() {
        let usual = |part: &Part, found: &[&str]| {
            let found: Vec<String> = found.iter().map(|&name| name.to_owned()).collect();
            usual_field(part, &found, &["client_ip", "host"], &["method"], &["url"])
        };
        assert_eq!(usual(&Part::Host, &["host", "url"]), None);
        assert_eq!(usual(&Part::Host, &["host", "client_ip"]).as_deref(), Some("host"));
        assert_eq!(
            usual(&Part::Header("x-api-key".to_owned()), &["http_x_api_key"]).as_deref(),
            Some("http_x_api_key")
        );
        assert_eq!(usual(&Part::Label("user".to_owned()), &["user"]), None);
    }
}
