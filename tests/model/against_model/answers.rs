//! An answer in a form that both sides share, and its comparison.

use std::time::Duration;

use tollgate::Decision;
use tollgate_model::Answer;

/// Every accepted limit must support an uptime of ten years.
pub(crate) const UPTIME: u64 = 10 * 31_557_600_000_000_000;

/// Returns whether the engine's answer at `now` may be `found` if the model's is `right`. A wait
/// that ends after the ten years may be 584 years instead.
pub(crate) fn same_answer(now: u64, right: Answer, found: Answer) -> bool {
    Answer { retry_after_ns: None, reset_after_ns: 0, delay_ns: 0, ..right }
        == Answer { retry_after_ns: None, reset_after_ns: 0, delay_ns: 0, ..found }
        && right.retry_after_ns.is_some() == found.retry_after_ns.is_some()
        && same_wait(now, right.retry_after_ns.unwrap_or(0), found.retry_after_ns.unwrap_or(0))
        && same_wait(now, right.reset_after_ns, found.reset_after_ns)
        && same_wait(now, right.delay_ns, found.delay_ns)
}

/// Compares two waits in the same way.
pub(crate) fn same_wait(now: u64, right: u64, found: u64) -> bool {
    right == found || found == u64::MAX && now.saturating_add(right) > UPTIME
}

/// Converts a decision of the engine.
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

/// Converts a duration into nanoseconds, at most 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
