//! Clients that ask one request after the other.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http2::SendRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};
use tollgate_testing::upstream::{Body, full};

use crate::house::{Door, End, House, Io, PASSWORD};

const CLIENTS: usize = 8;

/// The address of all of them.
const ADDRESS: [u8; 4] = [127, 0, 0, 1];

/// The time between two requests of a client.
const PAUSE: Duration = Duration::from_millis(4);

/// What they upload by HTTP/2.
const UPLOAD: &[u8] = &[b'x'; 1000];

/// A request that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the clients saw.
pub(crate) struct Seen {
    pub(crate) asked: usize,
    pub(crate) p99: Duration,
    /// Why requests had no answer, or another one.
    pub(crate) lost: Vec<String>,
}

/// A connection of a client.
enum Line {
    Bytes(Box<dyn Io>),
    Streams(SendRequest<Body>),
}

type Lost = Box<dyn std::error::Error + Send + Sync>;

/// Asks for this time.
pub(crate) async fn ask(house: &Arc<House>, time: Duration) -> Seen {
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(Arc::clone(house), time))).collect();
    let (mut took, mut lost) = (Vec::new(), Vec::new());
    for client in clients {
        let (own, own_lost) = client.await.expect("it ends");
        took.extend(own);
        lost.extend(own_lost);
    }
    took.sort();
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or(PATIENCE);
    Seen { asked: took.len(), p99, lost }
}

async fn client(house: Arc<House>, time: Duration) -> (Vec<Duration>, Vec<String>) {
    let (begun, mut took, mut lost) = (Instant::now(), Vec::new(), Vec::new());
    let mut line = None;
    while begun.elapsed() < time {
        let asked = Instant::now();
        match timeout(PATIENCE, once(&house, line.take())).await {
            Ok(Ok(kept)) => {
                line = Some(kept);
                took.push(asked.elapsed());
            }
            Ok(Err(error)) => lost.push(error.to_string()),
            Err(_) => lost.push("no answer".to_owned()),
        }
        sleep(PAUSE).await;
    }
    (took, lost)
}

async fn once(house: &House, line: Option<Line>) -> Result<Line, Lost> {
    let mut line = match line {
        Some(line) => line,
        None => connect(house).await?,
    };
    match (&mut line, house.door) {
        (Line::Streams(sender), Door::Grpc) => {
            let request = Request::post("http://a.test/grpc.health.v1.Health/Check")
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(full(&[0; 5][..]))?;
            let answer = sender.send_request(request).await?.into_body().collect().await?;
            let status = answer.trailers().and_then(|trailers| trailers.get("grpc-status"));
            if status.is_none_or(|status| status != "0") {
                return Err(format!("{status:?}").into());
            }
        }
        (Line::Streams(sender), _) => {
            let request = Request::post("http://a.test/").body(full(UPLOAD))?;
            let answer = sender.send_request(request).await?;
            let (status, body) = (answer.status(), answer.into_body().collect().await?.to_bytes());
            if status != 200 || body != "done" {
                return Err(format!("{status} {body:?}").into());
            }
        }
        (Line::Bytes(stream), Door::Resp) => {
            stream.write_all(b"CL.THROTTLE k 1000000 1000000 1\r\n").await?;
            let said = until(stream, |said| said.matches("\r\n").count() == 6).await?;
            if !said.starts_with("*5\r\n:0\r\n") {
                return Err(said.into());
            }
        }
        (Line::Bytes(stream), Door::Http) => {
            for (ask, body, end) in [("check", r#"{"ticket":true}"#, "settle"), ("acquire", "{}", "release")]
            {
                let said = exchange(stream, &post(&format!("/v1/{ask}"), body)).await?;
                let ticket = said.split("\"ticket\":\"").nth(1).and_then(|rest| rest.split('"').next());
                let cancelled = format!(r#"{{"ticket":"{}","cancel":true}}"#, ticket.ok_or(said.as_str())?);
                exchange(stream, &post(&format!("/v1/{end}"), &cancelled)).await?;
            }
        }
        (Line::Bytes(stream), door) => {
            let path = if door == Door::Admin { "/healthz" } else { "/" };
            exchange(stream, &format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", house.address())).await?;
        }
    }
    Ok(line)
}

async fn connect(house: &House) -> Result<Line, Lost> {
    if let Some(shared) = &house.shared {
        return Ok(Line::Streams(shared.clone()));
    }
    if matches!(house.door, Door::ProxyHttp2 | Door::Grpc) {
        return Ok(Line::Streams(house.streams(ADDRESS).await?));
    }
    let mut stream = house.connect(ADDRESS, End::Closed).await?;
    match house.door {
        Door::Resp => {
            stream.write_all(format!("AUTH {PASSWORD}\r\n").as_bytes()).await?;
            let said = until(&mut stream, |said| said.ends_with("\r\n")).await?;
            if said == "+OK\r\n" { Ok(Line::Bytes(stream)) } else { Err(said.into()) }
        }
        _ => Ok(Line::Bytes(stream)),
    }
}

/// A request for the API.
pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a request of HTTP/1 and returns its answer, which must be 200.
pub(crate) async fn exchange(stream: &mut Box<dyn Io>, request: &str) -> Result<String, Lost> {
    stream.write_all(request.as_bytes()).await?;
    let is_whole = |said: &str| {
        said.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            length.is_none_or(|length| body.len() >= length.parse().unwrap_or(0))
        })
    };
    let said = until(stream, is_whole).await?;
    if said.starts_with("HTTP/1.1 200 ") { Ok(said) } else { Err(said.into()) }
}

/// Reads until all has come.
async fn until(stream: &mut Box<dyn Io>, is_whole: impl Fn(&str) -> bool) -> Result<String, Lost> {
    let mut said = Vec::new();
    loop {
        if stream.read_buf(&mut said).await? == 0 {
            return Err(format!("closed after {:?}", String::from_utf8_lossy(&said)).into());
        }
        let text = String::from_utf8_lossy(&said);
        if is_whole(&text) {
            return Ok(text.into_owned());
        }
    }
}
