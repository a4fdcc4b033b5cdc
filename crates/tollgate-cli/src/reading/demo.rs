//! The made-up day as records, as if a log had been read.

use std::io::Write;
use std::ops::ControlFlow;

use crate::demo;
use crate::ingest::{KeyBy, KeyWriter, Op, Options, Part, Parts, Progress, Record, Totals, Wanted};

/// The seed of the day. It never changes, so that every run has the same day.
const SEED: u64 = 1;

/// Progress advances by so many lines.
const STEP: u64 = 4096;

/// Gives every request of the day to `each`. A record's line is the request's number.
///
/// # Errors
///
/// When requests of the day have no such key.
pub(super) fn read(
    options: Options,
    progress: &Progress,
    mut each: impl FnMut(Record<'_>) -> ControlFlow<()>,
) -> Result<Totals, String> {
    let mut totals = Totals::default();
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
    let found: Vec<bool> = options.wanted.iter().map(is_there).collect();
    let (mut texts, mut ends) = (Vec::new(), Vec::new());
    let (mut part, mut key) = (Vec::new(), Vec::new());
    for request in demo::day(SEED) {
        part.clear();
        key.clear();
        let written = match key_writer.by {
            KeyBy::Client => write!(part, "{}", request.client),
            KeyBy::Path | KeyBy::MethodPath => write!(part, "{}", request.path),
            KeyBy::User | KeyBy::Field(_) | KeyBy::Global => Ok(()),
        };
        written.expect("writing to a vector does not fail");
        let has_key = key_writer.write(&mut key, &part, request.method.as_bytes());
        totals.lines += 1;
        totals.records += 1;
        totals.without_key += u64::from(!has_key);
        if totals.lines % STEP == 0 {
            progress.add_lines(STEP);
        }
        texts.clear();
        ends.clear();
        for wanted in &options.wanted {
            match wanted.part {
                Part::Client => write!(texts, "{}", request.client),
                Part::Method => write!(texts, "{}", request.method),
                Part::Target => write!(texts, "{}", request.path),
                _ => Ok(()),
            }
            .expect("writing to a vector does not fail");
            ends.push(texts.len() as u32);
        }
        let record = Record {
            file: 0,
            line: totals.lines,
            t_ns: request.t_ns,
            key: &key,
            cost: 1,
            op: Op::Check,
            id: &[],
            max_wait_ns: 0,
            quota: None,
            parts: Parts::new(&texts, &ends, &found),
            is_trace: false,
            is_last: false,
        };
        if each(record).is_break() {
            break;
        }
    }
    Ok(totals)
}
