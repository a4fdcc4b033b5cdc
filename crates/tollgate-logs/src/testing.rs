//! Shared by the tests of this module.

use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::batch::{Batch, Op};
use crate::error::{LogError, Problem};
use crate::options::Options;
use crate::source::Source;

/// A line that every access log parser reads.
pub(super) const LINE: &str =
    r#"192.0.2.7 - - [20/Feb/2016:00:00:45 -0500] "GET /a HTTP/1.1" 200 187 "-" "Mozilla/5.0""#;

/// The options of an empty command line.
pub(super) fn options() -> Options {
    Options::default()
}

/// The message of an error.
pub(super) fn told(problem: Problem) -> String {
    LogError::from(problem).to_string()
}

/// A record that outlives its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) line: u64,
    pub(super) t_ns: u64,
    pub(super) key: String,
    pub(super) cost: u64,
    pub(super) op: Op,
}

/// The records that `parse` leaves in a batch.
pub(super) fn outcome(parse: impl FnOnce(&mut Batch)) -> Vec<Seen> {
    let mut batch = Batch::default();
    parse(&mut batch);
    let seen = batch.records(0).map(|record| Seen {
        line: record.line,
        t_ns: record.t_ns,
        key: String::from_utf8_lossy(record.key).into_owned(),
        cost: record.cost,
        op: record.op,
    });
    seen.collect()
}

/// The keys in a batch.
pub(super) fn keys_of(batch: &Batch) -> Vec<String> {
    batch.records(0).map(|record| String::from_utf8_lossy(record.key).into_owned()).collect()
}

/// A text as one gzip member.
pub(super) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).expect("writing to a vector does not fail");
    encoder.finish().expect("writing to a vector does not fail")
}

/// A file that is removed with the value.
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// The name must be the test's own.
    pub(super) fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("the temporary directory can be written to");
        Self(path)
    }

    pub(super) fn source(&self) -> Source {
        Source::File(self.0.clone())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
