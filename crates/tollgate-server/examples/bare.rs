//! The least that servers do, for `tollgate-bench serve`. They repeat the answers of the server on
//! the second port, or pass requests on to it:
//!
//! ```sh
//! cargo run --release -p tollgate-server --example bare -- http 3000 8080    # hyper
//! cargo run --release -p tollgate-server --example bare -- asks 3000 8080    # and it decides
//! cargo run --release -p tollgate-server --example bare -- grpc 3000 8081    # tonic
//! cargo run --release -p tollgate-server --example bare -- least 3000 8080   # a read and a write
//! cargo run --release -p tollgate-server --example bare -- proxy 3000 8080   # hyper on both sides
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock, RwLock};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use mio::{Events, Interest, Poll, Token};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tollgate::{Limiter, Rate, TokenBucket};
use tonic::transport::Server;
use tonic::{Status, client::Grpc};

#[allow(unused_imports)]
#[path = "../src/rls/proto/mod.rs"]
mod proto;

use proto::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use proto::{RateLimitRequest, RateLimitResponse};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The answers of tollgate, by the request's path and the length of its body.
type Answers = HashMap<(String, usize), Response<Bytes>>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, port, other] = &arguments[..] else {
        return Err("bare http|asks|grpc|least|proxy PORT PORT-OF-ANOTHER-SERVER".into());
    };
    let (port, other) = (port.parse()?, other.parse()?);
    match &kind[..] {
        "http" => http(port, other, None).await,
        "asks" => http(port, other, Some(limiters()?)).await,
        "grpc" => grpc(port, other).await,
        "least" => least(port, other),
        "proxy" => proxy(port, other).await,
        _ => Err("http, asks, grpc, least or proxy".into()),
    }
}

/// A server of HTTP that repeats the answers of tollgate.
struct Repeats {
    tollgate: u16,
    answers: RwLock<Answers>,
    /// Asked for each request of a batch, if there are any.
    limiters: Option<Limiters>,
}

/// As many as there are rules that concern a request of the measurement.
type Limiters = [Limiter<str>; 3];

fn limiters() -> Result<Limiters, AnyError> {
    let limiter = || Limiter::builder(TokenBucket::new(Rate::per_second(1_000_000_000))).per().build();
    Ok([limiter()?, limiter()?, limiter()?])
}

/// A batch, as far as it is decided by.
#[derive(Deserialize)]
struct Batch<'b> {
    #[serde(borrow)]
    requests: Vec<Call<'b>>,
}

#[derive(Deserialize)]
struct Call<'b> {
    client: &'b str,
}

async fn http(port: u16, tollgate: u16, limiters: Option<Limiters>) -> Result<(), AnyError> {
    let repeats = Arc::new(Repeats { tollgate, answers: RwLock::default(), limiters });
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve(stream, Arc::clone(&repeats)));
    }
}

async fn serve(stream: TcpStream, repeats: Arc<Repeats>) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    let service = service_fn(move |request: Request<Incoming>| {
        let repeats = Arc::clone(&repeats);
        async move { Ok::<_, Infallible>(answer(request, &repeats).await) }
    });
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Answers as tollgate did to a like request, which is asked once.
async fn answer(request: Request<Incoming>, repeats: &Repeats) -> Response<Full<Bytes>> {
    let Repeats { tollgate, answers, limiters } = repeats;
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if let Some(limiters) = limiters {
        // The measurement sends batches only.
        let batch: Batch<'_> = serde_json::from_slice(&body).expect("a batch");
        for call in &batch.requests {
            assert!(limiters.iter().all(|limiter| limiter.check(call.client).is_allowed()));
        }
    }
    let key = (head.uri.path().to_owned(), body.len());
    let known = answers.read().expect("no thread panics").get(&key).cloned();
    let answer = match known {
        Some(answer) => answer,
        None => {
            let answer = ask(head, body, *tollgate).await.expect("tollgate answers");
            answers.write().expect("no thread panics").insert(key, answer.clone());
            answer
        }
    };
    answer.map(Full::new)
}

async fn ask(head: http::request::Parts, body: Bytes, tollgate: u16) -> Result<Response<Bytes>, AnyError> {
    let mut request = Request::from_parts(head, Full::new(body));
    let path = request.uri().path().to_owned();
    *request.uri_mut() = format!("http://127.0.0.1:{tollgate}{path}").parse()?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let (head, body) = client.request(request).await?.into_parts();
    let mut answer = Response::from_parts(head, body.collect().await?.to_bytes());
    // hyper writes them itself.
    for name in [http::header::DATE, http::header::CONTENT_LENGTH] {
        answer.headers_mut().remove(name);
    }
    Ok(answer)
}

