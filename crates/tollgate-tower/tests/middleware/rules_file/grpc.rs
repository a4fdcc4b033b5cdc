//! Refusals of gRPC and grpc-web clients.

use std::time::Duration;

use tollgate::ManualClock;
use tollgate_tower::RulesLayer;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::server::TcpConnectInfo;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::{File, X, layer, send};
use crate::support::header;

#[tokio::test]
async fn a_grpc_client_is_refused_in_its_protocol() {
    let layer = layer(
        "answer = { status = 503, body = 'busy', headers = { x-docs = 'https://example.com' } }
         rule = [
            { name = 'rpc', match.path = '/rpc', key = 'client', limits = 'fixed-window:1/min', refuse.status = 404 },
            { name = 'n', match.path = '/n', key = 'everyone', limits = '10/s', cost = { from = 'header.n' } },
            { name = 'k', match.path = '/k', key = 'header.k', missing = 'refuse', limits = '10/s' },
            { name = 'b', match.path = '/b', key = 'everyone', limits = 'block' },
        ]",
    );
    assert_eq!(send(&layer, "/rpc", &[X]).await.status(), 200);
    for (asked_in, answered_in) in [
        ("application/grpc", "application/grpc"),
        ("application/grpc;charset=utf-8", "application/grpc"),
        ("Application/gRPC+proto", "application/grpc"),
        ("application/grpc-web+proto", "application/grpc-web"),
        ("application/grpc-web-text", "application/grpc-web-text"),
    ] {
        let response = send(&layer, "/rpc", &[X, ("content-type", asked_in)]).await;
        assert_eq!((response.status().as_u16(), &**response.body()), (200, ""), "{asked_in}");
        assert_eq!(header(&response, "content-type"), Some(answered_in), "{asked_in}");
        assert_eq!(header(&response, "grpc-status"), Some("8"));
        assert_eq!(header(&response, "grpc-message"), Some("the limit rpc is spent, retry after 60 s"));
        assert_eq!(header(&response, "grpc-retry-pushback-ms"), Some("60000"));
        assert_eq!(header(&response, "retry-after"), Some("60"));
        assert_eq!(header(&response, "x-docs"), Some("https://example.com"));
    }
    for other in ["application/grpcx", "application/json", "application/grp"] {
        let response = send(&layer, "/rpc", &[X, ("content-type", other)]).await;
        assert_eq!((response.status().as_u16(), header(&response, "grpc-status")), (404, None), "{other}");
    }
    for (path, status) in [("/n", "3"), ("/k", "3"), ("/b", "7")] {
        let response = send(&layer, path, &[X, ("n", "30"), ("content-type", "application/grpc")]).await;
        assert_eq!(header(&response, "grpc-status"), Some(status), "{path}");
        assert_eq!(header(&response, "grpc-retry-pushback-ms"), Some("-1"), "{path}");
    }
}

#[tokio::test]
async fn a_tonic_client_reads_the_refusal_of_a_rules_file() {
    let file = File::new("rule = [{ name = 'rpc', key = 'client', limits = '2/s' }]");
    let peer = |info: &TcpConnectInfo| Some(info.remote_addr()?.ip());
    let layer = RulesLayer::builder(&file.0, peer).clock(ManualClock::new()).build().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let routes = Routes::from(Routes::new(health).into_axum_router().layer(layer));
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(incoming));
    let endpoint = tonic::transport::Endpoint::new(format!("http://{address}")).unwrap();
    let mut client = HealthClient::new(endpoint.connect().await.unwrap());
    for _ in 0..2 {
        client.check(HealthCheckRequest::default()).await.unwrap();
    }
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::ResourceExhausted, "the limit rpc is spent, retry after 1 s")
    );
    let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
    assert_eq!(Duration::from_millis(pushback.parse().unwrap()), Duration::from_millis(500));
}
