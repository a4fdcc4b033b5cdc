//! What a check took when somebody last looked at it and found it good: a line a scenario.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A change up to this many per cent is none.
const TOLERATED: f64 = 2.0;

/// Counts by scenario.
pub(crate) struct Baseline {
    /// Who compiled what was counted.
    pub(crate) compiler: String,
    counts: Vec<(String, f64)>,
}

/// How a count differs from the baseline's.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// By nothing to speak of.
    Same,
    /// By so many per cent.
    More(f64),
    /// By so many per cent, which is negative.
    Less(f64),
    /// There is none.
    Unknown,
}

impl Change {
    /// Whether somebody has to look at it.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self, Self::More(_) | Self::Unknown)
    }
}

impl Baseline {
    /// With no counts yet.
    pub(crate) fn new(compiler: String) -> Self {
        Self { compiler, counts: Vec::new() }
    }

    /// One more count.
    pub(crate) fn add(&mut self, scenario: &str, count: f64) {
        self.counts.push((scenario.to_owned(), count));
    }

    /// The count of a scenario, and how that of now differs.
    pub(crate) fn judge(&self, scenario: &str, now: f64) -> (Option<f64>, Change) {
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

    /// Reads the file that `write` has written.
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
