//! A real Envoy in front of a real service, by the configuration of `examples/envoy`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use http::Response;
use tokio::task::spawn_blocking;
use tollgate_server::{Server, Settings};
use tollgate_testing::client::call;
use tollgate_testing::folder::{Folder, free_port};
use tollgate_testing::http::Answer;
use tollgate_testing::process::Process;
use tollgate_testing::servers::{begin, loopback};
use tollgate_testing::tools;
use tollgate_testing::upstream::{full, upstream};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/envoy")
}

/// A service that answers every request.
async fn service() -> SocketAddr {
    upstream(async |_| Response::new(full("service"))).await
}

/// A running Envoy; it ends with this.
struct Envoy {
    _process: Process,
    address: SocketAddr,
    _folder: Folder,
}

impl Envoy {
    /// Starts it with the example, on ports that are free.
    async fn start(binary: &Path, rls: SocketAddr) -> Self {
        let (port, admin) = (free_port(), free_port());
        let text = std::fs::read_to_string(examples().join("envoy.yaml")).unwrap();
        let replace = [
            ("port_value: 8000 ", format!("port_value: {} ", service().await.port())),
            ("port_value: 8081 ", format!("port_value: {} ", rls.port())),
            ("port_value: 9901 ", format!("port_value: {admin} ")),
            ("port_value: 10000 ", format!("port_value: {port} ")),
            // Tests share their machine.
            ("timeout: 0.05s", "timeout: 5s".into()),
        ];
        let text = replace.into_iter().fold(text, |text, (old, new)| {
            assert!(text.contains(old), "the example has {old}");
            text.replace(old, &new)
        });
        let folder = Folder::new();
        let config = folder.write("envoy.yaml", text);
        let mut command = Command::new(binary);
        command.arg("-c").arg(&config);
        command.args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warn"]);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let path = folder.path().to_owned();
        let process = spawn_blocking(move || Process::listening(&mut command, &path, address)).await.unwrap();
        Self { _process: process, address, _folder: folder }
    }

    /// The response to a request.
    async fn get(&self, path: &str) -> Answer {
        call(self.address, "GET", path, &[("host", "shop")], "").await
    }
}

fn number(answer: &Answer, name: &str) -> u64 {
    answer.header(name).parse().unwrap_or_else(|_| panic!("no {name} in {answer:?}"))
}

async fn server(edit: impl FnOnce(&mut Settings)) -> (Server, SocketAddr) {
    let mut settings = Settings::new(examples().join("rules.toml"));
    settings.grpc.push(loopback());
    settings.drain_timeout = Duration::from_secs(2);
    edit(&mut settings);
    let (server, addresses) = begin(settings).await;
    (server, addresses.grpc())
}

#[tokio::test]
async fn a_real_envoy_limits_by_the_rules() {
    let Some(binary) = tools::envoy() else { return };
    let (server, address) = server(|_| {}).await;
    let envoy = Envoy::start(&binary, address).await;

    let first = envoy.get("/").await;
    assert_eq!((first.status.as_u16(), first.header("x-ratelimit-remaining")), (200, "9"), "{first:?}");
    assert_eq!(first.header("x-ratelimit-limit"), "10, 10;w=60;name=\"per-client\"");
    // One token comes back in 6 s.
    assert_eq!(number(&first, "x-ratelimit-reset"), 6);
    assert!(first.text().ends_with("service"), "{first:?}");

    // A report costs three.
    let report = envoy.get("/reports").await;
    assert_eq!((report.status.as_u16(), number(&report, "x-ratelimit-remaining")), (200, 6));
    for _ in 0..2 {
        assert_eq!(envoy.get("/reports").await.status.as_u16(), 200);
    }
    let refused = envoy.get("/reports").await;
    assert_eq!(refused.status.as_u16(), 429, "{refused:?}");
    assert!((1..=18).contains(&number(&refused, "retry-after")), "{refused:?}");
    assert_eq!(number(&refused, "x-ratelimit-remaining"), 0);
    assert!(number(&refused, "x-ratelimit-reset") >= number(&refused, "retry-after"));
    assert_eq!(refused.header("x-envoy-ratelimited"), "true");
    assert_eq!(refused.header("content-type"), "application/problem+json");
    assert!(refused.text().contains("quota-exceeded"), "{refused:?}");

    // Without an answer requests pass, as the configuration says.
    server.end().await.unwrap();
    let unlimited = envoy.get("/reports").await;
    assert!(
        unlimited.status == 200 && !unlimited.headers.contains_key("x-ratelimit-remaining"),
        "{unlimited:?}"
    );
}

#[tokio::test]
async fn a_real_envoy_limits_by_files_of_envoyproxy_ratelimit() {
    let Some(binary) = tools::envoy() else { return };
    let (server, address) = server(|settings| settings.envoy.push(examples().join("ratelimit"))).await;
    let envoy = Envoy::start(&binary, address).await;
    let first = envoy.get("/").await;
    assert_eq!(first.header("x-ratelimit-limit"), "10, 10;w=3600;name=\"per-client\"", "{first:?}");
    assert_eq!((first.status.as_u16(), number(&first, "x-ratelimit-remaining")), (200, 9));
    let reset = number(&first, "x-ratelimit-reset");
    assert!((1..=3_600).contains(&reset), "{reset}");
    for left in [6, 3, 0] {
        assert_eq!(number(&envoy.get("/reports").await, "x-ratelimit-remaining"), left);
    }
    let refused = envoy.get("/").await;
    assert_eq!((refused.status.as_u16(), refused.header("x-envoy-ratelimited")), (429, "true"));
    let wait = number(&refused, "retry-after");
    assert!(wait <= reset && wait > 0, "{wait}");
    drop(server);
}
