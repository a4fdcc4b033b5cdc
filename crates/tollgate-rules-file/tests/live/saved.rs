//! Rules in force over a restart.

use std::time::Duration;

use tollgate::{ManualClock, RestoreError};
use tollgate_rules::{Ask, Cause, LiveRules, Scratch};
use tollgate_rules_file::{LiveFile, Memory};

use crate::{X, Y, from};

type Live = LiveFile<ManualClock>;

const BEGUN: Duration = Duration::from_secs(1_700_000_000);

fn file(text: &str) -> Memory {
    Memory::new("rules.toml", format!("version = 1\n{text}"))
}

fn open(text: &str) -> Live {
    LiveFile::open("rules.toml", &file(text), ManualClock::starting_at(BEGUN)).unwrap()
}

fn saved(live: &Live) -> Vec<u8> {
    let mut saved = Vec::new();
    live.live().save(&mut saved).unwrap();
    saved
}

/// The next process, which begins so long after the zero of the one before.
fn later(saved: &[u8], seconds: u64) -> Live {
    let clock = ManualClock::starting_at(BEGUN + Duration::from_secs(seconds));
    let (live, forgotten) = LiveFile::restore(saved, clock).unwrap();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    live
}

fn spend(live: &Live, client: &str, units: u64) -> bool {
    let ask = Ask { cost: units, ..Ask::default() };
    live.live().handle().ask(&from(client), ask, &mut Scratch::default()).is_admitted()
}

fn left(live: &Live, client: &str) -> Vec<u64> {
    let ask = Ask { cost: 0, is_peek: true, ..Ask::default() };
    let (mut handle, mut scratch) = (live.live().handle(), Scratch::default());
    let verdict = handle.ask(&from(client), ask, &mut scratch);
    verdict.lines().iter().map(|line| line.remaining).collect()
}

const EVERY: &str = "
[lists]
office = { file = 'office.txt' }
[[rule]]
name = 'bucket'
key = 'client'
limits = ['10/min,burst=10', '100/d']
[[rule.tier]]
name = 'office'
match.client = '@office'
limits = 'fixed-window:50/d'
[[rule]]
name = 'log'
key = 'client'
limits = 'sliding-log:40/d'
[[rule]]
name = 'everyone'
key = 'everyone'
limits = ['sliding-window:30/d', 'in-flight:20']
[[rule]]
name = 'banned'
key = 'client'
limits = 'fixed-window:20/d'
ban = '2d'
mode = 'shadow'
";

fn every() -> Memory {
    file(EVERY).file("office.txt", format!("{Y}\n"))
}

#[test]
fn restored_rules_answer_as_the_saved_ones_would() {
    let clock = ManualClock::starting_at(BEGUN);
    let live = LiveFile::open("rules.toml", &every(), clock.clone()).unwrap();
    assert!(spend(&live, X, 7));
    assert!(spend(&live, Y, 11));
    let copy = later(&saved(&live), 0);
    for client in [X, Y, "192.0.2.1"] {
        assert_eq!(left(&copy, client), left(&live, client), "{client}");
    }
    // The time between counts as passed.
    let copy = later(&saved(&live), 24);
    clock.advance(Duration::from_secs(24));
    for client in [X, Y, "192.0.2.1"] {
        assert_eq!(left(&copy, client), left(&live, client), "{client}");
    }
    assert_eq!(copy.live().status().hash, live.live().status().hash);
}

#[test]
fn bans_outlast_a_restart() {
    let text = "rule = [{ name = 'r', key = 'client', limits = 'fixed-window:1/s', ban = '1h' }]";
    let live = open(text);
    assert!(spend(&live, X, 1) && !spend(&live, X, 1));
    let copy = later(&saved(&live), 3_000);
    assert!(!spend(&copy, X, 1));
    assert!(spend(&copy, Y, 1));
    let copy = later(&saved(&live), 3_601);
    assert!(spend(&copy, X, 1));
}

