//! What goes wrong.

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
    /// What the operating system said.
    Io(io::Error),
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
