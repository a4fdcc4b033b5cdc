//! Which verbs follow which: each follows each.

use std::collections::BTreeSet;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Throttle,
    Delete,
    TgCheck,
    TgPeek,
    Check,
    Peek,
    Reserve,
    Acquire,
    Batch,
    Together,
    Auth,
    Settle,
    CallByRules,
    CallByFiles,
    Reset,
    Credit,
    Reload,
    Restart,
    ClockAhead,
    ClockBack,
}

pub(crate) const VERBS: [Verb; 20] = [
    Verb::Throttle,
    Verb::Delete,
    Verb::TgCheck,
    Verb::TgPeek,
    Verb::Check,
    Verb::Peek,
    Verb::Reserve,
    Verb::Acquire,
    Verb::Batch,
    Verb::Together,
    Verb::Auth,
    Verb::Settle,
    Verb::CallByRules,
    Verb::CallByFiles,
    Verb::Reset,
    Verb::Credit,
    Verb::Reload,
    Verb::Restart,
    Verb::ClockAhead,
    Verb::ClockBack,
];

/// Which verbs came before which in these programs, at once or later.
fn crossed(programs: &[Vec<Verb>]) -> BTreeSet<(Verb, Verb)> {
    let pairs = programs.iter().flat_map(|verbs| {
        let later = |(index, first): (usize, &Verb)| {
            verbs[index + 1..].iter().map(|then| (*first, *then)).collect::<Vec<_>>()
        };
        verbs.iter().enumerate().flat_map(later)
    });
    pairs.collect()
}

#[test]
fn every_two_verbs_of_the_server_cross() {
    let crossed = crossed(&crate::program::play(0..12, 60));
    let pairs = VERBS.iter().flat_map(|first| VERBS.iter().map(|then| (*first, *then)));
    let missing: Vec<(Verb, Verb)> = pairs.filter(|pair| !crossed.contains(pair)).collect();
    assert!(missing.is_empty(), "no program has these, one before the other: {missing:?}");
}
