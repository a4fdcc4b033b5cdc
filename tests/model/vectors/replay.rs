//! Runs scenarios on every subject and collects the differences.

use super::expect::{self, Observed, Outcome};
use super::readme::{self, Contradicted};
use super::scenario::{self, Scenario, Step, number};
use super::subject::{self, Build, Limit, Seen, Subject};
use super::{SUBJECTS, closed_loop, procedure, vocabulary};

/// Replays all scenarios of a file but those that the README leaves out. Fails with all
/// differences.
pub(crate) fn file(name: &str) {
    let left_out = readme::left_out();
    let replayed = |scenario: &Scenario| !left_out.iter().any(|id| id == scenario.id());
    let mut failures = Vec::new();
    for scenario in scenario::load(name).into_iter().filter(replayed) {
        for &(subject, build) in SUBJECTS {
            let said = |failure| format!("{subject}: {}: {failure}", scenario.id());
            failures.extend(replay(&scenario, build).into_iter().map(said));
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

/// Replays a scenario on a new subject. Returns the differences in words.
fn replay(scenario: &Scenario, build: Build) -> Vec<String> {
    match scenario.kind() {
        "steps" => steps(scenario, build),
        "closed_loop" => closed_loop::run(scenario, build),
        "procedure" => procedure::run(scenario, build),
        other => panic!("{}: a {other} cannot be replayed; leave it out", scenario.id()),
    }
}

fn steps(scenario: &Scenario, build: Build) -> Vec<String> {
    let contradicted = readme::contradicted();
    let mut met = scenario.list("assert_count_at").len();
    let mut failures = Vec::new();
    let mut departures = Vec::new();
    let mut perform = performer(scenario, build);
    for (number, step) in (1..).zip(scenario.steps()) {
        let observed = perform(step);
        departures.push(step.at() + observed.seen.delay);
        for (field, want) in step.expect() {
            let row = Contradicted { id: scenario.id().to_owned(), step: number, field: field.clone() };
            let seen = observed.seen;
            match (expect::judge(step, field, want, &observed), contradicted.contains(&row)) {
                (Outcome::Met, false) => met += 1,
                (Outcome::Missed, true) | (Outcome::NotOurs, false) => {}
                (Outcome::Missed, false) => {
                    failures.push(format!("step {number}: {field} should be {want}: {seen:?}"));
                }
                (Outcome::Met | Outcome::NotOurs, true) => {
                    failures.push(format!("step {number}: README.md claims to contradict {field}: {seen:?}"));
                }
            }
        }
    }
    failures.extend(closed_loop::miscounted(scenario, &departures));
    assert!(met > 0 || !failures.is_empty(), "{} expects nothing that we can see", scenario.id());
    failures
}

/// Returns a closure that runs steps: on one limiter for all steps, unless each step has its own.
fn performer<'a>(scenario: &Scenario, build: Build) -> Box<dyn FnMut(Step<'_>) -> Observed + 'a> {
    if scenario.algorithm() == "fixed_window" {
        return Box::new(move |step| {
            let limit = vocabulary::limit_of_step(step);
            let mut subject = build(limit);
            count_up(&mut *subject, step);
            observe(&mut *subject, limit, step)
        });
    }
    let mut limit = vocabulary::limit(scenario);
    let mut subject = build(limit);
    Box::new(move |step| {
        limit = vocabulary::limit_from(step, limit);
        observe(&mut *subject, limit, step)
    })
}

/// Counts up to the state of the peer's mocked store before this step.
fn count_up(subject: &mut dyn Subject, step: Step<'_>) {
    let before = number(&step.args()["counter_after"]) - step.cost();
    for _ in 0..before {
        subject.check(step.key(), step.at(), 1);
    }
}

fn observe(subject: &mut dyn Subject, limit: Limit, step: Step<'_>) -> Observed {
    let (key, at) = (step.key(), step.at());
    let before = subject.peek(key, at, 0);
    let seen = operate(subject, limit, step);
    let next = subject.peek(key, at, 1);
    Observed { limit, before, seen, next }
}

/// Runs the operation of a step. An operation without a decision returns a peek at cost 0.
fn operate(subject: &mut dyn Subject, limit: Limit, step: Step<'_>) -> Seen {
    let (key, at, cost) = (step.key(), step.at(), step.cost());
    match step.op() {
        "check" | "check_n" | "consume" | "observe" => subject.check(key, at, cost),
        "take" => subject::take(subject, limit, key, at),
        "reserve" => {
            let max_wait = step.args().get("max_wait_ns").map_or(u64::MAX, number);
            subject.reserve(step.name(), key, at, cost, max_wait)
        }
        "wait" => subject.reserve(None, key, at, cost, u64::MAX),
        "cancel" => {
            subject.cancel(step.name().expect("a cancellation names its reservation"), at);
            subject.peek(key, at, 0)
        }
        "rate_estimate" => subject.peek(key, at, 0),
        "set_limit" | "set_burst" => {
            subject.change(limit, at);
            subject.peek(key, at, 0)
        }
        "reset" => {
            subject.reset(key);
            subject.peek(key, at, 0)
        }
        other => panic!("no word of ours for {other}; perform it or leave the scenario out"),
    }
}
