//! Random programs: requests that are kept for later, beside everything else that rules do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::stream::iter;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_server::{Server, Settings};
use tollgate_testing::random::Random;
use tollgate_testing::servers::{self, loopback};
use tollgate_testing::upstream::{Body, full, upstream};
use tollgate_testing::wait::LONG;

use super::park::Kept;
use super::support::path;

const KEYS: u64 = 4;

/// The bound of each key, beside all other rules: at once, and a second.
const BOUND: (u64, u64) = (20, 200);

/// The longest body that the proxy takes.
const LONGEST: u64 = 1_000;

/// How many bytes of a key may be parked: those of one longest body, and not of two.
const BYTES: u64 = 1_500;

const TOKEN: &str = "let me in";

/// How the rules of a file begin, and what their rules that park have in common.
fn begin(kept: &Kept, seed: u64) -> (String, String) {
    let (stores, store) = match kept {
        Kept::File => (String::new(), ""),
        Kept::Redis(server) => {
            let place = format!("url = '{}', deadline = '2s', prefix = 'seed-{seed}'", server.url());
            (format!("stores.shared = {{ {place} }}"), ", store = 'shared'")
        }
    };
    let park = format!("{{ tries = 1000, retry = '5ms', bytes_per_key = {BYTES} }}");
    let park = format!("forget = true, on_refusal = 'park', park = {park}, key = 'header.x-key'{store}");
    (format!("version = 1\n{stores}\n"), park)
}

/// The rules of a file. `of` is any number.
fn rules(kept: &Kept, seed: u64, of: u64) -> String {
    let (begin, park) = begin(kept, seed);
    let tier = "tier = [{ name = 'gold', match.header.x-tier = 'gold', limits = '40/s,burst=4' }]";
    // A rule with a store has no other name.
    let (name, was) = if matches!(kept, Kept::File) { ("after", ", was = 'later'") } else { ("later", "") };
    let later = [
        format!("{{ name = 'later', limits = '20/s,burst=2', {park} }},"),
        format!("{{ name = '{name}'{was}, limits = '30/s,burst=1', {park} }},"),
        format!("{{ name = 'later', limits = '25/s,burst=3', {tier}, {park} }},"),
        String::new(),
    ];
    let other = [
        "{ name = 'line', key = 'header.x-key', limits = 'leaky-bucket:150/s,capacity=9,queue' },",
        "{ name = 'busy', key = 'header.x-key', limits = 'in-flight:2' },",
        "{ name = 'banned', key = 'header.x-key', limits = '3/s,burst=1', match.path = '/bad/**', ban = '50ms' },",
        "",
    ];
    let bound = format!("key = 'header.x-key', limits = '{}/s,burst={}'", BOUND.1, BOUND.0);
    format!(
        "{begin}rule = [{}{}{{ name = 'bound', {bound} }}]",
        later[(of % 4) as usize],
        other[(of / 4 % 4) as usize]
    )
}

/// A proxy that begins again where it has ended.
struct Life {
    kept: Kept,
    rules: PathBuf,
    state: PathBuf,
    park: PathBuf,
    upstream: String,
    token: PathBuf,
    /// The administration's, and the proxy's.
    addresses: Mutex<[SocketAddr; 2]>,
}

impl Life {
    async fn begin(&self) -> Server {
        let mut settings = Settings::new(&self.rules);
        settings.proxy.push(loopback());
        settings.forward.upstreams = vec![self.upstream.parse().unwrap()];
        settings.state = Some(self.state.clone());
        settings.park = matches!(self.kept, Kept::File).then(|| self.park.clone());
        settings.forward.max_body = Some(LONGEST);
        settings.admin.push(loopback());
        settings.admin_token = Some(self.token.clone());
        let (server, addresses) = servers::begin(settings).await;
        *self.addresses.lock().unwrap() = [addresses.admin(), addresses.proxy()];
        server
    }

    /// The most bytes that a queue takes now, of at most 1,000 requests.
    async fn most_bytes(&self) -> Option<u64> {
        let [admin, _] = *self.addresses.lock().unwrap();
        let request = Request::get("/admin/parked?state=parked&most=1000").header("host", "a.test");
        let request = request.header("authorization", format!("Bearer {TOKEN}")).body(full("")).unwrap();
        let answer = send(admin, request).await?.into_body().collect().await.ok()?;
        let listed: Value = serde_json::from_slice(&answer.to_bytes()).ok()?;
        let mut queues = HashMap::<String, u64>::new();
        for entry in listed["parked"].as_array()? {
            let name = format!("{} {}", entry["rule"], entry["key"]);
            *queues.entry(name).or_default() += entry["bytes"].as_u64().unwrap();
        }
        queues.into_values().max()
    }

