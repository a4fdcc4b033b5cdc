//! The JSON of a run, read for charts and pages.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::error::BenchError;
use crate::measure::Spread;

/// The figures of one run, or of several runs of one build on one machine.
pub(crate) struct Results(Value);

/// Names the figure that a picture or a page lacks.
pub(crate) type MissingFigure = String;

impl Results {
    /// The results of the current run.
    pub(crate) fn new(document: Value) -> Self {
        Self(document)
    }

    /// Reads files that `--json` printed, and joins them if they have the same machine and commit.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, BenchError> {
        let mut all: Option<Value> = None;
        for path in paths {
            let text = fs::read_to_string(path).map_err(|error| BenchError::file(path, error))?;
            let document: Value =
                serde_json::from_str(&text).map_err(|error| BenchError::invalid(path, error))?;
            if document["workloads"].as_array().is_none() || document["commands"].as_array().is_none() {
                return Err(BenchError::invalid(path, "it was not printed by `--json`"));
            }
            match &mut all {
                None => all = Some(document),
                Some(all) => join(all, document).map_err(|why| BenchError::invalid(path, why))?,
            }
        }
        all.map(Self).ok_or_else(|| BenchError::NothingMatches(Vec::new()))
    }

    /// Returns the names of all workloads.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = &str> {
        self.list("workloads").filter_map(|workload| workload["name"].as_str())
    }

    /// Returns the names of a workload's contestants.
    pub(crate) fn contestants(&self, workload: &str) -> impl Iterator<Item = &str> {
        self.found(workload).flat_map(entries).filter_map(|contestant| contestant["name"].as_str())
    }

    /// Returns the unit of a workload's figures.
    pub(crate) fn unit(&self, workload: &str) -> Result<&str, MissingFigure> {
        let mut unit = self.found(workload).filter_map(|workload| workload["unit"].as_str());
        unit.next().ok_or_else(|| format!("there is no `{workload}`"))
    }

    /// Returns the median and the quartiles of a contestant.
    pub(crate) fn spread(&self, workload: &str, contestant: &str) -> Result<Spread, MissingFigure> {
        let json = &self.contestant(workload, contestant)?["spread"];
        spread(json).ok_or_else(|| format!("`{workload}`, `{contestant}` has no spread"))
    }

    /// Returns latencies in nanoseconds by percentile, the highest last.
    pub(crate) fn latencies(
        &self,
        workload: &str,
        contestant: &str,
    ) -> Result<Vec<(&str, f64)>, MissingFigure> {
        let latencies = self.contestant(workload, contestant)?["latencies"]["percentiles"].as_object();
        let latencies = latencies.ok_or_else(|| format!("`{workload}`, `{contestant}` has no latencies"))?;
        let figures = latencies.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_f64()?)));
        Ok(figures.collect())
    }

    /// Returns the share of its checks that a contestant admitted, unless it is none or all.
    pub(crate) fn admitted(&self, workload: &str, contestant: &str) -> Option<f64> {
        let json = self.contestant(workload, contestant).ok().filter(|json| json["floor"] != true)?;
        let share = json["admitted"].as_f64()? / json["asked"].as_f64()?;
        (share > 0.0 && share < 1.0).then_some(share)
    }

    /// Returns whether a contestant waited for a processor for more than 5 % of its time.
    pub(crate) fn is_disturbed(&self, workload: &str, contestant: &str) -> bool {
        let json = self.contestant(workload, contestant);
        json.is_ok_and(|json| json["share_without_processor"].as_f64().is_some_and(|share| share > 0.05))
    }

    /// Returns the verdicts of the targets.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &Value> {
        self.list("targets")
    }

    /// Returns the ratio of one contestant's figures to another's, pass by pass.
    pub(crate) fn ratio(&self, workload: &str, of: &str, by: &str) -> Result<Spread, MissingFigure> {
        let (of, by) = (passes(self.contestant(workload, of)?), passes(self.contestant(workload, by)?));
        let ratios: Vec<f64> = of.iter().zip(&by).map(|(of, by)| of / by).collect();
        if ratios.is_empty() { Err(format!("`{workload}` has no passes")) } else { Ok(Spread::of(ratios)) }
    }

    /// Returns a property of the machine by its name in the JSON.
    pub(crate) fn machine(&self, what: &str) -> Option<&Value> {
        self.0["machine"].get(what).filter(|value| !value.is_null())
    }

    /// Returns the number of passes of each workload.
    pub(crate) fn passes(&self) -> u64 {
        self.0["passes"].as_u64().unwrap_or(0)
    }

    /// Returns the origin of the figures: a line each for the machine, the build and the commands.
    pub(crate) fn origin(&self) -> Vec<String> {
        let text = |what: &str| self.machine(what).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let threads = self.machine("threads").and_then(Value::as_u64).unwrap_or(0);
        let load = self.machine("load_before").and_then(Value::as_f64);
        let load = load.map_or_else(String::new, |load| format!(", load {load} before"));
        let commands: Vec<&str> = self.list("commands").filter_map(Value::as_str).collect();
        let mut lines = vec![
            format!("Machine: {}, {threads} threads, {}{load}.", text("processor"), text("system")),
            format!("Commit {}, {}; medians of {} passes.", text("commit"), text("compiler"), self.passes()),
            format!("Command: {}", commands.join("; ")),
        ];
        if self.0["quick"] == true {
            lines.insert(0, "A QUICK RUN: a test that all contestants work, not a measurement.".to_owned());
        }
        lines
    }

    fn list(&self, what: &str) -> impl Iterator<Item = &Value> {
        self.0[what].as_array().into_iter().flatten()
    }

    fn found(&self, workload: &str) -> impl Iterator<Item = &Value> {
        self.list("workloads").filter(move |found| found["name"] == workload)
    }

    fn contestant(&self, workload: &str, name: &str) -> Result<&Value, MissingFigure> {
        let mut all = self.found(workload).flat_map(entries).filter(|contestant| contestant["name"] == name);
        all.next().ok_or_else(|| format!("there is no `{name}` in a workload `{workload}`"))
    }
}

