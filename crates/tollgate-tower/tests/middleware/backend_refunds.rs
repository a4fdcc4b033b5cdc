//! Backends that take charges back: of requests that they admitted and that were not served.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{LeakyBucket, Outcome, Rate};
use tollgate_tower::{Backend, OnBackendError, Rule, StoreReply};

use crate::support::{TokioClock, hourly_bucket, layer_with, status, statuses};

/// What a backend does with every request.
#[derive(Clone, Copy, Default)]
enum Does {
    #[default]
    Admits,
    /// And panics when it is to give a charge back.
    AdmitsForGood,
    Refuses,
    Fails,
    Hangs,
}

/// Numbers its charges, and knows which of them stay.
#[derive(Clone, Default)]
struct Store {
    does: Does,
    charges: Arc<Mutex<(u64, BTreeSet<u64>)>>,
}

impl Store {
    fn which(does: Does) -> Self {
        Self { does, ..Self::default() }
    }

    fn charges(&self) -> usize {
        self.charges.lock().unwrap().1.len()
    }

    fn rule(&self, name: &str) -> Rule {
        Rule::backend(name, self.clone(), OnBackendError::Refuse)
    }
}

impl Backend for Store {
    type Error = io::Error;
    type Receipt = u64;

    async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply<u64>, io::Error> {
        let (outcome, receipt) = match self.does {
            Does::Admits | Does::AdmitsForGood => {
                let mut charges = self.charges.lock().unwrap();
                charges.0 += 1;
                let number = charges.0;
                charges.1.insert(number);
                (Outcome::Allowed, Some(number))
            }
            Does::Refuses => (Outcome::Denied, None),
            Does::Fails => return Err(io::ErrorKind::ConnectionRefused.into()),
            Does::Hangs => std::future::pending().await,
        };
        Ok(StoreReply { receipt, ..StoreReply::new(outcome, 9, 0, Duration::from_secs(1)) })
    }

    fn refund(&self, receipt: u64) {
        assert!(!matches!(self.does, Does::AdmitsForGood), "no refund");
        assert!(self.charges.lock().unwrap().1.remove(&receipt), "given back twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_gives_back_what_a_later_one_refuses() {
    for (does, expected, charges) in
        [(Does::Refuses, 429, 0), (Does::Fails, 503, 0), (Does::Hangs, 503, 0), (Does::Admits, 200, 1)]
    {
        let first = Store::default();
        let second = Store::which(does);
        let layer = layer_with(first.rule("first"))
            .rule(second.rule("second"))
            .timer(tokio::time::sleep)
            .build()
            .unwrap();
        assert_eq!(status(&layer, "/", &[]).await, expected);
        assert_eq!(first.charges(), charges, "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_queue_is_refunded_by_backends() {
    let store = Store::default();
    let layer = layer_with(Rule::new("paced", [LeakyBucket::queue(Rate::per_second(1)).capacity(9)]))
        .rule(store.rule("there"))
        .clock(TokioClock::new())
        .timer(tokio::time::sleep)
        .build()
        .unwrap();
    assert_eq!(statuses(&layer, 2, &[]).await, [200, 200]);
    assert_eq!(store.charges(), 2, "both were served, the second after a wait");
    let gone = tokio::time::timeout(Duration::from_millis(1), status(&layer, "/", &[])).await;
    assert!(gone.is_err());
    assert_eq!(store.charges(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_backend_is_refunded_by_others() {
    let store = Store::default();
    let layer = layer_with(store.rule("first"))
        .rule(Store::which(Does::Hangs).rule("second"))
        .timer(tokio::time::sleep)
        .build()
        .unwrap();
    let mut request = Box::pin(status(&layer, "/", &[]));
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut request).await.is_err());
    assert_eq!(store.charges(), 1, "it waits for the second");
    drop(request);
    assert_eq!(store.charges(), 0);
}

#[tokio::test]
async fn a_refund_that_panics_keeps_no_other_charge() {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&errors);
    let layer = layer_with(Rule::new("here", hourly_bucket(1)))
        .rule(Store::which(Does::AdmitsForGood).rule("first"))
        .rule(Store::which(Does::Refuses).rule("second"))
        .on_backend_error(move |rule, error| seen.lock().unwrap().push(format!("{rule}: {error}")))
        .build()
        .unwrap();
    assert_eq!(statuses(&layer, 2, &[]).await, [429, 429]);
    let panic = "first: the backend panicked: no refund".to_owned();
    assert_eq!(*errors.lock().unwrap(), [panic.clone(), panic], "`here` did not refuse the second");
}

#[tokio::test]
async fn charge_if_gives_charges_back_to_a_backend() {
    let failed = |status: http::StatusCode, _: &http::HeaderMap| status == http::StatusCode::UNAUTHORIZED;
    let store = Store::default();
    // The second rule keeps its charges.
    let kept = Store::default();
    let layer = layer_with(store.rule("logins").charge_if(failed)).rule(kept.rule("all")).build().unwrap();
    for (want, charges) in [("200", 0), ("401", 1), ("200", 1), ("401", 2)] {
        assert_eq!(status(&layer, "/", &[("x-want", want)]).await.to_string(), want);
        assert_eq!(store.charges(), charges, "after {want}");
    }
    assert_eq!(kept.charges(), 4);

    // While the backend is down, the local limits take charges back.
    let limits = OnBackendError::LimitLocally(hourly_bucket(1).map(Into::into).into());
    let down = Rule::backend("logins", Store::which(Does::Fails), limits).charge_if(failed);
    let layer = layer_with(down).build().unwrap();
    for (want, expected) in [("200", 200), ("200", 200), ("401", 401), ("401", 429)] {
        assert_eq!(status(&layer, "/", &[("x-want", want)]).await, expected);
    }
}
