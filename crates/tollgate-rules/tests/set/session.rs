//! Sessions: what a thread derives from the rules is of those that decide.

use std::cell::Cell;
use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_rules::{Ask, Asked, LiveRules, OfRules, RuleSet, Session};

use crate::{X, Y, from, rules};

type Set = RuleSet<ManualClock>;

/// The name of the first rule, which tells the generation.
struct Generation {
    set: Arc<Set>,
    name: Box<str>,
}

impl OfRules<ManualClock> for Generation {
    fn rules(&self) -> &Arc<Set> {
        &self.set
    }
}

fn derive(set: &Arc<Set>) -> Arc<Generation> {
    Arc::new(Generation { set: Arc::clone(set), name: set.rules().rules[0].name.clone() })
}

fn live(number: u64) -> LiveRules<ManualClock> {
    LiveRules::new(rules(&text(number)), [0; 32], ManualClock::new()).unwrap()
}

/// Rules of which the first has this number, and the second is the same in all.
fn text(number: u64) -> String {
    format!(
        "rule = [{{ name = 'g{number}', key = 'client', limits = 'unlimited' }},
                 {{ name = 'r', key = 'client', limits = '10/d' }}]"
    )
}

#[test]
fn an_overtaken_request_of_a_session_is_decided_anew() {
    let live = live(1);
    let mut session = Session::new(live.handle(), derive);
    let mut tries = 0;
    let (name, by, left) = session.decide(derive, |mut round| {
        tries += 1;
        if tries == 1 {
            live.exchange(rules(&text(2)), [1; 32]).unwrap();
        }
        let name = round.derived().name.clone();
        let verdict = round.ask(&from(X), Ask::default(), &mut Vec::new())?;
        Some((name, verdict.rules()[0].name.clone(), verdict.lines()[1].remaining))
    });
    assert_eq!((tries, &*name, &*by), (2, "g2", "g2"));
    assert_eq!(left, 9, "the first try was given back");
}

#[test]
fn overtaken_requests_together_are_decided_anew() {
    let live = live(1);
    let mut session = Session::new(live.handle(), derive);
    let mut tries = 0;
    let (name, by, left) = session.decide(derive, |mut round| {
        tries += 1;
        if tries == 1 {
            live.exchange(rules(&text(2)), [1; 32]).unwrap();
        }
        let name = round.derived().name.clone();
        let mut asked = [X, X, Y].map(|client| Asked::new(from(client), Ask::default()));
        let mut together = round.ask_together(&mut asked, false)?;
        let left = [0, 1, 2].map(|index| together.verdict(index).lines()[1].remaining);
        Some((name, together.rules()[0].name.clone(), left))
    });
    assert_eq!((tries, &*name, &*by), (2, "g2", "g2"));
    assert_eq!(left, [9, 8, 9], "the first try was given back");
}

#[test]
fn a_session_derives_once_a_generation() {
    let live = live(1);
    let derived = Cell::new(0);
    let counting = |set: &Arc<Set>| {
        derived.set(derived.get() + 1);
        derive(set)
    };
    let mut session = Session::new(live.handle(), counting);
    for number in 2..5 {
        for _ in 0..3 {
            session.decide(counting, |mut round| {
                Some(round.ask(&from(X), Ask::default(), &mut Vec::new())?.is_admitted())
            });
        }
        assert_eq!(derived.get(), number - 1);
        live.exchange(rules(&text(number)), [number as u8; 32]).unwrap();
        assert!(!session.is_current());
    }
}
