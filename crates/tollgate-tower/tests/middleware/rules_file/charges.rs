//! Charges that the response decides.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tollgate::ManualClock;
use tollgate_tower::{NotServed, RulesLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{File, X, layer, send, status, statuses};
use crate::support::{header, request};

fn failed_log_ins() -> RulesLayer {
    layer(
        "rule = [
            { name = 'failed', key = 'client', limits = 'fixed-window:2/min', charge_if.status = [401, 403] },
            { name = 'all', key = 'everyone', limits = 'fixed-window:100/min' },
        ]",
    )
}

const FAILS: [(&str, &str); 2] = [X, ("x-want", "401")];
const WORKS: [(&str, &str); 2] = [X, ("x-want", "200")];

/// The remaining units of the rule that charges every request.
async fn left_of_all(layer: &RulesLayer) -> String {
    let response = send(layer, "/", &[("peer", "192.0.2.9"), ("x-want", "200")]).await;
    header(&response, "ratelimit")
        .unwrap()
        .split("\"all\";r=")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn only_statuses_that_the_rule_lists_are_charged() {
    let layer = failed_log_ins();
    assert_eq!(statuses(&layer, 5, "/", &WORKS).await, [200; 5]);
    assert_eq!(statuses(&layer, 2, "/", &FAILS).await, [401; 2]);
    assert_eq!(status(&layer, "/", &WORKS).await, 429, "no matter how it would end");
    assert_eq!(left_of_all(&layer).await, "92", "seven requests and this one");
}

#[tokio::test]
async fn what_was_not_served_comes_back_if_asked_for() {
    let rules = "rule = [
        { name = 'all', key = 'client', limits = 'fixed-window:9/min' },
        { name = 'failed', key = 'client', limits = 'fixed-window:9/min', charge_if.status = [200, 502] },
        { name = 'at-once', key = 'client', limits = 'in-flight:9' },
    ]";
    let unserved = service_fn(|_: Request<String>| {
        let mut response = Response::new(String::new());
        response.extensions_mut().insert(NotServed);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    for (is_asked_for, left) in [(true, 8), (false, 7)] {
        let file = File::new(rules);
        let builder = file.layer().clock(ManualClock::new()).on_reload(|_| {});
        let builder = if is_asked_for { builder.gives_back_unserved() } else { builder };
        let layer = builder.build().unwrap();
        let held = layer.layer(unserved).oneshot(request("/", &[X])).await.unwrap();
        drop(held);
        let next = send(&layer, "/", &[X, ("x-want", "200")]).await;
        let counts = header(&next, "ratelimit").unwrap();
        for rule in ["all", "failed"] {
            assert!(counts.contains(&format!("\"{rule}\";r={left}")), "{is_asked_for}: {counts}");
        }
        assert!(counts.contains("\"at-once\";r=8"), "{counts}");
    }
}

#[tokio::test]
async fn an_error_and_a_panic_are_given_back() {
    let layer = failed_log_ins();
    let broken = service_fn(|_: Request<String>| async { Err::<Response<String>, _>("broken") });
    let in_its_call = service_fn(|_: Request<String>| {
        assert!(std::hint::black_box(false), "the handler is broken");
        std::future::ready(Ok::<_, Infallible>(Response::new(String::new())))
    });
    let in_its_future = service_fn(|_: Request<String>| async {
        assert!(std::hint::black_box(false), "the handler is broken");
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    for _ in 0..3 {
        assert!(layer.layer(broken).oneshot(request("/", &FAILS)).await.is_err());
        assert!(
            tokio::spawn(layer.layer(in_its_call).oneshot(request("/", &FAILS)))
                .await
                .unwrap_err()
                .is_panic()
        );
        assert!(
            tokio::spawn(layer.layer(in_its_future).oneshot(request("/", &FAILS)))
                .await
                .unwrap_err()
                .is_panic()
        );
    }
    assert_eq!(statuses(&layer, 3, "/", &FAILS).await, [401, 401, 429]);
    assert_eq!(left_of_all(&layer).await, "88", "the other rule charges all");
}

#[tokio::test]
async fn a_client_that_leaves_while_served_stays_charged() {
    let layer = failed_log_ins();
    let hangs =
        service_fn(|_: Request<String>| std::future::pending::<Result<Response<String>, Infallible>>());
    for _ in 0..2 {
        let call = layer.layer(hangs).oneshot(request("/", &FAILS));
        assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    }
    assert_eq!(status(&layer, "/", &WORKS).await, 429);
}

/// Is not ready, or fails before it is.
#[derive(Clone)]
struct NotReady(bool);

impl Service<Request<String>> for NotReady {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<String>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if self.0 { Poll::Ready(Err("closed")) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        unreachable!("it is never ready")
    }
}

#[tokio::test]
async fn a_request_that_was_not_served_is_given_back() {
    let layer = failed_log_ins();
    for _ in 0..3 {
        assert_eq!(layer.layer(NotReady(true)).call(request("/", &FAILS)).await.unwrap_err(), "closed");
        let call = layer.layer(NotReady(false)).oneshot(request("/", &FAILS));
        assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err(), "its client left");
    }
    assert_eq!(left_of_all(&layer).await, "99");
    assert_eq!(statuses(&layer, 3, "/", &FAILS).await, [401, 401, 429]);
}

#[tokio::test]
async fn concurrent_attempts_do_not_exceed_a_files_limit() {
    let layer = failed_log_ins();
    let inner = service_fn(|_: Request<String>| async {
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(Response::builder().status(401).body(String::new()).unwrap())
    });
    let tasks: Vec<_> =
        (0..20).map(|_| tokio::spawn(layer.layer(inner).oneshot(request("/", &FAILS)))).collect();
    let mut tried = 0;
    for task in tasks {
        tried += usize::from(task.await.unwrap().unwrap().status() == 401);
    }
    assert_eq!(tried, 2);
}
