//! The accepted instruction counts: a line for each scenario.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Changes up to this many per cent are ignored.
const TOLERATED: f64 = 2.0;

/// Counts by scenario.
pub(crate) struct Baseline {
    /// The compiler of the counted program.
    pub(crate) compiler: String,
    counts: Vec<(String, f64)>,
}

/// The difference of a count from the baseline.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    Same,
    /// More, by this many per cent.
    More(f64),
    /// Less, by this negative percentage.
    Less(f64),
    /// The scenario is not in the baseline.
    Unknown,
}

impl Change {
    /// Returns whether the change needs attention.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self, Self::More(_) | Self::Unknown)
    }
}

impl Baseline {
    /// A baseline without counts.
    pub(crate) fn new(compiler: String) -> Self {
        Self { compiler, counts: Vec::new() }
    }

    /// Adds a count.
    pub(crate) fn add(&mut self, scenario: &str, count: f64) {
        self.counts.push((scenario.to_owned(), count));
    }

    /// Returns the count of a scenario in the baseline, and the change to `now`.
    pub(crate) fn compare(&self, scenario: &str, now: f64) -> (Option<f64>, Change) {
        let before = self.counts.iter().find(|(name, _)| name == scenario).map(|(_, count)| *count);
        let change = before.map_or(Change::Unknown, |before| {
            let percent = (now / before - 1.0) * 100.0;
            if percent.abs() <= TOLERATED {
                Change::Same
            } else if percent > 0.0 {
                Change::More(percent)
            } else {
                Change::Less(percent)
            }
        });
        (before, change)
    }

    /// Reads a file of [`write`](Self::write).
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).ok_or_else(|| format!("{} is no baseline", path.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut baseline = Self::new(lines.next()?.to_owned());
        for line in lines {
            let (count, scenario) = line.trim_start().split_once(' ')?;
            baseline.add(scenario, count.parse().ok()?);
        }
        Some(baseline)
    }

    /// Writes the file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        fs::write(path, self.text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.compiler);
        for (scenario, count) in &self.counts {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{count:8.1} {scenario}");
        }
        text
    }
}
