//! Runs the tests that stand in a rules file.

use std::fmt;
use std::time::Duration;

use tollgate::{ManualClock, Timestamp};

use tollgate_rules::PlainRequest;
use tollgate_rules::{Ask, Ruling, SetError, Verdict};
use tollgate_rules::{Ending, Simulation};
use tollgate_rules::{Expected, Outcome, RuleTest, Rules, Step};

/// The status of the response to a step that names none.
const SERVED: u16 = 200;

/// The fewest keys that a test's tables are built for.
const FEWEST_KEYS: usize = 64;

/// A request of a file's test that did not become what the test expects.
///
/// # Examples
///
/// See [`run_tests`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestFailure {
    /// The test.
    pub test: Box<str>,
    /// The number of the step, from 1; 0 if the test could not begin.
    pub step: usize,
    /// Which of the step's requests it is, from 1.
    pub request: u64,
    /// What the test expects.
    pub expected: String,
    /// What became of the request.
    pub got: String,
}

impl fmt::Display for TestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test, step, request, expected, got } = self;
        write!(f, "test `{test}`, step {step}, request {request}: expected {expected}, got {got}")
    }
}

/// Runs the [tests](Rules::tests) of rules, each on limiters that have seen no key and on a clock
/// of its own. Returns the first failure of each test that fails, in their order.
///
/// A request ends when its step says, or else at once, with the status that its step names, or 200:
/// then rules with `charge_if` give back accordingly, and it is no longer in flight. Of requests
/// that come and end at the same instant, the ends are first. What is under way after the last step
/// does not end.
///
/// **Cost.** Each test builds the limiters of all rules, for as few keys as it has steps. Its
/// requests are decided one by one.
///
/// # Examples
///
/// ```
/// use tollgate_rules_file::{Memory, read, run_tests};
///
/// let text = "version = 1
/// [[rule]]
/// name = 'each'
/// key = 'client'
/// limits = '10/s,burst=20'
/// [[test]]
/// name = 'the 21st waits'
/// steps = [
///     { send = 'GET /', client = '203.0.113.9', times = 20, expect = 'admitted' },
///     { send = 'GET /', client = '203.0.113.9', expect = { retry_after = '200ms' } },
/// ]";
/// let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
/// let [failure] = &run_tests(&rules)[..] else { panic!("one test fails") };
/// assert_eq!(
///     failure.to_string(),
///     "test `the 21st waits`, step 2, request 1: expected retry_after 200ms, \
///      got refused by `each`, retry_after 100ms, asked `each`"
/// );
/// ```
#[must_use]
pub fn run_tests(rules: &Rules) -> Vec<TestFailure> {
    rules.tests.iter().filter_map(|test| run(rules, test)).collect()
}

fn run(rules: &Rules, test: &RuleTest) -> Option<TestFailure> {
    let fail = |error: SetError| TestFailure {
        test: test.name.clone(),
        step: 0,
        request: 0,
        expected: "rules that work".into(),
        got: error.to_string(),
    };
    // A step has one key for each rule.
    let most_keys = test.steps.len().saturating_mul(4).max(FEWEST_KEYS);
    let mut rules = rules.clone();
    rules.tests.clear();
    for rule in &mut rules.rules {
        rule.max_keys = Some(rule.max_keys.map_or(most_keys, |keys| keys.min(most_keys)));
    }
    let mut simulation = match Simulation::new(rules, test.starts) {
        Ok(simulation) => simulation,
        Err(error) => return Some(fail(error)),
    };
    for (number, step) in (1..).zip(&test.steps) {
        let (request, ending) = (request(step), ending(step));
        let now = Some(Timestamp::ZERO + step.at);
        let ask = Ask { now, cost: step.cost.unwrap_or(1), ..Ask::default() };
        for repetition in 1..=step.times {
            let fail = |expected: String, got: String| {
                let test = test.name.clone();
                TestFailure { test, step: number, request: repetition, expected, got }
            };
            let failure = simulation.ask(&request, ask, ending, |verdict| {
                let is_right = is_as_expected(&step.expect, verdict);
                (!is_right).then(|| fail(expected(&step.expect), got(verdict)))
            });
            if failure.is_some() {
                return failure;
            }
            if simulation.ended_early() > 0 {
                return Some(fail("fewer requests under way".into(), "more than 262144".into()));
            }
        }
    }
    None
}

