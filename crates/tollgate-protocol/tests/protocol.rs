//! The protocol keeps its promises in every scenario, and each mutant breaks one in the scenario
//! that is there for it.

use std::collections::BTreeSet;

use tollgate_protocol::{Mutant, catchers, scenario, scenarios, search};

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
    for &(mutant, name) in catchers() {
        let scenario = scenario(name);
        let caught = search(scenario, mutant).news(scenario);
        println!("{mutant:?}: {name}: {caught:?}");
        assert!(caught.is_some(), "{mutant:?} must be caught by: {name}");
    }
}
