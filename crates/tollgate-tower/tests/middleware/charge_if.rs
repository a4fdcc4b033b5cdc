//! Rules with `charge_if`, which charge only some responses.

use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tollgate::{LeakyBucket, Rate};
use tollgate_tower::{Rule, TollgateLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{
    TokioClock, by_header, by_peer, header, hourly_bucket, layer_with, request, send, status,
};

fn failed_logins() -> TollgateLayer {
    let logins = Rule::new("logins", hourly_bucket(3))
        .key(by_peer())
        .charge_if(|status, _| status == StatusCode::UNAUTHORIZED);
    layer_with(logins).rule(Rule::new("all", hourly_bucket(100)).key(by_header("k"))).build().unwrap()
}

const FAILS: [(&str, &str); 2] = [("peer", "192.0.2.1"), ("x-want", "401")];
const WORKS: [(&str, &str); 2] = [("peer", "192.0.2.1"), ("x-want", "200")];

#[tokio::test]
async fn only_failed_logins_are_charged() {
    let layer = failed_logins();
    for _ in 0..10 {
        assert_eq!(status(&layer, "/login", &WORKS).await, 200);
    }
    for _ in 0..3 {
        assert_eq!(status(&layer, "/login", &FAILS).await, 401);
    }
    assert_eq!(status(&layer, "/login", &FAILS).await, 429);
    assert_eq!(status(&layer, "/login", &WORKS).await, 429, "a successful login is refused too");
    let others = send(&layer, request("/", &[("peer", "192.0.2.2"), ("x-want", "200")])).await;
    let ratelimit = header(&others, "ratelimit").unwrap();
    assert!(
        ratelimit.contains("\"all\";r=86"),
        "13 requests before it and itself, without the refused ones: {ratelimit}"
    );
}

#[tokio::test]
async fn concurrent_attempts_do_not_exceed_the_limit() {
    let layer = failed_logins();
    let inner = service_fn(|_: Request<String>| async {
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(Response::builder().status(401).body(String::new()).unwrap())
    });
    let tasks: Vec<_> =
        (0..20).map(|_| tokio::spawn(layer.layer(inner).oneshot(request("/login", &FAILS)))).collect();
    let mut tried = 0;
    for task in tasks {
        tried += usize::from(task.await.unwrap().unwrap().status() == 401);
    }
    assert_eq!(tried, 3);
}

/// A log gives back the newest request only, and the oldest ends first.
#[cfg(feature = "metrics")]
#[test]
fn units_that_refunds_may_lose_are_counted() {
    let log = Rule::new("logins", [tollgate::SlidingLog::new(Rate::per_day(1_000))]);
    let layer = layer_with(log.charge_if(|status, _| status != StatusCode::OK)).build().unwrap();
    let inner = service_fn(|request: Request<String>| async move {
        for _ in 0..request.headers()["x-turns"].to_str().unwrap().parse::<u32>().unwrap() {
            tokio::task::yield_now().await;
        }
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let call = |turns| layer.layer(inner).oneshot(request("/login", &[("x-turns", turns)]));
    let recorder = crate::series::Series::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let (first, second, third) = tokio::join!(call("1"), call("2"), call("3"));
            assert!(first.is_ok() && second.is_ok() && third.is_ok());
            // Tables are looked at once in so many decisions.
            for _ in 0..200 {
                assert!(call("0").await.is_ok());
            }
        });
    });
    assert_eq!(layer.handle("logins").unwrap().stats().refunds_short, 2);
    assert_eq!(recorder.named("tollgate_refunds_short_total")["logins"], 2.0);
}

