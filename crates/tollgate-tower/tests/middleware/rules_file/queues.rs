//! Requests that wait in the queue of a leaky bucket.

use std::time::Duration;

use http::{Request, Response};
use tokio::time::{Instant, timeout};
use tollgate_tower::RulesLayer;
use tower::{Layer, ServiceExt, service_fn};

use super::{File, on_tokio, send, serve_by, status};
use crate::support::{Echo, ReadinessChecked, TokioClock, header, request};

const PACED: &str =
    "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/s,capacity=3,mode=queue' }]";

fn seconds(since: Instant) -> u64 {
    since.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_queued_request_is_served_at_its_turn() {
    let layer = on_tokio(PACED);
    let begun = Instant::now();
    for expected in 0..3 {
        let response = serve_by(&layer, ReadinessChecked::default(), request("/", &[])).await;
        assert_eq!((response.status().as_u16(), seconds(begun)), (200, expected));
    }
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let call = layer.layer(Echo).oneshot(request("/", &[]));
            tokio::spawn(async move { (call.await.unwrap().status().as_u16(), Instant::now()) })
        })
        .collect();
    let mut served = Vec::new();
    for call in calls {
        let (status, at) = call.await.unwrap();
        served.push((status, (at - begun).as_secs()));
    }
    served.sort_unstable();
    let expected = [(200, 3), (200, 4), (429, 2), (429, 2), (429, 2)];
    assert_eq!(served, expected);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_queue_gives_its_charges_back() {
    let layer = on_tokio(
        "rule = [
            { name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/s,capacity=3,mode=queue' },
            { name = 'daily', key = 'everyone', limits = 'fixed-window:10/d' },
            { name = 'at-once', key = 'everyone', limits = 'in-flight:5' },
        ]",
    );
    assert_eq!(status(&layer, "/", &[]).await, 200);
    let begun = Instant::now();
    for _ in 0..3 {
        let call = layer.layer(Echo).oneshot(request("/", &[]));
        assert!(timeout(Duration::from_millis(100), call).await.is_err(), "it waits");
    }
    let response = send(&layer, "/", &[]).await;
    let ratelimit = header(&response, "ratelimit").unwrap();
    assert!(ratelimit.contains("\"daily\";r=8") && ratelimit.contains("\"at-once\";r=4"), "{ratelimit}");
    assert_eq!(seconds(begun), 1, "it has the turn of those who left");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_charged_by_the_response_after_its_wait() {
    let layer = on_tokio(
        "rule = [
            { name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/s,capacity=3,mode=queue' },
            { name = 'failed', key = 'everyone', limits = 'fixed-window:1/d', charge_if.status = 401 },
        ]",
    );
    for (want, expected) in [("200", 200), ("200", 200), ("401", 401), ("200", 429)] {
        assert_eq!(status(&layer, "/", &[("x-want", want)]).await, expected);
    }
    let broken = service_fn(|_: Request<String>| async { Err::<Response<String>, _>("broken") });
    assert!(layer.layer(broken).oneshot(request("/", &[])).await.is_ok(), "it is refused before");
}

/// The status and the wait of a request with an unread body, while another one's turn is near.
async fn with_body(layer: &RulesLayer) -> (u16, Option<String>, u64) {
    assert_eq!(status(layer, "/", &[]).await, 200);
    let begun = Instant::now();
    let response = send(layer, "/", &[("content-length", "7")]).await;
    let retry_after = header(&response, "retry-after").map(str::to_owned);
    (response.status().as_u16(), retry_after, seconds(begun))
}

#[tokio::test(start_paused = true)]
async fn a_request_with_an_unread_body_does_not_wait() {
    let layer = on_tokio(PACED);
    assert_eq!(with_body(&layer).await, (429, Some("1".into()), 0));
    let begun = Instant::now();
    assert_eq!((status(&layer, "/", &[]).await, seconds(begun)), (200, 1), "its turn was given back");

    let file = File::new(PACED);
    let patient = file.layer().clock(TokioClock::new()).timer(tokio::time::sleep);
    let patient = patient.max_wait_with_body(Duration::from_secs(1)).build().unwrap();
    assert_eq!(with_body(&patient).await, (200, None, 1));
}
