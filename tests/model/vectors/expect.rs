//! Compares an expectation of a peer's test with an answer.

use serde_json::Value;

use super::scenario::{Step, number};
use super::subject::{Limit, Seen};

const SECOND: u64 = 1_000_000_000;

/// All answers of one step.
pub(crate) struct Observed {
    pub(crate) limit: Limit,
    /// A peek at cost 0 just before.
    pub(crate) before: Seen,
    /// The answer of the step.
    pub(crate) seen: Seen,
    /// A peek at cost 1 just after.
    pub(crate) next: Seen,
}

/// The result of an expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Met,
    Missed,
    /// Is about something other than a limiter, or is read together with another expectation.
    NotOurs,
}

/// Compares one field that the step expects.
pub(crate) fn judge(step: Step<'_>, field: &str, want: &Value, observed: &Observed) -> Outcome {
    let Observed { before, seen, next, .. } = observed;
    let granted = if seen.allowed { step.cost() } else { 0 };
    let met = match field {
        "allowed" | "ok" => *want == seen.allowed,
        "limit" | "max_cost" => number(want) == seen.limit,
        "remaining" => number(want) == seen.remaining,
        // A peer with reservations ahead counts below zero; remaining is zero then.
        "tokens_before" => want.as_i64().expect("a whole number").max(0) == before.remaining as i64,
        "allowed_count" | "consumed" => number(want) == granted,
        "error" => *want == "insufficient_capacity" && seen.never,
        "retry_after_ns" => match (want.as_u64(), seen.retry_after) {
            (Some(want), Some(wait)) => wait.abs_diff(want) <= tolerance(step, "retry_tol_ns"),
            (want, wait) => want == wait,
        },
        "retry_after_positive" => seen.retry_after.is_some_and(|wait| wait > 0),
        "next_token_ns" => number(want) == next.retry_after.unwrap_or(0),
        "reset_ns" => seen.reset_after.abs_diff(number(want)) <= tolerance(step, "reset_tol_ns"),
        "window_start_s" => window_start(step, observed) == Some(number(want) * SECOND),
        "granted_at_ns" => number(want) == step.at() + seen.delay,
        "act_at_ns" => (step.at() + seen.delay).abs_diff(number(want)) <= tolerance(step, "act_tol_ns"),
        "wait_ns" => seen.delay.abs_diff(number(want)) <= tolerance(step, "wait_tol_ns"),
        "curr" => used(observed) == estimate(step, observed).ceil() as u64,
        "estimate" => used(observed) == want.as_f64().expect("a number").ceil() as u64,
        // Read together with `curr`, `retry_after_ns`, `reset_ns`, `act_at_ns` and `wait_ns`.
        "prev" | "retry_tol_ns" | "reset_tol_ns" | "act_tol_ns" | "wait_tol_ns" => return Outcome::NotOurs,
        // About HTTP and statistics; `no_error` holds for every answer.
        "status" | "stats_total" | "no_error" => return Outcome::NotOurs,
        unknown => panic!("no word of ours for {unknown}; judge it or leave the scenario out"),
    };
    if met { Outcome::Met } else { Outcome::Missed }
}

fn tolerance(step: Step<'_>, name: &str) -> u64 {
    step.expect().get(name).map_or(0, number)
}

/// The reset is the end of the window, one window after its start.
fn window_start(step: Step<'_>, observed: &Observed) -> Option<u64> {
    let Limit::FixedWindowCountingAll { window, .. } = observed.limit else { return None };
    (step.at() + observed.seen.reset_after).checked_sub(window)
}

/// Returns what counts against the limit now: the estimate, rounded up.
fn used(observed: &Observed) -> u64 {
    observed.seen.limit - observed.seen.remaining
}

/// Returns the estimate that follows from the two counts that the step expects.
fn estimate(step: Step<'_>, observed: &Observed) -> f64 {
    let Limit::SlidingWindow { window, .. } = observed.limit else {
        panic!("only a sliding window has a current count")
    };
    let count = |name: &str| number(&step.expect()[name]) as f64;
    let overlap = 1.0 - (step.at() % window) as f64 / window as f64;
    count("prev") * overlap + count("curr")
}
