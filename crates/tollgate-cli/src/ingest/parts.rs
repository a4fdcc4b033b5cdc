//! The parts of a request that rules ask for, beside its key.

use std::fmt;
use std::sync::Arc;

use super::batch::Batch;
use super::malformed::Refusal;

/// A part of a request, as rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The client's address or host name.
    Client,
    Method,
    Host,
    /// The path and the query.
    Target,
    /// The status of the response.
    Status,
    /// A header, by its name in lower case.
    Header(String),
    /// What a trusted caller says of the request. No log has it unless `--map` names its field.
    Label(String),
    /// The domain of a call by Envoy; likewise.
    Domain,
    /// An entry of its descriptor; likewise.
    Entry(String),
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
        }
    }
}

/// A part that is wanted of every record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) part: Part,
    /// The field that holds it, as `--map` says; without it, a usual name is looked for.
    pub(crate) field: Option<String>,
}

/// The wanted parts of the records of a batch: all texts end to end, as many for each record as
/// parts are wanted. A part that a record lacks is empty.
#[derive(Debug, Default)]
pub(super) struct PartTexts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Of each wanted part, whether the file has a field for it.
    found: Arc<[bool]>,
}

impl PartTexts {
    /// Empties it for the next block; keeps the memory.
    pub(super) fn restart(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.found = Arc::default();
    }

    pub(super) fn begin(&mut self, found: &Arc<[bool]>) {
        self.found = Arc::clone(found);
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
        self.ends.truncate(records * self.found.len());
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// Whether some record has a part.
    pub(super) fn has(&self, wanted: usize) -> bool {
        let records = self.ends.len() / self.found.len().max(1);
        (0..records).any(|record| !self.of(record).get(wanted).is_empty())
    }

    /// The parts of the record with this index.
    pub(super) fn of(&self, record: usize) -> Parts<'_> {
        let width = self.found.len();
        let first = record * width;
        let start = if first == 0 { 0 } else { self.ends.get(first - 1).copied().unwrap_or(0) };
        let ends = self.ends.get(first..first + width).unwrap_or_default();
        Parts { bytes: &self.bytes, ends, start, found: &self.found }
    }
}

/// The wanted parts of a record, in the order in which they are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    bytes: &'a [u8],
    ends: &'a [u32],
    start: u32,
    found: &'a [bool],
}

impl<'a> Parts<'a> {
    /// The text of a part; empty when the record lacks it.
    #[inline]
    pub(crate) fn get(&self, wanted: usize) -> &'a [u8] {
        let start = if wanted == 0 { self.start } else { self.ends.get(wanted - 1).copied().unwrap_or(0) };
        let end = self.ends.get(wanted).copied().unwrap_or(start);
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Of each wanted part, whether the record's file has a field for it.
    pub(crate) fn found(&self) -> &'a [bool] {
        self.found
    }
}

/// How many lines are searched for a part that no option names.
const SAMPLE: usize = 10_000;

/// Of each wanted part, whether `lines` have it: where an option names its field, or `push` finds a
/// text in one of the lines. A field that is there and always empty tells nothing of requests.
pub(super) fn found<'l>(
    wanted: &[Wanted],
    lines: impl Iterator<Item = &'l [u8]>,
    mut push: impl FnMut(&[u8], &mut Batch) -> Result<(), Refusal>,
) -> Arc<[bool]> {
    let mut batch = Batch::default();
    batch.begin_parts(&wanted.iter().map(|_| true).collect());
    if !wanted.is_empty() {
        lines.take(SAMPLE).for_each(|line| _ = push(line, &mut batch));
    }
    wanted.iter().enumerate().map(|(at, wanted)| wanted.field.is_some() || batch.has_part(at)).collect()
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
    "host",
];

#[rustfmt::skip]
const STATUSES: &[&str] = &[
    "status", "status_code", "statuscode", "response_code", "http_status", "response_status",
    "sc-status", "edgeresponsestatus", "response.status", "response",
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
        Part::Label(_) | Part::Domain | Part::Entry(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_has_its_own_parts() {
        let mut texts = PartTexts::default();
        texts.begin(&Arc::from([true, true]));
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
