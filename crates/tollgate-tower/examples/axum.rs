//! An API with three rules, a tier by API key, a shadow rule, and counters.
//!
//! ```sh
//! cargo run -p tollgate-tower --example axum --features metrics
//! # A guest has 2 requests a second, 5 at once:
//! curl -i localhost:3000/search
//! # A paying client has 50 a second and 10,000 an hour:
//! curl -i -H 'x-api-key: gold-7' localhost:3000/search
//! # The outcomes of each rule, shadow rules included:
//! curl -s localhost:3000/metrics
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::LazyLock;

use axum::extract::{ConnectInfo, MatchedPath};
use axum::routing::{get, post};
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate::{FixedWindow, Quota, Rate, SlidingWindow, TokenBucket};
use tollgate_tower::{ClientAddress, HeaderStyle, KeyBy, RequestHead, Rule, TollgateLayer};

/// A real server looks keys up in its database or reads them from a signed token.
fn is_gold(head: RequestHead<'_>) -> bool {
    static ISSUED: LazyLock<Vec<&[u8]>> = LazyLock::new(|| vec![b"gold-7", b"gold-8"]);
    head.header("x-api-key").is_some_and(|key| ISSUED.contains(&key))
}

/// The key of a client: its API key if it was issued, else its address.
fn client() -> KeyBy {
    let issued = KeyBy::request(|head, key| {
        key.push(head.header("x-api-key").filter(|_| is_gold(head)).unwrap_or_default());
    });
    let address = ClientAddress::connection(|info: &ConnectInfo<SocketAddr>| Some(info.0.ip()));
    issued.or(KeyBy::client(address))
}

fn limits() -> Result<TollgateLayer, tollgate_tower::BuildError> {
    let gold: [Quota; 2] =
        [TokenBucket::new(Rate::per_second(50)).into(), FixedWindow::new(Rate::per_hour(10_000)).into()];
    let route = KeyBy::extension(|route: &MatchedPath, key| key.push(route.as_str()));
    TollgateLayer::builder()
        .rule(
            Rule::new("client", [TokenBucket::new(Rate::per_second(2)).burst(5)])
                .key(client())
                .tier(is_gold, gold)
                .skip(|head| head.path() == "/metrics"),
        )
        // All clients together have 100 units a second on each route. A report costs 10 units.
        .rule(
            Rule::new("route", [TokenBucket::new(Rate::per_second(100))])
                .key(route)
                .cost(|head| if head.path() == "/reports" { 10 } else { 1 }),
        )
        // Counts what a stricter limit would refuse, without refusing.
        .rule(Rule::new("stricter", [SlidingWindow::new(Rate::per_minute(20))]).key(client()).shadow())
        .headers([HeaderStyle::Ietf, HeaderStyle::XRateLimit])
        .on_limited(|refusal| {
            println!(
                "{} refused by {} for {:?}",
                refusal.head().path(),
                refusal.rule(),
                refusal.retry_after()
            );
        })
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let metrics = PrometheusBuilder::new().install_recorder()?;
    let app = Router::new()
        .route("/search", get(|| async { Json(["found"]) }))
        .route("/reports", post(|| async { "made" }))
        .route("/metrics", get(async move || metrics.render()))
        .layer(limits()?);

    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port())).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// The first argument, or 3000.
fn port() -> u16 {
    std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(3000)
}
