//! What a call may ask at most, and what else is refused. Nothing is charged by it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use super::proto::{Code as Answered, RateLimitOverride, RateLimitRequest};
use super::{METHOD, Running, call, short};

const RULES: &str = "rule = [{ name = 'r', key = 'everyone', limits = 'fixed-window:1000/d' }]";

/// Sends calls that must fail so, and holds that nothing was charged.
async fn refused(calls: Vec<(RateLimitRequest, Code, &str)>) {
    let server = Running::new(RULES).await;
    let mut client = server.client().await;
    for (call, code, message) in calls {
        let status = client.send(call).await.unwrap_err();
        assert!(status.code() == code && status.message().contains(message), "{status:?}");
    }
    assert_eq!(short(&client.statuses(call("d", &[&[("k", "v")]])).await), [(Answered::Ok, 999)]);
}

#[tokio::test]
async fn calls_beyond_the_bounds_are_refused_and_charge_nothing() {
    let entries: Vec<(&str, &str)> = vec![("k", "v"); 33];
    let descriptors: Vec<&[(&str, &str)]> = vec![&[("k", "v")]; 65];
    let long = "v".repeat(256 << 10);
    refused(vec![
        (call("", &[&[("k", "v")]]), Code::InvalidArgument, "domain must not be empty"),
        (call("d", &[]), Code::InvalidArgument, "list must not be empty"),
        (call("d", &descriptors), Code::InvalidArgument, "at most 64 descriptors"),
        (call("d", &[&[("k", "v")], &entries]), Code::InvalidArgument, "descriptor 1 has more than 32"),
        (call("d", &[&[("k", &long)]]), Code::ResourceExhausted, "at most 262144 bytes"),
    ])
    .await;
}

#[tokio::test]
async fn the_largest_call_is_answered() {
    let server = Running::new(RULES).await;
    let entries: Vec<(&str, &str)> = vec![("k", "v"); 32];
    let descriptors: Vec<&[(&str, &str)]> = vec![&entries; 64];
    let statuses = server.client().await.statuses(call("d", &descriptors)).await;
    assert_eq!(statuses.len(), 64);
    assert_eq!(statuses[63].limit_remaining, 936);
}

#[tokio::test]
async fn a_long_header_list_is_refused() {
    let server = Running::new(RULES).await;
    let mut client = server.client().await;
    for (kibibytes, is_taken) in [(14, true), (17, false), (14, true)] {
        let mut request = tonic::Request::new(call("d", &[&[("k", "v")]]));
        for number in 0..kibibytes {
            let name = tonic::metadata::MetadataKey::from_bytes(format!("x-{number}").as_bytes()).unwrap();
            request.metadata_mut().insert(name, "x".repeat(1 << 10).parse().unwrap());
        }
        client.grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<RateLimitRequest, super::proto::RateLimitResponse>::default();
        let said = client.grpc.unary(request, http::uri::PathAndQuery::from_static(METHOD), codec).await;
        assert_eq!(said.is_ok(), is_taken, "{kibibytes} KiB: {said:?}");
    }
    assert_eq!(short(&client.statuses(call("d", &[&[("k", "v")]])).await), [(Answered::Ok, 997)]);
}

#[tokio::test]
async fn a_unit_that_there_is_not_is_refused() {
    let server = Running::with(RULES, |settings, folder| {
        let file = folder.join("d.yaml");
        std::fs::write(&file, "domain: d\ndescriptors: [{ key: k }]").unwrap();
        settings.envoy.push(file);
    })
    .await;
    let mut client = server.client().await;
    for unit in [0, 99, -1] {
        let mut call = call("d", &[&[("k", "v")]]);
        call.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 1, unit });
        assert_eq!(client.send(call).await.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_connection_has_a_thousand_streams_at_most() {
    let server = Running::new(RULES).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
    let mut settings = [0; 9];
    stream.read_exact(&mut settings).await.unwrap();
    assert_eq!(settings[3], 4, "SETTINGS come first");
    let mut payload = vec![0; usize::from(settings[2])];
    stream.read_exact(&mut payload).await.unwrap();
    let streams = payload.chunks(6).find(|setting| setting[..2] == [0, 3]).unwrap();
    assert_eq!(u32::from_be_bytes([streams[2], streams[3], streams[4], streams[5]]), 1000);
}

#[tokio::test]
async fn a_connection_that_never_begins_is_closed() {
    let server = Running::with(RULES, |settings, _| {
        settings.limits.read_timeout = Duration::from_millis(200);
    })
    .await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"PRI * HTTP").await.unwrap();
    let read = async { while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("it is closed");
    assert_eq!(server.client().await.statuses(call("d", &[&[("k", "v")]])).await.len(), 1);
}

#[tokio::test]
async fn a_connection_too_many_is_told_to_calm_down() {
    let server = Running::with(RULES, |settings, _| settings.limits.connections = 1).await;
    let mut client = server.client().await;
    client.statuses(call("d", &[&[("k", "v")]])).await;
    let mut other = TcpStream::connect(server.address).await.unwrap();
    let mut told = Vec::new();
    other.read_to_end(&mut told).await.unwrap();
    // SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM.
    assert_eq!((told[3], told[12], told.last()), (4, 7, Some(&0xb)), "{told:?}");
    assert_eq!(short(&client.statuses(call("d", &[&[("k", "v")]])).await), [(Answered::Ok, 998)]);
}

#[tokio::test]
async fn answers_that_are_not_taken_close_their_connection() {
    const IDLE: Duration = Duration::from_millis(600);
    let server = Running::with(RULES, |settings, _| {
        (settings.limits.read_timeout, settings.limits.idle_timeout) = (IDLE / 2, IDLE);
    })
    .await;
    let message = call("d", &[&[("k", "v")]]).encode_to_vec();
    let body = Bytes::from([&[0, 0, 0, 0, message.len() as u8][..], &message].concat());
    for window in [0, 1] {
        let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) =
            builder.initial_stream_window_size(window).handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let (began, mut answers) = (Instant::now(), Vec::new());
        while !sender.is_closed() {
            assert!(began.elapsed() < Duration::from_secs(10), "window {window}: it is still open");
            let request = Request::post(format!("http://d{METHOD}")).header("te", "trailers");
            let request = request.header("content-type", "application/grpc");
            answers.extend(sender.send_request(request.body(Full::new(body.clone())).unwrap()).await);
            tokio::time::sleep(IDLE / 8).await;
        }
        assert!(began.elapsed() >= IDLE && answers.len() > 2, "{:?}", began.elapsed());
    }
    assert_eq!(server.client().await.statuses(call("d", &[&[("k", "v")]])).await.len(), 1);
}
