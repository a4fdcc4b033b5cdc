//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, value_parser};
use indicatif::{ProgressBar, ProgressStyle};

use crate::charts;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::results::Results;
use crate::targets::{Verdict, is_in_target, targets_of};
use crate::workloads::{Effort, Workload, resident_of, workloads};
use crate::{json, replay_speed, report, serve, server_speed};

/// Exit code if a target is missed.
const EXIT_MISSED: u8 = 1;
/// Exit code of errors; clap uses it for a wrong command line too.
pub(crate) const EXIT_ERROR: u8 = 2;

/// Compare Tollgate with its peers, and with floors that no limiter can beat.
///
/// The contestants of a workload take turns on the same keys, pass by pass, or with --alone each
/// is measured alone. The tables show medians, quartiles, and ratios within a pass. Use a release
/// build on an idle machine.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    args_conflicts_with_subcommands = true,
    after_help = "Exit code: 0, 1 if a target is missed, 2 if an error prevents the measurement."
)]
pub(crate) struct Command {
    #[command(subcommand)]
    tool: Option<Tool>,
    /// Run only the workloads whose names contain this text; repeat it for several texts; only
    /// "scale" runs those with up to 10^8 keys, which take minutes and gigabytes
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Measure each contestant alone instead of in turns
    ///
    /// In turns, all limiters exist at once and share the caches, as a limiter in a server shares
    /// them with other code. The contestants run within milliseconds of each other, so other
    /// programs disturb them alike. By the real clock, keys also recover while the other
    /// contestants run. Read these ratios first.
    ///
    /// Alone, only one limiter exists. In each pass it is new, checks all its keys once, and then
    /// makes three million checks that are measured. It has the caches for itself, and its keys
    /// come back sooner, as in a loop that only checks. Read these figures for the cost of a
    /// check in such a loop, and to see whether the other contestants' turns favour one of them.
    /// A claim should hold in both orders.
    ///
    /// The names of these figures end in ", alone"; --from joins them with figures in turns.
    /// Memory is always measured alone and latency always in turns, so this leaves both out.
    #[arg(long, conflicts_with = "targets")]
    alone: bool,
    /// Run only the workloads with targets, and print which targets are met
    ///
    /// All contestants run in turns. Where a target also holds for contestants alone, the two that
    /// it compares run alone, too.
    #[arg(long)]
    targets: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Measure nothing: read the figures from a file that --json printed; repeat it for several
    /// files of the same build
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filter", "alone", "targets", "json", "passes", "quick", "list"])]
    from: Vec<PathBuf>,
    /// Write a page of all figures into this folder, and the charts for which there are figures
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
    /// The number of passes of each workload
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = value_parser!(u32).range(1..))]
    passes: u32,
    /// Run a few checks only, to see that all contestants work
    #[arg(long)]
    quick: bool,
    /// Print the names of the workloads and run none
    #[arg(long)]
    list: bool,
    /// Print the resident bytes of one contestant; the command runs itself with this option
    #[arg(long, hide = true, value_name = "NAME", requires = "keys")]
    resident_of: Option<String>,
    /// The number of keys for --resident-of
    #[arg(long, hide = true, value_name = "N")]
    keys: Option<usize>,
}

