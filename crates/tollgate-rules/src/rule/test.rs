//! Tests that stand in a rules file, as data.

use std::net::IpAddr;
use std::time::Duration;

/// A test of the rules: requests in the order of time, and what must become of each.
///
/// It runs on fresh limiters and a clock of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleTest {
    /// What the test says of the rules.
    pub name: Box<str>,
    /// The instant at which its clock starts, since 1970 in UTC. By default 2026 begins.
    pub starts: Duration,
    /// The steps. No step is before the one before it.
    pub steps: Vec<Step>,
}

impl RuleTest {
    /// A test of these steps, whose clock starts at an instant since 1970 in UTC.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>, starts: Duration, steps: Vec<Step>) -> Self {
        Self { name: name.into(), starts, steps }
    }
}

/// A request of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The time since the test's start.
    pub at: Duration,
    /// How often the request is made at that instant; at least 1.
    pub times: u64,
    /// The method and the target.
    pub send: Option<(Box<str>, Box<str>)>,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// Headers: names in lower case, and values. A name may occur several times.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// Labels: names and values.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// The domain of a call by Envoy.
    pub domain: Option<Box<str>>,
    /// The entries of its descriptor: keys and values.
    pub entries: Vec<(Box<str>, Box<str>)>,
    /// The cost that the caller names, where no rule computes one.
    pub cost: Option<u64>,
    /// The status of the response, for rules with `charge_if`.
    pub status: Option<u16>,
    /// Whether its end is never told: what it charged stays.
    pub is_lost: bool,
    /// How long it lasts. Nothing: it ends at once.
    pub lasts: Duration,
    /// What it really cost, told at its end.
    pub settles: Option<u64>,
    /// What must become of it. Empty: anything.
    pub expect: Expected,
}

impl Step {
    /// A request so long after the test's start that says nothing, ends at once, and may become
    /// anything.
    #[must_use]
    pub fn at(at: Duration) -> Self {
        Self {
            at,
            times: 1,
            send: None,
            client: None,
            headers: Vec::new(),
            labels: Vec::new(),
            domain: None,
            entries: Vec::new(),
            cost: None,
            status: None,
            is_lost: false,
            lasts: Duration::ZERO,
            settles: None,
            expect: Expected::default(),
        }
    }
}

/// The expected outcome of a request of a test. A field that is `None` is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expected {
    /// Whether it is admitted.
    pub outcome: Option<Outcome>,
    /// The rule that the refusal names: that of the longest wait.
    pub refused_by: Option<Box<str>>,
    /// The exact wait of the refusal.
    pub retry_after: Option<Duration>,
    /// The wait in a queue of a request that is admitted.
    pub delay: Option<Duration>,
    /// The names of all rules that are asked, in any order.
    pub asked: Option<Vec<Box<str>>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is admitted.
    Admitted,
    /// It is refused.
    Refused,
    /// It is refused, and always would be: it costs more than a whole limit.
    Never,
}
