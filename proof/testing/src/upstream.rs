//! Upstreams: what a proxy under test sends its requests to.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::wait::eventually;

/// The body of an answer.
pub type Body = BoxBody<Bytes, Infallible>;

/// A body of this text.
pub fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed()
}

/// An upstream of HTTP/1 and HTTP/2 with this handler. Returns its address.
pub async fn upstream<F>(
    handler: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    upstream_at("127.0.0.1:0".parse().unwrap(), handler).await
}

/// The same at an address.
pub async fn upstream_at<F>(
    address: SocketAddr,
    handler: impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) -> SocketAddr
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("it is a connection");
            let handler = handler.clone();
            let service = hyper::service::service_fn(move |request| {
                let answer = handler(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            tokio::spawn(async move {
                let builder = Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// An upstream that serves each connection by hand.
#[derive(Debug)]
pub struct ByHand {
    /// Where it listens.
    pub address: SocketAddr,
    /// The connections that it has accepted.
    pub accepted: Arc<AtomicUsize>,
    /// Those that it has served to their end.
    pub ended: Arc<AtomicUsize>,
}

/// An upstream that serves each connection so, in a task.
pub async fn by_hand<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> ByHand
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (accepted, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, counted_ends) = (Arc::clone(&accepted), Arc::clone(&ended));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("it is a connection");
            counted.fetch_add(1, Relaxed);
            let (served, ends) = (serve(stream), Arc::clone(&counted_ends));
            tokio::spawn(async move {
                served.await;
                ends.fetch_add(1, Relaxed);
            });
        }
    });
    ByHand { address, accepted, ended }
}

impl ByHand {
    /// Its address, as a proxy takes it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// An upstream that answers with what it was asked: its head as text. The path `/status/401` is
/// answered with that status, and the header `x-cost` is repeated.
pub async fn echo() -> String {
    let address = upstream(|request: Request<Incoming>| async move {
        let mut said = format!("{} {} {:?}\n", request.method(), request.uri(), request.version());
        for (name, value) in request.headers() {
            said += &format!("{name}: {}\n", value.to_str().unwrap());
        }
        let status = request.uri().path().strip_prefix("/status/").map_or("200", |status| status);
        let mut response = Response::builder().status(status);
        if let Some(cost) = request.headers().get("x-cost") {
            response = response.header("x-cost", cost);
        }
        let body = request.into_body().collect().await;
        said += &body.map_or("broken".into(), |body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
        response.body(full(said)).unwrap()
    });
    format!("http://{}", address.await)
}

/// An upstream that answers each request only when it is told, and counts those that have arrived.
pub struct Gate {
    /// Its address.
    pub url: String,
    /// The requests that have arrived.
    pub arrived: Arc<AtomicUsize>,
    open: tokio::sync::watch::Sender<bool>,
}

impl Gate {
    /// One that is closed.
    pub async fn new() -> Self {
        let (open, opened) = tokio::sync::watch::channel(false);
        let arrived = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&arrived);
        let address = upstream(move |request: Request<Incoming>| {
            let (mut opened, counted) = (opened.clone(), Arc::clone(&counted));
            async move {
                counted.fetch_add(1, Relaxed);
                if request.uri().path() != "/free" {
                    let _ = opened.wait_for(|open| *open).await;
                }
                Response::new(full("done"))
            }
        });
        Self { url: format!("http://{}", address.await), arrived, open }
    }

    /// Answers what has arrived, and what arrives.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Answers no further request.
    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// Waits until so many requests have arrived.
    pub async fn arrivals(&self, count: usize) {
        eventually(|| self.arrived.load(Relaxed) >= count).await;
    }
}

/// An upstream that records the bytes of each connection, and answers each head with these bytes.
pub async fn recorder(answer: &'static [u8]) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let record = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&record);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let recorded = Arc::clone(&recorded);
            tokio::spawn(async move {
                let (mut own, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    recorded.lock().unwrap().extend_from_slice(&buffer[..read]);
                    own.extend_from_slice(&buffer[..read]);
                    let whole = String::from_utf8_lossy(&own).into_owned();
                    let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
                    let length = head.split("\r\n").find_map(|line| line.strip_prefix("content-length: "));
                    let length = length.map_or(0, |length| length.parse().unwrap());
                    let is_whole = match head.contains("transfer-encoding: chunked") {
                        true => body.ends_with("\r\n\r\n") && format!("\r\n{body}").contains("\r\n0\r\n"),
                        false => body.len() >= length,
                    };
                    if is_whole {
                        own.clear();
                        let _ = stream.write_all(answer).await;
                    }
                }
            });
        }
    });
    (url, record)
}

/// A body that the test writes: it ends with its sender, and breaks off where there is no data.
pub struct Written(tokio::sync::mpsc::Receiver<Option<Bytes>>);

/// The error of a body that breaks off.
#[derive(Debug)]
pub struct BrokenOff;

impl Written {
    /// A body, and what sends its data: `None` breaks it off.
    pub fn new() -> (tokio::sync::mpsc::Sender<Option<Bytes>>, Self) {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        (sender, Self(receiver))
    }
}

impl hyper::body::Body for Written {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, BrokenOff>>> {
        let frame = |data: Option<Bytes>| data.map(hyper::body::Frame::data).ok_or(BrokenOff);
        self.0.poll_recv(context).map(|data| data.map(frame))
    }
}

impl std::fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it breaks off")
    }
}

impl std::error::Error for BrokenOff {}
