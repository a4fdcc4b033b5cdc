//! The allocations of admitted requests.

use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Response};
use tollgate::{FixedWindow, LeakyBucket, Quota, Rate, TokenBucket};
use tollgate_tower::{HeaderStyle, KeyBy, Rule, TollgateLayer};
use tower::{Layer, Service};

use crate::support::{Echo, by_header, by_peer, layer_with, peer_address, request};

const ALL: [HeaderStyle; 5] = [
    HeaderStyle::Ietf,
    HeaderStyle::XRateLimit,
    HeaderStyle::XRateLimitEpoch,
    HeaderStyle::XRateLimitRetryAfter,
    HeaderStyle::RateLimitTrio,
];

/// Returns the allocations of a thousand requests, after a warm-up, without those of the inner
/// service.
fn allocations(layer: &TollgateLayer) -> u64 {
    let requests: Vec<_> = (0..1_500_u16)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            request(
                "/",
                &[
                    ("peer", &format!("192.0.{high}.{low}")),
                    ("api-key", "a key of some length, as they are"),
                    ("x-forwarded-for", "6.6.6.6, 203.0.113.9"),
                    ("authorization", "bASIC   dTpwMQ"),
                    ("cookie", "sid=\"s%3A\\141bc\""),
                ],
            )
        })
        .collect();
    let mut service = layer.layer(Roomy);
    let mut serve = |request| {
        assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
        let mut future = std::pin::pin!(service.call(request));
        let Poll::Ready(response) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("an admitted request does not wait")
        };
        assert_eq!(response.unwrap().status(), 200);
    };
    let mut requests = requests.into_iter();
    requests.by_ref().take(500).for_each(&mut serve);
    // The inner service allocates room for the headers.
    let bare = allocation_counter::measure(|| (0..1_000).for_each(|_| drop(roomy()))).count_total;
    allocation_counter::measure(|| requests.for_each(&mut serve)).count_total - bare
}

pub(crate) fn roomy() -> Response<String> {
    let mut response = Response::new(String::new());
    // Room for headers, as in real responses.
    *response.headers_mut() = HeaderMap::with_capacity(16);
    response
}

/// An inner service whose response has room for headers.
#[derive(Clone)]
pub(crate) struct Roomy;

impl Service<http::Request<String>> for Roomy {
    type Response = Response<String>;
    type Error = std::convert::Infallible;
    type Future = <Echo as Service<http::Request<String>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<String>) -> Self::Future {
        std::future::ready(Ok(roomy()))
    }
}

#[test]
fn an_admitted_request_allocates_nothing_with_any_headers() {
    let quotas = || {
        [
            Quota::from(TokenBucket::new(Rate::per_second(1_000_000))),
            FixedWindow::new(Rate::per_day(1_000_000)).into(),
        ]
    };
    for styles in [&[][..], &[HeaderStyle::Ietf], &ALL] {
        let proxied = KeyBy::client(peer_address().x_forwarded_for(["192.0.0.0/16"]).unwrap());
        let layer = layer_with(Rule::new("api", quotas()).key(by_peer()))
            .rule(
                Rule::new("keyed", quotas())
                    .key(by_header("api-key").and(KeyBy::method()))
                    .tier(|_| true, quotas()),
            )
            .rule(Rule::new("user", quotas()).key(by_header("authorization").and(KeyBy::cookie("sid"))))
            .rule(Rule::new("proxied", quotas()).key(proxied).skip(|_| false).for_key("x", quotas()))
            .rule(Rule::new("trial", quotas()).shadow().cost(|_| 2))
            .headers(styles.iter().copied())
            .on_decision(|_| {})
            .build()
            .unwrap();
        assert_eq!(allocations(&layer), 0, "{styles:?}");
    }
}

#[test]
fn an_empty_queue_allocates_nothing() {
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(5);
    let layer = layer_with(Rule::new("paced", [queue]).key(by_peer())).build().unwrap();
    assert_eq!(allocations(&layer), 0);
}

#[test]
fn charge_if_allocates_nothing() {
    let rule = Rule::new("logins", [TokenBucket::new(Rate::per_second(1_000_000))]).key(by_peer());
    let layer = layer_with(rule.charge_if(|status, _| status.is_client_error())).build().unwrap();
    assert_eq!(allocations(&layer), 0);
}

#[test]
fn a_quota_of_the_request_allocates_nothing() {
    let million = tollgate::CallQuota::new(Rate::per_second(1_000_000), 1_000_000).unwrap();
    let layer = layer_with(Rule::per_request("plan", move |_| Some(million)).key(by_peer()));
    assert_eq!(allocations(&layer.build().unwrap()), 0);
}