/// Measurements of whole programs.
#[derive(Debug, Subcommand)]
enum Tool {
    /// Load an axum server bare, behind tollgate-tower and behind tower_governor with wrk, and
    /// print a page
    ///
    /// The page has requests a second, p99, and the server's CPU time for each request, and
    /// compares each server with the first in its round. To compare two servers most precisely, run
    /// only these: --only governor,tollgate. Needs wrk, taskset and two cores.
    ServerSpeed {
        /// The number of rounds
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
        rounds: u32,
        /// Seconds of load for each server in each round
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        seconds: u32,
        /// The servers to load, all compared with the first
        #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Load `tollgate serve` and other servers with redis-benchmark, wrk and h2load, and print a
    /// page
    ///
    /// The page has the server's CPU time for each command, and compares tollgate with the others
    /// of its round. Needs redis-server, redis-benchmark, wrk, h2load, taskset and two cores. Exit
    /// code 1 if a target is missed.
    Serve(serve::Options),
    /// Time `tollgate replay`, goaccess (if installed) and `wc -l` on one access log, and print a
    /// page
    ///
    /// Exit code 1 if tollgate is not ten times as fast as goaccess, or if rules take more than
    /// twice as long as one limit.
    ReplaySpeed {
        /// An access log in Combined format, uncompressed
        file: String,
        /// How often each program reads it
        #[arg(long, value_name = "N", default_value_t = 11, value_parser = value_parser!(u32).range(1..))]
        runs: u32,
        /// The program whose replay by one limit rules are compared with, such as that of an
        /// earlier commit; without it, this one
        #[arg(long, value_name = "TOLLGATE")]
        before: Option<PathBuf>,
    },
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<ExitCode, BenchError> {
        match &self.tool {
            Some(Tool::ServerSpeed { rounds, seconds, only }) => {
                return server_speed::run(*rounds, *seconds, only);
            }
            Some(Tool::Serve(options)) => return serve::run(options),
            Some(Tool::ReplaySpeed { file, runs, before }) => {
                return replay_speed::run(file, *runs as usize, before.as_deref());
            }
            None => {}
        }
        if let (Some(name), Some(keys)) = (&self.resident_of, self.keys) {
            println!("{}", resident_of(name, keys)?);
            return Ok(ExitCode::SUCCESS);
        }
        if !self.from.is_empty() {
            self.write_charts(&Results::read(&self.from)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let chosen = self.chosen()?;
        if self.list {
            chosen.iter().for_each(|workload| println!("{} ({})", workload.name, workload.unit.name()));
            return Ok(ExitCode::SUCCESS);
        }
        let verdicts = self.measure(&chosen)?;
        let missed = self.targets && verdicts.iter().any(|verdict| !verdict.is_met);
        Ok(ExitCode::from(if missed { EXIT_MISSED } else { 0 }))
    }

    /// Returns the workloads to run.
    fn chosen(&self) -> Result<Vec<Workload>, BenchError> {
        let has_target = |workload: &Workload| targets_of(&workload.name).next().is_some();
        let is_chosen = |workload: &Workload| {
            (!self.targets || has_target(workload)) && (!self.alone || workload.has_alone())
        };
        let chosen: Vec<Workload> = workloads(&self.filter).into_iter().filter(is_chosen).collect();
        if chosen.is_empty() { Err(BenchError::NothingMatches(self.filter.clone())) } else { Ok(chosen) }
    }

    /// Returns whether the targets of a workload need contestants alone beside those in turns.
    fn is_also_alone(&self, workload: &Workload) -> bool {
        self.targets && targets_of(&workload.name).any(|target| target.is_also_alone)
    }

    /// Runs the workloads, prints their figures, and evaluates the targets.
    fn measure(&self, chosen: &[Workload]) -> Result<Vec<Verdict>, BenchError> {
        let (machine, effort) = (Machine::now(), self.effort());
        if !self.json {
            println!("{}", report::head(&machine, effort).trim_end());
        }
        let also_alone = chosen.iter().filter(|workload| self.is_also_alone(workload)).count();
        let bar = progress_bar((chosen.len() + also_alone) * effort.passes);
        let (mut outcomes, mut verdicts) = (Vec::new(), Vec::new());
        for workload in chosen {
            bar.set_message(workload.name.clone());
            let mut outcome = workload.run(effort, &mut || bar.inc(1))?;
            if self.is_also_alone(workload) {
                let effort = Effort { is_alone: true, takes_part: is_in_target, ..effort };
                let alone = workload.run(effort, &mut || bar.inc(1))?;
                outcome.scores.extend(alone.scores);
            }
            verdicts.extend(targets_of(&workload.name).flat_map(|target| target.evaluate(&outcome)));
            if !self.json {
                bar.suspend(|| print!("{}", report::table(&outcome)));
            }
            outcomes.push(outcome);
        }
        bar.finish_and_clear();
        let document = json::document(&machine, effort, &outcomes, &verdicts);
        if self.json {
            println!("{document:#}");
        } else if self.targets {
            print!("{}", report::targets(&verdicts));
        }
        self.write_charts(&Results::new(document))?;
        Ok(verdicts)
    }

    /// Writes the charts if the user wants them.
    fn write_charts(&self, results: &Results) -> Result<(), BenchError> {
        self.charts.iter().try_for_each(|folder| charts::write(results, folder))
    }

    fn effort(&self) -> Effort {
        Effort {
            passes: self.passes as usize,
            is_quick: self.quick,
            is_alone: self.alone,
            takes_part: |_, _| true,
        }
    }
}

/// Makes a progress bar on standard error, which shows only on a terminal.
fn progress_bar(passes: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} passes, {eta} to go: {msg}");
    ProgressBar::new(passes as u64).with_style(style.expect("the template is valid"))
}
