//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, value_parser};
use indicatif::{ProgressBar, ProgressStyle};

use crate::charts;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::results::Results;
use crate::targets::{TARGETS, Verdict};
use crate::workloads::{Effort, Workload, resident_of, workloads};
use crate::{json, replay_speed, report, server_speed};

/// Exit code while a target is missed.
const MISSED: u8 = 1;
/// Exit code when there are no figures; clap's for a wrong command line, too.
pub(crate) const FAULT: u8 = 2;

/// Tollgate beside its peers, and beside what no limiter can beat.
///
/// All contestants of a workload take turns on the same keys, pass by pass; the tables show medians, quartiles, and ratios
/// within a pass. Run it in release, on a machine that does nothing else.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    args_conflicts_with_subcommands = true,
    after_help = "Exit code: 0, 1 while a target is missed, 2 when there are no figures."
)]
pub(crate) struct Command {
    #[command(subcommand)]
    tool: Option<Tool>,
    /// Run only the workloads whose names contain this; "scale" runs some that nothing else does: up to 10^8 keys,
    /// minutes, and gigabytes
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run only what the targets need, and say which are met
    #[arg(long)]
    targets: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Measure nothing: take the figures of a file that --json printed; several if one build printed all
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filter", "targets", "json", "passes", "quick", "list"])]
    from: Vec<PathBuf>,
    /// Draw charts into this folder, those for which there are figures, beside a page of all figures
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
    /// Passes of each workload
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = value_parser!(u32).range(1..))]
    passes: u32,
    /// Ask for next to nothing: to see that all works, not how fast
    #[arg(long)]
    quick: bool,
    /// Name the workloads and run none
    #[arg(long)]
    list: bool,
    /// The resident bytes of one contestant: asked by this command of itself
    #[arg(long, hide = true, value_name = "NAME", requires = "keys")]
    resident_of: Option<String>,
    /// Keys that it is asked for
    #[arg(long, hide = true, value_name = "N")]
    keys: Option<usize>,
}

/// What measures whole programs from outside.
#[derive(Debug, Subcommand)]
enum Tool {
    /// Load an axum server bare, behind tollgate-tower and behind tower_governor by wrk, in turn, and print a page
    ///
    /// The page has requests a second, p99, and the server's CPU time a request, and compares each server with the
    /// first of its round. Two that follow each other at once are told apart best: --only governor,tollgate. Needs
    /// wrk, taskset and two cores.
    ServerSpeed {
        /// Rounds
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = value_parser!(u32).range(1..))]
        rounds: u32,
        /// Seconds for each server in each round
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        seconds: u32,
        /// The servers to load; the others are compared with the first
        #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Time `tollgate replay`, goaccess (where it is installed) and `wc -l` on one access log, in turn, and print a page
    ///
    /// Exit code 1 when tollgate is not ten times as fast as goaccess.
    ReplaySpeed {
        /// An access log in Combined format, not packed
        file: String,
        /// How often each reads it
        #[arg(long, value_name = "N", default_value_t = 11, value_parser = value_parser!(u32).range(1..))]
        runs: u32,
    },
}

impl Command {
    /// Measures, and prints.
    pub(crate) fn run(&self) -> Result<ExitCode, Fault> {
        match &self.tool {
            Some(Tool::ServerSpeed { rounds, seconds, only }) => {
                return server_speed::run(*rounds, *seconds, only);
            }
            Some(Tool::ReplaySpeed { file, runs }) => return replay_speed::run(file, *runs as usize),
            None => {}
        }
        if let (Some(name), Some(keys)) = (&self.resident_of, self.keys) {
            println!("{}", resident_of(name, keys)?);
            return Ok(ExitCode::SUCCESS);
        }
        if !self.from.is_empty() {
            self.show(&Results::read(&self.from)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let chosen = self.chosen()?;
        if self.list {
            chosen.iter().for_each(|workload| println!("{} ({})", workload.name, workload.unit.name()));
            return Ok(ExitCode::SUCCESS);
        }
        let verdicts = self.measure(&chosen)?;
        let missed = self.targets && verdicts.iter().any(|verdict| !verdict.is_met);
        Ok(ExitCode::from(if missed { MISSED } else { 0 }))
    }

    /// The workloads to run.
    fn chosen(&self) -> Result<Vec<Workload>, Fault> {
        let filter = self.filter.as_deref().unwrap_or_default();
        let has_target = |workload: &Workload| TARGETS.iter().any(|target| target.workload == workload.name);
        let is_chosen = |workload: &Workload| !self.targets || has_target(workload);
        let chosen: Vec<Workload> = workloads(filter).into_iter().filter(is_chosen).collect();
        if chosen.is_empty() { Err(Fault::NothingMatches(filter.to_owned())) } else { Ok(chosen) }
    }

    /// Runs them, tells of them, and judges those that have targets.
    fn measure(&self, chosen: &[Workload]) -> Result<Vec<Verdict>, Fault> {
        let (machine, effort) = (Machine::now(), self.effort());
        if !self.json {
            println!("{}", report::head(&machine, effort).trim_end());
        }
        let bar = progress(chosen.len() * effort.passes);
        let (mut outcomes, mut verdicts) = (Vec::new(), Vec::new());
        for workload in chosen {
            bar.set_message(workload.name.clone());
            let outcome = workload.run(effort, &mut || bar.inc(1))?;
            let of = TARGETS.iter().filter(|target| target.workload == workload.name);
            verdicts.extend(of.map(|target| target.judge(&outcome)));
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
        self.show(&Results::new(document))?;
        Ok(verdicts)
    }

    /// Writes what is asked for besides the tables.
    fn show(&self, results: &Results) -> Result<(), Fault> {
        self.charts.iter().try_for_each(|folder| charts::write(results, folder))
    }

    fn effort(&self) -> Effort {
        Effort { passes: self.passes as usize, is_quick: self.quick }
    }
}

/// On standard error, and only if that is a terminal.
fn progress(passes: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} passes, {eta} to go: {msg}");
    ProgressBar::new(passes as u64).with_style(style.expect("the template is valid"))
}
