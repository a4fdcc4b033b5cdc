//! A model of 1 to 64 cores, computed from the figures of this machine's cores. Every output of the
//! model states its assumptions.

use crate::measure::Spread;
use crate::results::{MissingFigure, Results};

/// The numbers of cores in the model.
pub(crate) const CORES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Bytes of memory traffic for a check of a key outside the caches: its line is read and written
/// back.
const BYTES_A_CHECK: f64 = 128.0;
/// Permits that a lease acquires at once under load, by default.
const LEASE_SIZE: f64 = 1_024.0;

/// The throughput of all cores together, in million checks a second.
pub(crate) struct Projection {
    /// The kind of check.
    pub(crate) name: &'static str,
    /// Measured with one core and with all cores of this machine.
    pub(crate) measured: [(usize, f64); 2],
    /// Computed for more cores.
    pub(crate) beyond: Vec<(usize, f64)>,
}

/// The model and its assumptions.
pub(crate) struct Model {
    pub(crate) projections: Vec<Projection>,
    /// One sentence each.
    pub(crate) assumptions: Vec<String>,
}

/// The name in the model, the workload, and the contestant.
const PROJECTED: [(&str, &str, &str); 4] = [
    ("one key, admitted", "hot key, allow", "tollgate"),
    ("one key, leases", "hot key, lease", "tollgate (lease)"),
    ("one key, refused", "hot key, deny", "tollgate"),
    ("a million keys", "1M keys uniform, allow", "tollgate"),
];

impl Model {
    /// Computes the model from the figures of this machine.
    pub(crate) fn of(results: &Results) -> Result<Self, MissingFigure> {
        let threads = results
            .workloads()
            .filter_map(|name| name.strip_prefix("hot key, allow, ")?.strip_suffix(" threads")?.parse().ok());
        let most: usize = threads.max().ok_or("there is no `hot key, allow, 2 threads`")?;
        let line = results.workloads().find(|name| name.starts_with("scale, lines of memory"));
        let line = line.ok_or("there is no `scale, lines of memory` (--filter scale)")?;
        // Streaming a line reads it and writes it back, as a charge does.
        let memory = rate(results.spread(line, crate::floors::STREAM)?);
        let mut ends = Vec::new();
        for (_, workload, who) in PROJECTED {
            let one = rate(results.spread(workload, who)?);
            ends.push([(1, one), (most, rate(results.spread(&format!("{workload}, {most} threads"), who)?))]);
        }
        // The charges of one key take turns on its line, for any number of cores.
        let transfers = ends[0][1].1;
        let bounds = [transfers, transfers * LEASE_SIZE, f64::INFINITY, f64::INFINITY];
        let mut projections = Vec::new();
        for (((name, ..), measured), bound) in PROJECTED.into_iter().zip(ends).zip(bounds) {
            let each = measured[1].1 / most as f64;
            let beyond = CORES.into_iter().filter(|&cores| cores > most);
            let beyond = beyond.map(|cores| (cores, (each * cores as f64).min(bound))).collect();
            projections.push(Projection { name, measured, beyond });
        }
        let assumptions = assumptions(most, transfers, memory);
        Ok(Self { projections, assumptions })
    }
}

fn assumptions(most: usize, transfers: f64, memory: f64) -> Vec<String> {
    vec![
        format!("A model beyond {most} threads, which is all that was measured. It assumes:"),
        format!(
            "one key, admitted: each charge moves the key's one cache line to its core, one at a time, so more cores get \
             as much done as {most}, {transfers:.0} million a second (less where cores are further apart);"
        ),
        format!(
            "one key, leases: each core adds what one of {most} does, until the acquisitions of {LEASE_SIZE} permits each \
             are as many as the charges that the line can take;"
        ),
        "one key, refused: a refusal writes nothing, so all cores read copies of one line and each adds as much;"
            .to_owned(),
        format!(
            "a million keys: cores seldom share a line, so each adds what one of {most} does, as far as memory keeps up: \
             {most} threads were measured to move {:.1} GB a second, enough for the lines of {memory:.0} million checks \
             if none were in a cache. A machine with more cores has more memory channels, too.",
            memory * BYTES_A_CHECK / 1e3
        ),
    ]
}

/// Converts nanoseconds a check into million checks a second.
fn rate(nanos: Spread) -> f64 {
    1e3 / nanos.median
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workload(name: &str, who: &str, nanos: f64) -> Value {
        let spread = json!({ "low": nanos, "median": nanos, "high": nanos });
        json!({ "name": name, "contestants": [{ "name": who, "spread": spread }] })
    }

    fn measured() -> Vec<Value> {
        let all = PROJECTED.iter().flat_map(|(_, name, who)| {
            let slower = if *name == "hot key, allow" { 20.0 } else { 5.0 };
            [workload(name, who, 10.0), workload(&format!("{name}, 2 threads"), who, slower)]
        });
        all.chain([workload("scale, lines of memory, 2 threads", crate::floors::STREAM, 4.0)]).collect()
    }

    fn model(workloads: Vec<Value>) -> Result<Model, MissingFigure> {
        Model::of(&Results::new(json!({ "workloads": workloads })))
    }

    fn at(model: &Model, name: &str, cores: usize) -> f64 {
        let projection = model.projections.iter().find(|projection| projection.name == name).unwrap();
        projection.beyond.iter().find(|(at, _)| *at == cores).unwrap().1
    }

    #[test]
    fn only_charges_of_one_key_are_bounded_by_its_line() {
        let model = model(measured()).unwrap();
        assert_eq!(at(&model, "one key, admitted", 64), 50.0);
        assert_eq!(at(&model, "one key, refused", 64), 64.0 * 100.0);
        assert_eq!(at(&model, "a million keys", 8), 8.0 * 100.0);
        assert_eq!(at(&model, "one key, leases", 64), 64.0 * 100.0);
        let memory = &model.assumptions[4];
        assert!(memory.contains("32.0 GB") && memory.contains("250 million"), "{memory}");
    }

    #[test]
    fn leases_are_bounded_by_their_acquisitions() {
        let mut workloads = measured();
        // Each thread is so fast that the acquisitions of 64 threads exceed the rate of the line.
        workloads[3] = workload("hot key, lease, 2 threads", "tollgate (lease)", 0.01);
        assert_eq!(at(&model(workloads).unwrap(), "one key, leases", 64), 50.0 * LEASE_SIZE);
    }

    #[test]
    fn the_model_needs_the_figure_of_memory() {
        let mut workloads = measured();
        workloads.pop();
        assert!(model(workloads).is_err_and(|missing| missing.contains("--filter scale")));
    }
}
