//! What is wrong with a limit's text, and what would be right.

use std::fmt;

use super::ALGORITHMS;

/// A text that is no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadSpec {
    text: String,
    problem: String,
    example: &'static str,
}

impl BadSpec {
    pub(super) fn new(text: &str, problem: String, example: &'static str) -> Self {
        Self { text: text.to_owned(), problem, example }
    }

    pub(super) fn algorithm(text: &str, found: &str) -> Self {
        let names = ALGORITHMS.map(|(name, _)| name).join(", ");
        Self::new(text, format!("{found:?} is none of the algorithms {names}"), ALGORITHMS[0].1)
    }
}

impl fmt::Display for BadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the limit {:?}: {} (e.g. {})", self.text, self.problem, self.example)
    }
}

impl std::error::Error for BadSpec {}
