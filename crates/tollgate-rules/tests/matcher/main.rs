//! The matcher: which rules concern a request, under which key and at what cost.

mod allocations;
mod attacks;
mod cases;
mod explain;
mod naive;
mod random;
mod replaces;

use tollgate_rules::{Concerned, Found, Matcher, PlainRequest, Rules};
use tollgate_rules_file::{Memory, read};

/// The rules of a text without mistakes.
fn rules(text: &str) -> Rules {
    let text = format!("version = 1\n{text}");
    let source = Memory::new("rules.toml", text.clone()).file("banned.txt", "203.0.113.9\n192.0.2.7\n");
    read("rules.toml", &source).into_rules().unwrap_or_else(|reading| panic!("{text}\n{reading}"))
}

/// A matcher, and the names of its rules.
struct Names {
    matcher: Matcher,
    names: Vec<String>,
}

impl Names {
    fn new(text: &str) -> Self {
        let rules = rules(text);
        let names = rules.rules.iter().map(|rule| rule.name.to_string()).collect();
        Self { matcher: Matcher::new(&rules).unwrap_or_else(|error| panic!("{text}\n{error}")), names }
    }

    /// The names of the rules that concern a request.
    fn of(&self, request: &PlainRequest) -> Vec<&str> {
        let mut found = Found::default();
        self.matcher.find(request, &mut found);
        found.concerned().iter().map(|concerned| self.names[concerned.rule].as_str()).collect()
    }

    /// The one rule that concerns a request, and its key.
    fn one(&self, request: &PlainRequest) -> (Concerned, Vec<u8>) {
        let mut found = Found::default();
        self.matcher.find(request, &mut found);
        let [concerned] = found.concerned() else { panic!("{:?} of {request:?}", found.concerned()) };
        (concerned.clone(), found.key(concerned).to_vec())
    }

    fn key(&self, request: &PlainRequest) -> Vec<u8> {
        self.one(request).1
    }

    fn cost(&self, request: &PlainRequest) -> u64 {
        self.one(request).0.cost
    }
}

/// A request with a target.
fn get(target: impl Into<Vec<u8>>) -> PlainRequest {
    PlainRequest { method: Some("GET".into()), target: Some(target.into()), ..PlainRequest::default() }
}

fn from(client: &str) -> PlainRequest {
    PlainRequest { client: Some(client.parse().unwrap()), ..get("/") }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

fn headers(headers: &[(&str, &str)]) -> PlainRequest {
    PlainRequest { headers: pairs(headers), ..get("/") }
}

fn labels(labels: &[(&str, &str)]) -> PlainRequest {
    PlainRequest { labels: pairs(labels), ..get("/") }
}
