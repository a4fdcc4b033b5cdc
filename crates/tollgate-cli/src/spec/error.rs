//! What is wrong with a limit's text, and what would be right.

use std::fmt;

use super::ALGORITHMS;

/// A text that is no limit. Whoever reports it has the text, and shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSpec {
    problem: String,
    example: &'static str,
}

impl BadSpec {
    pub(super) fn new(problem: String, example: &'static str) -> Self {
        Self { problem, example }
    }

    pub(super) fn algorithm(found: &str) -> Self {
        let names = ALGORITHMS.map(|(name, _)| name).join(", ");
        Self::new(format!("{found:?} is none of the algorithms {names}"), ALGORITHMS[0].1)
    }
}

impl fmt::Display for BadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (e.g. {})", self.problem, self.example)
    }
}

impl std::error::Error for BadSpec {}
