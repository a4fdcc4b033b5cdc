//! What a request's rule, or the rule's store, says of it.

use std::time::Duration;

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

/// The numbers of a store's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredReply {
    /// What becomes of the request by the rule.
    pub ruling: Ruling,
    /// The number of the limit that is shown: the one that refuses longest, or has the least left.
    pub number: Option<usize>,
    /// The most that this limit admits at once.
    pub limit: u64,
    /// What it would still admit, after the request.
    pub remaining: u64,
    /// How long until the rule would admit the request, if it refuses.
    pub retry_after: Option<Duration>,
    /// How long until the key is as good as new, if no request comes.
    pub reset_after: Duration,
    /// Whether the store decides later, and nothing else is known: of a rule in shadow mode, for
    /// which no request waits.
    pub is_pending: bool,
}

impl StoredReply {
    /// The answer of a store that failed, and may be asked again after this time.
    #[must_use]
    pub fn unavailable(retry_after: Duration) -> Self {
        let (limit, remaining, reset_after) = (u64::MAX, 0, Duration::ZERO);
        let (ruling, retry_after) = (Ruling::Unavailable, Some(retry_after));
        Self { ruling, number: None, limit, remaining, retry_after, reset_after, is_pending: false }
    }

    /// The answer for a rule in shadow mode before the store has decided.
    #[must_use]
    pub fn pending() -> Self {
        let unlimited = Self { remaining: u64::MAX, ..Self::unavailable(Duration::ZERO) };
        Self { ruling: Ruling::Admitted, retry_after: None, is_pending: true, ..unlimited }
    }
}
