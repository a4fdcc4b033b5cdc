//! Refused requests that are kept for later.

use std::time::Duration;

/// How much a rule keeps of the requests that it refuses for a time (`on_refusal = "park"`), and
/// for how long. What does not fit is refused. They are kept in the rule's store, if it has one,
/// and otherwise by the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Park {
    /// How many requests of the rule are kept, dead ones included.
    pub requests: usize,
    /// How many of one key.
    pub requests_per_key: usize,
    /// How many bytes of heads and bodies are kept for the rule.
    pub bytes: u64,
    /// How many of one key.
    pub bytes_per_key: u64,
    /// The longest body of a request that is kept, in bytes.
    pub body: usize,
    /// How long a request is kept before it expires.
    pub age: Duration,
    /// How often a request is sent that the upstream does not take.
    pub tries: u32,
    /// The time before the second try. It doubles with each, up to a minute.
    pub retry: Duration,
    /// The names of the headers that are kept, in lower case; `None`: all.
    pub headers: Option<Vec<Box<str>>>,
}

impl Default for Park {
    fn default() -> Self {
        Self {
            requests: 1_000,
            requests_per_key: 100,
            bytes: 64 << 20,
            // As many of the longest bodies as a key may keep requests, with their heads.
            bytes_per_key: 8 << 20,
            body: 64 << 10,
            age: Duration::from_secs(86_400),
            tries: 5,
            retry: Duration::from_secs(1),
            headers: None,
        }
    }
}
