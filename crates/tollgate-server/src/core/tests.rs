//! What a reload leaves in memory.

use std::sync::{Arc, Weak};

use tollgate::ManualClock;
use tollgate_rules::{Ask, LiveRules, PlainRequest, Rules};
use tollgate_rules_file::{Memory, read};

use super::{Core, FREE};

fn rules(number: usize) -> Rules {
    let text = format!(
        "version = 1\nrule = [{{ name = 'r{number}', key = 'everyone', limits = '{}/h' }}]",
        9 + number
    );
    read("rules.toml", &Memory::new("rules.toml", text)).into_rules().expect("the rules are right")
}

fn core() -> Core {
    let clock = ManualClock::new();
    let live = LiveRules::new(rules(0), [0; 32], Arc::new(clock.clone()) as _).unwrap();
    Core::new(live, Arc::new(clock), 16, false).unwrap()
}

fn reload(core: &Core, number: usize) {
    core.live.exchange(rules(number), [number as u8; 32]).unwrap();
    core.reloaded(true);
}

/// Has as many deciders in use at once as are kept, and one more.
fn decide_at_once(core: &Core) {
    let mut deciders: Vec<_> = (0..=FREE).map(|_| core.decider()).collect();
    for decider in &mut deciders {
        assert_eq!(decider.ask(&PlainRequest::default(), Ask { cost: 0, ..Ask::default() }).lines().len(), 1);
    }
    drop(deciders);
    assert_eq!(core.free.len(), FREE);
}

#[test]
fn a_reload_frees_the_rules_of_idle_deciders() {
    let core = core();
    decide_at_once(&core);
    let (old, used) = (Arc::downgrade(&core.live.rules()), core.decider());
    reload(&core, 1);
    assert!(old.strong_count() > 0 && core.free.is_empty(), "only the one in use is left");
    drop(used);
    assert_eq!(old.strong_count(), 0);
    decide_at_once(&core);
}

#[test]
fn a_thousand_reloads_leave_one_generation() {
    let core = core();
    let mut sets: Vec<Weak<_>> = Vec::new();
    for number in 1..=1_000 {
        decide_at_once(&core);
        sets.push(Arc::downgrade(&core.live.rules()));
        reload(&core, number);
    }
    sets.push(Arc::downgrade(&core.live.rules()));
    assert_eq!(sets.iter().filter(|set| set.strong_count() > 0).count(), 1);
}
