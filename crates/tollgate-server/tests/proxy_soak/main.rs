//! The proxy under load, while rules are exchanged, upstreams fail, stall, reset and go away, a
//! flood is refused, and clients leave wherever their request is: every key stays within its bound,
//! as the upstreams count it; none is sent twice but a GET; memory does not grow; and in the end no
//! connection is open and no request is in flight.
//!
//! It takes twenty seconds, or `TOLLGATE_SOAK_SECONDS`.

mod clients;
mod upstreams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};
use tollgate_server::{Server, Settings};
use tollgate_testing::folder::Folder;
use tollgate_testing::servers::{begin, loopback};

use clients::Clients;
use upstreams::{Counts, Upstreams};

/// The most that any of the files admits of a key: so many a second, and as many at once.
const MOST: u32 = 50;

/// The keys that are counted. A flood of others comes and goes beside them.
const KEYS: u32 = 4;
const FLOOD: u32 = 50_000;

/// The requests in flight of all clients together, which is less than they ask for.
const AT_ONCE: usize = 16;

/// The memory that may come beside that after a third of the time.
const GROWTH: u64 = 16 << 20;

/// Longer than anything may take on a machine with other work.
const LONG: Duration = Duration::from_secs(60);

/// The rules that take turns: other numbers, another condition, which no client here meets. The
/// burst stays: a smaller one forgets the debt beyond it.
fn rules(turn: u32) -> String {
    let rate = [MOST, MOST / 2, MOST][turn as usize % 3];
    let except = ["", "except.path = '/health',", "except.method = 'PUT',"][turn as usize % 3];
    format!(
        "version = 1
        rule = [
            {{ name = 'each', {except} key = 'header.x-key', limits = '{rate}/s,burst={MOST}',
               max_keys = 20_000, missing = 'refuse' }},
            {{ name = 'at-once', key = 'everyone', limits = 'in-flight:{AT_ONCE}' }},
            {{ name = 'paced', match.path = '/paced', key = 'header.x-key', max_wait = '300ms',
               limits = 'leaky-bucket:20/s,capacity=10,mode=queue' }},
        ]"
    )
}

/// The open files of this process: connections of the proxy, its clients and its upstreams.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("it lists them").count()
}

/// The open files once their number stays: the thread that has the listener opens one more.
fn settled_files() -> usize {
    let (mut files, mut since) = (open_files(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
        if open_files() != files {
            (files, since) = (open_files(), Instant::now());
        }
    }
    files
}

/// The memory that this process uses, in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("it lives");
    4096 * pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
}

/// Waits until something is so.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A proxy in front of these upstreams, whose patience is short.
async fn start(rules: &std::path::Path, upstreams: &[String]) -> (Server, SocketAddr) {
    let brief = Duration::from_millis(500);
    let mut settings = Settings::new(rules);
    settings.proxy.push(loopback());
    settings.limits.read_timeout = brief;
    settings.forward.upstreams = upstreams.iter().map(|url| url.parse().expect("a URL")).collect();
    settings.forward.connect_timeout = brief;
    settings.forward.head_timeout = 2 * brief;
    settings.forward.idle_timeout = brief;
    let (server, addresses) = begin(settings).await;
    (server, addresses.proxy())
}

/// Exchanges the rules, has upstreams go away in turn, and watches the memory, for so long. Returns
/// the number of files, and how much memory came.
async fn disturb(
    server: Arc<Server>,
    file: &std::path::Path,
    upstreams: &mut Upstreams,
    length: Duration,
) -> (u32, u64) {
    let (begun, mut turn, mut first, mut most) = (Instant::now(), 0, None, 0);
    while begun.elapsed() < length {
        turn += 1;
        // Every fourth file is broken.
        let is_broken = turn % 4 == 0;
        let text = if is_broken { "nonsense".to_owned() } else { rules(turn) };
        std::fs::write(file, text).expect("it is written");
        let reloading = Arc::clone(&server);
        let reloaded = tokio::task::spawn_blocking(move || reloading.reload()).await.expect("no panic");
        assert_eq!(reloaded.is_err(), is_broken, "{reloaded:?}");
        match turn % 8 {
            2 => upstreams.close((turn / 8) as usize).await,
            4 => upstreams.open((turn / 8) as usize).await,
            _ => {}
        }
        if begun.elapsed() > length / 3 {
            let used = memory();
            let first = *first.get_or_insert(used);
            most = most.max(used.saturating_sub(first));
            assert!(most <= GROWTH, "{used} bytes, and {first} before");
        }
        sleep(Duration::from_millis(200)).await;
    }
    for at in 0..upstreams.len() {
        upstreams.open(at).await;
    }
    std::fs::write(file, rules(0)).expect("it is written");
    (turn, most)
}

#[test]
fn every_key_of_the_proxy_stays_within_its_bound() {
    let seconds = std::env::var("TOLLGATE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(20));
    let folder = Folder::new();
    let file = folder.write("rules.toml", rules(0));
    // The clients' work does not delay the proxy's tasks.
    let (proxy, load) = (Runtime::new().expect("threads"), Runtime::new().expect("threads"));
    let counts = Arc::new(Counts::new());
    let mut upstreams = load.block_on(Upstreams::new(&counts));
    let (server, address) = proxy.block_on(start(&file, &upstreams.urls()));
    let (server, before) = (Arc::new(server), settled_files());
    let is_over = Arc::new(AtomicBool::new(false));
    let (clients, files, grown) = load.block_on(async {
        let clients = Clients::begin(address, &counts, &is_over);
        let (files, grown) = disturb(Arc::clone(&server), &file, &mut upstreams, length).await;
        is_over.store(true, Relaxed);
        (clients.end().await, files, grown)
    });
    load.block_on(async {
        clients::assert_all_turns_are_free(address, &counts, AT_ONCE).await;
        upstreams.close_all().await;
        eventually("no connection is left", || open_files() <= before - upstreams.len()).await;
        assert_eq!(counts.twice.load(Relaxed), 0, "a request was sent twice");
    });
    let server = Arc::into_inner(server).expect("no other has it");
    proxy
        .block_on(async { timeout(LONG / 2, server.end()).await })
        .expect("it ends")
        .expect("it has no state");
    let (fullest, longest) = counts.assert_bound();
    assert!(fullest > 2 * MOST as usize, "the limit was reached, and refilled: {fullest}");
    for status in [200, 429, 502, 504] {
        assert!(clients.contains_key(&status), "{status} was answered: {clients:?}");
    }
    println!(
        "answers {clients:?}, {} at upstreams, {files} files, longest way {longest:?}, most of a key {fullest}, \
         {grown} bytes more",
        counts.arrived.load(Relaxed)
    );
}
