//! What a call may ask at most, and what else is refused. Nothing is charged by it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_testing::wait::LONG;
use tonic::Code;

use super::proto::{Code as Answered, RateLimitOverride, RateLimitRequest};
use super::{METHOD, call, client, short, start, start_with};

const RULES: &str = "rule = [{ name = 'r', key = 'everyone', limits = 'fixed-window:1000/d' }]";

/// Sends calls that must fail so, and holds that nothing was charged.
async fn refused(calls: Vec<(RateLimitRequest, Code, &str)>) {
    let server = start(RULES).await;
    let mut client = client(&server).await;
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
    let server = start(RULES).await;
    let entries: Vec<(&str, &str)> = vec![("k", "v"); 32];
    let descriptors: Vec<&[(&str, &str)]> = vec![&entries; 64];
    let statuses = client(&server).await.statuses(call("d", &descriptors)).await;
    assert_eq!(statuses.len(), 64);
    assert_eq!(statuses[63].limit_remaining, 936);
}

#[tokio::test]
async fn a_long_header_list_is_refused() {
    let server = start(RULES).await;
    let mut client = client(&server).await;
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
    let with_a_file = start_with(RULES, |settings, folder| {
        let file = folder.join("d.yaml");
        std::fs::write(&file, "domain: d\ndescriptors: [{ key: k }]").unwrap();
        settings.envoy.push(file);
    });
    // The domain of a file, one that the rules decide beside files, and one without any.
    for (server, domain) in [(with_a_file.await, "d"), (start(RULES).await, "rules")] {
        let mut client = client(&server).await;
        for unit in [0, 99, -1] {
            for domain in [domain, "rules"] {
                let mut call = call(domain, &[&[("k", "v")]]);
                call.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 1, unit });
                assert_eq!(client.send(call).await.unwrap_err().code(), Code::InvalidArgument, "{domain}");
            }
        }
    }
}

#[tokio::test]
async fn a_connection_has_a_thousand_streams_at_most() {
    let server = start(RULES).await;
    let mut stream = TcpStream::connect(server.grpc()).await.unwrap();
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
    let server = start_with(RULES, |settings, _| {
        settings.limits.read_timeout = Duration::from_millis(200);
    })
    .await;
    let mut stream = TcpStream::connect(server.grpc()).await.unwrap();
    stream.write_all(b"PRI * HTTP").await.unwrap();
    let read = async { while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("it is closed");
    assert_eq!(client(&server).await.statuses(call("d", &[&[("k", "v")]])).await.len(), 1);
}

#[tokio::test]
async fn a_connection_too_many_is_told_to_calm_down() {
    let server = start_with(RULES, |settings, _| settings.limits.connections = 1).await;
    let mut busy = TcpStream::connect(server.grpc()).await.unwrap();
    // A call whose body does not come, and a PING: its answer says that the call was read.
    let head = [&[0x83, 0x86, 0x04, METHOD.len() as u8][..], METHOD.as_bytes(), b"\x01\x01d"].concat();
    let call = [&[0, 0, head.len() as u8, 1, 4, 0, 0, 0, 1][..], &head].concat();
    let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[0; 8]].concat();
    busy.write_all(&[PREFACE, &call, &ping].concat()).await.unwrap();
    while frame(&mut busy).await.expect("it is served").0 != 6 {}
    let mut other = TcpStream::connect(server.grpc()).await.unwrap();
    let mut told = Vec::new();
    other.read_to_end(&mut told).await.unwrap();
    // SETTINGS, and GOAWAY with ENHANCE_YOUR_CALM.
    assert_eq!((told[3], told[12], told.last()), (4, 7, Some(&0xb)), "{told:?}");
}

