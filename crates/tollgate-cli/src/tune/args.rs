//! The options of `tollgate tune`.

use std::path::PathBuf;
use std::time::Duration;

use crate::by_rules::{LogArgs, path as rules_path};
use crate::reading::Reading;
use crate::share::Share;
use crate::spec::period;

/// Find limits that fit a log: what would each have refused?
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) reading: Reading,

    /// The period of every limit, such as s, 10s, 1min, h
    #[arg(long, value_name = "PERIOD", default_value = "1min", value_parser = period)]
    pub(super) period: Duration,

    /// Tune the limits of the rules in a file, in place of trying all algorithms
    ///
    /// Of each rule the smallest numbers that would never have refused the share of its keys: the
    /// count of each limit, with burst and capacity in proportion. None of a rule's limits could be
    /// smaller beside its others.
    #[arg(long, value_name = "FILE.toml", value_parser = rules_path, help_heading = "Rules")]
    #[arg(conflicts_with_all = ["key", "ipv6_prefix", "cost_field", "period"])]
    pub(super) rules: Option<PathBuf>,

    #[command(flatten)]
    pub(super) log: LogArgs,

    /// The share of keys that a limit must never refuse
    #[arg(long, value_name = "SHARE", default_value = "99.9%", value_parser = keep)]
    pub(super) keep: Share,

    /// Print one JSON object instead of the tables
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
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
