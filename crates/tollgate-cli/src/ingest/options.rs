//! How to read the sources, as the command line says.

use super::key::{KeyBy, KeyWriter, PrefixLen};
use super::parts::Wanted;

/// How the lines of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
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

/// How to read the sources.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// `--format`.
    pub(crate) format: Format,
    /// `--key`.
    pub(crate) key: KeyBy,
    /// `--ipv6-prefix`.
    pub(crate) ipv6_prefix: PrefixLen,
    /// `--time-field`: the name of a field; for CSV and TSV also the number of a column, from 1.
    pub(crate) time_field: Option<String>,
    /// `--key-field`: the field that holds the part that `key` names. Unused for `field:NAME` and
    /// `global`.
    pub(crate) key_field: Option<String>,
    /// `--cost-field`; without it every record costs 1.
    pub(crate) cost_field: Option<String>,
    /// What rules ask for.
    pub(crate) wanted: Vec<Wanted>,
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
