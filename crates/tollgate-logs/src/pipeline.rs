//! Several parser threads, whose batches circulate between them and the caller.
//!
//! ```text
//!               +----- empty batches <------------------------------+
//!               v                                                   |
//!   [parser]  take a batch, lock the sources, fill a block          |
//!   [parser]  (which gets a number), unlock, parse     -- full --> caller: puts batches in order,
//!                                                                  gives each to `each`
//! ```
//!
//! No thread only reads: the parsers read in turn, under the lock. A parser takes an empty batch
//! before it takes a number, so a parser always works on the number that the caller waits for. The
//! channels have room for all batches. So neither a parser nor the caller waits for ever.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::batch::Batch;
use crate::blocks::{Block, Blocks, Content, LINE_LIMIT};
use crate::detect::Parser;
use crate::error::LogError;
use crate::in_order::{InOrder, Message, PanicAlarm};
use crate::lines;
use crate::options::Options;
use crate::source::{self, Progress, Source};
use crate::totals::{Stopped, Totals};

/// More parsers than this would wait for each other's reading.
const MAX_PARSERS: usize = 8;

/// Reads all sources and gives every batch of records to `each`, in the order of files and lines,
/// on this thread, with the number of lines of its file that precede it. `each` returns a batch
/// that will be filled again.
///
/// `each` ends the reading early with [`ControlFlow::Break`]; that is no error.
///
/// # Errors
///
/// A source that cannot be opened, before anything is read; a source whose format or fields are
/// unknown; a source that cannot be read to its end. `each` has seen all records before the error;
/// [`Stopped::totals`] counts them.
pub fn read(
    sources: &[Source],
    options: &Options,
    progress: &Arc<Progress>,
    each: impl FnMut(Batch, u64) -> ControlFlow<(), Batch>,
) -> Result<Totals, Box<Stopped>> {
    // The caller needs one core.
    let parsers =
        thread::available_parallelism().map_or(1, NonZero::get).saturating_sub(1).clamp(1, MAX_PARSERS);
    read_with(parsers, sources, options, progress, each)
}

fn read_with(
    parsers: usize,
    sources: &[Source],
    options: &Options,
    progress: &Arc<Progress>,
    mut each: impl FnMut(Batch, u64) -> ControlFlow<(), Batch>,
) -> Result<Totals, Box<Stopped>> {
    let mut totals = Totals::default();
    match source::total_size(sources) {
        Ok(total) => progress.set_total(total),
        Err(error) => return Err(Box::new(Stopped { totals, error })),
    }

    // For each parser one batch that it fills and one on its way, and one that the caller reads. A
    // caller that keeps some brings others.
    let batches = 2 * parsers + 1;
    let (empty, empties) = bounded(batches);
    for _ in 0..batches {
        empty.send(Batch::default()).expect("the receiver is in this function");
    }
    // With room for a panic message of each parser.
    let (full, fulls) = bounded(batches + parsers);
    let blocks = Arc::new(Mutex::new(Blocks::new(sources, options, progress)));
    for _ in 0..parsers {
        let (blocks, empties, full) = (Arc::clone(&blocks), empties.clone(), full.clone());
        // Not joined: after a break, a parser may wait for standard input until that is closed.
        thread::spawn(move || parse(&blocks, &empties, &full));
    }
    drop((full, empties));

    // How many lines of its file precede the next batch.
    let (mut file, mut before) = (0, 0);
    for outcome in InOrder::new(fulls) {
        let batch = match outcome {
            Ok(batch) => batch,
            Err(problem) => return Err(Box::new(Stopped { totals, error: problem.into() })),
        };
        if batch.file != file {
            (file, before) = (batch.file, 0);
        }
        totals.add(&batch, before);
        let lines = batch.lines;
        progress.add_lines(lines);
        let ControlFlow::Continue(batch) = each(batch, before) else { break };
        before += lines;
        // Fails when all parsers have ended.
        let _ = empty.send(batch);
    }
    Ok(totals)
}

