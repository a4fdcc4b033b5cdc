//! Windows of rules whose clock's Unix time is set while they are in force.

use std::time::Duration;

use tollgate::BuildError;
use tollgate_rules::{Ask, ExchangeError, Scratch};
use tollgate_rules_file::{LiveFile, Memory};
use tollgate_testing::clocks::UnixSet;

use crate::{X, Y, from};

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;
/// Ten o'clock.
const BEGUN: u64 = 20_000 * DAY + 10 * HOUR;

const DAILY: &str = "
[[rule]]
name = 'daily'
key = 'client'
limits = ['fixed-window:2/d', '100/s']
[[rule.tier]]
name = 'office'
match.client = '198.51.100.7'
limits = 'fixed-window:3/d'
";

const GONE: &str = "
[[rule]]
name = 'gone'
key = 'client'
limits = 'token-bucket:2/d,burst=4,intervals'
";

type Live = LiveFile<UnixSet>;

fn open(rules: &str) -> (Live, UnixSet, Memory) {
    let (clock, files) = (UnixSet::new(BEGUN), file(rules));
    (LiveFile::open("rules.toml", &files, clock.clone()).unwrap(), clock, files)
}

fn file(rules: &str) -> Memory {
    Memory::new("rules.toml", format!("version = 1\n{rules}"))
}

fn realign(live: &Live, clock: &UnixSet, by: i64) {
    clock.set_unix_at_zero(BEGUN.checked_add_signed(by).unwrap());
    live.live().realign(Duration::from_nanos(clock.unix_at_zero_now())).unwrap();
}

fn spend(live: &Live, client: &str, units: u64) -> bool {
    let ask = Ask { cost: units, ..Ask::default() };
    live.live().handle().ask(&from(client), ask, &mut Scratch::default()).is_admitted()
}

/// The hours for which each rule refuses two more units.
fn waits(live: &Live, client: &str) -> Vec<Option<u64>> {
    let (mut handle, mut scratch) = (live.live().handle(), Scratch::default());
    let verdict = handle.ask(&from(client), Ask { cost: 2, is_peek: true, ..Ask::default() }, &mut scratch);
    let hours = |wait: Duration| (wait.as_nanos() as u64).div_ceil(HOUR);
    verdict.lines().iter().map(|line| line.retry_after.map(hours)).collect()
}

#[test]
fn all_rules_follow_a_clock_that_was_set() {
    let both = DAILY.to_owned() + GONE;
    let (live, clock, _) = open(&both);
    assert!(spend(&live, X, 2) && spend(&live, Y, 3) && spend(&live, X, 0));
    assert_eq!(waits(&live, X), [Some(14), None]);
    // One is gone when it comes to it, and comes back.
    live.reload("rules.toml", &file(DAILY)).unwrap();
    realign(&live, &clock, -(HOUR as i64));
    live.reload("rules.toml", &file(&both)).unwrap();
    assert_eq!(waits(&live, X), [Some(15), None]);
    assert_eq!(waits(&live, Y), [Some(15), Some(15)], "a tier's, and three of four tokens");
    let mut saved = Vec::new();
    live.live().save(&mut saved).unwrap();
    let (next, forgotten) = LiveFile::restore(&saved[..], clock.restarted()).unwrap();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    for live in [&live, &next] {
        live.live().rules().clock().manual.advance(Duration::from_nanos(15 * HOUR - 1));
        assert_eq!((waits(live, X), waits(live, Y)), (vec![Some(1), None], vec![Some(1); 2]));
        live.live().rules().clock().manual.advance(Duration::from_nanos(1));
        assert_eq!((waits(live, X), waits(live, Y)), (vec![None; 2], vec![None; 2]), "a new day");
    }
}

#[test]
fn a_clock_set_back_over_midnight_begins_no_day_anew() {
    let (live, clock, _) = open(DAILY);
    clock.manual.advance(Duration::from_nanos(14 * HOUR + 1));
    assert!(spend(&live, X, 2));
    realign(&live, &clock, -2_000_000_000);
    assert_eq!(waits(&live, X), [Some(25)], "this one, of two seconds, and the whole next");
    clock.manual.advance(Duration::from_secs(3));
    assert!(!spend(&live, X, 1) && !spend(&live, X, 2));
    clock.manual.advance(Duration::from_nanos(DAY));
    assert!(spend(&live, X, 2));
}

/// The engine keeps a debt through so many changes only.
#[test]
fn a_rule_without_room_is_named_and_follows_later() {
    let (live, clock, _) = open(&(DAILY.to_owned() + &GONE.replace("2/d", "2/h")));
    assert!(spend(&live, X, 1));
    let by = |number: i64| Duration::from_nanos(BEGUN.checked_add_signed(number).unwrap());
    let refused = (1..2_000).map(|number| live.live().realign(by(number))).find_map(Result::err);
    let Some(ExchangeError::Change { rule, error }) = refused else { panic!("{refused:?}") };
    assert_eq!((&*rule, error), ("daily", BuildError::ChangedTooOften));
    clock.manual.advance(Duration::from_nanos(2 * DAY));
    live.live().realign(by(0)).unwrap();
    assert!(spend(&live, X, 2));
    assert_eq!(waits(&live, X)[0], Some(14));
}
