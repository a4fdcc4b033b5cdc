//! What the command line says about reading.

use super::key::{KeyBy, Keyer, PrefixLen};

/// How the lines of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Decided for each file from its name and its first lines.
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

/// How to read the sources, as the user asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// `--format`.
    pub(crate) format: Format,
    /// `--key`.
    pub(crate) key: KeyBy,
    /// `--ipv6-prefix`.
    pub(crate) ipv6_prefix: PrefixLen,
    /// `--time-field`: a field's name, or for CSV and TSV the number of a column, from 1.
    pub(crate) time_field: Option<String>,
    /// `--key-field`: where the part that `key` names is found; `field:NAME` and `global` do not ask.
    pub(crate) key_field: Option<String>,
    /// `--cost-field`; without it every record costs 1.
    pub(crate) cost_field: Option<String>,
}

impl Options {
    /// The writer of keys that these options ask for.
    pub(crate) fn keyer(&self) -> Keyer {
        Keyer { by: self.key.clone(), ipv6_prefix: self.ipv6_prefix }
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
        }
    }
}
