//! Shadow rules beside rules that refuse.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::Outcome;
use tollgate_tower::{Backend, MissingKey, OnBackendError, Rule, StoreReply};

use crate::support::{by_header, by_peer, hourly_bucket, layer_with, status};

/// Admits every request.
pub(crate) struct Everything;

impl Backend for Everything {
    type Error = Infallible;
    type Receipt = ();

    async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply, Infallible> {
        Ok(StoreReply::new(Outcome::Allowed, 9, 9, Duration::ZERO))
    }
}

/// Returns the outcomes of a shadow rule beside one that refuses all but the first request.
async fn outcomes_beside(trial: Rule, is_first: bool, has_backend: bool, headers: &[(&str, &str)]) -> String {
    let enforced = Rule::new("enforced", hourly_bucket(1));
    let trial = trial.shadow();
    let (first, last) = if is_first { (trial, enforced) } else { (enforced, trial) };
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&outcomes);
    let mut layer = layer_with(first).rule(last).on_decision(move |decision| {
        if decision.is_shadow() {
            seen.lock().unwrap().push(decision.outcome().as_str());
        }
    });
    if has_backend {
        layer = layer.rule(Rule::backend("store", Everything, OnBackendError::Refuse));
    }
    let layer = layer.build().unwrap();
    for expected in [200, 429, 429] {
        assert_eq!(status(&layer, "/", headers).await, expected);
    }
    let outcomes = outcomes.lock().unwrap();
    outcomes.join(" ")
}

#[tokio::test]
async fn a_shadow_rule_decides_what_another_rule_refuses() {
    let keyed = || Rule::new("trial", hourly_bucket(1)).key(by_header("k"));
    let headers = [("peer", "192.0.2.1")];
    for is_first in [true, false] {
        for has_backend in [false, true] {
            let beside = |trial| outcomes_beside(trial, is_first, has_backend, &headers);
            for (trial, expected) in [
                (Rule::new("trial", hourly_bucket(1)).key(by_peer()), "allowed limited limited"),
                // The refused requests are not charged to it.
                (Rule::new("trial", hourly_bucket(2)).key(by_peer()), "allowed allowed allowed"),
                (keyed().cost(|_| 2), "cost_above_limit cost_above_limit cost_above_limit"),
                (keyed().missing_key(MissingKey::Refuse), "no_key no_key no_key"),
                (keyed().missing_key(MissingKey::Skip), ""),
            ] {
                let outcomes = beside(trial).await;
                assert_eq!(outcomes, expected, "first: {is_first}, with a backend: {has_backend}");
            }
        }
    }
}