/// An idle one ends with GOAWAY, and each new one is served.
#[tokio::test]
async fn an_idle_connection_is_closed_for_a_new_one() {
    let server = start_with(RULES, |settings, _| settings.limits.connections = 1).await;
    for left in [999, 998, 997] {
        let mut idle = TcpStream::connect(server.grpc()).await.unwrap();
        idle.write_all(PREFACE).await.unwrap();
        assert_eq!(frame(&mut idle).await.expect("it is served").0, 4);
        let statuses = client(&server).await.statuses(call("d", &[&[("k", "v")]])).await;
        assert_eq!(short(&statuses), [(Answered::Ok, left)]);
        let told = async {
            while let Some((kind, ..)) = frame(&mut idle).await {
                if kind == 7 {
                    return true;
                }
            }
            false
        };
        assert!(tokio::time::timeout(LONG, told).await.expect("it ends"), "it is told");
    }
}

#[tokio::test]
async fn answers_that_are_not_taken_are_reset() {
    const IDLE: Duration = Duration::from_millis(600);
    let server = start_with(RULES, |settings, _| {
        (settings.limits.read_timeout, settings.limits.idle_timeout) = (IDLE / 2, IDLE);
    })
    .await;
    let message = call("d", &[&[("k", "v")]]).encode_to_vec();
    let body = Bytes::from([&[0, 0, 0, 0, message.len() as u8][..], &message].concat());
    for window in [0, 1] {
        let stream = TokioIo::new(TcpStream::connect(server.grpc()).await.unwrap());
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (mut sender, connection) =
            builder.initial_stream_window_size(window).handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let (began, mut answers) = (Instant::now(), Vec::new());
        // A client that calls on is not idle.
        for _ in 0..16 {
            let request = Request::post(format!("http://d{METHOD}")).header("te", "trailers");
            let request = request.header("content-type", "application/grpc");
            let answer = sender.send_request(request.body(Full::new(body.clone())).unwrap()).await;
            answers.push(answer.unwrap().into_body());
            tokio::time::sleep(IDLE / 8).await;
        }
        for mut answer in answers.drain(..4) {
            let error = async {
                loop {
                    if let Err(error) = answer.frame().await.expect("it is not whole") {
                        return format!("{error:?}");
                    }
                }
            };
            let error = tokio::time::timeout(LONG, error).await.expect("it is reset");
            assert!(error.contains("CANCEL"), "window {window}: {error}");
        }
        assert!(began.elapsed() >= IDLE && !sender.is_closed(), "{:?}", began.elapsed());
    }
    assert_eq!(client(&server).await.statuses(call("d", &[&[("k", "v")]])).await.len(), 1);
}

/// The preface, and SETTINGS that say nothing.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

/// The type, the stream and the payload of the next frame. `None`: the connection has ended.
async fn frame(stream: &mut TcpStream) -> Option<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let [a, b, c, kind, _, number @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((kind, u32::from_be_bytes(number), payload))
}

