//! Random faults under load: for some seconds, or as long as `cargo xtask soak --redis` says.
//!
//! Four nodes, two of them behind proxies, ask one server through limiters of several algorithms,
//! modes and policies, while the server is killed, frozen, paused and flushed, and the network is
//! slow and cut. Two more ask a cluster, whose masters are killed and frozen. Two data centres, one
//! with that server and one with another, forward their charges through the same proxies. Then each
//! key's admissions are held against its bound over every interval, the counters against what the
//! callers saw, and the memory of this process against that of the beginning.

mod fault;
mod record;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tollgate::{Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_redis::{
    Answer, CentreLimiter, DecidedBy, Failed, FailureKind, Limiter, Mode, OnFailure, Redis,
};
use tollgate_testing::random::Random;
use tollgate_testing::stores::{Cluster, Proxy, Server, Store};

use fault::Faults;
use record::{Bound, Record};

const NODES: u32 = 4;
/// The nodes that ask the cluster.
const CLUSTER_NODES: usize = 2;
const KEYS: u64 = 4;
const DEADLINE: Duration = Duration::from_millis(20);
const TTL: Duration = Duration::from_secs(1);

/// A limiter's name, its quotas, what decides when the store fails, and the bound of a key.
struct Kind {
    name: &'static str,
    quotas: Vec<Quota>,
    on_failure: OnFailure,
    deny_cache: usize,
    mode: Mode,
    /// Checks in shadow mode at one time; 0: the answers decide.
    shadow: usize,
    /// How much longer its tasks pause than others.
    pauses: u64,
    bound: Bound,
}

/// Who decides.
#[derive(Clone)]
enum Asked {
    Own(Limiter),
    Centre(CentreLimiter),
}

impl Asked {
    async fn check(&self, key: String) -> Result<Answer, Failed> {
        match self {
            Self::Own(limiter) => limiter.check(key).await,
            Self::Centre(limiter) => limiter.check(key).await,
        }
    }