    /// The status of a request. `None`: it has no answer. Only a chunked body's length is not told.
    async fn ask(&self, path: &str, key: u64, is_gold: bool, is_chunked: bool) -> Option<u16> {
        let [_, address] = *self.addresses.lock().unwrap();
        let request = Request::post(path).header("host", "a.test").header("x-key", key);
        let request = request.header("x-tier", if is_gold { "gold" } else { "none" });
        let length = length(path);
        let body: Body = if is_chunked {
            let halves =
                [length / 2, length.div_ceil(2)].map(|half| Ok(Frame::data(vec![b'x'; half].into())));
            StreamBody::new(iter(halves)).boxed()
        } else {
            full(vec![b'x'; length])
        };
        let request = request.body(body).unwrap();
        Some(send(address, request).await?.status().as_u16())
    }
}

/// Sends a request by a connection of its own. `None`: there is no answer.
async fn send(address: SocketAddr, request: Request<Body>) -> Option<Response<Incoming>> {
    let stream = TokioIo::new(TcpStream::connect(address).await.ok()?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.ok()?;
    tokio::spawn(connection);
    tokio::time::timeout(LONG, sender.send_request(request)).await.expect("it ends").ok()
}

/// The length of a request's body, with which its path ends.
fn length(path: &str) -> usize {
    path.rsplit('/').next().unwrap().parse().unwrap()
}

async fn run(kept: Kept, seed: u64) {
    let (got, asked) = (Arc::new(Mutex::new(HashMap::<String, u64>::new())), Arc::new(AtomicU64::new(0)));
    let (noted, times) = (Arc::clone(&got), Arc::clone(&asked));
    let address = upstream(move |request: Request<Incoming>| {
        let (noted, times) = (Arc::clone(&noted), Arc::clone(&times));
        async move {
            let path = request.uri().path().to_owned();
            // It breaks off if it is longer than it may be.
            let Ok(body) = request.into_body().collect().await else { return Response::new(full("")) };
            let length = length(&path);
            assert!(body.to_bytes() == vec![b'x'; length] && length as u64 <= LONGEST, "{path}");
            let number = times.fetch_add(1, Relaxed);
            sleep(Duration::from_millis(number % 5)).await;
            // It fails now and then.
            let status = if number % 11 == 0 { 503 } else { 200 };
            *noted.lock().unwrap().entry(format!("{path} {status}")).or_default() += 1;
            Response::builder().status(status).body(full("done")).unwrap()
        }
    });
    let began = Instant::now();
    let life = Arc::new(Life {
        upstream: format!("http://{}", address.await),
        rules: path("random.toml"),
        state: path("random-state"),
        park: path("random-park"),
        token: path("random-token"),
        addresses: Mutex::new([([127, 0, 0, 1], 1).into(); 2]),
        kept,
    });
    std::fs::write(&life.token, TOKEN).unwrap();
    std::fs::write(&life.rules, rules(&life.kept, seed, 0)).unwrap();
    let mut server = life.begin().await;
    let mut clients = JoinSet::new();
    for client in 0..6 {
        let life = Arc::clone(&life);
        clients.spawn(async move {
            let mut random = Random::with_seed(seed * 100 + client);
            let (mut kept, mut refused, mut too_long) = (Vec::new(), Vec::new(), 0);
            let mut answered = 0;
            for number in 0.. {
                if answered == 60 {
                    break;
                }
                let (key, is_bad) = (random.u64(..KEYS), random.u64(..8) == 0);
                let length = match random.u64(..8) {
                    0 => LONGEST + 1 + random.u64(..LONGEST),
                    1..4 => random.u64(..=LONGEST),
                    _ => random.u64(..10),
                };
                let kind = if is_bad { "bad" } else { "good" };
                let path = format!("/{kind}/{key}/{client}-{number}/{length}");
                let (is_gold, is_chunked) = (random.u64(..3) == 0, random.u64(..3) == 0);
                let status = life.ask(&path, key, is_gold, is_chunked).await;
                match status {
                    Some(status) if length > LONGEST => {
                        // The rules may refuse it before its end is seen.
                        assert!(status == 413 || status == 429 && is_chunked, "{path}: {status}");
                        too_long += 1;
                    }
                    Some(202) => kept.push(path),
                    Some(429) => refused.push(path),
                    // The proxy begins again.
                    None => sleep(Duration::from_millis(20)).await,
                    // The upstream's.
                    Some(_) => {}
                }
                answered += u64::from(status.is_some());
                sleep(Duration::from_millis(random.u64(..9))).await;
            }
            (kept, refused, too_long)
        });
    }
    let most_bytes = Arc::new(AtomicU64::new(0));
    let (watched, noted) = (Arc::clone(&life), Arc::clone(&most_bytes));
    let watch = tokio::spawn(async move {
        loop {
            noted.fetch_max(watched.most_bytes().await.unwrap_or_default(), Relaxed);
            sleep(Duration::from_millis(10)).await;
        }
    });
    let mut random = Random::with_seed(seed);
    for turn in 0..20 {
        sleep(Duration::from_millis(random.u64(..60))).await;
        let text = rules(&life.kept, seed, random.u64(..16));
        std::fs::write(&life.rules, &text).unwrap();
        server.reload().unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        if turn % 7 == 6 {
            server.end().await.unwrap();
            server = life.begin().await;
        }
    }
    let (mut kept, mut refused, mut too_long) = (Vec::<String>::new(), Vec::<String>::new(), 0);
    for client in clients.join_all().await {
        kept.extend(client.0);
        refused.extend(client.1);
        too_long += client.2;
    }
    std::fs::write(&life.rules, rules(&life.kept, seed, 12)).unwrap();
    server.reload().unwrap();
    let ends = Instant::now() + 4 * LONG;
    loop {
        let sent = got.lock().unwrap().clone();
        let lost: Vec<_> = kept.iter().filter(|path| !sent.contains_key(&format!("{path} 200"))).collect();
        if lost.is_empty() {
            break;
        }
        assert!(Instant::now() < ends, "seed {seed}: {} of {} are lost: {lost:?}", lost.len(), kept.len());
        sleep(Duration::from_millis(20)).await;
    }
    let elapsed = began.elapsed().as_secs() + 1;
    let sent = got.lock().unwrap().clone();
    for key in 0..KEYS {
        let is_of_key = |path: &str| path.split('/').nth(2) == Some(&*key.to_string());
        let of_key: u64 = sent.iter().filter(|(path, _)| is_of_key(path)).map(|(_, count)| count).sum();
        assert!(of_key <= BOUND.0 + BOUND.1 * elapsed, "seed {seed}: {of_key} of key {key} in {elapsed} s");
    }
    for path in &kept {
        assert_eq!(sent[&format!("{path} 200")], 1, "seed {seed}: {path} was sent again");
    }
    for path in &refused {
        let is_sent = [200, 503].iter().any(|status| sent.contains_key(&format!("{path} {status}")));
        assert!(!is_sent, "seed {seed}: {path} was refused, and sent");
    }
    // The bytes have come back: a key may have another long one.
    let (begin, park) = begin(&life.kept, seed);
    let names: &[&str] = if matches!(life.kept, Kept::File) { &["later", "after"] } else { &["later"] };
    for name in names {
        let rule = format!("rule = [{{ name = '{name}', limits = '1/h', {park} }}]");
        std::fs::write(&life.rules, format!("{begin}{rule}")).unwrap();
        server.reload().unwrap();
        for key in 0..KEYS {
            life.ask(&format!("/good/{key}/{name}/1"), key, false, false).await;
            let status = life.ask(&format!("/good/{key}/{name}/{LONGEST}"), key, false, false).await;
            assert_eq!(status, Some(202), "seed {seed}: {name} of key {key}");
        }
    }
    watch.abort();
    let most = most_bytes.load(Relaxed);
    let (kept, refused, sent) = (kept.len(), refused.len(), sent.values().sum::<u64>());
    eprintln!("seed {seed}: {kept} kept, {refused} refused, {too_long} too long, {sent} sent, {most} bytes");
    assert!(kept > 5 && too_long > 5, "seed {seed}: only {kept} were kept, {too_long} too long");
    assert!(most > BYTES / 2 && most <= BYTES, "seed {seed}: a key had {most} bytes");
    server.end().await.unwrap();
    for file in [&life.rules, &life.state, &life.park, &life.token] {
        let _ = std::fs::remove_file(file);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_programs_lose_no_parked_request() {
    let seeds = std::env::var("TOLLGATE_PARK_SEEDS").map_or(2, |seeds| seeds.parse().expect("a number"));
    for kept in Kept::each() {
        for seed in 0..seeds {
            run(kept.clone(), seed).await;
        }
    }
}