#[tokio::test]
async fn a_stream_too_many_is_refused() {
    let server = start(RULES).await;
    let mut stream = TcpStream::connect(server.grpc()).await.unwrap();
    // POST, http, and a path; the body does not come.
    let head = [&[0x83, 0x86, 0x04, METHOD.len() as u8][..], METHOD.as_bytes(), b"\x01\x01d"].concat();
    let mut bytes = PREFACE.to_vec();
    for number in 0..=1000_u32 {
        bytes.extend([0, 0, head.len() as u8, 1, 4]);
        bytes.extend((2 * number + 1).to_be_bytes());
        bytes.extend(&head);
    }
    stream.write_all(&bytes).await.unwrap();
    let told = async {
        loop {
            let (kind, number, payload) = frame(&mut stream).await.expect("the connection stays");
            if kind == 3 {
                return (number, payload);
            }
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(9), told).await.expect("it is refused");
    assert_eq!(told, (2001, vec![0, 0, 0, 7]), "the last one, with REFUSED_STREAM");
}

/// Each call has begun when it is reset: the answer to a PING says that all before it was read.
#[tokio::test]
async fn a_client_that_resets_its_calls_is_cut_off() {
    const STREAMS: u32 = 1000;
    let server = start(RULES).await;
    let mut stream = TcpStream::connect(server.grpc()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(PREFACE).await.unwrap();
    // POST, http, and a path; the body does not come.
    let head = [&[0x83, 0x86, 0x04, METHOD.len() as u8][..], METHOD.as_bytes(), b"\x01\x01d"].concat();
    let framed = |kind: u8, flags: u8, number: u32, payload: &[u8]| {
        let length = [0, 0, payload.len() as u8, kind, flags];
        [&length[..], &number.to_be_bytes(), payload].concat()
    };
    let calls = async {
        for call in 0..3 * STREAMS {
            let number = 2 * call + 1;
            let begins = [framed(1, 4, number, &head), framed(6, 0, 0, &[0; 8])].concat();
            // An error: it is closed.
            let _ = stream.write_all(&begins).await;
            loop {
                match frame(&mut stream).await {
                    Some((7, _, payload)) => return (call, payload[4..].to_vec()),
                    Some((6, ..)) => break,
                    Some(_) => {}
                    None => panic!("call {call}: it is told why"),
                }
            }
            let _ = stream.write_all(&framed(3, 0, number, &[0, 0, 0, 8])).await;
        }
        panic!("it is not cut off");
    };
    let (calls, why) = tokio::time::timeout(LONG, calls).await.expect("it is cut off");
    assert_eq!(why, [0, 0, 0, 0xb], "ENHANCE_YOUR_CALM");
    assert!(calls >= 2 * STREAMS, "{calls}");
    assert_eq!(client(&server).await.statuses(call("d", &[&[("k", "v")]])).await.len(), 1);
}

#[tokio::test]
async fn all_streams_together_leave_another_its_window() {
    const WINDOW: u32 = 64 << 10;
    let server = start(RULES).await;
    let mut stream = TcpStream::connect(server.grpc()).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    let (mut of_streams, mut more) = (None, None);
    while more.is_none() {
        let (kind, number, payload) = frame(&mut stream).await.expect("it begins");
        let value = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
        match (kind, number) {
            (4, _) => {
                let given = payload.chunks(6).find(|setting| setting[..2] == [0, 4]);
                of_streams = of_streams.or(given.and_then(|given| value(&given[2..])));
            }
            (8, 0) => more = value(&payload),
            _ => {}
        }
    }
    assert_eq!(of_streams, Some(WINDOW));
    // A connection begins with the window of RFC 9113.
    assert_eq!(more, Some(1000 * WINDOW - 65_535));
}

#[tokio::test]
async fn a_silent_connection_stays_while_it_answers_pings() {
    let ping = Duration::from_millis(200);
    let server = start_with(RULES, |settings, _| {
        (settings.limits.ping_interval, settings.limits.read_timeout) = (ping, ping);
        settings.limits.idle_timeout = ping;
    })
    .await;
    let stream = TokioIo::new(TcpStream::connect(server.grpc()).await.unwrap());
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut silent = TcpStream::connect(server.grpc()).await.unwrap();
    silent.write_all(PREFACE).await.unwrap();
    let message = call("d", &[&[("k", "v")]]).encode_to_vec();
    let body = Bytes::from([&[0, 0, 0, 0, message.len() as u8][..], &message].concat());
    for _ in 0..2 {
        let request = Request::post(format!("http://d{METHOD}")).header("te", "trailers");
        let request = request.header("content-type", "application/grpc");
        let answer = sender.send_request(request.body(Full::new(body.clone())).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        // A call that is answered leaves no stream open.
        drop(http_body_util::BodyExt::collect(answer.into_body()).await.unwrap());
        tokio::time::sleep(8 * ping).await;
    }
    assert!(!sender.is_closed());
    // One that does not answer its ping is closed.
    let mut kinds = Vec::new();
    let ends = async {
        while let Some((kind, ..)) = frame(&mut silent).await {
            kinds.push(kind);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ends).await.expect("it is closed");
    assert!(kinds.contains(&6), "it was asked: {kinds:?}");
}
