//! Envoy's calls, proxies that ask, and Redis clients.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tollgate_rules_file::{EnvoyConfig, Memory, SameDomain};

use crate::check::{left, rule, rules, stored};
use crate::support::{start, start_with};
use tollgate_testing::stores::{Server, Store};

#[tokio::test(flavor = "multi_thread")]
async fn calls_by_envoy_share_the_limit_of_a_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let domain = |name: &str, count: u64| {
        format!(
            "{{ name = '{name}', key = 'entry.{name}', missing = 'pass', limits = '{count}/52w,burst={count}', \
             store = 'redis' }}"
        )
    };
    let text = rules(&redis.url(), &[domain("user", 4), domain("team", 2)].join(", "));
    let (one, other) = (start(&text).await, start(&text).await);
    let call = |keys: &[&str]| {
        let descriptors: Vec<_> =
            keys.iter().map(|key| json!({ "entries": [{ "key": key, "value": "x" }] })).collect();
        json!({ "domain": "d", "descriptors": descriptors }).to_string()
    };
    let both = call(&["user", "team"]);
    assert_eq!(one.post("/json", both.clone()).await.status, 200);
    assert_eq!(other.post("/json", both.clone()).await.status, 200);
    // The team has no more. The user is not charged for a call that is refused.
    assert_eq!(other.post("/json", both.clone()).await.status, 429);
    let user = call(&["user"]);
    for status in [200, 200, 429] {
        assert_eq!(one.post("/json", user.clone()).await.status, status);
    }
}

/// As two instances of envoyproxy/ratelimit do.
#[tokio::test(flavor = "multi_thread")]
async fn converted_files_of_envoy_share_the_limit_of_a_store() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let yaml = "domain: d\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 10 } }]";
    let source = Memory::new("d.yaml", yaml);
    let config = EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source).into_rules().unwrap();
    let converted = config.convert_to_store(&redis.url()).toml;
    let text = converted.replace("version = 1\n", "").replace("\nurl", "\ndeadline = '20s'\nurl");
    let (one, other) = (start(&text).await, start(&text).await);
    let entry = json!({ "key": "user", "value": "x" });
    let call = json!({ "domain": "d", "descriptors": [{ "entries": [entry] }] }).to_string();
    let mut admitted = 0;
    for _ in 0..10 {
        for server in [&one, &other] {
            admitted += usize::from(server.post("/json", call.clone()).await.status == 200);
        }
    }
    assert_eq!(admitted, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_asks_waits_for_the_store() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    let server = start(&rules(&redis.url(), &stored("shared", 2, ""))).await;
    let headers =
        [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/"), ("x-forwarded-for", "203.0.113.9")];
    for status in [200, 200, 429] {
        assert_eq!(server.call("GET", "/v1/auth", &headers, "").await.status, status);
    }
    redis.kill();
    let answer = server.call("GET", "/v1/auth", &headers, "").await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, "1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_client_is_told_that_a_store_decides() {
    let Some(redis) = Server::start(Store::Redis) else { return };
    let all = [stored("shared", 5, ""), rule("local", 5, "")].join(", ");
    let listen = |settings: &mut tollgate_server::Settings| {
        settings.resp.push("127.0.0.1:0".parse().unwrap());
    };
    let server = start_with(&rules(&redis.url(), &all), listen).await;
    let ask = |rule: &str| {
        let mut stream = TcpStream::connect(server.resp()).unwrap();
        stream.write_all(format!("TG.CHECK {rule} 203.0.113.9\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("shared").starts_with("-ERR a store keeps the counts of the rule"), "{}", ask("shared"));
    assert!(ask("local").starts_with("*5\r\n:0\r\n:5\r\n:4\r\n"), "{}", ask("local"));
    left(&server, 4).await;
}

/// Two nodes share what is left without a store: a server with a proxy is one of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_and_the_other_listeners_are_one_node() {
    let Some(mut redis) = Server::start(Store::Redis) else { return };
    redis.kill();
    let upstream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in upstream.incoming() {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.and_then(|mut stream| {
                let read = stream.read(&mut [0; 1024])?;
                if read > 0 { stream.write_all(answer) } else { Ok(()) }
            });
        }
    });
    let listen = |settings: &mut tollgate_server::Settings| {
        settings.proxy.push("127.0.0.1:0".parse().unwrap());
        settings.forward.upstreams.push(url.parse().unwrap());
    };
    let text = rules(&redis.url(), &stored("shared", 4, ", on_failure = { local = 2 }"));
    let server = start_with(&text, listen).await;
    let through = || {
        let answer = tollgate_testing::http::ask(server.proxy(), "GET", "/", &[("host", "a.test")], "");
        answer.status.as_str().to_owned()
    };
    let asked = json!({ "client": "127.0.0.1" }).to_string();
    assert_eq!(server.post("/v1/check", asked.clone()).await.status, 200);
    assert_eq!(through(), "200");
    assert_eq!(server.post("/v1/check", asked).await.status, 429);
    assert_eq!(through(), "429");
}
