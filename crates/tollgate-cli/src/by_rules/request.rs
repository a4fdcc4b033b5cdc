//! A record of a log as rules see it.

use std::net::IpAddr;

use tollgate_logs::{Part, Parts, Wanted};
use tollgate_rules::{Field, Request};

/// Where each part of a request stands among the wanted parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    method: Option<usize>,
    host: Option<usize>,
    target: Option<usize>,
    status: Option<usize>,
    settles: Option<usize>,
    domain: Option<usize>,
    headers: Vec<(String, usize)>,
    labels: Vec<(String, usize)>,
    entries: Vec<(String, usize)>,
}

impl Layout {
    pub(super) fn of(wanted: &[Wanted]) -> Self {
        let mut layout = Self::default();
        for (index, wanted) in wanted.iter().enumerate() {
            match &wanted.part {
                Part::Client | Part::Duration => {}
                Part::Settles => layout.settles = Some(index),
                Part::Method => layout.method = Some(index),
                Part::Host => layout.host = Some(index),
                Part::Target => layout.target = Some(index),
                Part::Status => layout.status = Some(index),
                Part::Domain => layout.domain = Some(index),
                Part::Header(name) => layout.headers.push((name.clone(), index)),
                Part::Label(name) => layout.labels.push((name.clone(), index)),
                Part::Entry(name) => layout.entries.push((name.clone(), index)),
            }
        }
        layout
    }

    /// The status of the response; `None` if the record has none.
    pub(super) fn status(&self, parts: &Parts<'_>) -> Option<u16> {
        std::str::from_utf8(parts.get(self.status?)).ok()?.parse().ok()
    }

    /// The text that says what the request really cost; empty if the record does not.
    pub(super) fn settles<'p>(&self, parts: &Parts<'p>) -> &'p [u8] {
        self.settles.map_or(b"", |index| parts.get(index))
    }
}

/// A record of a log as rules see it.
pub(crate) struct LogRequest<'a> {
    pub(super) layout: &'a Layout,
    pub(super) parts: Parts<'a>,
    pub(super) client: Option<IpAddr>,
}

impl Request for LogRequest<'_> {
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
        let named = |names: &[(String, usize)], wanted: &str| {
            names.iter().find(|(name, _)| name == wanted).map(|(_, index)| *index)
        };
        let index = match field {
            Field::Method => self.layout.method,
            Field::Host => self.layout.host,
            Field::Target => self.layout.target,
            Field::Header(name) => named(&self.layout.headers, name),
            Field::Label(name) => named(&self.layout.labels, name),
            Field::Domain => self.layout.domain,
            Field::Entry(name) => named(&self.layout.entries, name),
            _ => None,
        };
        let text = index.map_or(&b""[..], |index| self.parts.get(index));
        match field {
            _ if text.is_empty() => {}
            // A JSON log may list a header's values; see `tollgate_logs`.
            Field::Header(_) => text.split(|&byte| byte == b'\n').for_each(see),
            _ => see(text),
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }
}
