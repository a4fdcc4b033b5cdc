//! The command's parts without a process around them, for tests and fuzz targets.
//!
//! The command runs the same code; only the source of the bytes and the destination of the answers
//! differ.

use clap::Parser;

pub use crate::ingest::Op;
use crate::ingest::{self, Batch, Format, Options, Part, Wanted};
use crate::reading::Reading;
use crate::replay;
use crate::spec::Spec;

/// A request of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its line, from 1.
    pub line: u64,
    /// Nanoseconds since the Unix epoch; in a trace, the number in the line.
    pub t_ns: u64,
    /// The key that is limited.
    pub key: Vec<u8>,
    /// How much it takes; for a refund or a credit, how much it gives at most.
    pub cost: u64,
    /// The operation.
    pub op: Op,
    /// The name that a later refund or cancel uses; empty without one.
    pub id: Vec<u8>,
    /// How long a reservation may wait.
    pub max_wait_ns: u64,
    /// The quota that comes with the request.
    pub quota: Option<tollgate::CallQuota>,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Lines of all kinds.
    pub lines: u64,
    /// Lines that could not be read.
    pub malformed: u64,
    /// Requests that lack the part that is the key.
    pub without_key: u64,
    /// Requests that say how long they last.
    pub durations: u64,
    /// All requests, in the order of their lines.
    pub requests: Vec<Request>,
}

/// The outcome of one line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOutcome {
    /// The line of `--decisions`; empty without one.
    pub decision: String,
    /// How many units it gave back.
    pub back: u64,
    /// How many units it credited.
    pub credited: u64,
    /// Whether it is a refund or a cancel that found nothing to give back.
    pub found_nothing: bool,
}

/// The options of the command line that say how to read.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct ReadingArgs {
    #[command(flatten)]
    reading: Reading,
}

/// How to read, as the command line says it.
#[derive(Debug, Clone)]
pub struct Reader {
    options: Options,
}

impl Reader {
    /// A reader with these options, such as "--format", "json".
    ///
    /// # Errors
    ///
    /// The command's message about arguments that are no such options.
    pub fn new(arguments: &[&str]) -> Result<Self, String> {
        let arguments = ReadingArgs::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let duration = Wanted { part: Part::Duration, field: None, unit: None };
        Ok(Self { options: Options { wanted: vec![duration], ..arguments.reading.options() } })
    }

    /// Reads a text of at most 1 MiB as two blocks, the first of which ends with the line at `cut`.
    /// The log is the same wherever the cut is.
    ///
    /// # Errors
    ///
    /// The command's message about a text whose format or fields it does not recognise.
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
        let mut log = Log { lines: 0, malformed: 0, without_key: 0, durations: 0, requests: Vec::new() };
        for batch in &read(&self.options, text, cut)? {
            log.requests.extend(batch.records(log.lines).map(|record| Request {
                line: record.line,
                t_ns: record.t_ns,
                key: record.key.to_owned(),
                cost: record.cost,
                op: record.op,
                id: record.id.to_owned(),
                max_wait_ns: record.max_wait_ns,
                quota: record.quota,
            }));
            let is_read = |&index: &usize| {
                let text = batch.parts(index).get(0);
                ingest::read_duration(text, batch.times().unit).is_ok_and(|lasts| lasts.is_some())
            };
            log.durations += (0..batch.len()).filter(is_read).count() as u64;
            log.lines += batch.lines;
            log.malformed += batch.malformed;
            log.without_key += batch.without_key;
        }
        Ok(log)
    }
}

/// Replays a trace of at most 1 MiB under one limit with room for so many keys.
///
/// # Errors
///
/// The command's message: about a limit that the engine refuses, or an operation that the limit
/// lacks.
pub fn replay(limit: Spec, max_keys: usize, trace: &[u8]) -> Result<Vec<RecordOutcome>, String> {
    let options = Options { format: Format::Trace, ..Options::default() };
    let [batch, _] = read(&options, trace, trace.len())?;
    let outcomes =
        replay::in_memory(limit, max_keys, batch.records(0)).map_err(|failure| failure.to_string())?;
    let (mut before, mut credits) = (replay::GivenBack::default(), 0);
    let outcomes = outcomes.into_iter().map(|outcome| {
        let total = outcome.given_back;
        let credited = outcome.credited.units - credits;
        credits = outcome.credited.units;
        let (back, found_nothing) = (total.units - before.units, total.found_nothing > before.found_nothing);
        before = total;
        RecordOutcome { decision: outcome.decision, back, credited, found_nothing }
    });
    Ok(outcomes.collect())
}

fn read(options: &Options, text: &[u8], cut: usize) -> Result<[Batch; 2], String> {
    ingest::parse_in_memory("memory", options, text, cut).map_err(|error| error.to_string())
}
