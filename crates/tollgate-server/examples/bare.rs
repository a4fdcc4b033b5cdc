//! Servers that decide nothing, for `tollgate-bench serve`: they read what tollgate reads, and
//! answer with the bytes that tollgate answered with.
//!
//! ```sh
//! cargo run --release -p tollgate-server --example bare -- http 3000 8080
//! cargo run --release -p tollgate-server --example bare -- grpc 3000 8081
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
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
    let [kind, port, tollgate] = &arguments[..] else {
        return Err("bare http|grpc PORT PORT-OF-TOLLGATE".into());
    };
    let (port, tollgate) = (port.parse()?, tollgate.parse()?);
    match &kind[..] {
        "http" => http(port, tollgate).await,
        "grpc" => grpc(port, tollgate).await,
        _ => Err("http or grpc".into()),
    }
}

async fn http(port: u16, tollgate: u16) -> Result<(), AnyError> {
    let answers = Arc::new(std::sync::RwLock::new(Answers::new()));
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(serve(stream, Arc::clone(&answers), tollgate));
    }
}

async fn serve(stream: TcpStream, answers: Arc<std::sync::RwLock<Answers>>, tollgate: u16) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    let service = service_fn(move |request: Request<Incoming>| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, Infallible>(answer(request, &answers, tollgate).await) }
    });
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Answers as tollgate did to a like request, which is asked once.
async fn answer(
    request: Request<Incoming>,
    answers: &std::sync::RwLock<Answers>,
    tollgate: u16,
) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let key = (head.uri.path().to_owned(), body.len());
    let known = answers.read().expect("no thread panics").get(&key).cloned();
    let answer = match known {
        Some(answer) => answer,
        None => {
            let answer = ask(head, body, tollgate).await.expect("tollgate answers");
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