/// Answers every call as tollgate did the first one.
struct SaysOk {
    tollgate: u16,
    answer: OnceLock<RateLimitResponse>,
}

#[tonic::async_trait]
impl RateLimitService for SaysOk {
    async fn should_rate_limit(
        &self,
        call: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, Status> {
        if let Some(answer) = self.answer.get() {
            return Ok(tonic::Response::new(answer.clone()));
        }
        let uri = format!("http://127.0.0.1:{}", self.tollgate);
        let channel = tonic::transport::Endpoint::from_shared(uri)
            .map_err(|error| Status::unavailable(error.to_string()))?
            .connect()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let mut client = Grpc::new(channel);
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        );
        let codec = tonic_prost::ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let answer = client.unary(call, path, codec).await?;
        Ok(tonic::Response::new(self.answer.get_or_init(|| answer.into_inner()).clone()))
    }
}

async fn grpc(port: u16, tollgate: u16) -> Result<(), AnyError> {
    let service = SaysOk { tollgate, answer: OnceLock::new() };
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Server::builder().add_service(RateLimitServiceServer::new(service)).serve(address).await?;
    Ok(())
}

/// For each request one read and one write, and one wait for all requests that have come: no server
/// that uses epoll does less. It does not look at what it reads.
fn least(port: u16, tollgate: u16) -> Result<(), AnyError> {
    const LISTENER: Token = Token(usize::MAX);
    let mut poll = Poll::new()?;
    let mut listener = mio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port)))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let (mut streams, mut events) = (Vec::new(), Events::with_capacity(64));
    let (mut request, mut answer) = ([0; 8 << 10], Vec::new());
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() != LISTENER {
                let stream: &mut mio::net::TcpStream = &mut streams[event.token().0];
                let length = stream.read(&mut request).unwrap_or(0);
                if length > 0 {
                    if answer.is_empty() {
                        answer = second_answer(tollgate, &request[..length])?;
                    }
                    stream.write_all(&answer)?;
                }
                continue;
            }
            loop {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        stream.set_nodelay(true)?;
                        let token = Token(streams.len());
                        poll.registry().register(&mut stream, token, Interest::READABLE)?;
                        streams.push(stream);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

/// The answer to a request that comes again: the first may be admitted. It is short, and comes as
/// a whole.
fn second_answer(tollgate: u16, request: &[u8]) -> Result<Vec<u8>, AnyError> {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", tollgate))?;
    let mut answer = vec![0; 8 << 10];
    let mut length = 0;
    for _ in 0..2 {
        stream.write_all(request)?;
        length = stream.read(&mut answer)?;
    }
    answer.truncate(length);
    Ok(answer)
}

/// A connection to the server behind, and what moves it.
struct Link {
    sender: SendRequest<Incoming>,
    driver: Pin<Box<Connection<TokioIo<TcpStream>, Incoming>>>,
}

/// Passes requests on, and does nothing else. Each client has a connection to the server behind.
async fn proxy(port: u16, behind: u16) -> Result<(), AnyError> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        tokio::spawn(async move {
            let Ok(link) = Link::connect(behind).await else { return };
            let link = Arc::new(Mutex::new(link));
            let service = service_fn(move |request: Request<Incoming>| {
                let link = Arc::clone(&link);
                async move { link.lock().await.pass(request).await }
            });
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.serve_connection(TokioIo::new(client), service).await;
        });
    }
}

impl Link {
    async fn connect(behind: u16) -> Result<Self, AnyError> {
        let stream = TcpStream::connect(("127.0.0.1", behind)).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: Box::pin(driver) })
    }

    async fn pass(&mut self, request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
        let Self { sender, driver } = self;
        let mut answered = pin!(async {
            sender.ready().await?;
            let (head, body) = sender.send_request(request).await?.into_parts();
            Ok(Response::from_parts(head, Full::new(body.collect().await?.to_bytes())))
        });
        tokio::select! {
            biased;
            answer = &mut answered => answer,
            // The server behind has closed the connection.
            _ = driver => answered.await,
        }
    }
}
