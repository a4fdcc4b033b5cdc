//! The counters of each listener.

use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_rules_file::Disk;

use super::proto::Code;
use tollgate_testing::client::{ask, connect, talk};
use tollgate_testing::servers::Addresses;
use tollgate_testing::wait::LONG;

use super::support::{Grpc, METHOD, metrics, request, start};

const RULES: &str = "rule = [
    { name = 'each', match.path = '/once', key = 'client', limits = 'fixed-window:1/d' },
    { name = 'entry', match.entry.k = 'once', key = 'client', limits = 'fixed-window:1/d' },
]";

/// The value of a sample on the page.
pub(super) fn value(page: &str, sample: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{sample} in {page}")).parse().unwrap()
}

async fn hears(stream: &mut TcpStream, said: &str, answer: &str) {
    let heard = tokio::time::timeout(LONG, async {
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut heard = vec![0; answer.len()];
        stream.read_exact(&mut heard).await.map(|_| String::from_utf8(heard).unwrap())
    });
    assert_eq!(heard.await.expect("it answers").unwrap(), answer, "{said:?}");
}

/// Two connections to each listener, which takes no more: the first stays, the second sends broken
/// input.
struct Two {
    http: [TcpStream; 2],
    admin: [TcpStream; 2],
    resp: [TcpStream; 2],
    proxy: [TcpStream; 2],
    grpc: [Grpc; 2],
}