/// Reads texts in memory, each of at most 1 MiB and of whole lines, as one file with this name, on
/// this thread. `sample` tells the format and the fields: it has the first lines, or else a header
/// and a line that no block has. Otherwise as [`read`].
///
/// # Errors
///
/// A format that the sample does not tell, or fields that it lacks.
///
/// # Examples
///
/// ```
/// use std::ops::ControlFlow;
/// use tollgate_logs::{Options, Progress, read_blocks};
///
/// let text = b"time,client,status\n1455944445,192.0.2.7,200\n";
/// let mut keys = Vec::new();
/// let each = |batch: tollgate_logs::Batch, before| {
///     keys.extend(batch.records(before).map(|record| record.key.to_vec()));
///     ControlFlow::Continue(batch)
/// };
/// read_blocks("a.csv", &Options::default(), text, [text], &Progress::default(), each)?;
/// assert_eq!(keys, [b"192.0.2.7"]);
/// # Ok::<(), tollgate_logs::LogError>(())
/// ```
pub fn read_blocks(
    name: &str,
    options: &Options,
    sample: &[u8],
    blocks: impl IntoIterator<Item = impl AsRef<[u8]>>,
    progress: &Progress,
    mut each: impl FnMut(Batch, u64) -> ControlFlow<(), Batch>,
) -> Result<Totals, LogError> {
    let parser = Parser::new(name, options, sample)?;
    let (mut totals, mut batch) = (Totals::default(), Batch::default());
    for block in blocks {
        batch.restart(0);
        parser.block(block.as_ref(), &mut batch);
        let before = totals.lines;
        totals.add(&batch, before);
        progress.add_lines(batch.lines);
        match each(batch, before) {
            ControlFlow::Continue(free) => batch = free,
            ControlFlow::Break(()) => break,
        }
    }
    Ok(totals)
}

