//! `tollgate tune`: finds the limits that fit a log, by trying every algorithm over a range of
//! limits.

mod algorithm;
mod distribution;
mod rules;
mod search;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::by_rules::{Map, path as rules_path};
use crate::failure::Failure;
use crate::output::print_result;
use crate::progress::work_bar;
use crate::reading::Reading;
use crate::share::Share;
use crate::spec::{period, problem};
use crate::timelines::Timelines;
use distribution::{Distribution, Distributions, Point};
use table::Table;

/// Find limits that fit a log: what would each have refused?
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    reading: Reading,

    /// The period of every limit, such as s, 10s, 1min, h
    #[arg(long, value_name = "PERIOD", default_value = "1min", value_parser = period)]
    period: Duration,

    /// Tune the limits of the rules in a file, in place of trying all algorithms
    ///
    /// Of each rule the smallest numbers that would never have refused the share of its keys: the
    /// count of each limit, with burst and capacity in proportion. None of a rule's limits could be
    /// smaller beside its others.
    #[arg(long, value_name = "FILE.toml", value_parser = rules_path, help_heading = "Rules")]
    #[arg(conflicts_with_all = ["key", "ipv6_prefix", "cost_field", "period"])]
    rules: Option<PathBuf>,

    /// The field of the log that holds what rules see: label.user=user_id
    #[arg(long = "map", value_name = "ATTRIBUTE=FIELD", requires = "rules", help_heading = "Rules")]
    maps: Vec<Map>,

    /// The share of keys that a limit must never refuse
    #[arg(long, value_name = "SHARE", default_value = "99.9%", value_parser = keep)]
    keep: Share,

    /// Print one JSON object instead of the tables
    #[arg(long, help_heading = "Output")]
    json: bool,
}

const AFTER: &str = "\
Tried are: token bucket with burst = limit, leaky bucket as a meter with
capacity = limit, fixed window, sliding window counter, sliding log. For every
key a search with the engine itself finds the smallest limit that never refuses
it; it is exact. So is the smallest limit that never refuses the share.

The log is kept in memory: about 40 bytes a request, and its keys. Of a
trace only checks are tried, as if nothing were reserved or given back.

Examples:
  tollgate tune access.log --period 1min
  tollgate tune access.log --period 10s --keep 99% --json
  tollgate tune --rules rules.toml access.log
  tollgate tune llm.csv --key global --cost-field tokens --period 1min
  tollgate tune --demo";

/// Reads the share to keep. A bare number up to 1 may be meant as a part of one.
fn keep(text: &str) -> Result<Share, String> {
    let share: Share = text.parse()?;
    match share.as_part_of_one().filter(|_| !text.contains('%')) {
        Some(whole) => {
            Err(format!("{text:?} would be {share}: write --keep {whole}, or {share} if you mean it"))
        }
        None => Ok(share),
    }
}

/// Runs the command.
///
/// # Errors
///
/// An unusable file or period; output that cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(file) = &args.rules {
        return rules::run(args, file);
    }
    args.reading.validate("tune")?;
    let timelines = Timelines::read(&args.reading)?;
    let keep = args.keep.of(timelines.keys());
    let bar = work_bar(distribution::bar_length(&timelines), "trying limits");
    let distributions = distribution::measure(&timelines, args.period, keep, &bar)
        .map_err(|error| Failure::Usage(format!("--period: {}", problem(&error))))?;
    bar.finish_and_clear();

    let tuning = Tuning { args, timelines: &timelines, keep, distributions: &distributions };
    print_result(&if args.json { format!("{}\n", tuning.json()) } else { Table(&tuning).to_string() })
}

/// The result.
struct Tuning<'a> {
    args: &'a Args,
    timelines: &'a Timelines,
    /// How many keys a limit must never refuse.
    keep: usize,
    distributions: &'a Distributions,
}

impl Tuning<'_> {
    fn spec(&self, distribution: &Distribution, limit: u64) -> String {
        distribution.algorithm.with_limit(limit, self.args.period).to_string()
    }

    fn json(&self) -> Value {
        let point = |distribution: &Distribution, point: &Point| {
            json!({
                "limit": point.limit,
                "spec": self.spec(distribution, point.limit),
                "requests_refused": point.requests_refused,
                "keys_refused": point.keys_refused,
            })
        };
        let distribution = |distribution: &Distribution| {
            let points = distribution.points.iter().flatten().map(|each| point(distribution, each));
            json!({
                "algorithm": distribution.algorithm.name(),
                "limits": points.collect::<Vec<_>>(),
                "smallest": distribution.smallest.as_ref().map(|smallest| point(distribution, smallest)),
            })
        };
        json!({
            "requests": self.timelines.requests(),
            "keys": self.timelines.keys(),
            "period_ns": self.args.period.as_nanos() as u64,
            "keep": self.args.keep.to_string(),
            "keys_to_keep": self.keep,
            "algorithms": self.distributions.by_algorithm.iter().map(distribution).collect::<Vec<_>>(),
        })
    }
}