/// How a request of a step ends.
fn ending(step: &Step) -> Ending {
    let status = (!step.is_lost).then_some(step.status.unwrap_or(SERVED));
    Ending { after: step.lasts, status, cost: step.settles }
}

fn request(step: &Step) -> PlainRequest {
    let pairs = |pairs: &[(Box<str>, Box<str>)]| {
        pairs.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
    };
    let (method, target) = step.send.clone().unzip();
    PlainRequest {
        method: method.map(Into::into),
        host: None,
        target: target.map(|target| target.into_string().into_bytes()),
        client: step.client,
        headers: pairs(&step.headers),
        labels: pairs(&step.labels),
        domain: step.domain.clone().map(Into::into),
        entries: pairs(&step.entries),
    }
}

fn is_as_expected(expected: &Expected, verdict: &Verdict<'_, ManualClock>) -> bool {
    let Expected { outcome, refused_by, retry_after, delay, asked, .. } = expected;
    let is_asked = |names: &Vec<Box<str>>| {
        let mut expected: Vec<&str> = names.iter().map(|name| &**name).collect();
        let mut asked = asked_rules(verdict);
        expected.sort_unstable();
        asked.sort_unstable();
        expected == asked
    };
    outcome.is_none_or(|expected| outcome_of(verdict) == expected)
        && refused_by
            .as_deref()
            .is_none_or(|expected| verdict.refused_by().is_some_and(|rule| *rule.name == *expected))
        && retry_after.is_none_or(|expected| verdict.retry_after() == Some(expected))
        && delay.is_none_or(|expected| verdict.is_admitted() && verdict.delay() == expected)
        && asked.as_ref().is_none_or(is_asked)
}

fn outcome_of(verdict: &Verdict<'_, ManualClock>) -> Outcome {
    match verdict.outcome() {
        Ruling::Admitted => Outcome::Admitted,
        Ruling::Never => Outcome::Never,
        Ruling::Refused | Ruling::Unavailable | Ruling::NoKey | Ruling::Blocked => Outcome::Refused,
    }
}

fn asked_rules<'s>(verdict: &Verdict<'s, ManualClock>) -> Vec<&'s str> {
    let rules = verdict.rules();
    verdict.lines().iter().map(|line| &*rules[line.rule].name).collect()
}

fn expected(expected: &Expected) -> String {
    let Expected { outcome, refused_by, retry_after, delay, asked, .. } = expected;
    let parts = [
        outcome.map(|outcome| word(outcome).into()),
        refused_by.as_ref().map(|rule| format!("refused by `{rule}`")),
        wait("retry_after", *retry_after),
        wait("delay", *delay),
        asked.as_ref().map(|names| list(names.iter().map(|name| &**name))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn got(verdict: &Verdict<'_, ManualClock>) -> String {
    let outcome = match verdict.refused_by() {
        None => word(outcome_of(verdict)).into(),
        Some(rule) => format!("{} by `{}`", word(outcome_of(verdict)), rule.name),
    };
    let waits = [
        wait("retry_after", verdict.retry_after()),
        wait("delay", Some(verdict.delay()).filter(|delay| !delay.is_zero())),
    ];
    let parts = [Some(outcome), Some(list(asked_rules(verdict).into_iter()))];
    let [outcome, asked] = parts;
    let all = outcome.into_iter().chain(waits.into_iter().flatten()).chain(asked);
    all.collect::<Vec<_>>().join(", ")
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Admitted => "admitted",
        Outcome::Refused => "refused",
        Outcome::Never => "never",
    }
}

fn wait(name: &str, time: Option<Duration>) -> Option<String> {
    time.map(|time| format!("{name} {time:?}"))
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "asked none".into() } else { format!("asked {}", names.join(" ")) }
}