#[test]
fn a_clock_set_back_forgives_no_saved_debt() {
    let live = open("rule = [{ name = 'r', key = 'client', limits = '10/s,burst=10' }]");
    assert!(spend(&live, X, 8));
    let (copy, _) =
        LiveFile::restore(&saved(&live)[..], ManualClock::starting_at(BEGUN - Duration::from_secs(60)))
            .unwrap();
    assert_eq!(left(&copy, X), [2]);
}

#[test]
fn the_file_of_today_takes_over_what_was_saved() {
    let live = open("rule = [{ name = 'r', key = 'client', limits = '10/min,burst=10' }]");
    assert!(spend(&live, X, 8));
    let copy = later(&saved(&live), 0);
    let new = file("rule = [{ name = 's', was = 'r', key = 'client', limits = '20/min,burst=20' }]");
    let resumed = copy.reload_forgetting("rules.toml", &new).unwrap();
    assert_eq!((resumed.generation, resumed.forgotten.len()), (2, 0));
    assert_eq!(left(&copy, X), [12]);
}

#[test]
fn what_cannot_take_over_is_told_and_forgotten() {
    let two = |kind: &str| {
        format!(
            "rule = [{{ name = 'r', key = 'client', limits = '{kind}10/min' }},
                     {{ name = 's', key = 'client', limits = '10/min' }}]"
        )
    };
    let live = open(&two(""));
    assert!(spend(&live, X, 8));
    let copy = later(&saved(&live), 0);
    let resumed = copy.reload_forgetting("rules.toml", &file(&two("sliding-log:"))).unwrap();
    assert_eq!(resumed.forgotten.len(), 1);
    assert_eq!((&*resumed.forgotten[0].rule, resumed.forgotten[0].keys_in_debt), ("r", 1));
    assert!(matches!(resumed.forgotten[0].cause, Cause::Limit(_)));
    assert_eq!(left(&copy, X), [10, 2]);
    // The file does not say `forget`: the next change is judged as any other.
    assert!(copy.reload("rules.toml", &file(&two("fixed-window:"))).is_err());
}

#[test]
fn limits_that_are_lifted_keep_their_saved_debts() {
    let with = |limits: &str| format!("rule = [{{ name = 'r', key = 'client', limits = {limits} }}]");
    let live = open(&with("'10/min'"));
    assert!(spend(&live, X, 8));
    live.reload("rules.toml", &file(&with("'unlimited'"))).unwrap();
    let copy = later(&saved(&live), 0);
    assert_eq!(left(&copy, X), [u64::MAX]);
    copy.reload("rules.toml", &file(&with("'10/min'"))).unwrap();
    assert_eq!(left(&copy, X), [2]);
}

#[test]
fn a_save_holds_the_rules_in_force() {
    let live = open("rule = [{ name = 'r', key = 'client', limits = '10/min' }]");
    let new = file("rule = [{ name = 'r', key = 'client', limits = '20/min' }]");
    live.reload("rules.toml", &new).unwrap();
    assert!(live.reload("rules.toml", &file("nonsense")).is_err());
    assert!(spend(&live, X, 1));
    let copy = later(&saved(&live), 0);
    assert_eq!(left(&copy, X), [19]);
    assert_eq!(copy.reload("rules.toml", &new).unwrap(), 1, "the file is the same");
}

#[test]
fn saved_rules_cut_short_are_truncated() {
    let live = open("rule = [{ name = 'r', key = 'client', limits = '10/min', ban = '1h' }]");
    assert!(spend(&live, X, 7));
    live.reload("rules.toml", &file(GONE)).unwrap();
    let saved = saved(&live);
    for len in 0..saved.len() {
        let error = LiveFile::restore(&saved[..len], ManualClock::new()).map(drop).expect_err("a part");
        assert!(matches!(error, RestoreError::Truncated), "{len} bytes: {error:?}");
    }
}

