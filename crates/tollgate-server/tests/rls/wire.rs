//! Bytes of real calls, unknown fields, and frames with wrong lengths.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tonic::codegen::tokio_stream::{self, StreamExt};

use super::proto::{Code, Entry, RateLimitRequest, RateLimitResponse};
use super::{METHOD, Running, start, start_with};

/// What Envoy 1.40 sends of a descriptor with an addend of its own.
const ENVOY: &[u8] = b"\x0a\x02d1\x12\x3e\x0a\x2a\x0a\x15masked_remote_address\x12\x112001:db8:1:2::/64\
\x0a\x0c\x0a\x04path\x12\x04/a/b\x1a\x02\x08\x03";

const RULES: &str = "rule = [{ name = 'r', key = 'everyone', limits = 'fixed-window:10/d' }]";

/// Sends the bytes as a body. Returns `grpc-status` and the message of the response.
async fn send(server: &Running, body: Vec<u8>) -> (String, Option<RateLimitResponse>) {
    send_body(server, Full::new(Bytes::from(body))).await
}

async fn send_body<B>(server: &Running, body: B) -> (String, Option<RateLimitResponse>)
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = TokioIo::new(TcpStream::connect(server.grpc()).await.unwrap());
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("http://{}{METHOD}", server.grpc());
    let request = Request::post(uri).version(Version::HTTP_2).header("content-type", "application/grpc");
    let request = request.header("te", "trailers").body(body).unwrap();
    let response = client.send_request(request).await.unwrap();
    let head = response.headers().clone();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = trailers.get("grpc-status").or(head.get("grpc-status")).expect("a status");
    let status = status.to_str().unwrap().to_owned();
    let bytes = body.to_bytes();
    let message = bytes.get(5..).filter(|bytes| !bytes.is_empty());
    (status, message.map(|message| RateLimitResponse::decode(message).unwrap()))
}

/// A message with its prefix.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

#[tokio::test]
async fn the_bytes_of_a_real_envoy_are_read() {
    let call = RateLimitRequest::decode(ENVOY).unwrap();
    let entry = |key: &str, value: &str| Entry { key: key.into(), value: value.into() };
    let entries = [entry("masked_remote_address", "2001:db8:1:2::/64"), entry("path", "/a/b")];
    assert_eq!((&*call.domain, call.hits_addend), ("d1", 0));
    assert_eq!(call.descriptors[0].entries, entries);
    assert_eq!(call.descriptors[0].hits_addend, Some(3));
    assert_eq!(call.encode_to_vec(), ENVOY);

    let (status, response) = send(&start(RULES).await, framed(ENVOY)).await;
    let response = response.unwrap();
    assert_eq!((&*status, response.overall_code()), ("0", Code::Ok));
    // OK; one status: OK, a limit of 10 a day named r, 7 left, and seconds until the day ends.
    let bytes = response.encode_to_vec();
    assert_eq!(bytes[..4], [0x08, 1, 0x12, bytes.len() as u8 - 4]);
    assert_eq!(bytes[4..17], *b"\x08\x01\x12\x07\x08\x0a\x10\x04\x1a\x01r\x18\x07");
    assert_eq!(bytes[17], 0x22);
}

#[tokio::test]
async fn unknown_fields_are_ignored() {
    let server = start(RULES).await;
    // A number, a text, a fixed number and a group of fields that there are not.
    let unknown = b"\xf8\x06\x2a\xa2\x06\x03abc\x95\x06\x01\x02\x03\x04\x8b\x06\x08\x01\x8c\x06";
    let (status, response) = send(&server, framed(&[ENVOY, &unknown[..]].concat())).await;
    assert_eq!((&*status, response.unwrap().statuses[0].limit_remaining), ("0", 7));
}

#[tokio::test]
async fn broken_frames_are_refused_and_charge_nothing() {
    let server = start(RULES).await;
    let mut cut_off = framed(ENVOY);
    cut_off.truncate(20);
    let broken = [
        ("3", cut_off),
        ("3", vec![0, 0, 4, 0, 0]), // 256 KiB are declared, and none are there.
        ("8", vec![0, 0, 4, 0, 1]), // One byte more than there may be.
        ("8", vec![0, 0xff, 0xff, 0xff, 0xff]),
        ("3", vec![0, 0]),
        ("13", framed(b"\x0a\x02\xff\xff")), // A domain that is no UTF-8.
        ("13", framed(b"\x0a\x7fd")),        // A text that is shorter than it says.
        ("13", [&[1][..], &framed(ENVOY)[1..]].concat()), // Compressed, in no known way.
    ];
    for (code, body) in broken {
        let (status, response) = send(&server, body.clone()).await;
        assert_eq!((&*status, response), (code, None), "{body:?}");
    }
    let (_, response) = send(&server, framed(ENVOY)).await;
    assert_eq!(response.unwrap().statuses[0].limit_remaining, 7, "nothing was charged");
}

#[tokio::test]
async fn a_message_that_does_not_arrive_in_time_is_refused() {
    let server = start_with(RULES, |settings, _| {
        settings.limits.read_timeout = Duration::from_millis(300);
    })
    .await;
    let begun = tokio_stream::once(Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"\0\0\0\0\x40"))));
    let body = StreamBody::new(begun.chain(tokio_stream::pending()));
    let (status, response) = send_body(&server, body).await;
    assert_eq!((&*status, response), ("4", None));
}
