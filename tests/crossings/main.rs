//! All verbs together: random programs in which they cross on the same keys.
//!
//! `programs` are of one thread. In the middle of a verb, when it reads the clock, they run others.
//! Every answer is held to bounds that follow from the limit alone (`world`), and to the model
//! where it knows the verb (`specification`). `crowd` has threads run the verbs while time stands
//! still, and counts. A failure prints the shortest program that was found:
//!
//! ```text
//! Multi, Enough, [Limit { kind: Bucket, most: 1, nanos: 1000 }]
//!    1. Stay: key 0, tier 0: Reserve(All(0), 0)
//!    2. Stay: key 0, tier 0: Wait(All(0), 8)
//! ```
//!
//! `PROPTEST_CASES=100000 cargo test --release --test crossings` looks longer. Every call into the
//! engine is in `engine` and `clock`.

mod crowd;
mod engine;
mod found;
mod held;
mod judge;
mod limits;
mod play;
mod program;
mod specification;
mod table;
mod world;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestRng, TestRunner};

use engine::Room;
use table::{THREADED, Table, WORDS, Word};
use tollgate::WhenFull;
use tollgate_testing::limits::Kind;

/// `cases` of them, unless `PROPTEST_CASES` asks for others.
fn config(cases: u32) -> ProptestConfig {
    let asked = |what| std::env::var(what).ok().and_then(|number| number.parse().ok());
    ProptestConfig {
        cases: asked("PROPTEST_CASES").unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: asked("PROPTEST_MAX_SHRINK_ITERS").unwrap_or(20_000),
        ..ProptestConfig::default()
    }
}

/// Many programs are of few verbs: so many of them are played by the ordinary command.
const PROGRAMS: u32 = 850;

#[test]
fn programs_of_all_verbs_keep_every_limit() {
    let config = config(PROGRAMS);
    let mut runner = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => TestRunner::new(config),
        // The ordinary command plays the same programs each time, so that a failure is of a change.
        None => {
            let same = TestRng::deterministic_rng(config.rng_algorithm);
            TestRunner::new_with_rng(config, same)
        }
    };
    let played = runner
        .run(&program::program(), |program| play::play(&program).map(|_| ()).map_err(TestCaseError::fail));
    if let Err(contradiction) = played {
        panic!("{contradiction}");
    }
}

/// Rounds of threads.
const ROUNDS: u32 = 200;

#[test]
fn threads_of_all_verbs_spend_no_more_than_each_burst() {
    let mut words = Vec::new();
    for number in 0..config(ROUNDS).cases.max(ROUNDS) {
        match crowd::round(crowd::Plan::number(number.into())) {
            Ok(done) => words.extend(done),
            Err(why) => panic!("round {number}: {why}"),
        }
    }
    let missing: Vec<Word> = THREADED.into_iter().filter(|word| !words.contains(word)).collect();
    assert!(missing.is_empty(), "no thread did {missing:?}");
}

/// The same programs in every run. Each algorithm is crossed by every verb that it has; and every
/// three meet of a full table, a change, a restart and what gives back.
#[test]
fn every_two_verbs_cross_on_a_key() {
    let (mut runner, programs) = (TestRunner::deterministic(), program::program());
    let (mut table, mut met) = (Table::default(), [[false; WORDS.len()]; Kind::ALL.len()]);
    let mut rooms = Vec::new();
    for _ in 0..PROGRAMS {
        let program = programs.new_tree(&mut runner).expect("no program is rejected").current();
        let done = play::play(&program).unwrap_or_else(|why| panic!("{why}\n{program:?}"));
        table.add(&done);
        rooms.push(program.room);
        for limit in &program.limits {
            for (met, (word, _)) in met[limit.kind as usize].iter_mut().zip(WORDS) {
                *met |= done.has(word);
            }
        }
    }
    for (kind, met) in Kind::ALL.into_iter().zip(met) {
        let lacks = |word: Word| match word {
            Word::Reserve | Word::Cancel | Word::Wait => !kind.has_turns(),
            Word::Debit => kind == Kind::Log,
            // Their tiers are of one quota.
            Word::Tier => !kind.is_bucket(),
            _ => false,
        };
        let missing: Vec<&str> = WORDS
            .into_iter()
            .zip(met)
            .filter(|((word, _), met)| !met && !lacks(*word))
            .map(|it| it.0.1)
            .collect();
        assert!(missing.is_empty(), "no program of a {kind:?} has {missing:?}");
    }
    for when_full in [WhenFull::Share, WhenFull::Deny, WhenFull::Allow] {
        assert!(rooms.contains(&Room::Full(when_full)), "no full table is {when_full:?}");
    }
    assert_eq!(table.missing(), [], "no program does these to one key, one before the other");
    assert_eq!(table.missing_threes(), [[""; 3]; 0], "no program does these to one key, one after the other");
}

/// A program that found a defect: a turn of several limits took the slot of a key that was in debt
/// until shortly before it.
#[test]
fn a_restored_full_table_remembers_turns_of_several_limits() {
    use engine::{Sort, Way};
    use limits::Limit;
    use program::{Change, Cost, Go, Inner, Line, Program, Verb};
    use tollgate::Inherit;

    let line = |key, verb, within| Line { go: Go::Stay, key, tier: 0, verb, within };
    let change =
        |numbers: [(u64, u64); 2], only| Change { numbers: numbers.into(), only, inherit: Inherit::AsIs };
    let overtaken = vec![Inner::Change(change([(3, 1_000), (1, 1)], None)), Inner::Ahead(0)];
    let program = Program {
        sort: Sort::Multi,
        room: Room::Full(WhenFull::Share),
        limits: vec![Limit { kind: Kind::Bucket, most: 1, nanos: 1 }; 2],
        lines: vec![
            line(0, Verb::Strangers, None),
            line(0, Verb::Check(Cost::Units(1), Way::Plain), Some((1, overtaken))),
            line(0, Verb::Change(change([(1, 1), (3, 1)], Some(1))), None),
            line(1, Verb::Reserve(Cost::Left, 3), None),
            line(0, Verb::Reserve(Cost::All(0), 11), None),
            line(0, Verb::Restore, None),
        ],
    };
    if let Err(contradiction) = play::play(&program) {
        panic!("{contradiction}");
    }
}
