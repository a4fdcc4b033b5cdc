//! Errors that stop the reading of a file. A malformed line does not.

use std::fmt;
use std::io;

/// The most fields that an error lists.
const MAX_LISTED: usize = 40;

/// A file that cannot be read, or not with these options. The message names the file, and options
/// as the command `tollgate` does; the source is the error of the system, if there was one.
#[derive(Debug)]
pub struct LogError(Problem);

/// The mistake. Every variant names the file.
#[derive(Debug)]
pub(crate) enum Problem {
    /// It cannot be opened.
    Open { file: String, cause: io::Error },
    /// Reading failed before its end; the whole lines before that were read.
    Read { file: String, cause: io::Error },
    /// `--format auto` does not recognise its format.
    UnknownFormat { file: String },
    /// An option names no field for a needed part, and no field has a usual name.
    NoField { file: String, what: &'static str, hint: &'static str, found: Vec<String> },
    /// An option names a field that the file does not have.
    UnknownField { file: String, option: &'static str, name: String, found: Vec<String> },
    /// `--map` names a duration whose numbers are of an unknown unit.
    UnknownUnit { file: String, field: String },
    /// An option that means nothing for this format.
    DoesNotApply { file: String, option: &'static str, format: &'static str },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Problem::Open { file, cause } => write!(f, "{file}: cannot be opened: {cause}"),
            Problem::Read { file, cause } if cause.kind() == io::ErrorKind::UnexpectedEof => {
                write!(f, "{file}: the compressed data ends early; is the file complete?")
            }
            Problem::Read { file, cause } => write!(f, "{file}: cannot be read to its end: {cause}"),
            Problem::UnknownFormat { file } => write!(
                f,
                "{file}: cannot tell its format from its name and first lines; say it with \
                 --format clf, combined, json, csv, tsv or trace; of compressed files only gzip is read"
            ),
            Problem::NoField { file, what, hint, found } => {
                write!(f, "{file}: no field looks like the {what}; name one with {hint}")?;
                list(f, found)
            }
            Problem::UnknownField { file, option, name, found } => {
                write!(f, "{file}: there is no field {name:?}, which {option} names")?;
                list(f, found)
            }
            Problem::UnknownUnit { file, field } => write!(
                f,
                "{file}: the unit of the durations in {field:?} is unknown; \
                 write --map duration={field}:s, :ms, :us or :ns"
            ),
            Problem::DoesNotApply { file, option, format } => {
                write!(f, "{file}: {option} means nothing for {format}; leave it out, or say --format")
            }
        }
    }
}

impl From<Problem> for LogError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Problem::Open { cause, .. } | Problem::Read { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, found: &[String]) -> fmt::Result {
    if found.is_empty() {
        return f.write_str("; no fields were found");
    }
    let more = if found.len() > MAX_LISTED { ", ..." } else { "" };
    write!(f, "; found: {}{more}", found[..found.len().min(MAX_LISTED)].join(", "))
}
