//! Compares every number of every answer of a replay with the reference model's.
//!
//! ```text
//!   tollgate replay LOG --limit SPEC --decisions all.jsonl
//!   cargo run --release -p tollgate-cli --example against_model -- SPEC all.jsonl [TRACE]
//! ```
//!
//! TRACE has the requests that the replay should have read, found by other means: one JSON object a
//! line with `line` (the log's), `t_ns`, `key` and `cost`. Without TRACE the example takes the keys
//! and times from the decisions, with a cost of 1.

#[path = "../tests/support/reference.rs"]
mod reference;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::ExitCode;

use reference::{Reference, line};
use serde_json::Value;

/// A request that the replay should have read.
struct Request {
    line: u64,
    /// When it is decided: the latest time so far.
    t_ns: u64,
    key: String,
    cost: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [spec, decisions] => compare(spec, decisions, requests(decisions)),
        [spec, decisions, trace] => compare(spec, decisions, requests(trace)),
        _ => Err("usage: against_model SPEC DECISIONS [TRACE]".to_owned()),
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(difference) => {
            eprintln!("{difference}");
            ExitCode::FAILURE
        }
    }
}

/// The objects of a file, one a line.
fn objects(file: &str) -> Box<dyn Iterator<Item = Value>> {
    let open = File::open(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let object = |line: std::io::Result<String>| {
        serde_json::from_str(&line.expect("the file is text")).expect("every line is an object")
    };
    Box::new(BufReader::new(open).lines().map(object))
}

fn requests(file: &str) -> Box<dyn Iterator<Item = Request>> {
    Box::new(objects(file).scan(0, |latest, object| {
        let number = |field: &str| object[field].as_u64();
        *latest = number("t_ns").expect("a time").max(*latest);
        Some(Request {
            line: number("line").expect("a line number"),
            t_ns: *latest,
            key: object["key"].as_str().expect("a key").to_owned(),
            cost: number("cost").unwrap_or(1),
        })
    }))
}

fn compare(
    spec: &str,
    decisions: &str,
    requests: Box<dyn Iterator<Item = Request>>,
) -> Result<String, String> {
    let mut decisions = objects(decisions);
    let mut reference: Option<Reference> = None;
    let (mut all, mut allowed) = (0_u64, 0_u64);
    for Request { line: number, t_ns, key, cost } in requests {
        let reference = reference.get_or_insert_with(|| Reference::new(spec, t_ns));
        let answer = reference.check(&key, t_ns, cost);
        let expected = line(number, &key, t_ns, answer);
        match decisions.next() {
            Some(decision) if decision == expected => {}
            decision => {
                let got = decision.map_or("nothing".to_owned(), |decision| decision.to_string());
                return Err(format!("{spec}: the model says\n  {expected}\nbut the replay\n  {got}"));
            }
        }
        all += 1;
        allowed += u64::from(answer.allowed);
    }
    match decisions.next() {
        None => Ok(format!("{spec}: {all} decisions equal to the model's, {allowed} of them allowed")),
        Some(more) => Err(format!("{spec}: the replay decided more requests than TRACE has: {more}")),
    }
}
