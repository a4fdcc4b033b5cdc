//! The figures as JSON.

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::measure::{Outcome, Score, Spread};
use crate::report::PERCENTILES;
use crate::targets::Verdict;
use crate::workloads::Effort;

/// Returns everything that was measured.
pub(crate) fn document(
    machine: &Machine,
    effort: Effort,
    outcomes: &[Outcome],
    verdicts: &[Verdict],
) -> Value {
    json!({
        "machine": {
            "processor": machine.processor,
            "threads": machine.threads,
            "load_before": machine.load,
            "system": machine.system,
            "compiler": machine.compiler,
            "commit": machine.commit,
        },
        "commands": [command()],
        "passes": effort.passes,
        "quick": effort.is_quick,
        "workloads": outcomes.iter().map(workload).collect::<Vec<_>>(),
        "targets": verdicts.iter().map(target).collect::<Vec<_>>(),
    })
}

/// Returns the command that repeats the run.
fn command() -> String {
    let quoted = |word: String| if word.contains(' ') { format!("\"{word}\"") } else { word };
    let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
    format!("cargo run --release -p tollgate-bench -- {}", words.join(" "))
}

fn workload(outcome: &Outcome) -> Value {
    json!({
        "name": outcome.workload,
        "unit": outcome.unit.name(),
        "contestants": outcome.scores.iter().map(contestant).collect::<Vec<_>>(),
    })
}

fn contestant(score: &Score) -> Value {
    let latencies = score.latencies.as_ref().map(|all| {
        let named =
            |&percentile: &f64| (format!("p{percentile}"), Value::from(all.value_at_percentile(percentile)));
        let percentiles: serde_json::Map<String, Value> = PERCENTILES.iter().map(named).collect();
        json!({ "checks": all.len(), "max": all.max(), "percentiles": percentiles })
    });
    json!({
        "name": score.name,
        "floor": score.is_floor,
        "spread": spread(score.spread()),
        "passes": score.passes,
        "admitted": score.admitted.0,
        "asked": score.admitted.1,
        "share_without_processor": score.waited_share(),
        "latencies": latencies,
    })
}

fn target(verdict: &Verdict) -> Value {
    json!({
        "workload": verdict.target.workload,
        "what": verdict.what,
        "bound": verdict.bound,
        "measured": verdict.measured.map(spread),
        "met": verdict.is_met,
        "disturbed": verdict.is_disturbed,
    })
}

fn spread(Spread { low, median, high }: Spread) -> Value {
    json!({ "low": low, "median": median, "high": high })
}
