//! The made-up day as batches of records, as if a log had been read.

use std::fmt::Display;
use std::io::Write;
use std::ops::ControlFlow;

use crate::demo;
use crate::ingest::{Batch, KeyBy, KeyWriter, Op, Options, Part, PartsOfFile, Progress, Totals, Wanted};

/// The seed of the day. It never changes, so that every run has the same day.
const SEED: u64 = 1;

/// How many requests make a batch.
const BATCH: u64 = 4096;

/// Gives the requests of the day to `each`, as [`ingest::read`](crate::ingest::read) does with
/// those of files. A record's line is the request's number.
///
/// # Errors
///
/// When requests of the day have no such key.
pub(super) fn read(
    options: Options,
    progress: &Progress,
    mut each: impl FnMut(Batch, u64) -> ControlFlow<(), Batch>,
) -> Result<Totals, String> {
    let key_writer = KeyWriter { by: options.key, ipv6_prefix: options.ipv6_prefix };
    if matches!(key_writer.by, KeyBy::Field(_)) {
        return Err(
            "the made-up day has no fields: --key client, user, path, METHOD+path or global".to_owned()
        );
    }
    if let Some(Wanted { field: Some(field), .. }) =
        options.wanted.iter().find(|wanted| wanted.field.is_some())
    {
        return Err(format!("the made-up day has no field {field:?}, which --map names"));
    }
    let is_there = |wanted: &Wanted| matches!(wanted.part, Part::Client | Part::Method | Part::Target);
    let parts = PartsOfFile::without_durations(options.wanted.iter().map(is_there).collect());

    let mut totals = Totals::default();
    let mut day = demo::day(SEED).peekable();
    let mut batch = Batch::default();
    let mut part = Vec::new();
    while day.peek().is_some() {
        batch.restart(0);
        batch.begin_parts(&parts);
        for request in day.by_ref().take(BATCH as usize) {
            batch.lines += 1;
            let text: &dyn Display = match key_writer.by {
                KeyBy::Client => &request.client,
                KeyBy::Path | KeyBy::MethodPath => &request.path,
                KeyBy::User | KeyBy::Field(_) | KeyBy::Global => &"",
            };
            let has_key =
                key_writer.write(&mut batch.keys, written(text, &mut part), request.method.as_bytes());
            batch.without_key += u64::from(!has_key);
            for wanted in &options.wanted {
                let text: &dyn Display = match wanted.part {
                    Part::Client => &request.client,
                    Part::Method => &request.method,
                    Part::Target => &request.path,
                    _ => &"",
                };
                batch.push_part(written(text, &mut part));
            }
            batch.push(request.t_ns, 1, Op::Check);
        }
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

/// A text, written into a buffer.
fn written<'b>(text: &dyn Display, buffer: &'b mut Vec<u8>) -> &'b [u8] {
    buffer.clear();
    write!(buffer, "{text}").expect("writing to a vector does not fail");
    buffer
}
