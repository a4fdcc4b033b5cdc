//! The made-up day as batches of records, as if a log had been read.

use std::fmt::Write;
use std::ops::ControlFlow;

use tollgate_logs::{Batch, Format, KeyBy, Options, Progress, Totals, read_blocks};

use crate::demo;

/// The seed of the day. It never changes, so that every run has the same day.
const SEED: u64 = 1;

/// How many requests make a batch.
const BATCH: usize = 4096;

/// The fields of the day, and a line that tells that each but the user has texts.
const SAMPLE: &str = "t_ns\tclient\tuser\tmethod\tpath\n0\t192.0.2.1\t-\tGET\t/\n";

/// Gives the requests of the day to `each`, as [`read`](tollgate_logs::read) does with those of
/// files. A record's line is the request's number.
///
/// # Errors
///
/// When requests of the day have no such key.
pub(super) fn read(
    options: Options,
    progress: &Progress,
    each: impl FnMut(Batch, u64) -> ControlFlow<(), Batch>,
) -> Result<Totals, String> {
    if matches!(options.key, KeyBy::Field(_)) {
        return Err(
            "the made-up day has no fields: --key client, user, path, METHOD+path or global".to_owned()
        );
    }
    if let Some(field) = options.wanted.iter().find_map(|wanted| wanted.field.as_ref()) {
        return Err(format!("the made-up day has no field {field:?}, which --map names"));
    }
    let options = Options { format: Format::Tsv, ..options };
    let mut day = demo::day(SEED).peekable();
    let blocks = std::iter::from_fn(|| {
        day.peek()?;
        let mut block = String::new();
        for request in day.by_ref().take(BATCH) {
            let demo::Request { t_ns, client, method, path } = request;
            writeln!(block, "{t_ns}\t{client}\t-\t{method}\t{path}").expect("a string grows");
        }
        Some(block)
    });
    let read = read_blocks("the made-up day", &options, SAMPLE.as_bytes(), blocks, progress, each);
    read.map_err(|error| error.to_string())
}
