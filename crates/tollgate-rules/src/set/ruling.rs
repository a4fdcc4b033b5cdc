//! What becomes of a request.

use tollgate::Outcome;

/// What a rule, or all rules together, say of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruling {
    /// It is admitted.
    Admitted,
    /// It is refused for now: a limit is used up, or the key is banned.
    Refused,
    /// The rule's store does not answer, and the rule refuses requests then.
    Unavailable,
    /// It costs more than a whole limit: no wait will help.
    Never,
    /// A part of the key is missing, and the rule refuses such requests.
    NoKey,
    /// The rule refuses all requests.
    Blocked,
}

impl From<Outcome> for Ruling {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Allowed => Self::Admitted,
            Outcome::Denied => Self::Refused,
            Outcome::Never => Self::Never,
        }
    }
}
