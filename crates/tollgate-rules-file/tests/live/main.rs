//! Rules files that are in force: read again, watched, tested, and over a restart.

mod realign;
mod reload;
mod saved;
mod trial;
mod watch;

use tollgate_rules::{PlainRequest, Rules};
use tollgate_rules_file::{Memory, read};

/// The rules of a text without mistakes.
fn rules(text: &str) -> Rules {
    let reading = read("rules.toml", &Memory::new("rules.toml", format!("version = 1\n{text}")));
    reading.into_rules().unwrap_or_else(|reading| panic!("{text}\n{reading}"))
}

/// A request of this client.
fn from(client: &str) -> PlainRequest {
    PlainRequest { client: Some(client.parse().unwrap()), ..PlainRequest::default() }
}

const X: &str = "203.0.113.9";
const Y: &str = "198.51.100.7";
