//! One answer in the words of both sides, and when the two are the same.

use std::time::Duration;

use tollgate::Decision;
use tollgate_model::Answer;

/// The ten years that every accepted limit must run.
pub(crate) const UPTIME: u64 = 10 * 31_557_600_000_000_000;

/// Whether the engine may answer at `now` what it did, where `right` is the model's answer: a wait that reaches beyond the
/// ten years may be told as 584.
pub(crate) fn same_answer(now: u64, right: Answer, found: Answer) -> bool {
    Answer { retry_after_ns: None, reset_after_ns: 0, delay_ns: 0, ..right }
        == Answer { retry_after_ns: None, reset_after_ns: 0, delay_ns: 0, ..found }
        && right.retry_after_ns.is_some() == found.retry_after_ns.is_some()
        && same_wait(now, right.retry_after_ns.unwrap_or(0), found.retry_after_ns.unwrap_or(0))
        && same_wait(now, right.reset_after_ns, found.reset_after_ns)
        && same_wait(now, right.delay_ns, found.delay_ns)
}

/// The same of one wait.
pub(crate) fn same_wait(now: u64, right: u64, found: u64) -> bool {
    right == found || found == u64::MAX && now.saturating_add(right) > UPTIME
}

/// What the engine said, in the model's words.
pub(crate) fn answer(decision: &Decision<'_>) -> Answer {
    Answer {
        allowed: decision.is_allowed(),
        never: decision.is_never(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_ns: decision.retry_after().map(nanos),
        reset_after_ns: nanos(decision.reset_after()),
        delay_ns: nanos(decision.delay()),
    }
}

/// A length of time in nanoseconds, 584 years at most.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
