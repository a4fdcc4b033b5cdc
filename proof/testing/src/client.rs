//! Clients of HTTP/1 and HTTP/2 that wait in tasks.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::Answer;
use crate::wait::LONG;

/// Asks by a connection of its own. Its host is the address, unless the headers name another.
pub async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", address.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let stream = TokioIo::new(connect(address).await);
    let (mut sender, connection) = http1::handshake(stream).await.expect("a connection");
    tokio::spawn(connection);
    let request = request.body(Full::new(body.into())).expect("a request");
    whole(timeout(LONG, sender.send_request(request)).await.expect("it answers").expect("an answer")).await
}

/// Connects.
pub async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("it listens")
}

/// An answer and its whole body.
pub async fn whole(answer: Response<Incoming>) -> Answer {
    let (parts, body) = answer.into_parts();
    let body = timeout(LONG, body.collect()).await.expect("the body ends").expect("a whole body");
    Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() }
}

/// A connection of HTTP/2.
pub async fn http2<B>(address: SocketAddr) -> http2::SendRequest<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin + Send + 'static,
{
    let stream = TokioIo::new(connect(address).await);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.expect("a connection");
    tokio::spawn(connection);
    sender
}

/// Sends bytes. Returns what comes until the connection ends.
pub async fn talk<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, said: &[u8]) -> Vec<u8> {
    // A connection that is reset has been answered before.
    let _ = stream.write_all(said).await;
    let mut answer = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("the connection ends");
    answer
}

/// Sends a request of HTTP/1 on a connection that stays open. Returns its answer.
pub async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut answer = Vec::new();
    loop {
        let read = timeout(LONG, stream.read_buf(&mut answer)).await.expect("it answers").expect("more");
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().expect("a number")) {
                return text.into_owned();
            }
        }
        assert!(read > 0, "{request:?}: {text:?}, and no more");
    }
}
