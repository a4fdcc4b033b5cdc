//! Random programs: requests that are kept for later, beside everything else that rules do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_server::{ListenAddress, Server, Settings};

use super::park::Kept;
use super::support::{LONG, full, path, upstream};

const KEYS: u64 = 4;

/// The bound of each key, beside all other rules: at once, and a second.
const BOUND: (u64, u64) = (20, 200);

/// Numbers that only the seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The rules of a file. `of` is any number.
fn rules(kept: &Kept, of: u64) -> String {
    let (stores, store) = match kept {
        Kept::File => (String::new(), ""),
        Kept::Redis(server) => {
            (format!("stores.shared = {{ url = '{}', deadline = '2s' }}", server.url()), ", store = 'shared'")
        }
    };
    let park = format!(
        "forget = true, on_refusal = 'park', park = {{ tries = 1000, retry = '5ms' }}, key = 'header.x-key'{store}"
    );
    let tier = "tier = [{ name = 'gold', match.header.x-tier = 'gold', limits = '40/s,burst=4' }]";
    // A rule with a store has no other name.
    let (name, was) = if store.is_empty() { ("after", ", was = 'later'") } else { ("later", "") };
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
        "version = 1\n{stores}\nrule = [{}{}{{ name = 'bound', {bound} }}]",
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
    address: Mutex<SocketAddr>,
}

impl Life {
    async fn begin(&self) -> Server {
        let mut settings = Settings::new(&self.rules);
        settings.proxy.push("127.0.0.1:0".parse().unwrap());
        settings.forward.upstreams = vec![self.upstream.parse().unwrap()];
        settings.state = Some(self.state.clone());
        settings.park = matches!(self.kept, Kept::File).then(|| self.park.clone());
        let server = Server::start(settings).await.unwrap();
        let Some(ListenAddress::Tcp(address)) = server.addresses().last() else { panic!("no listener") };
        *self.address.lock().unwrap() = *address;
        server
    }

    /// The status of a request. `None`: it has no answer.
    async fn ask(&self, path: &str, key: u64, is_gold: bool) -> Option<u16> {
        let address = *self.address.lock().unwrap();
        let request = Request::post(path).header("host", "a.test").header("x-key", key);
        let request = request.header("x-tier", if is_gold { "gold" } else { "none" });
        let request = request.body(Full::new(Bytes::from_static(b"body"))).unwrap();
        let stream = TokioIo::new(TcpStream::connect(address).await.ok()?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.ok()?;
        tokio::spawn(connection);
        let answer = tokio::time::timeout(LONG, sender.send_request(request)).await.expect("it ends").ok()?;
        Some(answer.status().as_u16())
    }
}

async fn run(kept: Kept, seed: u64) {
    let (got, asked) = (Arc::new(Mutex::new(HashMap::<String, u64>::new())), Arc::new(AtomicU64::new(0)));
    let (noted, times) = (Arc::clone(&got), Arc::clone(&asked));
    let address = upstream(move |request: Request<hyper::body::Incoming>| {
        let (noted, times) = (Arc::clone(&noted), Arc::clone(&times));
        async move {
            let path = request.uri().path().to_owned();
            assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "body");
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
        address: Mutex::new(([127, 0, 0, 1], 1).into()),
        kept,
    });
    std::fs::write(&life.rules, rules(&life.kept, 0)).unwrap();
    let mut server = life.begin().await;
    let mut clients = JoinSet::new();
    for client in 0..6 {
        let life = Arc::clone(&life);
        clients.spawn(async move {
            let mut random = Random(seed * 100 + client);
            let (mut kept, mut refused) = (Vec::new(), 0);
            let mut answered = 0;
            for number in 0.. {
                if answered == 60 {
                    break;
                }
                let (key, is_bad) = (random.below(KEYS), random.below(8) == 0);
                let path = format!("/{}/{key}/{client}-{number}", if is_bad { "bad" } else { "good" });
                let status = life.ask(&path, key, random.below(3) == 0).await;
                match status {
                    Some(202) => kept.push(path),
                    Some(429) => refused += 1,
                    // The proxy begins again.
                    None => sleep(Duration::from_millis(20)).await,
                    // The upstream's.
                    Some(_) => {}
                }
                answered += u64::from(status.is_some());
                sleep(Duration::from_millis(random.below(9))).await;
            }
            (kept, refused)
        });
    }
    let mut random = Random(seed);
    for turn in 0..20 {
        sleep(Duration::from_millis(random.below(60))).await;
        let text = rules(&life.kept, random.below(16));
        std::fs::write(&life.rules, &text).unwrap();
        server.reload().unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        if turn % 7 == 6 {
            server.end().await.unwrap();
            server = life.begin().await;
        }
    }
    let (kept, refused): (Vec<_>, Vec<u64>) = clients.join_all().await.into_iter().unzip();
    let kept: Vec<String> = kept.concat();
    let refused: u64 = refused.iter().sum();
    std::fs::write(&life.rules, rules(&life.kept, 12)).unwrap();
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
    eprintln!("seed {seed}: {} kept, {refused} refused, {} sent", kept.len(), sent.values().sum::<u64>());
    assert!(kept.len() > 20, "seed {seed}: only {} were kept", kept.len());
    server.end().await.unwrap();
    for file in [&life.rules, &life.state, &life.park] {
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
