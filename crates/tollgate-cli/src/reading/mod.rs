//! The options that say what to read, and the reading of logs or of the made-up day of `--demo`.

mod demo;
mod log_time;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_logs::{
    Batch, Format, KeyBy, Malformed, Options, PrefixLen, Progress, Record, Source, Totals, Wanted,
};

use crate::failure::Failure;
use crate::progress::ReadingBar;

pub(crate) use log_time::LogTime;

/// What to read, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Reading {
    /// Logs, one after the other; `-` is standard input; gzip is decompressed
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Read a made-up day of traffic instead of files; it is the same on every machine
    #[arg(long, conflicts_with_all = ["files", "format", "time_field", "key_field", "cost_field"])]
    demo: bool,

    /// How the lines are written
    #[arg(long, value_enum, default_value_t = Format::Auto, help_heading = "Reading")]
    format: Format,

    /// The key that is limited: client, user, path, METHOD+path, field:NAME, global
    #[arg(long, value_name = "KEY", default_value_t = KeyBy::Client, help_heading = "Reading")]
    key: KeyBy,

    /// Leading bits of an IPv6 address that make one client
    #[arg(long, value_name = "BITS", default_value_t = PrefixLen::default(), help_heading = "Reading", allow_negative_numbers = true)]
    ipv6_prefix: PrefixLen,

    /// The field that holds the time (JSON, CSV, TSV): its name, or the number of its column
    #[arg(long, value_name = "FIELD", help_heading = "Reading")]
    time_field: Option<String>,

    /// The field that holds the client (JSON, CSV, TSV)
    #[arg(long, value_name = "FIELD", help_heading = "Reading")]
    key_field: Option<String>,

    /// The field that holds what a request costs (JSON, CSV, TSV); without it, 1
    #[arg(long, value_name = "FIELD", help_heading = "Reading")]
    cost_field: Option<String>,
}

/// The outcome of a reading.
#[derive(Debug, Default)]
pub(crate) struct ReadSummary {
    pub(crate) totals: Totals,
    pub(crate) elapsed: Duration,
    /// Why reading stopped before the end, if it did.
    pub(crate) stopped: Option<String>,
}

impl Reading {
    /// Whether the made-up day is read.
    pub(crate) fn is_demo(&self) -> bool {
        self.demo
    }

    /// Whether neither files nor the made-up day are named.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.demo && self.files.is_empty()
    }

    /// The names of the sources, indexed by `Record::file`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.sources().iter().map(Source::name).collect()
    }

    /// One name for all sources together.
    pub(crate) fn title(&self) -> String {
        match &self.names()[..] {
            [] => "A made-up day of traffic".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        }
    }

    /// The files among the sources, by the paths that the user gave.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path).filter(|path| path.as_os_str() != "-")
    }

    /// Checks that there is something to read and that it can be opened.
    ///
    /// # Errors
    ///
    /// The input that is missing, and examples of input.
    pub(crate) fn validate(&self, command: &str) -> Result<(), Failure> {
        if self.demo || !self.files.is_empty() {
            if self.files.len() - self.files().count() > 1 {
                return Err(Failure::Usage("standard input can be read once only: give one `-`".into()));
            }
            let missing = self.sources().iter().find_map(|source| source.size().err());
            return missing.map_or(Ok(()), |error| Err(Failure::Usage(error.to_string())));
        }
        Err(Failure::Usage(format!(
            "there is nothing to read. Name a log, `-` for standard input, or try the made-up day:\n\
             \n  tollgate {command} access.log\n  tollgate {command} --demo"
        )))
    }

    /// Gives every record to `each`, in the order of files and lines, with a progress bar on a
    /// terminal.
    ///
    /// # Errors
    ///
    /// The first failure of `each`, which ends the reading; or when the first record cannot be
    /// read. What stops the reading after that is in [`ReadSummary::stopped`].
    pub(crate) fn each(
        &self,
        mut each: impl FnMut(Record<'_>) -> Result<(), Failure>,
    ) -> Result<ReadSummary, Failure> {
        self.batches(self.options(), |batch, before| {
            batch.records(before).try_for_each(&mut each)?;
            Ok(batch)
        })
    }

    /// Gives every batch of records to `each`, as [`each`](Self::each) gives the records, with the
    /// number of lines of its file that precede it. The records have the parts that rules ask for
    /// in place of the key. `each` returns a batch that will be filled again.
    ///
    /// # Errors
    ///
    /// Those of [`each`](Self::each).
    pub(crate) fn batches_with_parts(
        &self,
        wanted: Vec<Wanted>,
        each: impl FnMut(Batch, u64) -> Result<Batch, Failure>,
    ) -> Result<ReadSummary, Failure> {
        self.batches(Options { key: KeyBy::Global, wanted, ..self.options() }, each)
    }

    fn batches(
        &self,
        options: Options,
        mut each: impl FnMut(Batch, u64) -> Result<Batch, Failure>,
    ) -> Result<ReadSummary, Failure> {
        let mut failure = None;
        let mut each = |batch: Batch, before| match each(batch, before) {
            Ok(batch) => ControlFlow::Continue(batch),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        let progress = Arc::<Progress>::default();
        let bar = ReadingBar::watching(&progress);
        let start = Instant::now();
        let outcome = if self.demo {
            demo::read(options, &progress, &mut each).map_err(Failure::Usage).map(|totals| (totals, None))
        } else {
            match tollgate_logs::read(&self.sources(), &options, &progress, &mut each) {
                Ok(totals) => Ok((totals, None)),
                Err(stopped) if stopped.totals.records == 0 => Err(Failure::Usage(stopped.error.to_string())),
                Err(stopped) => Ok((stopped.totals, Some(stopped.error.to_string()))),
            }
        };
        let elapsed = start.elapsed();
        drop(bar);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let (totals, stopped) = outcome?;
        Ok(ReadSummary { totals, elapsed, stopped })
    }

    fn sources(&self) -> Vec<Source> {
        self.files.iter().cloned().map(Source::of_argument).collect()
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            format: self.format,
            key: self.key.clone(),
            ipv6_prefix: self.ipv6_prefix,
            time_field: self.time_field.clone(),
            key_field: self.key_field.clone(),
            cost_field: self.cost_field.clone(),
            wanted: Vec::new(),
        }
    }
}

impl ReadSummary {
    /// Whether there were lines, and none of them could be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.totals.records == 0 && self.totals.malformed > 0
    }

    /// Notes on lines that could not be read, with the first of them, and on records without a key.
    pub(crate) fn problems(&self, names: &[String]) -> Vec<String> {
        let Totals { malformed, records, without_key, .. } = self.totals;
        let mut problems = Vec::new();
        if malformed > 0 {
            problems.push(match malformed {
                _ if records == 0 => {
                    format!("none of {malformed} lines could be read: is --format right? The first of them:")
                }
                1 => "1 line could not be read:".to_owned(),
                _ => format!("{malformed} lines could not be read; the first of them:"),
            });
            let name = |sample: &Malformed| names.get(sample.file).map_or("", String::as_str);
            problems.extend(self.totals.samples.iter().map(|sample| {
                format!("  {}:{}: {}: {}", name(sample), sample.line, sample.reason, sample.excerpt)
            }));
        }
        if without_key > 0 {
            problems.push(format!(
                "{without_key} of {records} records lack the key of --key; they share the key \"-\""
            ));
        }
        problems
    }
}
