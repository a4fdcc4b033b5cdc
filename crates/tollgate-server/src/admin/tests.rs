//! Pages and orders of a server that decides.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate::{Clock, Timestamp};
use tollgate_net::listen::{Connection, Drain, Peer, Presence, Stream};
use tollgate_rules::{Ask, PlainRequest};
use tollgate_rules_file::{Disk, LiveFile};
use tollgate_testing::folder::Folder;
use tollgate_testing::random::Random;

use super::Admin;
use crate::clock::ServerClock;
use crate::core::Core;
use crate::metrics::Listener;
use crate::{Server, Settings};

const RULES: &str = "version = 1

[[rule]]
name = 'everyone'
key = 'everyone'
limits = '2500/s,burst=2600'

[[rule]]
name = 'client'
key = 'client'
limits = '20/s,burst=60'

[[rule]]
name = 'api-key-strict'
key = 'header.x-api-key'
missing = 'pass'
limits = 'fixed-window:300/min'
mode = 'shadow'
";

fn request(client: [u8; 4], key: Option<&str>) -> PlainRequest {
    PlainRequest {
        client: Some(client.into()),
        headers: key.map(|key| ("x-api-key".into(), key.into())).into_iter().collect(),
        ..PlainRequest::default()
    }
}

async fn start(shows_keys: bool, address: &str) -> (Server, String, Folder) {
    let folder = Folder::new();
    let mut settings = Settings::new(folder.write("rules.toml", RULES));
    settings.show_keys = shows_keys;
    settings.admin.push(address.parse().unwrap());
    let server = Server::start(settings).await.unwrap();
    let address = server.addresses().next().unwrap().to_string();
    (server, address, folder)
}

fn decide(server: &Server, request: &PlainRequest) -> bool {
    let core = server.core();
    let mut decider = core.decider();
    let verdict = decider.ask(request, Ask::default());
    core.metrics.decided(Listener::Http, &verdict);
    verdict.is_admitted()
}

