//! The errors of a run.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why a run has no figures.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum BenchError {
    /// A contestant gave wrong answers.
    WrongAnswers {
        workload: String,
        contestant: String,
        /// The checks that it admitted.
        admitted: usize,
        /// The checks that it should have admitted.
        expected: usize,
        /// All checks.
        checks: usize,
    },
    /// No workload's name contains one of the filters.
    NothingMatches(Vec<String>),
    /// The child process that measures memory failed.
    Child(String),
    /// A program for the measurement is missing or failed.
    Tool(String),
    /// A file cannot be read or written, or has invalid content.
    File(PathBuf, String),
    /// An error of the operating system.
    Io(io::Error),
}

impl BenchError {
    /// An error of the operating system about a file.
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Self::File(path.to_owned(), error.to_string())
    }

    /// A file with invalid content.
    pub(crate) fn invalid(path: &Path, why: impl ToString) -> Self {
        Self::File(path.to_owned(), why.to_string())
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongAnswers { workload, contestant, admitted, expected, checks } => {
                write!(f, "{workload}: {contestant} admitted {admitted} of {checks}, not {expected}")
            }
            Self::NothingMatches(filters) => {
                write!(f, "no workload to run has `{}` in its name; see --list", filters.join("` or `"))
            }
            Self::Child(why) => write!(f, "measuring memory: {why}"),
            Self::Tool(why) => f.write_str(why),
            Self::File(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<io::Error> for BenchError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
