//! What does a rate limiting layer add to a request that is admitted? The inner service answers at once; the difference
//! to `bare` is the layer's.
//!
//!     cargo bench -p tollgate-bench --bench layer

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tollgate::{Rate, TokenBucket};
use tollgate_tower::{ClientAddress, KeyBy, RateLimitLayer, Rule};
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// More than the bench sends.
const RATE: u64 = 100_000_000;

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

fn serve<S: Service<Request<Body>>>(service: &mut S, request: Request<Body>) -> bool {
    let mut future = std::pin::pin!(service.call(request));
    future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn layers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("an admitted request");
    macro_rules! bench {
        ($name:literal, $service:expr) => {{
            let mut service = $service;
            group.bench_function($name, |bencher| {
                bencher.iter_batched(request, |request| serve(&mut service, request), BatchSize::SmallInput);
            });
        }};
    }
    let tollgate = || {
        let client = ClientAddress::connection(|client: &ConnectInfo<SocketAddr>| Some(client.0.ip()));
        let rule = Rule::new("default", [TokenBucket::new(Rate::per_second(RATE))]);
        RateLimitLayer::builder().rule(rule.key(KeyBy::client(client)))
    };
    let mut governor = GovernorConfigBuilder::default();
    governor.per_nanosecond(1_000_000_000 / RATE).burst_size(u32::try_from(RATE).unwrap());
    bench!("bare", Hello);
    bench!("tollgate, no headers", tollgate().headers([]).build().unwrap().layer(Hello));
    bench!("tollgate, RateLimit and RateLimit-Policy", tollgate().build().unwrap().layer(Hello));
    bench!(
        "tower_governor, no headers",
        GovernorLayer::<_, _, Body>::new(Arc::new(governor.finish().unwrap())).layer(Hello)
    );
    let mut governor = governor.use_headers();
    bench!(
        "tower_governor, x-ratelimit-*",
        GovernorLayer::<_, _, Body>::new(Arc::new(governor.finish().unwrap())).layer(Hello)
    );
}

criterion_group!(benches, layers);
criterion_main!(benches);