    fn counts(&self) -> tollgate_redis::Counts {
        match self {
            Self::Own(limiter) => limiter.counts(),
            Self::Centre(limiter) => limiter.counts(),
        }
    }
}

fn kinds() -> Vec<Kind> {
    let bucket = TokenBucket::new(Rate::per_second(20)).burst(10);
    let log = SlidingLog::new(Rate::per_second(15));
    let window = SlidingWindow::new(Rate::per_second(30));
    let (refuse, local) = (OnFailure::Refuse, OnFailure::Local { nodes: NODES });
    let kind = |name, quotas: Vec<Quota>, on_failure, deny_cache, bound| Kind {
        name,
        quotas,
        on_failure,
        deny_cache,
        mode: Mode::Strict,
        shadow: 0,
        pauses: 1,
        bound,
    };
    let bound = |burst, rate| Bound { burst, rate, for_restart: burst };
    // Each node asks for a key some 16 times in a ttl, all together for about what it admits.
    let leased = TokenBucket::new(Rate::per_second(60)).burst(160);
    let mode = Mode::Leased { ttl: TTL, nodes: NODES };
    // What a lease adds: the rate of its ttl.
    let of_leases = Bound { burst: 160.0 + 60.0 * TTL.as_secs_f64(), rate: 60.0, for_restart: 160.0 };
    vec![
        kind("bucket", vec![bucket.into()], OnFailure::Error, 1_000, bound(10.0, 20.0)),
        kind("log", vec![log.into()], refuse, 0, bound(15.0, 15.0)),
        kind("several", vec![bucket.into(), window.into()], OnFailure::Error, 0, bound(10.0, 20.0)),
        // All nodes may be cut off: as much again by themselves. Restarts add to the store's.
        kind("local", vec![bucket.into()], local, 100, Bound { burst: 20.0, rate: 40.0, for_restart: 10.0 }),
        Kind { mode, pauses: 10, ..kind("leased", vec![leased.into()], OnFailure::Error, 100, of_leases) },
        Kind { shadow: 32, ..kind("shadow", vec![bucket.into()], refuse, 100, bound(10.0, 20.0)) },
    ]
}

/// What the tasks of a limiter saw.
#[derive(Default)]
struct Seen {
    records: Vec<Record>,
    allowed: u64,
    denied: u64,
    failed: u64,
}

/// Checks keys until it is stopped.
async fn load(limiter: Asked, pauses: u64, seed: u64, start: Instant, stop: Arc<AtomicBool>) -> Seen {
    let mut random = Random::with_seed(seed);
    let mut seen = Seen { records: (0..KEYS).map(|_| Record::default()).collect(), ..Seen::default() };
    while !stop.load(Relaxed) {
        let key = random.u64(..KEYS);
        let sent = start.elapsed();
        match limiter.check(name(key)).await {
            Ok(answer) if answer.is_allowed() => {
                // In shadow, everything is admitted.
                if answer.decided_by() != DecidedBy::Shadow {
                    seen.records[key as usize].push(sent, start.elapsed());
                }
                seen.allowed += 1;
            }
            Ok(_) => seen.denied += 1,
            Err(_) => seen.failed += 1,
        }
        tokio::time::sleep(Duration::from_micros((500 + random.u64(..2_000)) * pauses)).await;
    }
    seen
}

fn name(key: u64) -> String {
    format!("key-{key}")
}

/// The resident memory of this process in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1_024
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// On each store that can be had, for its part of the time.
#[test]
fn random_faults_pass_no_bound() {
    let time = Duration::from_secs(setting("TOLLGATE_SOAK_SECONDS", 12)) / Store::ALL.len() as u32;
    let seed = setting("TOLLGATE_SOAK_SEED", u64::from(std::process::id()));
    for store in Store::ALL {
        println!("\n{store:?}, {} s, seed {seed}", time.as_secs());
        soak(store, time, seed);
    }
}

/// What all centres together admit: their charges reach each other within `lag`.
fn of_centres(lag: Duration) -> Bound {
    let beyond = 10.0 + 20.0 * lag.as_secs_f64();
    // A store that restarts empty forgets its debt, and what it has not forwarded.
    Bound { burst: 10.0 + beyond, rate: 20.0, for_restart: 10.0 + beyond }
}

fn soak(store: Store, time: Duration, seed: u64) {
    let (Some(server), Some(second)) = (Server::start(store), Server::start(store)) else { return };
    let Some(cluster) = Cluster::start(store, 3) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let proxies = [Proxy::to(server.port()), Proxy::to(server.port())];
        let stop = Arc::new(AtomicBool::new(false));
        let mut limiters: Vec<(usize, Asked)> = Vec::new();
        let mut tasks = Vec::new();
        let urls = cluster.urls();
        for node in 0..NODES as usize + CLUSTER_NODES {
            let in_cluster = node >= NODES as usize;
            let url = proxies.get(node).map_or_else(|| server.url(), Proxy::url);
            let builder = if in_cluster { Redis::builder(&urls[0]).cluster(&urls[1..]) } else { Redis::builder(url) };
            let redis = builder.deadline(DEADLINE).build().await.unwrap();
            for (number, kind) in kinds().into_iter().enumerate() {
                let number = number + if in_cluster { kinds().len() } else { 0 };
                let builder = redis.limiter(kind.name, kind.quotas).deny_cache(kind.deny_cache);
                let builder = builder.on_failure(kind.on_failure).mode(kind.mode).shadow(kind.shadow);
                limiters.push((number, Asked::Own(builder.build().unwrap())));
            }
        }
        let mut centres = Vec::new();
        let links = [("eu", proxies[0].url(), "us", second.url()), ("us", second.url(), "eu", proxies[1].url())];
        for (own, url, other, its_url) in links {
            let there = Redis::builder(its_url).deadline(Duration::from_secs(1)).build().await.unwrap();
            let here = Redis::builder(url).deadline(DEADLINE).build().await.unwrap();
            let centre = here.centre(own, [(other, there)]).build().unwrap();
            let limiter = centre.limiter("centres", TokenBucket::new(Rate::per_second(20)).burst(10));
            limiters.push((2 * kinds().len(), Asked::Centre(limiter.deny_cache(100).build().unwrap())));
            centres.push(centre);
        }
        for (number, limiter) in &limiters {
            let seed = seed.wrapping_mul(31).wrapping_add(tasks.len() as u64);
            let pauses = kinds().get(number % kinds().len()).map_or(1, |kind| kind.pauses);
            let pauses = if *number == 2 * kinds().len() { 1 } else { pauses };
            let task = load(limiter.clone(), pauses, seed, start, stop.clone());
            tasks.push((*number, tokio::spawn(task)));
        }
        let mut faults = Faults::new(server, proxies, cluster, seed);
        let (mut told, mut flat) = (0, 0);
        while start.elapsed() < time {
            faults.next(start).await;
            let seconds = start.elapsed().as_secs();
            if flat == 0 && start.elapsed() > time / 4 {
                flat = memory();
            }
            if seconds / 10 > told {
                told = seconds / 10;
                let decided = |by| limiters.iter().map(|(_, l)| l.counts().decided(by).allowed).sum::<u64>();
                let [store, local] = [DecidedBy::Store, DecidedBy::Local].map(decided);
                let megabytes = memory() as f64 / 1e6;
                println!("{seconds:4} s: {store} admitted by the store, {local} locally; {faults}; {megabytes:.1} MB");
            }
        }
        faults.end().await;
        let last = memory();
        stop.store(true, Relaxed);
        let mut seen: Vec<Seen> = (0..=2 * kinds().len()).map(|_| Seen::default()).collect();
        let mut recorded = 0;
        for (number, task) in tasks {
            let part = task.await.unwrap();
            recorded += part.records.iter().map(Record::bytes).sum::<u64>();
            let whole = &mut seen[number];
            whole.records.resize_with(KEYS as usize, Record::default);
            whole.records.iter_mut().zip(part.records).for_each(|(all, more)| all.add(more));
            whole.allowed += part.allowed;
            whole.denied += part.denied;
            whole.failed += part.failed;
        }
        let lag = centres.iter().flat_map(|centre| centre.counts()).map(|counts| {
            // What waits still.
            counts.longest_lag.max(counts.forward_lag)
        });
        let lag = lag.max().unwrap_or_default();
        println!("\ncharges reached the other centre within {lag:?}");
        println!("\n| limiter | admitted | refused | failed | transitions | of the slack used, at most |\n|---|---|---|---|---|---|");
        let bucket = TokenBucket::new(Rate::per_second(20)).burst(10).into();
        let of_centres = Kind {
            name: "centres",
            quotas: vec![bucket],
            on_failure: OnFailure::Error,
            deny_cache: 100,
            mode: Mode::Strict,
            shadow: 0,
            pauses: 1,
            bound: of_centres(lag),
        };
        for (number, kind) in kinds().into_iter().chain(kinds()).chain([of_centres]).enumerate() {
            let in_cluster = (kinds().len()..2 * kinds().len()).contains(&number);
            let place = if in_cluster { ", cluster" } else { "" };
            let its: Vec<_> =
                limiters.iter().filter(|(of, _)| *of == number).map(|(_, l)| l.counts()).collect();
            let seen = &mut seen[number];
            consistent(&its, seen, &kind);
            let mut used = 0_f64;
            let restarts = |key| match in_cluster {
                false => &faults.restarts,
                true => &faults.masters[faults.cluster.owner(&name(key))],
            };
            for (key, record) in (0..KEYS).zip(&mut seen.records) {
                used = used.max(record.hold(kind.name, &kind.bound, restarts(key)));
            }
            if kind.shadow > 0 {
                // No caller learns which were admitted: all keys together.
                let admitted: u64 = its.iter().map(|counts| counts.decided(DecidedBy::Store).allowed).sum();
                let emptied: usize = (0..KEYS).map(|key| restarts(key).len()).sum();
                let Bound { burst, rate, for_restart } = kind.bound;
                let keys = KEYS as f64;
                let most = keys * (burst + rate * start.elapsed().as_secs_f64()) + for_restart * emptied as f64;
                used = admitted as f64 / most;
                assert!(used <= 1.0, "{}: the store admitted {admitted}, {most} at most", kind.name);
            }
            let transitions: u64 = its.iter().map(|counts| counts.breaker.opened).sum();
            let Seen { allowed, denied, failed, .. } = seen;
            println!("| {}{place} | {allowed} | {denied} | {failed} | {transitions} | {used:.2} |", kind.name);
        }
        println!("\n{faults}\nmemory: {flat} bytes after a quarter, {last} at the end, {recorded} of it records");
        assert!(last < flat + recorded + 8_000_000, "the memory of this process grows");
    });
}

