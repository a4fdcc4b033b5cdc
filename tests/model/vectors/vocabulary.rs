//! The limits of the peers in our terms. `README.md` has the same table for readers.

use serde_json::Value;

use super::scenario::{Scenario, Step, number};
use super::subject::Limit;

const SECOND: u64 = 1_000_000_000;
/// The slowest rate of Envoy's token bucket is one token in this time, which it uses for slower
/// rates too.
const ENVOYS_YEAR: u64 = 365 * 24 * 3_600 * SECOND;
/// More requests than wait in any scenario, for peers with unbounded queues.
const ENDLESS: u64 = 1_000;
/// A limit that no scenario reaches, for scenarios that only count.
const ROOMY: u64 = 1_000;

/// The limit of a whole scenario.
pub(crate) fn limit(scenario: &Scenario) -> Limit {
    let config = scenario.config();
    let field = |name: &str| number(&config[name]);
    match scenario.algorithm() {
        "gcra" => {
            let (count, period) = match config.get("count") {
                Some(count) => (number(count), field("period_ns")),
                None => (1, field("emission_interval_ns")),
            };
            let burst = field("max_burst");
            Limit::TokenBucket { count, period, burst, initial: burst }
        }
        "token_bucket" if config.get("fill_rate_per_s").is_some() => {
            let rate = config["fill_rate_per_s"].as_f64().expect("a rate");
            let interval = if rate > 0.0 { interval(rate).min(ENVOYS_YEAR) } else { ENVOYS_YEAR };
            let (burst, initial) = (field("max_tokens"), field("initial_tokens"));
            Limit::TokenBucket { count: 1, period: interval, burst, initial }
        }
        "token_bucket" | "token_bucket_reserve" => {
            let interval = interval(config["rate_per_s"].as_f64().expect("a rate"));
            let (burst, initial) = (field("burst"), field("initial_tokens"));
            Limit::TokenBucket { count: 1, period: interval, burst, initial }
        }
        "token_bucket_interval" => Limit::TokenBucket {
            count: field("tokens_per_fill"),
            period: field("fill_interval_ns"),
            burst: field("max_tokens"),
            initial: field("initial_tokens"),
        },
        "leaky_bucket_meter" => Limit::LeakyMeter {
            count: field("rate_milli_per_s"),
            period: 1_000 * SECOND,
            capacity: field("burst_milli") / 1_000 + 1,
        },
        "leaky_bucket_pacing" => pacing(config),
        "sliding_window_counter" => {
            let only_counts = scenario.steps().any(|step| step.op() == "observe");
            let limit = if only_counts { ROOMY } else { field("limit") };
            Limit::SlidingWindow { limit, window: field("window_ns") }
        }
        other => panic!("{}: no word of ours for {other}; run it or leave it out", scenario.id()),
    }
}

/// Returns a queue. With slack, which saves unused departures, it is a bucket with reservations
/// that starts with one token. The peer rounds its interval down, and so does this function.
pub(crate) fn pacing(config: &Value) -> Limit {
    let period = number(&config["per_request_ns"]);
    match number(&config["slack"]) {
        0 => Limit::LeakyQueue { count: 1, period, capacity: ENDLESS },
        slack => Limit::TokenBucket { count: 1, period, burst: slack + 1, initial: 1 },
    }
}

/// Returns the limit of a step that has its own.
pub(crate) fn limit_of_step(step: Step<'_>) -> Limit {
    let field = |name: &str| number(&step.args()[name]);
    Limit::FixedWindowCountingAll { limit: field("limit"), window: field("unit_s") * SECOND }
}

/// Returns the limit from this step on.
pub(crate) fn limit_from(step: Step<'_>, before: Limit) -> Limit {
    match (step.op(), before) {
        ("set_limit", Limit::TokenBucket { count, burst, initial, .. }) => {
            let period = interval(step.args()["rate_per_s"].as_f64().expect("a rate"));
            Limit::TokenBucket { count, period, burst, initial }
        }
        ("set_burst", Limit::TokenBucket { count, period, initial, .. }) => {
            Limit::TokenBucket { count, period, burst: number(&step.args()["burst"]), initial }
        }
        _ => before,
    }
}

/// Returns the nanoseconds between two tokens. The rates in the files are the nearest fractions to
/// whole intervals.
fn interval(rate_per_second: f64) -> u64 {
    (SECOND as f64 / rate_per_second).round() as u64
}