fn ask(address: &str, method: &str, path: &str, body: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nx-tollgate: 1\r\nconnection: close");
    stream.write_all(format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_hashes_unless_they_may_be_shown() {
    for shows_keys in [false, true] {
        let (server, address, _folder) = start(shows_keys, "127.0.0.1:0").await;
        let greedy = request([203, 0, 113, 9], Some("key-greedy"));
        (0..400).for_each(|_| _ = decide(&server, &greedy));
        for rule in ["client", "api-key-strict"] {
            let top = ask(&address, "GET", &format!("/admin/top?rule={rule}"), "");
            assert!(top["keys"][0]["refused"].as_u64().unwrap() >= 90, "{top}");
            let shown = top["keys"][0]["key"].as_str().unwrap();
            let key = if rule == "client" { "203.0.113.9" } else { "key-greedy" };
            assert_eq!(shown == key, shows_keys, "{shown}");
            assert!(shows_keys || (shown.len() == 12 && shown.bytes().all(|byte| byte.is_ascii_hexdigit())));
        }
        let live = ask(&address, "GET", "/admin/live", "");
        let text = live.to_string();
        assert_eq!(text.contains("203.0.113.9") && text.contains("key-greedy"), shows_keys, "{text}");
        assert_eq!(
            (&live["rules"][1]["keys_seen"], &live["rules"][1]["keys_limited"]),
            (&json!(1.0), &json!(1.0))
        );
        assert_eq!(live["listeners"][0]["decisions"], 400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_helps_the_key_of_a_request() {
    let (server, address, _folder) = start(false, "127.0.0.1:0").await;
    let client = request([203, 0, 113, 9], None);
    while decide(&server, &client) {}
    let order = |action: Value| json!({ "request": { "client": "203.0.113.9" }, "do": action }).to_string();
    let top = ask(&address, "GET", "/admin/top?rule=client", "");
    let peek = ask(&address, "POST", "/admin/keys/client", &order(json!("peek")));
    assert_eq!(peek["key"], top["keys"][0]["key"]);
    assert!(peek["state"]["remaining"].as_u64().unwrap() < 5, "{peek}");
    let refund = ask(&address, "POST", "/admin/keys/client", &order(json!({ "refund": 30 })));
    assert_eq!(refund["done"], 30);
    assert!(refund["state"]["remaining"].as_u64().unwrap() >= 30, "{refund}");
    let reset = ask(&address, "POST", "/admin/keys/client", &order(json!("reset")));
    assert_eq!((&reset["done"], &reset["state"]["remaining"]), (&json!(true), &json!(60)), "{reset}");
}

/// Traffic for the pictures in `docs/charts`: `TOLLGATE_LIVE=127.0.0.1:9080` names the address, and
/// the server stays for `TOLLGATE_LIVE_SECONDS`.
#[tokio::test(flavor = "multi_thread")]
async fn serve_for_a_picture() {
    let Ok(address) = std::env::var("TOLLGATE_LIVE") else { return };
    let seconds = std::env::var("TOLLGATE_LIVE_SECONDS").map_or(330, |seconds| seconds.parse().unwrap());
    let (server, _, _folder) = start(false, &address).await;
    let server = Arc::new(server);
    let start = Instant::now();
    let mut random = Random::with_seed(1);
    let mut random = move |most: u64| random.u64(..most);
    while start.elapsed() < Duration::from_secs(seconds) {
        let at = start.elapsed().as_secs_f64();
        let wave = 14.0 + 5.0 * (at / 40.0).sin() + random(5) as f64;
        for _ in 0..wave as u64 {
            // Many clients; some come often.
            let number = (random(60_000) * random(60_000)) / 60_000;
            let client = [198, 51, (number >> 8) as u8, number as u8];
            let key = format!("key-{}", (random(400) * random(400)) / 400);
            let _ = decide(&server, &request(client, (random(3) > 0).then_some(&*key)));
        }
        let greedy = if (at as u64 / 70) % 2 == 1 { 9 } else { 1 };
        for number in 0..greedy {
            let key = format!("key-{}", 500 + u32::from(number % 3));
            let _ = decide(&server, &request([203, 0, 113, number % 4], Some(&key)));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A clock that knows which threads have asked it.
#[derive(Debug, Default)]
struct Asked(Mutex<HashSet<ThreadId>>);

impl Clock for Asked {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().insert(thread::current().id());
        Timestamp::from_nanos(1)
    }
}

#[tokio::test]
async fn pages_that_read_tables_hold_up_no_client() {
    let asked = Arc::new(Asked::default());
    let path = std::env::temp_dir().join(format!("tollgate-pages-{}.toml", std::process::id()));
    std::fs::write(&path, RULES).unwrap();
    let settings = Settings::new(&path);
    let live = LiveFile::open(&path, &Disk, Arc::clone(&asked) as ServerClock).unwrap();
    let core = Arc::new(Core::new(live, Arc::clone(&asked) as ServerClock, 16, false).unwrap());
    let admin = Admin::new(&core, &settings, &Drain::default()).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for page in ["/metrics", "/admin/live"] {
        asked.0.lock().unwrap().clear();
        let get = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let head =
                format!("GET {page} HTTP/1.1\r\nhost: {address}\r\nx-tollgate: 1\r\nconnection: close");
            stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let getting = tokio::task::spawn_blocking(get);
        let (stream, peer) = listener.accept().await.unwrap();
        let (stream, peer, presence) = (Stream::Tcp(stream), Peer::Tcp(peer), Presence::alone());
        super::serve(Arc::clone(&admin), Connection { stream, peer, presence }).await;
        assert!(getting.await.unwrap().starts_with("HTTP/1.1 200"), "{page}");
        let threads = asked.0.lock().unwrap().clone();
        assert!(!threads.is_empty() && !threads.contains(&thread::current().id()), "{page}: {threads:?}");
    }
    std::fs::remove_file(path).unwrap();
}
