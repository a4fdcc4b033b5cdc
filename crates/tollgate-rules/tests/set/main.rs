//! Limiters behind rules: what they decide, alone, from many threads, and while rules are
//! exchanged.

mod alone;
mod batch;
mod cases;
mod crossings;
mod exchange;
mod identities;
mod in_code;
mod model;
mod one_rule;
mod session;
mod settle;
mod stored;
mod threads;
mod together;

use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{PlainRequest, RuleSet, Rules, Scratch, Verdict};
use tollgate_rules_file::{Memory, read};

/// The rules of a text without mistakes.
fn rules(text: &str) -> Rules {
    let reading = read("rules.toml", &Memory::new("rules.toml", format!("version = 1\n{text}")));
    reading.into_rules().unwrap_or_else(|reading| panic!("{text}\n{reading}"))
}

/// Rules with their limiters, a clock that shows its zero, and the buffers of a thread.
struct Desk {
    set: RuleSet<ManualClock>,
    clock: ManualClock,
    scratch: Scratch,
}

impl Desk {
    fn new(text: &str) -> Self {
        let clock = ManualClock::new();
        let set = RuleSet::new(rules(text), clock.clone()).unwrap();
        Self { set, clock, scratch: Scratch::default() }
    }

    fn check(&mut self, request: &PlainRequest) -> Verdict<'_, ManualClock> {
        self.set.check(request, &mut self.scratch)
    }

    /// Moves the clock to so many seconds after its zero.
    fn at(&self, seconds: f64) {
        self.clock.set(tollgate::Timestamp::ZERO + Duration::from_secs_f64(seconds));
    }

    /// The remaining units of each rule.
    fn left(&mut self, request: &PlainRequest) -> Vec<u64> {
        let ask = tollgate_rules::Ask { is_peek: true, cost: 0, ..Default::default() };
        let verdict = self.set.ask(request, ask, &mut self.scratch);
        verdict.lines().iter().map(|line| line.remaining).collect()
    }
}

/// A request of this client.
fn from(client: &str) -> PlainRequest {
    PlainRequest { client: Some(client.parse().unwrap()), ..PlainRequest::default() }
}

fn get(target: &str) -> PlainRequest {
    PlainRequest {
        method: Some("GET".into()),
        target: Some(target.into()),
        client: Some([203, 0, 113, 9].into()),
        ..PlainRequest::default()
    }
}

fn header(name: &str, value: &str) -> (String, Vec<u8>) {
    (name.into(), value.into())
}

const SECOND: Duration = Duration::from_secs(1);
const X: &str = "203.0.113.9";
const Y: &str = "198.51.100.7";
