//! What a store's answer is to a rule.

use std::time::Duration;

use tollgate::Outcome;
use tollgate_rules::{Ruling, StoredReply};

use crate::{Answer, DecidedBy};

/// How long a client is to wait that a store without an answer refuses: the longest pause between
/// two probes of the store.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// The numbers of the limit that refuses, or has the least left.
pub(crate) fn of(answer: &Answer) -> StoredReply {
    let is_blind = answer.decided_by() == DecidedBy::OnFailure;
    let ruling = match answer.outcome() {
        Outcome::Allowed => Ruling::Admitted,
        Outcome::Denied if is_blind => Ruling::Unavailable,
        Outcome::Denied => Ruling::Refused,
        Outcome::Never => Ruling::Never,
    };
    let parts = answer.limits();
    let tightest = || {
        let least = parts.iter().enumerate().min_by_key(|(_, part)| part.remaining);
        least.map(|(number, _)| number)
    };
    let number = answer.refused_by().or_else(tightest).filter(|_| !is_blind);
    // Of a remembered refusal, and of a policy's answer, there is one part.
    let part = number.and_then(|number| parts.get(number)).or(parts.first());
    StoredReply {
        ruling,
        number,
        limit: part.map_or(u64::MAX, |part| part.limit),
        remaining: part.map_or(0, |part| part.remaining),
        retry_after: answer.retry_after(),
        reset_after: part.map_or(Duration::ZERO, |part| part.reset_after),
        is_pending: false,
    }
}
