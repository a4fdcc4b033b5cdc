//! The cost of a rate limiting layer for an admitted request. The inner service responds at once,
//! so the difference to `bare` is the cost of the layer.
//!
//!     cargo bench -p tollgate-bench --bench layer               # nanoseconds, medians
//!     cargo bench -p tollgate-bench --bench layer -- NAME       # one service only, for a profiler
//!
//! The services take turns, batch by batch, so that other activity of the machine affects all of
//! them. If they ran one after the other, as in criterion, it would move them by tens of
//! nanoseconds.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use tollgate::{Rate, TokenBucket};
use tollgate_tower::{ClientAddress, KeyBy, Rule, TollgateLayer};
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// More than the benchmark sends.
const RATE: u64 = 100_000_000;

/// The requests in a batch, few enough to stay in the cache.
const BATCH: usize = 100;

/// The batches of each service.
const ROUNDS: usize = 5_000;

#[derive(Clone, Copy)]
struct Hello;

impl Service<Request<Body>> for Hello {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(Response::builder().header("content-type", "text/plain").body(Body::empty()).unwrap()))
    }
}

fn request() -> Request<Body> {
    let client: SocketAddr = ([192, 0, 2, 1], 4711).into();
    Request::builder().uri("/").extension(ConnectInfo(client)).body(Body::empty()).unwrap()
}

/// Serves a batch of requests. Returns the time without making the requests.
type Batch = Box<dyn FnMut() -> Duration>;

fn batch<S: Service<Request<Body>> + 'static>(mut service: S) -> Batch {
    Box::new(move || {
        let requests: Vec<_> = std::iter::repeat_with(request).take(BATCH).collect();
        let begun = Instant::now();
        for request in requests {
            assert!(service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
            let mut future = std::pin::pin!(service.call(request));
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
        begun.elapsed()
    })
}

fn services() -> Vec<(&'static str, Batch)> {
    let tollgate = || {
        let client = ClientAddress::connection(|client: &ConnectInfo<SocketAddr>| Some(client.0.ip()));
        let rule = Rule::new("default", [TokenBucket::new(Rate::per_second(RATE))]);
        TollgateLayer::builder().rule(rule.key(KeyBy::client(client)))
    };
    let mut governor = GovernorConfigBuilder::default();
    governor.per_nanosecond(1_000_000_000 / RATE).burst_size(u32::try_from(RATE).unwrap());
    let no_headers = Arc::new(governor.finish().unwrap());
    let headers = Arc::new(governor.use_headers().finish().unwrap());
    vec![
        ("bare", batch(Hello)),
        ("tollgate, no headers", batch(tollgate().headers([]).build().unwrap().layer(Hello))),
        ("tower_governor, no headers", batch(GovernorLayer::<_, _, Body>::new(no_headers).layer(Hello))),
        ("tollgate, RateLimit and RateLimit-Policy", batch(tollgate().build().unwrap().layer(Hello))),
        ("tower_governor, x-ratelimit-*", batch(GovernorLayer::<_, _, Body>::new(headers).layer(Hello))),
    ]
}

fn main() {
    // cargo adds `--bench`.
    let chosen = std::env::args().skip(1).find(|word| word != "--bench");
    let mut services = services();
    if let Some(chosen) = &chosen {
        services.retain(|(name, _)| name == chosen);
    }
    let mut nanos = vec![Vec::with_capacity(ROUNDS); services.len()];
    for round in 0..ROUNDS {
        for turn in 0..services.len() {
            let turn = (round + turn) % services.len();
            nanos[turn].push(services[turn].1().as_nanos() as f64 / BATCH as f64);
        }
    }
    println!("{:<42} {:>8} {:>12}", "ns a request, median", "in all", "above bare");
    let mut bare = None;
    for ((name, _), nanos) in services.iter().zip(&mut nanos) {
        nanos.sort_by(f64::total_cmp);
        let median = nanos[ROUNDS / 2];
        println!("{name:<42} {median:>8.1} {:>12.1}", median - *bare.get_or_insert(median));
    }
}
