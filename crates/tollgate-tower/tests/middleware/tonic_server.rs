//! A tonic server and its client on a real socket.

use http::{HeaderValue, Request};
use tollgate::{ManualClock, Rate, TokenBucket};
use tollgate_tower::{
    Backend, ClientAddress, GrpcResponder, KeyBy, MissingKey, OnBackendError, Rule, StoreReply, TollgateLayer,
};
use tonic::Code;
use tonic::transport::Channel;
use tonic::transport::server::TcpConnectInfo;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{by_header, header, hourly_bucket, layer_with, request, send};

/// Starts a tonic server behind the layer and returns a client of it.
async fn serve(layer: TollgateLayer<GrpcResponder>) -> HealthClient<Channel> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(
        tonic::transport::Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming),
    );
    let endpoint = tonic::transport::Endpoint::new(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

fn by_connection() -> KeyBy {
    KeyBy::client(ClientAddress::connection(|info: &TcpConnectInfo| Some(info.remote_addr()?.ip())))
}

#[tokio::test]
async fn a_tonic_client_gets_resource_exhausted_and_retry_pushback() {
    let rule = Rule::new("rpc", [TokenBucket::new(Rate::per_second(2)).burst(2)]).key(by_connection());
    let clock = ManualClock::new();
    let mut client =
        serve(layer_with(rule).clock(clock.clone()).responder(GrpcResponder).build().unwrap()).await;
    for left in ["1", "0"] {
        let response = client.check(HealthCheckRequest::default()).await.unwrap();
        let said = response.metadata().get("ratelimit").unwrap().to_str().unwrap();
        assert!(said.starts_with(&format!("\"rpc\";r={left};")), "{said}");
    }
    // The wait is now a nanosecond less than half a second.
    clock.advance(std::time::Duration::from_nanos(1));
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "the limit rpc is spent, retry after 1 s");
    assert_eq!(status.metadata().get("retry-after").unwrap(), "1");
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "500");
}

#[tokio::test]
async fn concurrent_requests_on_a_connection_are_admitted_exactly_the_limit() {
    let layer = layer_with(Rule::new("rpc", hourly_bucket(7)).key(by_connection()))
        .responder(GrpcResponder)
        .build()
        .unwrap();
    let client = serve(layer).await;
    let call = |mut client: HealthClient<Channel>| async move {
        client.check(HealthCheckRequest::default()).await.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(call(client.clone()))).collect();
    let mut admitted = 0;
    for answered in calls {
        match answered.await.unwrap() {
            Code::Ok => admitted += 1,
            code => assert_eq!(code, Code::ResourceExhausted),
        }
    }
    assert_eq!(admitted, 7);
}

#[tokio::test]
async fn retry_pushback_is_at_most_what_clients_can_read() {
    let rule = Rule::new("rpc", [TokenBucket::new(Rate::per_day(1)).burst(40)]).key(by_connection());
    let rule = rule.cost(|_| 40);
    let mut client =
        serve(layer_with(rule).clock(ManualClock::new()).responder(GrpcResponder).build().unwrap()).await;
    client.check(HealthCheckRequest::default()).await.unwrap();
    let status = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(status.metadata().get("retry-after").unwrap(), "3456000");
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "2147483647");
}

#[tokio::test]
async fn grpc_statuses_mean_what_the_http_statuses_mean() {
    struct Broken;
    impl Backend for Broken {
        type Error = std::fmt::Error;
        type Receipt = ();
        async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply, std::fmt::Error> {
            Err(std::fmt::Error)
        }
    }
    async fn answer(rule: Rule) -> (HeaderValue, Option<HeaderValue>) {
        let inner = service_fn(|_: Request<()>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
        });
        let layer = layer_with(rule).responder(GrpcResponder).build().unwrap();
        let response = layer.layer(inner).oneshot(Request::new(())).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["content-type"].as_bytes()),
            (200, &b"application/grpc"[..])
        );
        (response.headers()["grpc-status"].clone(), response.headers().get("grpc-retry-pushback-ms").cloned())
    }
    assert_eq!(
        answer(Rule::new("a", hourly_bucket(1)).cost(|_| 2)).await,
        ("3".parse().unwrap(), Some("-1".parse().unwrap()))
    );
    let keyed = Rule::new("a", hourly_bucket(1)).key(by_header("k")).missing_key(MissingKey::Refuse);
    assert_eq!(answer(keyed).await, ("3".parse().unwrap(), Some("-1".parse().unwrap())));
    let broken = Rule::backend("a", Broken, OnBackendError::Refuse);
    assert_eq!(answer(broken).await, ("14".parse().unwrap(), None));
}

#[tokio::test]
async fn a_grpc_web_client_is_refused_in_its_content_type() {
    let layer = layer_with(Rule::new("a", hourly_bucket(1)).cost(|_| 2)).responder(GrpcResponder);
    let layer = layer.build().unwrap();
    for (asked_in, answered_in) in [
        ("application/grpc", "application/grpc"),
        ("application/grpc+proto", "application/grpc"),
        ("application/grpc-web", "application/grpc-web"),
        ("application/grpc-web+proto", "application/grpc-web"),
        ("application/grpc-web-text", "application/grpc-web-text"),
        ("Application/gRPC-Web-Text+proto", "application/grpc-web-text"),
        ("text/plain", "application/grpc"),
    ] {
        let response = send(&layer, request("/", &[("content-type", asked_in)])).await;
        assert_eq!(header(&response, "content-type"), Some(answered_in), "{asked_in}");
        assert_eq!(header(&response, "grpc-status"), Some("3"));
    }
}