fn entries(workload: &Value) -> impl Iterator<Item = &Value> {
    workload["contestants"].as_array().into_iter().flatten()
}

fn passes(contestant: &Value) -> Vec<f64> {
    contestant["passes"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// Reads a spread from the JSON.
pub(crate) fn spread(json: &Value) -> Option<Spread> {
    Some(Spread {
        low: json["low"].as_f64()?,
        median: json["median"].as_f64()?,
        high: json["high"].as_f64()?,
    })
}

/// Adds the figures of another run, which must have the same machine, commit and passes.
fn join(all: &mut Value, other: Value) -> Result<(), String> {
    for what in ["processor", "threads", "commit"] {
        let (one, two) = (&all["machine"][what], &other["machine"][what]);
        if one != two {
            return Err(format!("its {what} is {two}, and that of the files before {one}"));
        }
    }
    for what in ["passes", "quick"] {
        if all[what] != other[what] {
            return Err(format!("its {what} is {}, and that of the files before {}", other[what], all[what]));
        }
    }
    for what in ["commands", "targets"] {
        let more: Vec<Value> = entries_of(&other, what).cloned().collect();
        list_of(all, what).extend(more);
    }
    for workload in entries_of(&other, "workloads") {
        let known = list_of(all, "workloads");
        match known.iter_mut().find(|known| known["name"] == workload["name"]) {
            None => known.push(workload.clone()),
            Some(known) => join_workload(known, workload)?,
        }
    }
    Ok(())
}

/// Adds other contestants of a workload: those of another run in which each was alone.
fn join_workload(known: &mut Value, other: &Value) -> Result<(), String> {
    let names: Vec<Value> = entries(known).map(|contestant| contestant["name"].clone()).collect();
    if let Some(twice) = entries(other).find(|contestant| names.contains(&contestant["name"])) {
        return Err(format!("{} of {} is in a file before it", twice["name"], other["name"]));
    }
    list_of(known, "contestants").extend(entries(other).cloned());
    Ok(())
}

/// Returns the list of this name; an empty one if it is missing.
fn list_of<'a>(document: &'a mut Value, what: &str) -> &'a mut Vec<Value> {
    if !document[what].is_array() {
        document[what] = Value::Array(Vec::new());
    }
    document[what].as_array_mut().expect("it is an array now")
}

fn entries_of<'a>(document: &'a Value, what: &str) -> impl Iterator<Item = &'a Value> {
    document[what].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(name: &str, commit: &str) -> Value {
        json!({
            "machine": { "processor": "p", "threads": 2, "commit": commit }, "commands": ["c"], "passes": 3,
            "quick": false, "targets": [],
            "workloads": [{ "name": name, "unit": "ns a check", "contestants": [
                { "name": "us", "spread": { "low": 1.0, "median": 2.0, "high": 3.0 }, "share_without_processor": 0.1,
                  "floor": false, "admitted": 1, "asked": 4 },
            ]}],
        })
    }

    #[test]
    fn only_runs_of_the_same_build_are_joined() {
        let mut all = run("a", "1");
        join(&mut all, run("b", "1")).unwrap();
        let results = Results::new(all.clone());
        assert_eq!(results.workloads().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(results.spread("b", "us").unwrap().median, 2.0);
        assert!(results.is_disturbed("a", "us"));
        assert_eq!(results.admitted("a", "us"), Some(0.25));
        assert!(join(&mut all, run("c", "2")).unwrap_err().contains("commit"));
        assert!(join(&mut all, run("a", "1")).unwrap_err().contains("\"us\" of \"a\""), "a contestant twice");
    }

    #[test]
    fn a_run_alone_adds_to_the_same_workloads() {
        let (mut all, mut alone) = (run("a", "1"), run("a", "1"));
        alone["workloads"][0]["contestants"][0]["name"] = json!("us, alone");
        join(&mut all, alone).unwrap();
        let results = Results::new(all);
        assert_eq!(results.workloads().count(), 1);
        assert_eq!(results.contestants("a").collect::<Vec<_>>(), ["us", "us, alone"]);
    }

    #[test]
    fn a_missing_figure_is_named() {
        let results = Results::new(run("a", "1"));
        assert!(results.spread("a", "them").unwrap_err().contains("`them`"));
        assert!(results.unit("b").unwrap_err().contains("`b`"));
        assert!(results.ratio("a", "us", "us").unwrap_err().contains("passes"));
        assert!(results.latencies("a", "us").unwrap_err().contains("latencies"));
    }
}
