//! A proxy that limits each client address in front of another HTTP server.
//!
//! ```sh
//! python3 -m http.server 8000 &
//! cargo run -p tollgate-tower --example hyper_proxy -- 127.0.0.1:3000 127.0.0.1:8000
//! curl -i localhost:3000/
//! ```
//!
//! It forwards HTTP/1 without upgrades and does not time out: enough to try limits on a server that
//! cannot be changed.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use http::header::{CONNECTION, FORWARDED, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tollgate::{Rate, TokenBucket};
use tollgate_tower::{ClientAddress, HttpResponder, KeyBy, Refusal, Respond, Rule, TollgateLayer};
use tower::{Layer, ServiceExt, service_fn};

type Body = BoxBody<Bytes, hyper::Error>;

/// A hyper `Incoming` cannot be made from text, so both kinds of bodies are boxed as one type.
fn text(text: String) -> Body {
    Full::from(text).map_err(|never| match never {}).boxed()
}

fn respond(refusal: &Refusal<'_>) -> Response<Body> {
    HttpResponder::json().respond(refusal).map(|body: String| text(body))
}

/// Headers that concern one connection only (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 5] =
    [CONNECTION, TE, TRANSFER_ENCODING, UPGRADE, HeaderName::from_static("keep-alive")];

async fn forward(
    client: Client<HttpConnector, Incoming>,
    upstream: SocketAddr,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let Ok(uri) = format!("http://{upstream}{path}").parse::<Uri>() else {
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    *request.uri_mut() = uri;
    // The version of each connection is its own: the client's must not reach the upstream.
    *request.version_mut() = Version::HTTP_11;
    HOP_BY_HOP.iter().for_each(|name| drop(request.headers_mut().remove(name)));
    request.headers_mut().remove(HOST);
    // The upstream may trust `x-forwarded-for`, because the client's values of both headers are
    // removed.
    request.headers_mut().remove(FORWARDED);
    if let Ok(address) = HeaderValue::try_from(peer.ip().to_string()) {
        request.headers_mut().insert("x-forwarded-for", address);
    }
    Ok(match client.request(request).await {
        Ok(mut response) => {
            *response.version_mut() = Version::HTTP_11;
            HOP_BY_HOP.iter().for_each(|name| drop(response.headers_mut().remove(name)));
            response.map(BodyExt::boxed)
        }
        Err(_) => status(StatusCode::BAD_GATEWAY),
    })
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(text(format!("{status}\n")));
    *response.status_mut() = status;
    response
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut addresses = std::env::args().skip(1).map(|address| address.parse::<SocketAddr>());
    let here = addresses.next().unwrap_or_else(|| "127.0.0.1:3000".parse())?;
    let upstream = addresses.next().unwrap_or_else(|| "127.0.0.1:8000".parse())?;

    let by_address = KeyBy::client(ClientAddress::connection(|peer: &SocketAddr| Some(peer.ip())));
    let limit = TollgateLayer::builder()
        .rule(Rule::new("client", [TokenBucket::new(Rate::per_second(10)).burst(20)]).key(by_address))
        .responder(respond as fn(&Refusal<'_>) -> Response<Body>)
        .build()?;
    let client = Client::builder(TokioExecutor::new()).build_http();

    let listener = TcpListener::bind(here).await?;
    println!("http://{} in front of http://{upstream}", listener.local_addr()?);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Out of file descriptors, or the client has disconnected already. Keep accepting.
            Err(error) => {
                eprintln!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (client, limit) = (client.clone(), limit.clone());
        let proxy = service_fn(move |request| forward(client.clone(), upstream, peer, request));
        let limited = limit.layer(proxy).map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request
        });
        tokio::spawn(async move {
            let connection = TowerToHyperService::new(limited);
            let server = auto::Builder::new(TokioExecutor::new());
            if let Err(error) = server.serve_connection(TokioIo::new(stream), connection).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
