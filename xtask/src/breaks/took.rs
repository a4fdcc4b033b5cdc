//! How long each break took when it last ran here, to say how long all would take.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::form::Break;
use crate::tree;

/// What a break takes that has not run here, on two cores: its tests, and a build of its own if it
/// needs one.
const RUN: Duration = Duration::from_millis(1500);
const ALONE: Duration = Duration::from_secs(15);

/// The two builds that hold all breaks, or none.
const BUILDS: Duration = Duration::from_secs(600);

/// The times of a machine, in milliseconds by room and name.
#[derive(Default)]
pub(super) struct Took {
    file: PathBuf,
    times: BTreeMap<String, u64>,
}

impl Took {
    /// Reads the times of earlier runs, if there were any.
    pub(super) fn load() -> Self {
        let file = tree::target().map(|target| target.join("breaks/times")).unwrap_or_default();
        let text = fs::read_to_string(&file).unwrap_or_default();
        let times = text.lines().filter_map(|line| line.split_once(' '));
        let times = times.filter_map(|(name, millis)| Some((name.to_owned(), millis.parse().ok()?)));
        let times = times.collect();
        Self { file, times }
    }

    /// Notes how long a break took, with its build if it had one of its own.
    pub(super) fn note(&mut self, broken: &Break, took: Duration) {
        self.times.insert(name(broken), took.as_millis() as u64);
    }

    /// Estimates how long these breaks take, each with whether it needs a build of its own.
    pub(super) fn estimate<'b>(&self, breaks: impl Iterator<Item = (&'b Break, bool)>) -> Duration {
        let one = |(broken, is_alone): (&Break, bool)| match self.times.get(&name(broken)) {
            Some(&millis) => Duration::from_millis(millis),
            None if is_alone => ALONE,
            None => RUN,
        };
        BUILDS + breaks.map(one).sum::<Duration>()
    }

    /// Keeps the times for the next run.
    pub(super) fn save(&self) {
        let lines: String = self.times.iter().map(|(name, millis)| format!("{name} {millis}\n")).collect();
        // A lost time costs the next estimate some exactness.
        let _ = fs::write(&self.file, lines);
    }
}

fn name(broken: &Break) -> String {
    format!("{}/{}", broken.room(), broken.name)
}
