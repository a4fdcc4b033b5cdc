//! Health and reflection.

use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::{Code, Request};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::{Client, client, start, start_with};

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

async fn check(client: &mut Client, service: &str) -> Result<ServingStatus, Code> {
    client.grpc.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let request = Request::new(HealthCheckRequest { service: service.into() });
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let response = client.grpc.unary(request, path, codec).await.map_err(|status| status.code())?;
    Ok(response.into_inner().status())
}

#[tokio::test]
async fn health_is_not_serving_while_the_server_drains() {
    let server = start_with("", |settings, _| settings.drain_delay = Duration::from_secs(2)).await;
    let mut client = client(&server).await;
    for service in ["", SERVICE] {
        assert_eq!(check(&mut client, service).await, Ok(ServingStatus::Serving));
    }
    assert_eq!(check(&mut client, "other").await, Err(Code::NotFound));
    let ended = tokio::spawn(server.server.end());
    let drained = async {
        while check(&mut client, SERVICE).await != Ok(ServingStatus::NotServing) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), drained).await.expect("it says that it drains");
    assert_eq!(check(&mut client, "").await, Ok(ServingStatus::NotServing));
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it ends").unwrap().unwrap();
}

#[tokio::test]
async fn reflection_tells_the_service_and_its_messages() {
    let server = start("").await;
    let mut client = client(&server).await;
    client.grpc.ready().await.unwrap();
    let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let asked = vec![
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(SERVICE.into())),
    ];
    let codec = tonic_prost::ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::default();
    let path = PathAndQuery::from_static("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    let request = Request::new(tonic::codegen::tokio_stream::iter(asked));
    let mut answers = client.grpc.streaming(request, path, codec).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(services)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("a list of services")
    };
    let names: Vec<_> = services.service.iter().map(|service| &*service.name).collect();
    assert!(names.contains(&SERVICE) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let Some(MessageResponse::FileDescriptorResponse(files)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("files")
    };
    assert!(!files.file_descriptor_proto.is_empty());
}

#[tokio::test]
async fn a_watch_with_nothing_to_say_stays_open() {
    let server = start_with("", |settings, _| {
        settings.limits.read_timeout = Duration::from_millis(200);
        settings.limits.idle_timeout = Duration::from_millis(200);
    })
    .await;
    let mut client = client(&server).await;
    client.grpc.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let request = Request::new(HealthCheckRequest { service: SERVICE.into() });
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Watch");
    let mut watch = client.grpc.server_streaming(request, path, codec).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let more = tokio::time::timeout(Duration::from_millis(1500), watch.message()).await;
    assert!(more.is_err(), "{more:?}");
}
