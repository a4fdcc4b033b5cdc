//! An API whose limits are in a file.
//!
//! ```sh
//! cargo run -p tollgate-tower --example axum_rules --features rules
//! curl -i localhost:3000/
//! # In another terminal, change a limit in the file. It is in force within a second:
//! sed -i 's|5/s|1/s|' crates/tollgate-tower/examples/rules.toml
//! ```

use std::net::SocketAddr;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::{get, post};
use tollgate_tower::RulesLayer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/rules.toml");
    let limits = RulesLayer::watch(file, |client: &ConnectInfo<SocketAddr>| Some(client.0.ip()))?;
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/login", post(|| async { "welcome" }))
        .layer(limits);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
