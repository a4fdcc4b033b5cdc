//! The command's parts without a process around them: what tests and fuzz targets ask.
//!
//! Everything here is decided by the code that the command runs; only where the bytes come from and where the answers
//! go differs.

use clap::Parser;

pub use crate::ingest::Op;
use crate::ingest::{self, Batch, Format, Options};
use crate::reading::Reading;
use crate::replay;
use crate::spec::Spec;

/// A request of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its line, from 1.
    pub line: u64,
    /// Nanoseconds since the Unix epoch; of a trace, as it stands.
    pub t_ns: u64,
    /// What it is counted under.
    pub key: Vec<u8>,
    /// How much it takes, or gives back at most.
    pub cost: u64,
    /// What it asks for.
    pub op: Op,
    /// By which name what it takes is given back; empty when it says none.
    pub id: Vec<u8>,
    /// How long a reservation may wait.
    pub max_wait_ns: u64,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Lines of all kinds.
    pub lines: u64,
    /// Lines that could not be read.
    pub malformed: u64,
    /// Requests that lack the part to count by.
    pub without_key: u64,
    /// All requests, in the order of their lines.
    pub requests: Vec<Request>,
}

/// What one line of a trace came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The line of `--decisions`; empty when there is none.
    pub decision: String,
    /// How many units it gave back.
    pub back: u64,
    /// Whether it gives back and found nothing that was taken.
    pub found_nothing: bool,
}

/// The options that say how to read.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(flatten)]
    reading: Reading,
}

/// How to read, as the command line says it.
#[derive(Debug, Clone)]
pub struct Reader {
    options: Options,
}

impl Reader {
    /// That of these words: "--format", "json", and whatever else says how a log is read.
    ///
    /// # Errors
    ///
    /// What the command says of words that are no such options.
    pub fn new(words: &[&str]) -> Result<Self, String> {
        let words = Words::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(Self { options: words.reading.options() })
    }

    /// Reads a text of at most 1 MiB as two blocks, the first of which ends with the line at `cut`. Where that is makes no
    /// difference.
    ///
    /// # Errors
    ///
    /// What the command says of a text whose format or fields cannot be told.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_cli::probe::Reader;
    ///
    /// let log = Reader::new(&["--format", "trace"])?.log(br#"{"t_ns":7,"key":"a"}"#, 0)?;
    /// assert_eq!((log.lines, log.requests[0].t_ns), (1, 7));
    /// # Ok::<(), String>(())
    /// ```
    pub fn log(&self, text: &[u8], cut: usize) -> Result<Log, String> {
        let mut log = Log { lines: 0, malformed: 0, without_key: 0, requests: Vec::new() };
        for batch in &read(&self.options, text, cut)? {
            log.requests.extend(batch.records(log.lines).map(|record| Request {
                line: record.line,
                t_ns: record.t_ns,
                key: record.key.to_owned(),
                cost: record.cost,
                op: record.op,
                id: record.id.to_owned(),
                max_wait_ns: record.max_wait_ns,
            }));
            log.lines += batch.lines;
            log.malformed += batch.malformed;
            log.without_key += batch.without_key;
        }
        Ok(log)
    }
}

/// Replays a trace of at most 1 MiB under one limit with room for so many keys; what each of its requests came to.
///
/// # Errors
///
/// What the command says: of a limit that the engine refuses, of a request that has no meaning under it.
pub fn replay(limit: Spec, max_keys: usize, trace: &[u8]) -> Result<Vec<Told>, String> {
    let options = Options { format: Format::Trace, ..Options::default() };
    let [batch, _] = read(&options, trace, trace.len())?;
    let told = replay::watched(limit, max_keys, batch.records(0)).map_err(|failure| failure.to_string())?;
    let mut before = replay::GivenBack::default();
    let told = told.into_iter().map(|told| {
        let now = told.given_back;
        let (back, found_nothing) = (now.units - before.units, now.found_nothing > before.found_nothing);
        before = now;
        Told { decision: told.decision, back, found_nothing }
    });
    Ok(told.collect())
}

fn read(options: &Options, text: &[u8], cut: usize) -> Result<[Batch; 2], String> {
    ingest::text("memory", options, text, cut).map_err(|error| error.to_string())
}
