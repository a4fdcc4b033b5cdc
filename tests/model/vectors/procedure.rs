//! Scenarios that the files describe in prose, as code.

use super::scenario::Scenario;
use super::subject::{Build, Subject};
use super::vocabulary;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// Runs the procedure. Returns the differences in words.
pub(crate) fn run(scenario: &Scenario, build: Build) -> Vec<String> {
    let mut subject = build(vocabulary::limit(scenario));
    let outcome = match scenario.id() {
        "governor/correct_wait_time" => waits_are_long_enough(&mut *subject),
        "xtime/TestLongRunningQPS" => the_rate_holds_in_the_long_run(&mut *subject),
        other => panic!("{other} is told in prose; tell it in code or leave it out"),
    };
    outcome.err().into_iter().collect()
}

/// 20 times: after 1 ms a check, which is repeated after exactly its wait if it is refused, and
/// then admitted.
fn waits_are_long_enough(subject: &mut dyn Subject) -> Result<(), String> {
    let mut now = 0;
    for round in 1..=20 {
        now += MS;
        let first = subject.check("k", now, 1);
        if first.allowed {
            continue;
        }
        now += first.retry_after.ok_or_else(|| format!("round {round}: no wait in {first:?}"))?;
        let second = subject.check("k", now, 1);
        if !second.allowed {
            return Err(format!("round {round}: waited for {first:?}, and then {second:?}"));
        }
    }
    Ok(())
}

/// 100 a second with a burst of 100, checked every 2 ms for 5 s: at least 0.999 of the ideal and at
/// most one more, both rounded down as in the source. The last check is 2 ms before the end, so a
/// correct limiter admits 599.
fn the_rate_holds_in_the_long_run(subject: &mut dyn Subject) -> Result<(), String> {
    let instants = (0..5 * SECOND).step_by(2 * MS as usize);
    let allowed = instants.filter(|&now| subject.check("k", now, 1).allowed).count();
    let ideal = 100.0 + 100.0 * 5.0;
    let (least, most) = ((0.999 * ideal) as usize, (ideal + 1.0) as usize);
    if (least..=most).contains(&allowed) {
        Ok(())
    } else {
        Err(format!("{allowed} were allowed, should be from {least} to {most}"))
    }
}
