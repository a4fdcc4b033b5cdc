//! Requests of which no end comes, beside those of other clients.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate_testing::client::{ask, connect};
use tollgate_testing::servers::Running;
use tollgate_testing::upstream::Written;
use tollgate_testing::wait::{LONG, eventually, until};

use super::alone::is_alone;
use super::metrics::value;
use super::proto::Code;
use super::support::{Grpc, METHOD, metrics, request, start};

/// The bytes that a listener holds, beside those that each connection may hold.
const MOST: usize = 10 << 20;
const LEAST: usize = 32 << 10;

/// The connections that hold what they can, one after the other: the last find nothing free.
const CONNECTIONS: usize = 60;

/// The bytes of a request that is served beside any others.
const SHORT: usize = 15_000;

const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// Clients that begin requests. They leave when this is dropped.
type Crowd = JoinSet<()>;

/// Its listeners hold little, and long.
async fn bounded() -> Running {
    start("", |settings, _| {
        settings.limits.unfinished_bytes = Some(MOST);
        settings.limits.read_timeout = 2 * LONG;
    })
    .await
}

/// The bytes of a part that clients of HTTP/2 send.
const PART: usize = 16 << 10;

/// Connections of HTTP/2, each with so many requests of so many bytes: parts of messages of gRPC.
async fn of_streams(to: SocketAddr, path: &str, connections: usize, streams: usize, bytes: usize) -> Crowd {
    let part = [&[0, 0, 0, (PART >> 8) as u8, 0][..], &[b' '; PART - 5]].concat();
    let (part, mut crowd) = (Bytes::from(part), Crowd::new());
    for _ in 0..connections {
        let stream = TokioIo::new(TcpStream::connect(to).await.unwrap());
        let (mut sender, connection) = Builder::new(TokioExecutor::new()).handshake(stream).await.unwrap();
        crowd.spawn(async move { drop(connection.await) });
        for _ in 0..streams {
            let (upload, body) = Written::new();
            let request = Request::post(format!("http://d{path}")).header("te", "trailers");
            let request = request.header("content-type", "application/grpc").body(body).unwrap();
            let (part, answer) = (part.clone(), sender.send_request(request));
            crowd.spawn(async move {
                for _ in 0..bytes / PART {
                    // An error: it was refused.
                    let _ = upload.send(Some(part.clone())).await;
                }
                let answer = answer.await;
                pending::<()>().await;
                drop((upload, answer));
            });
        }
    }
    crowd
}