/// The loop of a parser thread, until the sources or the caller end.
fn parse(blocks: &Mutex<Blocks>, empties: &Receiver<Batch>, full: &Sender<Message>) {
    let _alarm = PanicAlarm::new(full.clone());
    let mut block = Block::new();
    for mut batch in empties {
        let next = blocks.lock().expect("a parser that panics ends the reading").next(&mut block);
        let Some((number, info)) = next else { return };
        let outcome = info.map(|info| {
            batch.restart(info.file);
            match info.content {
                Content::Lines(parser) => parser.block(block.text(), &mut batch),
                Content::Blank => batch.lines = lines::split(block.text()).count() as u64,
                Content::TooLong => {
                    const { assert!(LINE_LIMIT == 1 << 20, "the reason says how long") }
                    batch.lines = 1;
                    batch.refuse(block.text(), "the line is longer than 1 MiB");
                }
            }
            batch
        });
        if full.send(Message::Block(number, outcome)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LINE, Temporary, gzip, options};

    /// A log of many blocks: every line has its own client, every 1000th line is blank or broken.
    fn log(clients: std::ops::Range<u32>) -> String {
        let line = |client: u32| match client % 1000 {
            500 => "\n".to_owned(),
            999 => format!("broken line of client {client}\n"),
            _ => format!("{}\n", LINE.replace("192.0.2.7", &format!("client-{client}"))),
        };
        clients.map(line).collect()
    }

    /// File, line and key of every record.
    type Keys = Vec<(usize, u64, String)>;

    fn keys(parsers: usize, sources: &[Source]) -> (Keys, Result<Totals, Box<Stopped>>) {
        let mut keys = Keys::new();
        let read =
            read_with(parsers, sources, &options(), &Arc::default(), |batch, before| {
                keys.extend(batch.records(before).map(|record| {
                    (record.file, record.line, String::from_utf8_lossy(record.key).into_owned())
                }));
                ControlFlow::Continue(batch)
            });
        (keys, read)
    }

    #[test]
    fn any_number_of_parsers_delivers_records_in_input_order() {
        let plain = Temporary::new("order-1.log", log(0..20_000).as_bytes());
        let zipped = Temporary::new("order-2.log.gz", &gzip(log(0..20_000).as_bytes()));
        let expected: Keys = (0..40_000)
            .map(|at| (at / 20_000, at % 20_000))
            .filter(|(_, client)| ![500, 999].contains(&(client % 1000)))
            .map(|(file, client)| (file, client as u64 + 1, format!("client-{client}")))
            .collect();
        for parsers in [1, 2, 7] {
            let (keys, read) = keys(parsers, &[plain.source(), zipped.source()]);
            assert!(keys == expected, "{parsers} parsers");
            let totals = read.expect("both files are whole");
            assert_eq!((totals.lines, totals.records, totals.malformed), (40_000, 39_920, 40));
        }
    }

    #[test]
    fn the_first_malformed_lines_are_shown_where_they_stand() {
        let file = Temporary::new("malformed.log", log(0..20_000).as_bytes());
        let (_, read) = keys(3, &[file.source()]);
        let samples = read.expect("the file is whole").samples;
        let lines: Vec<_> = samples.iter().map(|sample| sample.line).collect();
        assert_eq!(lines, [1000, 2000, 3000, 4000, 5000]);
        assert_eq!(samples[4].excerpt, "broken line of client 4999");
    }

    #[test]
    fn a_break_ends_the_reading_without_an_error() {
        let file = Temporary::new("break.log", log(0..20_000).as_bytes());
        let mut given = 0;
        let read = read_with(2, &[file.source()], &options(), &Arc::default(), |batch, _| {
            given += 1;
            if given == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(batch) }
        });
        assert!(read.is_ok());
        assert_eq!(given, 3);
    }

    #[test]
    fn a_missing_source_stops_before_the_first_record() {
        let file = Temporary::new("opened.log", LINE.as_bytes());
        let missing = Source::File("/no/such/file.log".into());
        let (keys, read) = keys(1, &[file.source(), missing]);
        let stopped = read.expect_err("the second file is missing");
        assert_eq!((keys, stopped.totals.clone()), (vec![], Totals::default()));
        assert!(stopped.to_string().contains("/no/such/file.log"), "{stopped}");
    }

    #[test]
    fn a_truncated_gzip_file_is_read_as_far_as_possible() {
        let whole = gzip(log(0..20_000).as_bytes());
        let file = Temporary::new("truncated.log.gz", &whole[..whole.len() / 2]);
        let (keys, read) = keys(2, &[file.source()]);
        let stopped = read.expect_err("half of the file is missing");
        assert!(stopped.to_string().contains("ends early"), "{stopped}");
        assert!(keys.len() > 5_000 && keys.len() < 15_000, "{}", keys.len());
        assert_eq!(stopped.totals.records, keys.len() as u64);
        assert_eq!(keys.last().map(|(_, line, key)| format!("client-{}", line - 1) == *key), Some(true));
    }

    #[test]
    fn a_file_of_unknown_format_is_named_in_the_error() {
        let file = Temporary::new("unknown.txt", b"hello\n");
        let stopped = keys(1, &[file.source()]).1.expect_err("not a log");
        assert!(stopped.to_string().contains("unknown.txt"), "{stopped}");
    }

    #[test]
    fn an_overlong_line_is_one_malformed_line() {
        let text = format!("{LINE}\n{}\n{LINE}", "x".repeat(2 * LINE_LIMIT));
        let file = Temporary::new("overlong.log", text.as_bytes());
        let (keys, read) = keys(1, &[file.source()]);
        let totals = read.expect("the file is whole");
        assert_eq!(keys.iter().map(|key| key.1).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((totals.lines, totals.malformed, totals.samples[0].line), (3, 1, 2));
    }

    #[test]
    fn progress_ends_at_the_size_and_lines_of_sources() {
        let text = log(0..20_000);
        let file = Temporary::new("progress.log", text.as_bytes());
        let progress = Arc::new(Progress::default());
        let read =
            read_with(1, &[file.source()], &options(), &progress, |batch, _| ControlFlow::Continue(batch));
        assert!(read.is_ok());
        let size = text.len() as u64;
        assert_eq!((progress.bytes(), progress.total(), progress.lines()), (size, Some(size), 20_000));
    }
}
