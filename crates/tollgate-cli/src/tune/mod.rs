//! `tollgate tune`: which numbers? Every algorithm over a range of limits, against a real log.

mod algorithm;
mod curve;
mod search;
mod share;
mod table;

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::progress::work_bar;
use crate::reading::Reading;
use crate::spec::{period, problem};
use crate::timelines::Timelines;
use curve::{Curve, Curves, Point};
use share::Share;
use table::Table;

/// Find the numbers: what every limit would have refused
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    reading: Reading,

    /// The period of every limit, such as s, 10s, 1min, h
    #[arg(long, value_name = "PERIOD", default_value = "1min", value_parser = period)]
    period: Duration,

    /// The share of keys that are never to be refused
    #[arg(long, value_name = "SHARE", default_value = "99.9%")]
    keep: Share,

    /// Print one JSON object instead of the tables
    #[arg(long, help_heading = "Output")]
    json: bool,
}

const AFTER: &str = "\
Tried are: token bucket with burst = limit, leaky bucket as a meter with
capacity = limit, fixed window, sliding window counter, sliding log. For every
key the smallest limit that never refuses it is found by search, with the engine
itself; it is exact. So is the smallest limit that keeps the share.

The log is kept in memory: about 40 bytes a request, and its keys. Of a
trace only checks are tried, as if nothing were reserved or given back.

Examples:
  tollgate tune access.log --period 1min
  tollgate tune access.log --period 10s --keep 99% --json
  tollgate tune llm.csv --key global --cost-field tokens --period 1min
  tollgate tune --demo";

/// Runs the command.
///
/// # Errors
///
/// A file or a period that is unusable; output that cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    args.reading.judge("tune")?;
    let timelines = Timelines::read(&args.reading)?;
    let keep = args.keep.of(timelines.keys());
    let bar = work_bar(curve::work(&timelines), "trying limits");
    let curves = curve::draw(&timelines, args.period, keep, &bar)
        .map_err(|error| Failure::Usage(format!("--period: {}", problem(&error))))?;
    bar.finish_and_clear();

    let tuning = Tuning { args, timelines: &timelines, keep, curves: &curves };
    let text = if args.json { format!("{}\n", tuning.json()) } else { Table(&tuning).to_string() };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::writing("the result"))
}

/// What was found.
struct Tuning<'a> {
    args: &'a Args,
    timelines: &'a Timelines,
    /// How many keys are to stay untouched.
    keep: usize,
    curves: &'a Curves,
}

impl Tuning<'_> {
    fn spec(&self, curve: &Curve, limit: u64) -> String {
        curve.algorithm.at(limit, self.args.period).to_string()
    }

    fn json(&self) -> Value {
        let point = |curve: &Curve, point: &Point| {
            json!({
                "limit": point.limit,
                "spec": self.spec(curve, point.limit),
                "requests_refused": point.requests_refused,
                "keys_refused": point.keys_refused,
            })
        };
        let curve = |curve: &Curve| {
            let points = curve.points.iter().flatten().map(|each| point(curve, each));
            json!({
                "algorithm": curve.algorithm.name(),
                "limits": points.collect::<Vec<_>>(),
                "smallest": curve.smallest.as_ref().map(|smallest| point(curve, smallest)),
            })
        };
        json!({
            "requests": self.timelines.requests(),
            "keys": self.timelines.keys(),
            "period_ns": self.args.period.as_nanos() as u64,
            "keep": self.args.keep.to_string(),
            "keys_to_keep": self.keep,
            "algorithms": self.curves.curves.iter().map(curve).collect::<Vec<_>>(),
        })
    }
}
