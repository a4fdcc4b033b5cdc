//! Hooks, counters and events: once for each decision, by rule, never by key.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tollgate_tower::{MissingKey, Rule, RuleOutcome, TollgateLayer};

use crate::support::{by_header, by_peer, hourly_bucket, layer_with, status};
#[cfg(feature = "tracing")]
use {
    crate::support::peer_address,
    tollgate_tower::{ClientAddress, KeyBy},
};

/// How often each rule had each outcome, as a shadow rule or not.
type Tally = Arc<Mutex<BTreeMap<(String, &'static str, bool), u64>>>;

fn rules() -> tollgate_tower::Builder {
    layer_with(
        Rule::new("enforced", hourly_bucket(2))
            .key(by_peer())
            .cost(|head| if head.path() == "/vast" { 9 } else { 1 }),
    )
    .rule(Rule::new("trial", hourly_bucket(1)).key(by_peer()).shadow())
    .rule(Rule::new("keyed", hourly_bucket(9)).key(by_header("k")).missing_key(MissingKey::Refuse))
}

async fn some_traffic(layer: &TollgateLayer) {
    let client = [("peer", "192.0.2.1"), ("k", "1")];
    for path in ["/", "/", "/", "/vast"] {
        status(layer, path, &client).await;
    }
    status(layer, "/", &[("peer", "192.0.2.2")]).await;
}

fn expected() -> BTreeMap<(String, &'static str, bool), u64> {
    [
        ("enforced", "allowed", false, 3),
        ("enforced", "limited", false, 1),
        ("enforced", "cost_above_limit", false, 1),
        ("trial", "allowed", true, 2),
        ("trial", "limited", true, 3),
        // Also of the two requests that another rule refuses: each says what it would do.
        ("keyed", "allowed", false, 4),
        ("keyed", "no_key", false, 1),
    ]
    .into_iter()
    .map(|(rule, outcome, shadow, count)| ((rule.to_owned(), outcome, shadow), count))
    .collect()
}

#[tokio::test]
async fn on_decision_is_called_once_for_each_rule_that_decides() {
    let tally = Tally::default();
    let counts = Arc::clone(&tally);
    let layer = rules()
        .on_decision(move |decision| {
            let key = (decision.rule().to_owned(), decision.outcome().as_str(), decision.is_shadow());
            *counts.lock().unwrap().entry(key).or_default() += 1;
            assert_eq!(
                decision.cost(),
                if decision.outcome() == RuleOutcome::CostAboveLimit { 9 } else { 1 }
            );
        })
        .build()
        .unwrap();
    some_traffic(&layer).await;
    assert_eq!(*tally.lock().unwrap(), expected());
}

#[tokio::test]
async fn on_limited_is_called_once_for_each_refused_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    let layer = rules()
        .on_limited(move |refusal| {
            hook.lock().unwrap().push((
                refusal.rule().to_owned(),
                refusal.reason(),
                refusal.head().path().to_owned(),
            ))
        })
        .build()
        .unwrap();
    some_traffic(&layer).await;
    let seen: Vec<_> =
        seen.lock().unwrap().iter().map(|(rule, reason, path)| format!("{rule} {reason:?} {path}")).collect();
    assert_eq!(seen, ["enforced Limited /", "enforced CostAboveLimit /vast", "keyed NoKey /"]);
}

