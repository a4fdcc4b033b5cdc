//! The readiness of the inner service, on tokio's paused clock: only admitted requests wait for it.

use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::{Instant, sleep, timeout};
use tollgate_tower::{HeaderStyle, Rule, TollgateLayer};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{by_header, header, hourly_bucket, layer_with, request, statuses};

/// A limit of one request for each value of `k`, and a limit whose response decides.
fn layers() -> [TollgateLayer; 2] {
    let rule = || Rule::new("once", hourly_bucket(1)).key(by_header("k"));
    [rule(), rule().charge_if(|_, _| true)].map(|rule| layer_with(rule).build().unwrap())
}

/// A service that takes a second for each request.
async fn slow(_: Request<String>) -> Result<Response<String>, std::convert::Infallible> {
    sleep(Duration::from_secs(1)).await;
    Ok(Response::new(String::new()))
}

#[expect(clippy::async_yields_async, reason = "the request is served while others are sent")]
#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_wait_for_the_inner_service() {
    for layer in layers() {
        let inner = ConcurrencyLimit::new(service_fn(slow), 1);
        let mut service = layer.layer(inner.clone());
        let mut serve = async |k| {
            let future = service.ready().await.unwrap().call(request("/", &[("k", k)]));
            tokio::spawn(future)
        };
        let begun = Instant::now();
        let one = serve("1").await;
        tokio::task::yield_now().await;
        let refused = serve("1").await.await.unwrap().unwrap();
        assert_eq!((refused.status().as_u16(), begun.elapsed()), (429, Duration::ZERO));
        // Admitted requests wait, and take the permit in turn.
        let (two, three) = (serve("2").await, serve("3").await);
        for (waits, seconds) in [(one, 1), (two, 2), (three, 3)] {
            let response = waits.await.unwrap().unwrap();
            assert_eq!(response.status(), 200);
            assert!(header(&response, "ratelimit").unwrap().starts_with("\"once\";r=0;t="));
            assert_eq!(begun.elapsed().as_secs(), seconds);
        }
        // The refused request left its place, and no service keeps the permit.
        let direct = timeout(Duration::from_secs(2), inner.oneshot(request("/", &[])));
        assert_eq!(direct.await.expect("the permit is free").unwrap().status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_gives_its_place_to_the_next() {
    let [layer, _] = layers();
    let inner = ConcurrencyLimit::new(service_fn(slow), 1);
    let serve = |k| tokio::spawn(layer.layer(inner.clone()).oneshot(request("/", &[("k", k)])));
    let begun = Instant::now();
    let one = serve("1");
    tokio::task::yield_now().await;
    let leaves = serve("2");
    tokio::task::yield_now().await;
    let three = serve("3");
    tokio::task::yield_now().await;
    leaves.abort();
    for (waits, seconds) in [(one, 1), (three, 2)] {
        assert_eq!(waits.await.unwrap().unwrap().status(), 200);
        assert_eq!(begun.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_readiness_is_not_charged() {
    for styles in [&[][..], &[HeaderStyle::Ietf]] {
        for charge_if in [false, true] {
            let rule = Rule::new("once", hourly_bucket(1)).key(by_header("k"));
            let rule = if charge_if { rule.charge_if(|_, _| true) } else { rule };
            let layer = layer_with(rule).headers(styles.iter().copied()).build().unwrap();
            let leaves = layer.layer(Fails(None)).oneshot(request("/", &[("k", "1")]));
            assert!(timeout(Duration::from_secs(1), leaves).await.is_err(), "never ready");
            let fails = layer.layer(Fails(Some(2))).oneshot(request("/", &[("k", "1")]));
            assert_eq!(fails.await.unwrap_err(), "broken");
            assert_eq!(statuses(&layer, 2, &[("k", "1")]).await, [200, 429]);
        }
    }
}

/// A service that is never ready, and then fails.
#[derive(Clone)]
struct Fails(Option<u32>);

impl Service<Request<String>> for Fails {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<String>, &'static str>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        let Some(polls) = &mut self.0 else { return Poll::Pending };
        let Some(left) = polls.checked_sub(1) else { return Poll::Ready(Err("broken")) };
        *polls = left;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        unreachable!("called without being ready")
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_readiness_is_the_response() {
    for layer in layers() {
        let result = layer.layer(Fails(Some(2))).oneshot(request("/", &[("k", "1")])).await;
        assert_eq!(result.unwrap_err(), "broken");
        assert_eq!(layer.layer(Fails(Some(0))).ready().await.map(drop), Err("broken"));
        let waits = layer.layer(Fails(None)).oneshot(request("/", &[("k", "2")]));
        assert!(timeout(Duration::from_secs(1), waits).await.is_err(), "admitted, never ready");
    }
}