impl Two {
    async fn connect(to: Addresses) -> Self {
        let two = async |address| [connect(address).await, connect(address).await];
        let [first, second] = two(to.grpc()).await;
        Self {
            http: two(to.http()).await,
            admin: two(to.admin()).await,
            resp: two(to.resp()).await,
            proxy: two(to.proxy()).await,
            grpc: [Grpc::over(first).await, Grpc::over(second).await],
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_counts_decisions_errors_connections_and_times() {
    let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let server = start(RULES, |settings, _| settings.limits.client_connections = Some(2)).await;
    let to = server.addresses;
    let mut two = Two::connect(to).await;
    let one = |client: &str| format!("{{\"target\":\"/once\",\"client\":\"{client}\"}}");
    let check = |body: &str| request("POST", "/v1/check", "", body);
    for (body, status) in [(one("192.0.2.1"), 200), (one("192.0.2.1"), 429), ("{}".into(), 200)] {
        let answer = ask(&mut two.http[0], &check(&body)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    let entries = [("k", "once"), ("remote_address", "192.0.2.2")];
    for (entries, code) in [(&entries[..], Code::Ok), (&entries, Code::OverLimit), (&[("k", "v")], Code::Ok)]
    {
        assert_eq!(two.grpc[0].call("d", entries).await.unwrap().overall_code(), code);
    }
    hears(&mut two.resp[0], "CL.THROTTLE k 0 1 60\r\n", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n").await;
    hears(&mut two.resp[0], "CL.THROTTLE k 0 1 60\r\n", "*5\r\n:1\r\n").await;
    for (path, status) in [("/once", 502), ("/once", 429), ("/other", 502)] {
        let answer = ask(&mut two.proxy[0], &request("GET", path, "", "")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    // The others are served, too: then each listener has all that it takes.
    ask(&mut two.http[1], &check("{}")).await;
    ask(&mut two.admin[1], &request("GET", "/healthz", "", "")).await;
    ask(&mut two.proxy[1], &request("GET", "/other", "", "")).await;
    hears(&mut two.resp[1], "PING\r\n", "+PONG\r\n").await;
    assert_eq!(two.grpc[1].call("", &[]).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    for (address, refusal) in [
        (to.http(), &b"HTTP/1.1 503 "[..]),
        (to.admin(), b"HTTP/1.1 503 "),
        (to.grpc(), b"\0\0\0\x04"),
        (to.resp(), b"-ERR max number of clients reached"),
        (to.proxy(), b"HTTP/1.1 503 "),
    ] {
        let mut answer = vec![0; refusal.len()];
        connect(address).await.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, refusal);
    }
    let page = metrics(&mut two.admin[0]).await;
    for listener in ["http", "admin", "grpc", "resp", "proxy"] {
        let labels = format!("{{listener=\"{listener}\"}}");
        let count = value(&page, &format!("tollgate_request_duration_seconds_count{labels}"));
        let sum = value(&page, &format!("tollgate_request_duration_seconds_sum{labels}"));
        assert!(count > 0.0 && sum > 0.0 && sum < 60.0, "{listener}: {count} in {sum} s");
        assert_eq!(value(&page, &format!("tollgate_connections{labels}")), 2.0, "{listener}");
        let many = format!(
            "tollgate_protocol_errors_total{{listener=\"{listener}\",kind=\"too_many_connections_of_client\"}}"
        );
        assert_eq!(value(&page, &many), 1.0, "{listener}");
    }
    for (listener, allowed, limited, unmatched) in
        [("http", 1.0, 1.0, 2.0), ("grpc", 1.0, 1.0, 1.0), ("resp", 1.0, 1.0, 0.0), ("proxy", 1.0, 1.0, 2.0)]
    {
        for (outcome, count) in [("allowed", allowed), ("limited", limited), ("unmatched", unmatched)] {
            let sample = format!("tollgate_decisions_total{{listener=\"{listener}\",outcome=\"{outcome}\"}}");
            assert_eq!(value(&page, &sample), count, "{sample}");
        }
    }
    let hash = tollgate_rules_file::read(server.folder.path().join("rules.toml"), &Disk).hash();
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(value(&page, &format!("tollgate_rules_info{{sha256=\"{hash}\"}}")), 1.0);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(value(&page, &format!("tollgate_build_info{{version=\"{version}\"}}")), 1.0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    for sample in [
        "tollgate_rule_last_concerned_timestamp_seconds{rule=\"each\"}",
        "tollgate_rule_last_limited_timestamp_seconds{rule=\"each\"}",
        "tollgate_rules_last_reload_success_timestamp_seconds",
    ] {
        // Whole seconds are rounded down.
        let at = value(&page, sample);
        assert!((begun - 1.0..=now).contains(&at), "{sample}: {at}, not from {begun} to {now}");
    }
    wrong_input_is_counted(two).await;
}

/// The second connection to each listener sends broken input, and is closed.
async fn wrong_input_is_counted(two: Two) {
    let Two { http, mut admin, resp, proxy, grpc } = two;
    let [_http, wrong_http] = http;
    let [_resp, wrong_resp] = resp;
    let [_proxy, wrong_proxy] = proxy;
    let [_grpc, other] = grpc;
    drop(other);
    for stream in [wrong_http, wrong_proxy] {
        let answer = talk(stream, b"GET / HTTP/9.9\r\n\r\n").await;
        assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    }
    let answer = talk(&mut admin[1], b"what is this?\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&answer));
    assert!(talk(wrong_resp, b"*x\r\n").await.starts_with(b"-ERR Protocol error: "));
    let wrong = [("http", "head"), ("admin", "head"), ("proxy", "head"), ("resp", "array_length")];
    let counted = async {
        loop {
            let page = metrics(&mut admin[0]).await;
            let open = |listener| value(&page, &format!("tollgate_connections{{listener=\"{listener}\"}}"));
            // They are closed before that is counted.
            if ["http", "admin", "grpc", "resp", "proxy"].into_iter().all(|listener| open(listener) == 1.0) {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let page = tokio::time::timeout(LONG, counted).await.expect("one connection to each is left");
    for (listener, kind) in wrong.into_iter().chain([("grpc", "no_domain")]) {
        let sample = format!("tollgate_protocol_errors_total{{listener=\"{listener}\",kind=\"{kind}\"}}");
        assert_eq!(value(&page, &sample), 1.0, "{sample}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_body_counts_in_the_time_of_its_request() {
    const SLOW: Duration = Duration::from_millis(300);
    let server = start(RULES, |_, _| {}).await;
    let to = server.addresses;
    let mut http = connect(to.http()).await;
    let check = request("POST", "/v1/check", "", "{}");
    let (begin, end) = check.split_at(check.len() - 1);
    http.write_all(begin.as_bytes()).await.unwrap();
    // The preface, SETTINGS, and the head of a call: POST, http, a path, `te` and `content-type`.
    let mut grpc = connect(to.grpc()).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let literal = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let head = [
        &[0x83, 0x86, 0x04][..],
        &literal(METHOD),
        &[0x0f, 0x10],
        &literal("application/grpc"),
        &[0],
        &literal("te"),
        &literal("trailers"),
    ];
    let head = head.concat();
    let frame = [&[0, 0, head.len() as u8, 1, 4, 0, 0, 0, 1], &*head].concat();
    grpc.write_all(&[preface, &*frame].concat()).await.unwrap();
    tokio::time::sleep(SLOW).await;
    http.write_all(end.as_bytes()).await.unwrap();
    // A message without a domain.
    grpc.write_all(b"\0\0\x05\0\x01\0\0\0\x01\0\0\0\0\0").await.unwrap();
    let mut admin = connect(to.admin()).await;
    let counted = async {
        loop {
            let page = metrics(&mut admin).await;
            let of = |suffix: &str, listener| {
                value(
                    &page,
                    &format!("tollgate_request_duration_seconds_{suffix}{{listener=\"{listener}\"}}"),
                )
            };
            if ["http", "grpc"].into_iter().all(|listener| of("count", listener) > 0.0) {
                return ["http", "grpc"].map(|listener| of("sum", listener));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let sums = tokio::time::timeout(LONG, counted).await.expect("both are answered");
    assert!(sums.iter().all(|sum| *sum >= SLOW.as_secs_f64() / 2.0), "{sums:?}");
}
