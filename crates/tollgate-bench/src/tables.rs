//! Everything that a run has found as a page of Markdown, written by nobody.

use std::fmt::Write;

use crate::measure::Spread;
use crate::results::{Lacking, Results, spread};
use crate::scaling::{CORES, Model};

/// The page.
pub(crate) fn page(results: &Results) -> Result<String, Lacking> {
    let mut page = "# All figures\n\nWritten by `tollgate-bench --charts`, and never by hand: what the pictures show, and \
                    what they do not. What it means: [performance.md](../performance.md).\n"
        .to_owned();
    for line in results.origin() {
        let _ = write!(page, "\n* {line}");
    }
    page.push('\n');
    page.push_str(&targets(results));
    if let Ok(model) = Model::of(results) {
        page.push_str(&cores(&model));
    }
    for workload in results.workloads() {
        page.push_str(&table(results, workload)?);
    }
    Ok(page)
}

/// Those whose workloads were run.
fn targets(results: &Results) -> String {
    let mut text = String::new();
    for target in results.targets() {
        let said = |what: &str| target[what].as_str().unwrap_or_default();
        let measured = spread(&target["measured"]).map_or_else(|| "not measured".to_owned(), ratio);
        let met = if target["met"] == true { "met" } else { "**missed**" };
        let disturbed = if target["disturbed"] == true { ", disturbed" } else { "" };
        let (workload, what, bound) = (said("workload"), said("what"), said("bound"));
        let _ = writeln!(text, "| {workload}: {what} | {bound} | {measured} | {met}{disturbed} |");
    }
    if text.is_empty() {
        return text;
    }
    format!("\n## Targets\n\n| what | target | measured, with quartiles | |\n|---|---|---|---|\n{text}")
}

fn cores(model: &Model) -> String {
    let heads = CORES.map(|cores| format!(" {cores} |")).concat();
    let rule = "---|".repeat(CORES.len());
    let mut text = format!(
        "\n## 1 to 64 cores: a model\n\nMillion checks a second in all, by the number of cores; in bold what was \
         measured, the rest computed from it.\n\n| |{heads}\n|---|{rule}\n"
    );
    for projection in &model.projections {
        let _ = write!(text, "| {} |", projection.name);
        for cores in CORES {
            let is_here = |(at, _): &&(usize, f64)| *at == cores;
            let measured = projection.measured.iter().find(is_here).map(|(_, rate)| format!("**{rate:.0}**"));
            let modelled = || projection.beyond.iter().find(is_here).map(|(_, rate)| format!("{rate:.0}"));
            let _ = write!(text, " {} |", measured.or_else(modelled).unwrap_or_default());
        }
        text.push('\n');
    }
    let mut assumptions = model.assumptions.iter();
    let _ = writeln!(text, "\n{}\n", assumptions.next().map_or("", String::as_str));
    assumptions.for_each(|assumption| {
        let _ = writeln!(text, "* {assumption}");
    });
    text
}

/// One workload; the last column is the first contestant's figure by each other's, pass by pass.
fn table(results: &Results, workload: &str) -> Result<String, Lacking> {
    let unit = results.unit(workload)?;
    let names: Vec<&str> = results.contestants(workload).collect();
    let first = names.first().copied().unwrap_or_default();
    let percentiles = results.latencies(workload, first).ok();
    let heads = percentiles.iter().flatten().map(|(name, _)| format!(" {name} |")).collect::<String>();
    let rule = "---|".repeat(4 + percentiles.map_or(0, |all| all.len()));
    let mut text = format!("\n## {workload}\n\n| | {unit} | quartiles | {first} / it |{heads}\n|{rule}\n");
    for name in names {
        let Spread { low, median, high } = results.spread(workload, name)?;
        let by = if name == first {
            String::new()
        } else {
            results.ratio(workload, first, name).map_or_else(|_| String::new(), ratio)
        };
        let admitted = results.admitted(workload, name);
        let admitted =
            admitted.map(|share| format!(" (admitted {:.1} %)", share * 100.0)).unwrap_or_default();
        let disturbed = if results.is_disturbed(workload, name) { " (disturbed)" } else { "" };
        let called = escaped(name);
        let _ =
            write!(text, "| {called}{admitted}{disturbed} | {median:.1} | {low:.1} .. {high:.1} | {by} |");
        for (_, nanos) in results.latencies(workload, name).into_iter().flatten() {
            let _ = write!(text, " {nanos:.0} |");
        }
        text.push('\n');
    }
    Ok(text)
}

fn ratio(Spread { low, median, high }: Spread) -> String {
    format!("{median:.2} ({low:.2} .. {high:.2})")
}

/// Brackets are no tags.
fn escaped(name: &str) -> String {
    name.replace('<', "\\<")
}
