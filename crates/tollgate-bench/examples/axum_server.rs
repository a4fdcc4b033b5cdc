//! An axum server for load tests: bare, behind a layer without limits, behind tollgate-tower, or
//! behind tower_governor. `tollgate-bench server-speed` loads all of them in turn. To load one by
//! hand:
//!
//! ```sh
//! cargo run --release -p tollgate-bench --example axum_server -- tollgate 3000
//! wrk -t1 -c64 -d10s --latency http://127.0.0.1:3000/
//! ```
//!
//! The limits for each client address are so high that every request is admitted.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::HeaderValue;
use axum::response::Response;
use axum::routing::get;
use tollgate::{Rate, TokenBucket};
use tollgate_tower::{ClientAddress, KeyBy, Rule, TollgateLayer};
use tower::util::MapResponseLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// More than `wrk` can send.
const RATE: u64 = 10_000_000;

fn limited(layer: &str) -> Result<Router, String> {
    let app = Router::new().route("/", get(|| async { "hello" }));
    let burst = u32::try_from(RATE).unwrap_or(u32::MAX);
    let mut governor = GovernorConfigBuilder::default();
    governor.per_nanosecond(1_000_000_000 / RATE).burst_size(burst);
    let unfit = || "tower_governor takes no such limit".to_owned();
    let rule = Rule::new("default", [TokenBucket::new(Rate::per_second(RATE))]).key(KeyBy::client(
        ClientAddress::connection(|client: &ConnectInfo<SocketAddr>| Some(client.0.ip())),
    ));
    let tollgate = TollgateLayer::builder().rule(rule);
    Ok(match layer {
        "bare" => app,
        // The cost of any layer in axum.
        "idle" => app.layer(MapResponseLayer::new(|response: Response| response)),
        // The cost of adding and sending any two headers.
        "two-headers" => app.layer(MapResponseLayer::new(|mut response: Response| {
            let headers = response.headers_mut();
            headers.insert("ratelimit", HeaderValue::from_static("\"default\";r=9999999;t=1"));
            headers.insert("ratelimit-policy", HeaderValue::from_static("\"default\";q=10000000;w=1"));
            response
        })),
        "tollgate" => app.layer(tollgate.build().map_err(|error| error.to_string())?),
        "tollgate-no-headers" => app.layer(tollgate.headers([]).build().map_err(|error| error.to_string())?),
        "governor-no-headers" => {
            app.layer(GovernorLayer::new(Arc::new(governor.finish().ok_or_else(unfit)?)))
        }
        "governor" => {
            app.layer(GovernorLayer::new(Arc::new(governor.use_headers().finish().ok_or_else(unfit)?)))
        }
        _ => {
            return Err(
                "bare, idle, two-headers, tollgate, tollgate-no-headers, governor or governor-no-headers"
                    .to_owned(),
            );
        }
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let app = limited(&arguments.next().unwrap_or_default())?;
    let port: u16 = arguments.next().unwrap_or_else(|| "3000".to_owned()).parse()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
