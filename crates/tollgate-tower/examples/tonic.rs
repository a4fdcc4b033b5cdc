//! A gRPC server with a rate limit, and a client that exceeds it.
//!
//! ```sh
//! cargo run -p tollgate-tower --example tonic
//! ```

use std::error::Error;

use tokio::net::TcpListener;
use tollgate::{Rate, TokenBucket};
use tollgate_tower::{ClientAddress, GrpcResponder, KeyBy, Rule, TollgateLayer};
use tonic::transport::server::{TcpConnectInfo, TcpIncoming};
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let by_address =
        KeyBy::client(ClientAddress::connection(|info: &TcpConnectInfo| Some(info.remote_addr()?.ip())));
    let limit = TollgateLayer::builder()
        .rule(Rule::new("rpc", [TokenBucket::new(Rate::per_second(2)).burst(3)]).key(by_address))
        .responder(GrpcResponder)
        .build()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(
        Server::builder().layer(limit).add_service(health).serve_with_incoming(TcpIncoming::from(listener)),
    );

    let mut client = HealthClient::new(Endpoint::new(format!("http://{address}"))?.connect().await?);
    for call in 1..=5 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(response) => println!("{call}: served, {:?}", response.metadata().get("ratelimit")),
            Err(status) => {
                let pushback = status.metadata().get("grpc-retry-pushback-ms");
                println!("{call}: {:?}, {}, {pushback:?}", status.code(), status.message());
            }
        }
    }
    Ok(())
}