#[test]
fn damaged_rules_are_never_restored() {
    let live = open("rule = [{ name = 'r', key = 'client', limits = '10/min', ban = '1h' }]");
    assert!(spend(&live, X, 7));
    live.reload("rules.toml", &file(GONE)).unwrap();
    let saved = saved(&live);
    for at in 0..saved.len() {
        for flip in [1, 0x40] {
            let mut damaged = saved.clone();
            damaged[at] ^= flip;
            assert!(LiveFile::restore(&damaged[..], ManualClock::new()).is_err(), "byte {at}");
        }
    }
}

#[test]
fn rules_of_a_program_cannot_be_saved() {
    let live = LiveRules::new(crate::rules("rule = []"), [0; 32], ManualClock::new()).unwrap();
    assert_eq!(live.save(Vec::new()).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

const GONE: &str = "rule = [{ name = 'all', key = 'everyone', limits = '100/d' }]";

/// A rule `own` that three requests were charged to, and is gone from the file.
fn with_one_gone() -> Live {
    let own = "{ name = 'own', key = 'client', limits = 'fixed-window:5/d', ban = '30min' }";
    let live = open(&GONE.replace("[{", &format!("[{own}, {{")));
    assert!(spend(&live, X, 5) && !spend(&live, Y, 6) && !spend(&live, X, 1));
    live.reload("rules.toml", &file(GONE)).unwrap();
    assert_eq!(left(&live, X), [95]);
    live
}

/// The rule's limit and ban as they are once the file has the rule again.
fn back(live: &Live) -> (u64, bool) {
    let own = "{ name = 'own', key = 'client', limits = 'fixed-window:5/d', ban = '30min' }";
    live.reload("rules.toml", &file(&GONE.replace("[{", &format!("[{own}, {{")))).unwrap();
    (left(live, X)[0], spend(live, X, 1))
}

#[test]
fn a_rule_that_is_gone_outlasts_a_restart() {
    let live = with_one_gone();
    assert_eq!(back(&later(&saved(&live), 60)), (0, false));
    // It may be saved and restored again, while it is gone.
    let again = later(&saved(&live), 600);
    assert_eq!(back(&later(&saved(&again), 1_200)), (0, false));
    assert_eq!(back(&live), (0, false), "the save has changed nothing");
}

#[test]
fn a_restart_does_not_prolong_how_long_rules_are_kept() {
    let live = with_one_gone();
    let first = later(&saved(&live), 1_800);
    assert_eq!(back(&later(&saved(&first), 3_599)).0, 0);
    assert_eq!(back(&later(&saved(&first), 3_600)), (5, true), "it is forgotten after an hour");
}

#[test]
fn rules_of_several_files_are_gone_by_themselves() {
    let rule = |name: &str, limit: u64| {
        format!("{{ name = '{name}', key = 'client', limits = 'fixed-window:{limit}/d' }}")
    };
    let text = |rules: &[String]| format!("rule = [{}]", rules.join(", "));
    let (a, b, c) = (rule("a", 10), rule("b", 20), rule("c", 30));
    let live = open(&text(&[a.clone(), b.clone(), c.clone()]));
    assert!(spend(&live, X, 1));
    live.reload("rules.toml", &file(&text(&[b.clone(), c.clone()]))).unwrap();
    assert!(spend(&live, X, 1));
    live.reload("rules.toml", &file(&text(std::slice::from_ref(&c)))).unwrap();
    assert!(spend(&live, X, 1));
    let live = later(&saved(&live), 60);
    live.reload("rules.toml", &file(&text(&[c, a, b]))).unwrap();
    assert_eq!(left(&live, X), [27, 9, 18]);
}

#[test]
fn a_reload_that_forgets_is_saved_as_any_other() {
    let live = open("rule = [{ name = 'all', key = 'everyone', limits = '100/d' }]");
    assert!(spend(&live, X, 5));
    let log = "rule = [{ name = 'all', key = 'everyone', limits = 'sliding-log:100/d' }]";
    live.reload("rules.toml", &file(log)).unwrap_err();
    live.reload_forget("rules.toml", &file(log), &["all"]).unwrap();
    assert!(spend(&live, X, 7));
    assert_eq!(left(&later(&saved(&live), 60), X), [93]);
}
