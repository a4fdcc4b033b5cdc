//! How to read the sources.

use crate::key::{KeyBy, KeyWriter, PrefixLen};
use crate::parts::Wanted;

/// How the lines of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Format {
    /// Recognised for each file by its first lines and its name.
    Auto,
    /// Apache or nginx, common log format; anything may follow the known fields.
    Clf,
    /// The same with referer and user agent, which must be there.
    Combined,
    /// One JSON object a line.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line, or Zeek's.
    Tsv,
    /// One JSON object a line: {"t_ns":0,"key":"a","cost":1,"op":"check"}
    Trace,
}

/// How to read the sources. The default reads clients and their times from files of any format.
#[derive(Debug, Clone)]
pub struct Options {
    /// How lines are written.
    pub format: Format,
    /// Which part of a request is the key of its record.
    pub key: KeyBy,
    /// How much of an IPv6 address is one client.
    pub ipv6_prefix: PrefixLen,
    /// The field that holds the time: its name; for CSV and TSV also the number of a column, from
    /// 1.
    pub time_field: Option<String>,
    /// The field that holds the part that `key` names. Unused for `field:NAME` and
    /// `global`.
    pub key_field: Option<String>,
    /// The field that holds the cost; without it every record costs 1.
    pub cost_field: Option<String>,
    /// The parts of each record to read beside its key.
    pub wanted: Vec<Wanted>,
}

impl Options {
    pub(crate) fn key_writer(&self) -> KeyWriter {
        KeyWriter { by: self.key.clone(), ipv6_prefix: self.ipv6_prefix }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: Format::Auto,
            key: KeyBy::Client,
            ipv6_prefix: PrefixLen::default(),
            time_field: None,
            key_field: None,
            cost_field: None,
            wanted: Vec::new(),
        }
    }
}