#[tokio::test]
async fn an_error_is_refunded_and_a_disconnect_is_charged() {
    let layer = failed_logins();
    let broken = service_fn(|_: Request<String>| async { Err::<Response<String>, _>("broken") });
    for _ in 0..5 {
        assert!(layer.layer(broken).oneshot(request("/login", &FAILS)).await.is_err());
    }
    let hangs = service_fn(|_: Request<String>| async {
        std::future::pending::<()>().await;
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    for _ in 0..3 {
        let call = layer.layer(hangs).oneshot(request("/login", &FAILS));
        assert!(tokio::time::timeout(Duration::from_millis(1), call).await.is_err());
    }
    assert_eq!(status(&layer, "/login", &WORKS).await, 429);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_not_charged() {
    #[expect(clippy::unused_async, reason = "it panics when it is polled")]
    async fn panics() -> Result<Response<String>, Infallible> {
        panic!("the handler is broken")
    }
    let in_its_call = service_fn(|_: Request<String>| {
        assert!(std::hint::black_box(false), "the handler is broken");
        panics()
    });
    let in_its_future = service_fn(|_: Request<String>| panics());
    let queue = LeakyBucket::queue(Rate::per_second(1_000)).capacity(99);
    let paced = || Rule::new("paced", [queue]).when(|head| head.path() == "/paced");
    let logins = Rule::new("logins", hourly_bucket(2)).charge_if(|_, _| true);
    let layer =
        layer_with(logins).rule(paced()).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
    // All requests to the second path but the first wait.
    for path in ["/", "/paced"] {
        for _ in 0..3 {
            let attempt = tokio::spawn(layer.layer(in_its_call).oneshot(request(path, &[])));
            assert!(attempt.await.unwrap_err().is_panic(), "{path}");
            let attempt = tokio::spawn(layer.layer(in_its_future).oneshot(request(path, &[])));
            assert!(attempt.await.unwrap_err().is_panic(), "{path}");
        }
    }
    for expected in [200, 200, 429] {
        assert_eq!(status(&layer, "/", &WORKS).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_is_refunded_if_the_service_fails_first() {
    #[derive(Clone)]
    struct Closed;
    impl Service<Request<String>> for Closed {
        type Response = Response<String>;
        type Error = &'static str;
        type Future = std::future::Ready<Result<Response<String>, &'static str>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            Poll::Ready(Err("closed"))
        }
        fn call(&mut self, _: Request<String>) -> Self::Future {
            unreachable!("it is never ready")
        }
    }
    let logins =
        Rule::new("logins", hourly_bucket(3)).charge_if(|status, _| status == StatusCode::UNAUTHORIZED);
    // Each request after the first waits, so it calls a clone of the service.
    let queue = LeakyBucket::queue(Rate::per_second(1_000)).capacity(9);
    let layer = layer_with(logins)
        .rule(Rule::new("paced", [queue]))
        .clock(TokioClock::new())
        .timer(tokio::time::sleep);
    let layer = layer.build().unwrap();
    assert_eq!(status(&layer, "/login", &WORKS).await, 200);
    for _ in 0..5 {
        assert_eq!(layer.layer(Closed).call(request("/login", &FAILS)).await.unwrap_err(), "closed");
    }
    assert_eq!(status(&layer, "/login", &FAILS).await, 401);
}

#[tokio::test]
async fn charge_if_refunds_without_headers_too() {
    let by_response =
        Rule::new("logins", hourly_bucket(1)).charge_if(|status, _| status == StatusCode::UNAUTHORIZED);
    let layer = layer_with(Rule::new("all", hourly_bucket(9))).rule(by_response).headers([]).build().unwrap();
    for expected in [200, 200, 200] {
        assert_eq!(status(&layer, "/login", &WORKS).await, expected);
    }
    assert_eq!(status(&layer, "/login", &FAILS).await, 401);
    assert_eq!(status(&layer, "/login", &FAILS).await, 429);
}

#[tokio::test]
async fn charge_if_refunds_the_limits_that_were_charged() {
    let works = |status: StatusCode, _: &http::HeaderMap| status == StatusCode::OK;
    let logins = Rule::new("logins", hourly_bucket(5))
        .key(by_header("k"))
        .tier(|head| head.path() == "/paid", hourly_bucket(1))
        .for_key("special", hourly_bucket(1))
        .charge_if(|status, _| status == StatusCode::UNAUTHORIZED);
    // The second rule keeps its charge when the first gives it back.
    let layer =
        layer_with(logins).rule(Rule::new("works", hourly_bucket(7)).charge_if(works)).build().unwrap();
    for (path, key) in [("/paid", "a"), ("/", "special"), ("/", "b")] {
        for _ in 0..2 {
            assert_eq!(status(&layer, path, &[("k", key), ("x-want", "200")]).await, 200, "{path} {key}");
        }
    }
    for (path, key) in [("/paid", "a"), ("/", "special")] {
        assert_eq!(status(&layer, path, &[("k", key), ("x-want", "401")]).await, 401, "{path} {key}");
        assert_eq!(status(&layer, path, &[("k", key), ("x-want", "200")]).await, 429, "{path} {key}");
    }
    assert_eq!(status(&layer, "/", &[("k", "b"), ("x-want", "200")]).await, 200);
    assert_eq!(status(&layer, "/", &[("k", "b"), ("x-want", "200")]).await, 429, "seven worked");
}

#[tokio::test(start_paused = true)]
async fn charge_if_refunds_a_request_that_waited() {
    let logins =
        Rule::new("logins", hourly_bucket(1)).charge_if(|status, _| status == StatusCode::UNAUTHORIZED);
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(2);
    let layer = layer_with(logins).rule(Rule::new("paced", [queue]));
    let layer = layer.clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(status(&layer, "/login", &WORKS).await, 200);
    }
    assert_eq!(begun.elapsed().as_secs(), 2, "two of them waited");
    assert_eq!(status(&layer, "/login", &FAILS).await, 401);
    assert_eq!(status(&layer, "/login", &FAILS).await, 429);
}