/// The counters say what the callers saw.
fn consistent(counts: &[tollgate_redis::Counts], seen: &Seen, kind: &Kind) {
    let sum = |number: &dyn Fn(tollgate::Counts) -> u64| -> u64 {
        counts.iter().flat_map(|counts| DecidedBy::ALL.map(|by| number(counts.decided(by)))).sum()
    };
    let failures = |kinds: &[FailureKind]| -> u64 {
        counts.iter().flat_map(|counts| kinds.iter().map(|&kind| counts.failed(kind))).sum()
    };
    let name = kind.name;
    if kind.shadow > 0 {
        let shadow = counts.iter().map(|counts| counts.decided(DecidedBy::Shadow).allowed).sum();
        assert_eq!((seen.allowed, seen.denied, seen.failed), (shadow, 0, 0), "{name}");
        return;
    }
    assert_eq!(sum(&|counts| counts.allowed), seen.allowed, "{name}: admitted");
    assert_eq!(sum(&|counts| counts.denied), seen.denied, "{name}: refused");
    let by_policy: u64 = counts
        .iter()
        .flat_map(|counts| [DecidedBy::Local, DecidedBy::OnFailure].map(|by| counts.decided(by)))
        .map(|counts| counts.allowed + counts.denied)
        .sum();
    // A trip for permits may fail without a request that waits, and for several that do.
    if kind.mode == Mode::Strict {
        assert_eq!(failures(&FailureKind::ALL), seen.failed + by_policy, "{name}: failures");
    }
    // A script that the server does not know is brought again.
    let impossible = [FailureKind::Script, FailureKind::Auth, FailureKind::ReadOnly, FailureKind::Moved];
    assert_eq!(failures(&impossible), 0, "{name}: {counts:?}");
    for counts in counts {
        assert!(counts.breaker.opened - counts.breaker.closed <= 1, "{name}: {:?}", counts.breaker);
    }
}
