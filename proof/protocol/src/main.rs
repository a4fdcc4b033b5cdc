//! The search by hand: `cargo run --release -p tollgate-protocol`, with `--thorough` also the long
//! scenarios, with `--traces` the steps to each broken promise, and with `--mutants` each mutant in
//! every scenario. A word takes only the scenarios that have it in their names.

use std::process::ExitCode;
use std::time::Instant;

use tollgate_protocol::{Mutant, Scenario, catchers, scenarios, search, uncaught};

fn main() -> ExitCode {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| options.iter().any(|given| given == option);
    let only = options.iter().find(|option| !option.starts_with('-'));
    let asked = scenarios().filter(|scenario| !scenario.long || has("--thorough"));
    let asked = asked.filter(|scenario| only.is_none_or(|part| scenario.name.contains(part.as_str())));
    if has("--mutants") {
        let asked: Vec<_> = asked.collect();
        let mut all: Vec<_> = catchers().iter().chain(uncaught()).map(|&(mutant, _)| mutant).collect();
        all.sort_by_key(|&mutant| mutant as u8);
        all.dedup();
        all.into_iter().for_each(|mutant| survey(mutant, &asked));
        return ExitCode::SUCCESS;
    }
    let mut holds = true;
    for scenario in asked {
        let begun = Instant::now();
        let outcome = search(scenario, Mutant::None);
        println!(
            "{:62} {:>10} states {:>8} ends {:>4} steps, {:>4} in vain {:>8.1?}",
            scenario.name,
            outcome.states,
            outcome.ends,
            outcome.depth,
            outcome.streak,
            begun.elapsed()
        );
        for (fault, trace) in &outcome.faults {
            let known = if scenario.known.contains(fault) { "known" } else { "NEW" };
            println!("  BROKEN ({known}): {fault}");
            if has("--traces") {
                println!("{trace}");
            }
        }
        holds &= outcome.news(scenario).is_none();
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says which scenarios catch the mutant.
fn survey(mutant: Mutant, scenarios: &[&Scenario]) {
    println!("{mutant:?}");
    for scenario in scenarios {
        let begun = Instant::now();
        if let Some(fault) = search(scenario, mutant).news(scenario) {
            println!("  {}: {fault} ({:.1?})", scenario.name, begun.elapsed());
        }
    }
}