#[cfg(feature = "metrics")]
mod counted {
    use metrics::{
        Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;

    /// Counts into a tally, and counts registrations.
    #[derive(Default)]
    struct Counts(Tally, Mutex<usize>);

    struct One(Tally, (String, &'static str, bool));

    impl CounterFn for One {
        fn increment(&self, by: u64) {
            *self.0.lock().unwrap().entry(self.1.clone()).or_default() += by;
        }

        fn absolute(&self, _: u64) {}
    }

    impl Recorder for Counts {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            *self.1.lock().unwrap() += 1;
            let label = |name| key.labels().find(|label| label.key() == name).unwrap().value().to_owned();
            if key.name() == "tollgate_not_applied_total" {
                assert_eq!(key.labels().count(), 2, "rule and mode");
                let labels = (label("rule"), "not applied", label("mode") == "shadow");
                return Counter::from_arc(Arc::new(One(Arc::clone(&self.0), labels)));
            }
            assert_eq!(key.name(), "tollgate_requests_total");
            assert_eq!(key.labels().count(), 3, "no label for the key");
            let outcomes = ["allowed", "limited", "cost_above_limit", "no_key", "backend_failed"];
            let outcome = outcomes.into_iter().find(|outcome| *outcome == label("outcome")).unwrap();
            let shadow = label("mode") == "shadow";
            assert!(shadow || label("mode") == "enforced");
            Counter::from_arc(Arc::new(One(Arc::clone(&self.0), (label("rule"), outcome, shadow))))
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_rule_that_never_applies_is_counted() {
        let counts = Counts::default();
        let layer = layer_with(Rule::new("all", hourly_bucket(1)))
            .rule(Rule::new("nested", hourly_bucket(1)).when(|head| head.path() == "/api/search"))
            .rule(Rule::new("skipped", hourly_bucket(1)).skip(|_| true).shadow())
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        metrics::with_local_recorder(&counts, || {
            for expected in [200, 429] {
                assert_eq!(runtime.block_on(status(&layer, "/search", &[])), expected);
            }
        });
        let tally: Vec<_> = counts.0.lock().unwrap().clone().into_iter().collect();
        let of = |rule: &str, outcome, shadow, count| ((rule.to_owned(), outcome, shadow), count);
        assert_eq!(
            tally,
            [
                of("all", "allowed", false, 1),
                of("all", "limited", false, 1),
                of("nested", "not applied", false, 2),
                of("skipped", "not applied", true, 2),
            ]
        );
    }

    #[test]
    fn counters_have_rule_mode_and_outcome_and_are_registered_once() {
        let counts = Counts::default();
        let layer = rules().build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        metrics::with_local_recorder(&counts, || {
            runtime.block_on(some_traffic(&layer));
            runtime.block_on(some_traffic(&layer));
        });
        assert_eq!(*counts.1.lock().unwrap(), 15, "five for each rule, once");
        let tally = counts.0.lock().unwrap();
        assert_eq!(tally[&("enforced".to_owned(), "cost_above_limit", false)], 2);
        assert_eq!(tally[&("keyed".to_owned(), "no_key", false)], 2);
        assert_eq!(tally[&("trial".to_owned(), "limited", true)], 7, "a refusal by `keyed` refunds `trial`");
    }
}

#[cfg(feature = "tracing")]
pub(crate) mod events {
    use tollgate_testing::logs::{self, Level};

    /// Returns the events during `run`, one line each.
    pub(crate) fn during(run: impl Future<Output = ()>) -> Vec<String> {
        let log = logs::capture(Level::DEBUG);
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run);
        log.lines()
    }
}

#[cfg(feature = "tracing")]
#[test]
fn refusals_are_logged_and_a_missing_key_is_logged_once() {
    let layer = layer_with(Rule::new("api", hourly_bucket(1)).key(by_header("k"))).build().unwrap();
    let lines = events::during(async {
        for _ in 0..3 {
            status(&layer, "/a", &[]).await;
        }
    });
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("WARN") && line.contains("no key")).count(),
        1,
        "{lines:?}"
    );
    let refused: Vec<_> = lines.iter().filter(|line| line.starts_with("DEBUG")).collect();
    assert_eq!(refused.len(), 2, "{lines:?}");
    assert!(refused[0].contains("outcome=\"limited\"") && refused[0].contains("path=\"/a\""), "{lines:?}");
}

#[cfg(feature = "tracing")]
#[test]
fn a_rule_that_never_applies_logs_the_path() {
    let rule = Rule::new("nested", hourly_bucket(1)).when(|head| head.path() == "/api/search");
    let layer = layer_with(rule).build().unwrap();
    let lines = events::during(async {
        status(&layer, "/search", &[]).await;
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["DEBUG", "rule=\"nested\"", "path=\"/search\"", "does not apply"] {
        assert!(lines[0].contains(part), "{lines:?}");
    }
}

#[cfg(feature = "tracing")]
#[test]
fn a_missing_address_is_logged_as_an_error_once() {
    let layer = layer_with(Rule::new("api", hourly_bucket(9)).key(by_peer())).build().unwrap();
    let lines = events::during(async {
        for _ in 0..3 {
            status(&layer, "/", &[]).await;
        }
    });
    let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("ERROR")).collect();
    assert_eq!(errors.len(), 1, "{lines:?}");
    assert!(errors[0].contains("extension=\"core::net::socket_addr::SocketAddr\""), "{lines:?}");
}

#[cfg(feature = "tracing")]
#[test]
fn an_untrusted_proxy_is_logged_once() {
    let warnings = |by: ClientAddress, header: &'static str| {
        let layer = layer_with(Rule::new("api", hourly_bucket(9)).key(KeyBy::client(by))).build().unwrap();
        let lines = events::during(async {
            status(&layer, "/", &[("peer", "10.0.0.1")]).await;
            for _ in 0..2 {
                status(&layer, "/", &[("peer", "10.0.0.1"), (header, "192.0.2.1")]).await;
            }
        });
        lines.iter().filter(|line| line.starts_with("WARN") && line.contains("behind a proxy")).count()
    };
    assert_eq!(
        [
            warnings(peer_address(), "x-forwarded-for"),
            warnings(peer_address(), "forwarded"),
            warnings(peer_address(), "x-other")
        ],
        [1, 1, 0]
    );
    assert_eq!(warnings(peer_address().x_forwarded_for(["10.0.0.1"]).unwrap(), "x-forwarded-for"), 0);
}
