//! Trailers, of each version of HTTP to each, and gRPC.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::TRAILER;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tollgate_testing::upstream::{Body, upstream};
use tollgate_testing::wait::LONG;
use tonic::Code;
use tonic::codegen::tokio_stream::iter;
use tonic::codegen::tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::support::start;

const ONE_AT_ONCE: &str = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:1' }]";

/// An upstream that sends back the trailers of a request, and says in the body which these are. Its
/// head names one of them, if the request says so.
async fn returning() -> String {
    let address = upstream(|request: Request<Incoming>| async move {
        let names = request.headers().get("x-names").cloned();
        let collected = request.into_body().collect().await.unwrap();
        let trailers = collected.trailers().cloned().unwrap_or_default();
        let trailers = if trailers.is_empty() { two() } else { trailers };
        let said = format!("{:?}", collected.trailers().map(HeaderMap::len));
        let body: Body =
            StreamBody::new(iter([Frame::data(said.into()), Frame::trailers(trailers)].map(Ok))).boxed();
        let mut response = Response::new(body);
        response.headers_mut().extend(names.map(|names| (TRAILER, names)));
        response
    });
    address.await.to_string()
}

fn two() -> HeaderMap {
    let named = |name: &str| (name.parse().unwrap(), HeaderValue::from_static("7"));
    HeaderMap::from_iter([named("x-a"), named("x-b")])
}

/// How many trailers the upstream gets, and its client.
async fn passed(is_http2: bool, url: &str, headers: &[(&str, &str)]) -> (String, Vec<String>) {
    let proxy = start(ONE_AT_ONCE, &[url.to_owned()]).await;
    // Of no known length: HTTP/1 has no trailers otherwise.
    let frames = [Frame::data(Bytes::from("x")), Frame::trailers(two())];
    let body = StreamBody::new(iter(frames.map(Ok::<_, Infallible>)));
    let mut request = Request::post(if is_http2 { "http://a.test/" } else { "/" });
    for (name, value) in [&[("host", "a.test")][..], headers].concat() {
        request = request.header(name, value);
    }
    let request = request.body(body).unwrap();
    let answer = if is_http2 {
        timeout(LONG, proxy.http2().await.send_request(request)).await.unwrap().unwrap()
    } else {
        let stream = TokioIo::new(proxy.connect().await);
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        timeout(LONG, sender.send_request(request)).await.unwrap().unwrap()
    };
    let answer = answer.into_body().collect().await.unwrap();
    let names = answer.trailers().map(|trailers| trailers.keys().map(ToString::to_string).collect());
    let names = names.unwrap_or_default();
    (String::from_utf8(answer.to_bytes().to_vec()).unwrap(), names)
}

/// HTTP/1 has those only that a head names, and sends them to who wants them.
#[tokio::test]
async fn trailers_pass_between_all_versions() {
    let address = returning().await;
    let (te, names) = (("te", "trailers"), ("x-names", "x-b"));
    let both = || vec!["x-a".to_owned(), "x-b".to_owned()];
    let one = || vec!["x-b".to_owned()];
    for (is_http2, scheme, headers, upstream_gets, client_gets) in [
        (true, "h2c", vec![], "Some(2)", both()),
        (true, "http", vec![("trailer", "x-b"), te, names], "Some(1)", one()),
        (true, "http", vec![te, names], "None", one()),
        (true, "http", vec![("trailer", "x-b"), names], "Some(1)", vec![]),
        (false, "h2c", vec![("trailer", "x-a, x-b"), te, names], "Some(2)", one()),
        (false, "h2c", vec![("trailer", "x-a, x-b"), names], "Some(2)", vec![]),
        (false, "h2c", vec![("trailer", "x-a, x-b"), te], "Some(2)", vec![]),
        (false, "http", vec![("trailer", "x-b"), te, names], "Some(1)", one()),
        (false, "http", vec![te, names], "None", one()),
    ] {
        let (upstream_got, client_got) = passed(is_http2, &format!("{scheme}://{address}"), &headers).await;
        let what = format!("{is_http2} {scheme} {headers:?}");
        assert_eq!((&*upstream_got, client_got), (upstream_gets, client_gets), "{what}");
    }
}

/// Messages both ways, one after the other, and a status behind them.
#[tokio::test]
async fn a_grpc_call_streams_both_ways_to_its_status() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("h2c://{}", listener.local_addr().unwrap());
    let service = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .unwrap();
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let proxy = start(ONE_AT_ONCE, &[url]).await;
    let channel = tonic::transport::Channel::from_shared(format!("http://{}", proxy.proxy())).unwrap();
    let mut client = tonic::client::Grpc::new(channel.connect().await.unwrap());
    client.ready().await.unwrap();

    let (asks, asked) = tokio::sync::mpsc::channel(1);
    let codec = tonic_prost::ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::default();
    let path = PathAndQuery::from_static("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    let call = client.streaming(tonic::Request::new(ReceiverStream::new(asked)), path, codec);
    let mut answers = timeout(LONG, call).await.unwrap().unwrap().into_inner();
    let mut ask = async |symbol: &str| {
        let message_request = Some(MessageRequest::FileContainingSymbol(symbol.to_owned()));
        asks.send(ServerReflectionRequest { host: String::new(), message_request }).await.unwrap();
        timeout(LONG, answers.message()).await.unwrap()
    };
    for _ in 0..3 {
        let answer = ask("grpc.health.v1.Health").await.unwrap().unwrap();
        let Some(MessageResponse::FileDescriptorResponse(files)) = answer.message_response else {
            panic!("files")
        };
        assert!(!files.file_descriptor_proto.is_empty());
        assert_eq!(proxy.status("/").await, 429, "the call is in flight");
    }
    assert_eq!(ask("none").await.unwrap_err().code(), Code::NotFound);
    proxy.until("/", 200).await;
}