/// Connections that each say this, and no more.
fn of_bytes(to: SocketAddr, connections: usize, said: &Bytes) -> Crowd {
    let mut crowd = Crowd::new();
    for _ in 0..connections {
        let said = said.clone();
        crowd.spawn(async move {
            let mut stream = TcpStream::connect(to).await.unwrap();
            let _ = stream.write_all(&said).await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
    }
    crowd
}

/// A part of a request of HTTP/1.
fn part_of_a_request(path: &str) -> Bytes {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nx-tollgate: 1\r\ncontent-length: 1000000\r\n\r\n"
    );
    Bytes::from(head + &" ".repeat(999_999))
}

/// A part of a command.
fn part_of_a_command() -> Bytes {
    let argument = format!("$65536\r\n{}\r\n", "x".repeat(65_536));
    Bytes::from("*1000\r\n".to_owned() + &argument.repeat(15) + "$9\r\n")
}

/// Asks in three parts.
async fn ask_slowly(stream: &mut TcpStream, request: &str) -> String {
    let third = request.len() / 3;
    for part in [&request[..third], &request[third..2 * third]] {
        stream.write_all(part.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    ask(stream, &request[2 * third..]).await
}

/// Has a Redis client send so many bytes in two parts, and hears them.
async fn echo(stream: &mut TcpStream, length: usize) {
    let echo = format!("*2\r\n$4\r\nECHO\r\n${length}\r\n{}\r\n", "x".repeat(length));
    for part in echo.as_bytes().chunks(echo.len() / 2 + 1) {
        stream.write_all(part).await.unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    let mut answer = vec![0; echo.len() - "*2\r\n$4\r\nECHO\r\n".len()];
    timeout(LONG, stream.read_exact(&mut answer)).await.expect("it is answered").unwrap();
    assert!(echo.as_bytes().ends_with(&answer));
}

/// While the crowd is there, the listener holds no more than its bound, refuses the rest, and
/// serves others; and afterwards it holds nothing.
async fn is_held_within_the_bound(
    server: &Running,
    listener: &str,
    crowd: impl AsyncFnOnce() -> Crowd,
    others: impl AsyncFn(),
) {
    let page = async || metrics(&mut connect(server.admin()).await).await;
    let sample = |name: &str| format!("tollgate_unfinished_bytes{name}{{listener=\"{listener}\"}}");
    let held = async || value(&page().await, &sample(""));
    let kind = format!("tollgate_protocol_errors_total{{listener=\"{listener}\",kind=\"unfinished\"}}");
    let refused = async || {
        let page = page().await;
        if page.contains(&kind) { value(&page, &kind) } else { 0.0 }
    };
    assert_eq!(value(&page().await, &sample("_max")), MOST as f64);
    let before = refused().await;
    let crowd = crowd().await;
    until(async || refused().await > before).await;
    for _ in 0..20 {
        others().await;
        let held = held().await;
        let most = MOST + (CONNECTIONS + 1) * LEAST;
        assert!((1.0..=most as f64).contains(&held), "{listener}: {held}");
    }
    drop(crowd);
    until(async || held().await == 0.0).await;
    others().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_do_not_end_leave_room_for_others() {
    let server = bounded().await;
    for (path, connections, bytes) in [(METHOD, 4, 250_000), (METHOD, 1, 250_000), (REFLECTION, 4, PART)] {
        let crowd = async || of_streams(server.grpc(), path, connections, 100, bytes).await;
        let others = async || {
            let mut grpc = Grpc::over(connect(server.grpc()).await).await;
            // The second is longer than what comes at once.
            for value in ["v", &"v".repeat(SHORT)] {
                let answer = timeout(LONG, grpc.call("d", &[("k", value)])).await.expect("it is answered");
                assert_eq!(answer.unwrap().overall_code(), Code::Ok);
            }
        };
        is_held_within_the_bound(&server, "grpc", crowd, others).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_end_leave_room_for_others() {
    let server = bounded().await;
    let (http, admin) = (server.http(), server.admin());
    for (listener, address, path, is_http1) in [
        ("http", http, "/v1/check", true),
        ("http", http, "/v1/check", false),
        ("admin", admin, "/admin/plan", true),
    ] {
        let crowd = async || match is_http1 {
            true => of_bytes(address, CONNECTIONS, &part_of_a_request(path)),
            false => of_streams(address, path, 4, 25, 1_000_000).await,
        };
        let body = if listener == "http" { "{}" } else { "version = 1" };
        let others = async || {
            let mut stream = connect(address).await;
            for padding in [0, SHORT] {
                let body = body.to_owned() + &" ".repeat(padding);
                let asked = request("POST", path, "x-tollgate: 1\r\n", &body);
                for answer in [ask(&mut stream, &asked).await, ask_slowly(&mut stream, &asked).await] {
                    assert!(answer.starts_with("HTTP/1.1 200 "), "{path}, {padding}: {answer}");
                }
            }
        };
        is_held_within_the_bound(&server, listener, crowd, others).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_do_not_end_leave_room_for_others() {
    let server = bounded().await;
    let others = async || {
        let mut stream = connect(server.resp()).await;
        for length in [1, 100, SHORT] {
            echo(&mut stream, length).await;
        }
    };
    let crowd = async || of_bytes(server.resp(), CONNECTIONS, &part_of_a_command());
    is_held_within_the_bound(&server, "resp", crowd, others).await;
}

/// Whatever they took while they came.
#[tokio::test(flavor = "multi_thread")]
async fn long_requests_that_end_are_not_held() {
    const LONG_ONE: usize = 60_000;
    let server = bounded().await;
    let mut stays = (connect(server.http()).await, connect(server.resp()).await);
    let body = "{}".to_owned() + &" ".repeat(LONG_ONE);
    let answer = ask_slowly(&mut stays.0, &request("POST", "/v1/check", "", &body)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let mut grpc = Grpc::over(connect(server.grpc()).await).await;
    grpc.call("d", &[("k", &"v".repeat(2 * LONG_ONE))]).await.unwrap();
    echo(&mut stays.1, LONG_ONE).await;
    let page = metrics(&mut connect(server.admin()).await).await;
    for listener in ["http", "admin", "grpc", "resp", "proxy"] {
        assert_eq!(value(&page, &format!("tollgate_unfinished_bytes{{listener=\"{listener}\"}}")), 0.0);
    }
}

/// The resident memory of this process, which is the server's and its clients'.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_for_unfinished_calls_goes_back() {
    if !is_alone("unfinished::memory_for_unfinished_calls_goes_back") {
        return;
    }
    let server = start("", |settings, _| settings.limits.read_timeout = 4 * LONG).await;
    let page = async || metrics(&mut connect(server.admin()).await).await;
    page().await;
    let before = resident();
    let crowd = of_streams(server.grpc(), METHOD, 4, 1000, 250_000).await;
    until(async || page().await.contains("{listener=\"grpc\",kind=\"unfinished\"}")).await;
    for _ in 0..50 {
        let grown = resident().saturating_sub(before);
        println!("{} MiB", grown >> 20);
        assert!(grown < 200 << 20, "{grown} bytes");
        sleep(Duration::from_millis(20)).await;
    }
    drop(crowd);
    until(async || value(&page().await, "tollgate_unfinished_bytes{listener=\"grpc\"}") == 0.0).await;
    eventually(|| resident().saturating_sub(before) < 100 << 20).await;
    println!("{} MiB stay", resident().saturating_sub(before) >> 20);
}
