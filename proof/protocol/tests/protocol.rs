//! The protocol keeps its promises in every scenario, and each mutant breaks one in the scenario
//! that is there for it.

use std::collections::BTreeSet;

use tollgate_protocol::{Mutant, catchers, scenario, scenarios, search, uncaught};

/// Where a scenario is known to break a promise it must still do so: a finding that was repaired is
/// taken off its list.
#[test]
fn the_protocol_keeps_its_promises_in_every_interleaving() {
    for scenario in scenarios().filter(|scenario| !scenario.long) {
        let outcome = search(scenario, Mutant::None);
        let broken: BTreeSet<_> = outcome.faults.iter().map(|(fault, _)| *fault).collect();
        let known = BTreeSet::from_iter(scenario.known.iter().copied());
        let traces: String = outcome.faults.iter().map(|(_, trace)| trace.as_str()).collect();
        println!("{}: {} states", scenario.name, outcome.states);
        assert_eq!(broken, known, "{}:\n{traces}", scenario.name);
        assert!(outcome.ends > 0, "{}: nobody ended", scenario.name);
    }
}

#[test]
fn every_mutant_is_caught() {
    let escapes = |&(mutant, name): &(Mutant, &'static str)| {
        let scenario = scenario(name);
        let caught = search(scenario, mutant).news(scenario);
        println!("{mutant:?}: {name}: {caught:?}");
        caught.is_none().then_some((mutant, name))
    };
    assert_eq!(catchers().iter().filter_map(escapes).collect::<Vec<_>>(), []);
}

/// What covers for such a mutant may go one day: then a scenario catches it.
#[test]
fn a_mutant_said_to_be_covered_for_escapes() {
    for scenario in scenarios().filter(|scenario| scenario.name.starts_with("short") && !scenario.long) {
        for &(mutant, cover) in uncaught() {
            assert_eq!(
                search(scenario, mutant).news(scenario),
                None,
                "{mutant:?} ({cover}): {}",
                scenario.name
            );
        }
    }
}
