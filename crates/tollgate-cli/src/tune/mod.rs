//! `tollgate tune`: finds the limits that fit a log, by trying every algorithm over a range of
//! limits.

mod algorithm;
mod args;
mod distribution;
mod rules;
mod search;
mod table;
mod tuning;

use crate::failure::Failure;
use crate::output::print_result;
use crate::progress::work_bar;
use crate::spec::problem;
use crate::timelines::Timelines;
pub(crate) use args::Args;
use table::Table;
use tuning::Tuning;

/// Runs the command.
///
/// # Errors
///
/// An unusable file or period; output that cannot be written.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(file) = &args.rules {
        return rules::run(args, file);
    }
    args.log.need_rules()?;
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
