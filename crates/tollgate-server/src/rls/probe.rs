//! Calls without connections, for tests and fuzz targets.

use std::sync::Arc;

use http_body_util::BodyExt;
use prost::Message;
use tollgate::ManualClock;
use tollgate_net::listen::Peer;
use tollgate_rules::LiveRules;
use tollgate_rules_file::{Memory, read};

use super::decide::decide;
use super::proto::{Code, Entry, RateLimitDescriptor, RateLimitRequest};
use crate::clock::ServerClock;
use crate::core::{Core, ready};
use crate::metrics::Listener;

/// Whose calls they are.
const FROM: (Listener, Peer) = (Listener::Grpc, Peer::Unix);

/// What calls are decided by: two rules, on a clock that shows what it is told.
pub struct CallProbe {
    core: Core,
    /// The clock.
    pub clock: ManualClock,
}

/// What a call was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// It is no call, or one that is not decided.
    Error,
    /// It is admitted.
    Ok,
    /// It is refused.
    OverLimit,
}

impl CallProbe {
    /// The rules `all`, of 1,000 a day for all calls together, and `each`, of `10/s` for each `k`.
    ///
    /// # Panics
    ///
    /// Without memory.
    #[must_use]
    pub fn new() -> Self {
        const RULES: &str = "version = 1\nrule = [\
            { name = 'all', key = 'everyone', limits = 'fixed-window:1000/d' },\
            { name = 'each', match.entry.k = '*', key = 'entry.k', limits = '10/s' }]";
        let clock = ManualClock::new();
        let shown: ServerClock = Arc::new(clock.clone());
        let rules = read("rules.toml", &Memory::new("rules.toml", RULES)).into_rules().expect("no mistakes");
        let live = LiveRules::new(rules, [0; 32], Arc::clone(&shown)).expect("there is memory");
        Self { core: Core::new(live, shown, 16, false).expect("there is memory"), clock }
    }

    /// What the bytes of a message are answered.
    ///
    /// # Panics
    ///
    /// If the answer is none that Envoy can read.
    #[must_use]
    pub fn message(&self, bytes: &[u8]) -> CallAnswer {
        let Ok(call) = RateLimitRequest::decode(bytes) else { return CallAnswer::Error };
        let Ok(response) = ready(decide(&self.core, FROM, &call)) else { return CallAnswer::Error };
        assert_eq!(response.statuses.len(), call.descriptors.len(), "a status each");
        let codes = || response.statuses.iter().map(|status| status.code());
        assert!(codes().all(|code| code != Code::Unknown), "Envoy lets UNKNOWN pass");
        let times = response.statuses.iter().filter_map(|status| status.duration_until_reset.as_ref());
        assert!(times.into_iter().all(|time| time.nanos == 0 && time.seconds >= 0), "whole seconds");
        let is_over = codes().any(|code| code == Code::OverLimit);
        assert_eq!(response.overall_code(), if is_over { Code::OverLimit } else { Code::Ok });
        if is_over { CallAnswer::OverLimit } else { CallAnswer::Ok }
    }

    /// What a body of `/json` is answered: with a body of JSON.
    ///
    /// # Panics
    ///
    /// If the answer is no JSON, or has another status.
    #[must_use]
    pub fn json(&self, body: &[u8]) -> (CallAnswer, serde_json::Value) {
        let answer = ready(super::json(&self.core, Peer::Unix, body));
        let status = answer.status().as_u16();
        // A body that is complete is there at once.
        let Ok(body) = ready(answer.into_body().collect());
        let body = serde_json::from_slice(&body.to_bytes()).expect("the answer is JSON");
        match status {
            200 => (CallAnswer::Ok, body),
            429 => (CallAnswer::OverLimit, body),
            400 => (CallAnswer::Error, body),
            _ => panic!("status {status}"),
        }
    }

    /// The remaining units of the rule `all`.
    ///
    /// # Panics
    ///
    /// If a look is refused.
    #[must_use]
    pub fn left(&self) -> u32 {
        let entries = vec![Entry { key: "look".into(), value: "1".into() }];
        let descriptor = RateLimitDescriptor { entries, limit: None, hits_addend: Some(0) };
        let look = RateLimitRequest { domain: "d".into(), descriptors: vec![descriptor], hits_addend: 0 };
        let response = ready(decide(&self.core, FROM, &look)).expect("it is in order");
        response.statuses[0].limit_remaining
    }
}

impl Default for CallProbe {
    fn default() -> Self {
        Self::new()
    }
}
