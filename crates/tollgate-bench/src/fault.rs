//! What goes wrong.

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// Why there are no figures.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Fault {
    /// A contestant did not do the work.
    Answered {
        /// In which workload.
        workload: String,
        /// Who.
        contestant: String,
        /// What it admitted.
        admitted: usize,
        /// What it should have.
        expected: usize,
        /// Of how many.
        asked: usize,
    },
    /// No workload's name contains the filter.
    NothingMatches(String),
    /// A process of its own, in which memory is measured, failed.
    Child(String),
    /// A program that is measured, or that measures, is missing or failed.
    Tool(String),
    /// A file cannot be read or written, or is not what it should be.
    File(PathBuf, String),
    /// What the operating system said.
    Io(io::Error),
}

impl Fault {
    /// What the operating system said of a file.
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Self::File(path.to_owned(), error.to_string())
    }

    /// What is wrong with its content.
    pub(crate) fn unfit(path: &Path, why: impl ToString) -> Self {
        Self::File(path.to_owned(), why.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { workload, contestant, admitted, expected, asked } => {
                write!(f, "{workload}: {contestant} admitted {admitted} of {asked}, not {expected}")
            }
            Self::NothingMatches(filter) => {
                write!(f, "no workload is called anything with `{filter}`; see --list")
            }
            Self::Child(why) => write!(f, "measuring memory: {why}"),
            Self::Tool(why) => f.write_str(why),
            Self::File(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
