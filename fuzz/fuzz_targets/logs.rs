//! Any bytes as a log, read with any options: no panic, and every line is counted.
//!
//! The first line has the options, the rest is the log:
//!
//! ```text
//!   --format json --cost-field n
//!   {"time":1455944445,"ip":"192.0.2.7","n":3}
//! ```

#![no_main]

#[path = "shared/log.rs"]
mod log;

use clap::ValueEnum;
use libfuzzer_sys::fuzz_target;
use tollgate_logs::{Format, Op, Options};

use log::{Log, Request};

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let Ok(words) = std::str::from_utf8(&bytes[..end]) else { return };
    let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    let text = bytes.get(end + 1..).unwrap_or_default();

    let Some(options) = options(&words) else { return };
    let whole = log::read(&options, text, text.len());
    // The same log in two blocks, cut at a place that depends on the bytes.
    let cut = bytes.iter().fold(0, |sum: usize, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    assert_eq!(log::read(&options, text, cut % (text.len() + 1)), whole);

    let Ok(log) = whole else { return };
    assert_every_line_is_counted(&log, text);
    assert_a_trace_reads_the_same(&log);
});

/// Reads options as those of the command.
fn options(words: &[&str]) -> Option<Options> {
    let mut options = Options::default();
    for pair in words.chunks(2) {
        let &[name, value] = pair else { return None };
        match name {
            "--format" => options.format = Format::from_str(value, false).ok()?,
            "--key" => options.key = value.parse().ok()?,
            "--ipv6-prefix" => options.ipv6_prefix = value.parse().ok()?,
            "--time-field" => options.time_field = Some(value.into()),
            "--key-field" => options.key_field = Some(value.into()),
            "--cost-field" => options.cost_field = Some(value.into()),
            _ => return None,
        }
    }
    Some(options)
}

fn assert_every_line_is_counted(log: &Log, text: &[u8]) {
    let Log { lines, malformed, without_key, durations, ref requests } = *log;
    let newlines = text.iter().filter(|&&byte| byte == b'\n').count();
    let has_rest = text.last().is_some_and(|&byte| byte != b'\n');
    assert_eq!(lines, newlines as u64 + u64::from(has_rest));
    assert!(requests.len() as u64 + malformed <= lines, "{log:?}");
    assert!(without_key <= requests.len() as u64 + malformed, "{log:?}");
    assert!(durations <= requests.len() as u64, "{log:?}");
    let mut before = 0;
    for request in requests {
        assert!((before + 1..=lines).contains(&request.line), "{request:?}");
        assert!(!request.key.is_empty(), "{request:?}");
        before = request.line;
    }
}

/// Writes the requests as a trace and reads them again.
fn assert_a_trace_reads_the_same(log: &Log) {
    let requests = log.requests.iter().filter(|request| std::str::from_utf8(&request.key).is_ok());
    let (mut trace, mut expected) = (String::new(), Vec::new());
    for (line, request) in (1..).zip(requests) {
        trace.push_str(&line_of(request));
        expected.push(Request { line, ..request.clone() });
    }
    let options = Options { format: Format::Trace, ..Options::default() };
    let again = log::read(&options, trace.as_bytes(), trace.len());
    assert_eq!(again.expect("a trace").requests, expected, "{trace}");
}

fn line_of(request: &Request) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a trace is text");
    let mut object = serde_json::json!({"t_ns": request.t_ns, "key": text(&request.key)});
    let op = match request.op {
        Op::Check => "check",
        Op::Peek => "peek",
        Op::Refund => "refund",
        Op::Reserve => "reserve",
        Op::Cancel => "cancel",
        Op::Reset => "reset",
        Op::CheckUpTo => "check_up_to",
        Op::Debit => "debit",
        Op::Credit => "credit",
    };
    object["op"] = op.into();
    if request.op != Op::Cancel {
        object["cost"] = request.cost.into();
    }
    if request.op == Op::Reserve {
        object["max_wait_ns"] = request.max_wait_ns.into();
    }
    if !request.id.is_empty() {
        object["id"] = text(&request.id).into();
    }
    object.to_string() + "\n"
}
