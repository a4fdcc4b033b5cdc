//! What does a decision cost the server and this process, beside the least that it could cost?
//!
//! `cargo run --release -p tollgate-redis --example cost` takes two or three minutes, with
//! `redis-server` and `redis-benchmark` on PATH and nothing else running. It starts a server of its
//! own. The server's time is that of `INFO cpu`, this process's that of its only thread (Linux).
//! Trips are 16 in flight on one connection, over 10,000 keys. Five rounds take each row in turn; a
//! ratio is one within a round, and the median, least and greatest of the rounds are printed. A
//! number after the command makes so many decisions a row and round, if not 200,000.

use std::error::Error;
use std::hint::black_box;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tollgate::{FixedWindow, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_redis::{Limiter, Redis};

const IN_FLIGHT: u64 = 16;
const KEYS: u64 = 10_000;
const ROUNDS: usize = 5;

/// The name of all keys of `redis-benchmark` in the short script.
const KEY: &str = "tg1:{k:__rand_int__}:benchmark:b";

/// The short script's last argument: the server's time, a second of slack, 1,000 a second, cost 1.
const ROW: [f64; 6] = [0.0, 1_000.0, 1.0, 1_000.0, 1_000.0, 1.0];

struct Bench {
    child: Child,
    port: String,
    connection: redis::Connection,
    decisions: u64,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Seconds for one decision.
#[derive(Clone, Copy)]
struct Cost {
    server: f64,
    ours: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut bench = Bench::start()?;
    let url = format!("redis://127.0.0.1:{}", bench.port);
    let redis = Redis::builder(url.as_str()).deadline(Duration::from_secs(10)).build().await?;
    let rate = Rate::per_second(1_000);

    bench.benchmark(&["SET", "__rand_int__", "1795362634437800"])?;
    let text = concat!(
        include_str!("../src/script/short_head.lua"),
        include_str!("../src/script/short_bucket.lua"),
        include_str!("../src/script/short_tail.lua"),
    );
    let hash = bench.load(text)?;
    // redis-benchmark sends no zero bytes, which the row has: there the script has it in its text.
    let bytes = ROW.iter().flat_map(|number| number.to_le_bytes());
    let literal: String = bytes.map(|byte| format!("\\{byte:03}")).collect();
    let with_row = bench.load(&text.replace("ARGV[#ARGV]", &format!("'{literal}'")))?;

    let one = |name, quota: Quota| (name, vec![quota]);
    let cases = [
        one("a strict decision: bucket, by the short script", TokenBucket::new(rate).into()),
        one("fixed window", FixedWindow::new(rate).into()),
        one("sliding counter", SlidingWindow::new(rate).into()),
        one("log", SlidingLog::new(rate).into()),
        ("three buckets", vec![TokenBucket::new(rate).into(); 3]),
    ];
    let cases = cases
        .into_iter()
        .enumerate()
        .map(|(number, (name, quotas))| Ok((name, redis.limiter(format!("case{number}"), quotas).build()?)));
    let cases: Vec<(&str, Limiter)> = cases.collect::<Result<_, Box<dyn Error>>>()?;
    let many = redis.limiter("many", [TokenBucket::new(rate)]).build()?;
    let client = redis::Client::open(url)?;
    let bare = client.get_multiplexed_async_connection().await?;
    let (mut server, mut ours) = (Table::default(), Table::default());
    for _ in 0..ROUNDS {
        let mut strict = f64::NAN;
        let get = bench.cost(|bench| bench.benchmark(&["GET", "__rand_int__"]))?.server;
        let same = bench.cost(|bench| bench.benchmark(&["EVALSHA", &with_row, "1", KEY]))?.server;
        let before = bench.before()?;
        ask(&bare, &hash, bench.decisions).await?;
        let bare = bench.since(before)?.ours;
        server.add("GET by redis-benchmark", get, &[]);
        server.add("the short script by redis-benchmark", same, &[("GET", get)]);
        ours.add("redis-rs that sends the same EVALSHA", bare, &[]);
        for (number, (name, limiter)) in cases.iter().enumerate() {
            let before = bench.before()?;
            decide(limiter, bench.decisions).await;
            let cost = bench.since(before)?;
            server.add(name, cost.server, &[("the same script", same), ("GET", get)]);
            if number == 0 {
                ours.add("a strict decision", cost.ours, &[("redis-rs", bare)]);
                strict = cost.server;
            }
        }
        let before = bench.before()?;
        for first in (0..bench.decisions).step_by(512) {
            let keys = (first..bench.decisions.min(first + 512)).map(|key| ((key % KEYS).to_string(), 1));
            assert!(many.check_many(keys).await.iter().all(Result::is_ok));
        }
        let cost = bench.since(before)?;
        let name = "check_many, 32 keys a script";
        server.add(name, cost.server, &[("a strict decision", strict), ("GET", get)]);
        ours.add(name, cost.ours, &[("redis-rs", bare)]);
    }
    server.print("the server's CPU");
    ours.print("this process's CPU");

    let local = |rate| tollgate::Limiter::builder(TokenBucket::new(rate)).per::<[u8]>().build();
    let (refusing, admitting) = (local(Rate::per_day(1))?, local(Rate::per_second(1_000_000_000))?);
    let _ = refusing.check(b"alice");
    let mut local_rows = Table::default();
    let in_process = timed(bench.decisions, async || drop(black_box(refusing.check(b"alice")))).await;
    let limiter = redis.limiter("flood", [TokenBucket::new(Rate::per_day(1))]).deny_cache(KEYS as usize);
    let limiter = limiter.build()?;
    let _ = limiter.check("alice").await?;
    let flood = timed(bench.decisions, async || drop(black_box(limiter.check(b"alice").await))).await;
    local_rows.add("a refusal in process", in_process, &[]);
    local_rows.add("a refused flood, with a deny cache", flood, &[("a refusal in process", in_process)]);
    let in_process = timed(bench.decisions, async || drop(black_box(admitting.check(b"alice")))).await;
    let limiter = redis.limiter("open", [TokenBucket::new(rate)]).build()?;
    drop(bench.child.kill());
    while !limiter.counts().breaker.is_open {
        let _ = limiter.check("alice").await;
    }
    let open = timed(bench.decisions, async || drop(black_box(limiter.check(b"alice").await))).await;
    local_rows.add("a check in process", in_process, &[]);
    local_rows.add("a check while the breaker is open", open, &[("a check in process", in_process)]);
    local_rows.print("without a trip");
    Ok(())
}

impl Bench {
    fn start() -> Result<Self, Box<dyn Error>> {
        let decisions = std::env::args().nth(1).map_or(Ok(200_000), |number| number.parse())?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let mut server = Command::new("redis-server");
        server.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        let child = server.stdout(Stdio::null()).spawn()?;
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
        let begun = Instant::now();
        loop {
            match client.get_connection() {
                Ok(connection) => return Ok(Self { child, port, connection, decisions }),
                Err(error) if begun.elapsed() > Duration::from_secs(10) => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// The CPU times of the server and of this thread so far.
    fn before(&mut self) -> redis::RedisResult<Cost> {
        let info: String = redis::cmd("INFO").arg("cpu").query(&mut self.connection)?;
        let of = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|number| number.trim().parse::<f64>().ok()).unwrap_or(f64::NAN)
        };
        let thread = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanos = thread.split(' ').next().and_then(|number| number.parse::<f64>().ok());
        let ours = nanos.unwrap_or(f64::NAN) / 1e9;
        Ok(Cost { server: of("used_cpu_user") + of("used_cpu_sys"), ours })
    }

    /// What each decision has cost since then.
    fn since(&mut self, before: Cost) -> redis::RedisResult<Cost> {
        let (now, decisions) = (self.before()?, self.decisions as f64);
        let each = |before: f64, now: f64| (now - before) / decisions;
        Ok(Cost { server: each(before.server, now.server), ours: each(before.ours, now.ours) })
    }

    fn load(&mut self, text: &str) -> redis::RedisResult<String> {
        redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut self.connection)
    }

    fn cost(&mut self, run: impl FnOnce(&Self) -> std::io::Result<()>) -> Result<Cost, Box<dyn Error>> {
        let before = self.before()?;
        run(self)?;
        Ok(self.since(before)?)
    }

    fn benchmark(&self, command: &[&str]) -> std::io::Result<()> {
        let numbers = [IN_FLIGHT, KEYS, self.decisions].map(|number| number.to_string());
        let [pipeline, keys, count] = &numbers;
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-p", &self.port, "-c", "1", "-P", pipeline, "-r", keys, "-n", count, "-q"]);
        let status = benchmark.args(command).stdout(Stdio::null()).status()?;
        assert!(status.success(), "redis-benchmark failed");
        Ok(())
    }
}

/// The key of a worker's request.
fn key(worker: u64, number: u64) -> String {
    ((number * IN_FLIGHT + worker) * 7_919 % KEYS).to_string()
}

async fn decide(limiter: &Limiter, decisions: u64) {
    let worker = |worker: u64| async move {
        for number in 0..decisions / IN_FLIGHT {
            let answer = limiter.check(key(worker, number)).await;
            assert!(answer.is_ok_and(|answer| answer.is_allowed()));
        }
    };
    join_all((0..IN_FLIGHT).map(worker)).await;
}

/// The same script, without this crate.
async fn ask(to: &redis::aio::MultiplexedConnection, hash: &str, decisions: u64) -> redis::RedisResult<()> {
    let worker = |worker: u64| {
        let mut to = to.clone();
        async move {
            for number in 0..decisions / IN_FLIGHT {
                let mut command = redis::cmd("EVALSHA");
                command.arg(hash).arg(1).arg(KEY.replace("__rand_int__", &key(worker, number)));
                command.arg(ROW.map(f64::to_le_bytes).as_flattened());
                let _: Vec<u8> = command.query_async(&mut to).await?;
            }
            Ok(())
        }
    };
    join_all((0..IN_FLIGHT).map(worker)).await.into_iter().collect()
}

/// Seconds of a call, of the fastest of nine runs.
async fn timed<T: Future<Output = ()>>(calls: u64, call: impl Fn() -> T) -> f64 {
    let mut fastest = f64::INFINITY;
    for _ in 0..9 {
        let begun = Instant::now();
        for _ in 0..calls {
            call().await;
        }
        fastest = fastest.min(begun.elapsed().as_secs_f64() / calls as f64);
    }
    fastest
}

/// Rows of seconds, and their ratios to others, one of each round.
#[derive(Default)]
struct Table(Vec<Row>);

struct Row {
    name: &'static str,
    seconds: Vec<f64>,
    beside: Vec<(&'static str, Vec<f64>)>,
}

impl Table {
    fn add(&mut self, name: &'static str, seconds: f64, beside: &[(&'static str, f64)]) {
        let number = self.0.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let beside = beside.iter().map(|(other, _)| (*other, Vec::new())).collect();
            self.0.push(Row { name, seconds: Vec::new(), beside });
            self.0.len() - 1
        });
        let row = &mut self.0[number];
        row.seconds.push(seconds);
        for ((_, ratios), (_, its)) in row.beside.iter_mut().zip(beside) {
            ratios.push(seconds / its);
        }
    }

    fn print(&mut self, title: &str) {
        println!("{title}");
        for row in &mut self.0 {
            let [least, median, most] = spread(&mut row.seconds).map(|seconds| seconds * 1e6);
            print!("  {:<48} {median:>8.3} ({least:.3} .. {most:.3}) us", row.name);
            for (other, ratios) in &mut row.beside {
                let [least, median, most] = spread(ratios);
                print!(", {median:.2} ({least:.2} .. {most:.2}) of {other}");
            }
            println!();
        }
    }
}

/// The least, the median and the greatest.
fn spread(numbers: &mut [f64]) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [0, numbers.len() / 2, numbers.len() - 1].map(|place| numbers[place])
}
