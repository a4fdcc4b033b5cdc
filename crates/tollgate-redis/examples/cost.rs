//! What does a strict decision cost the server, in its CPU time and in multiples of a GET?
//!
//! `cargo run --release -p tollgate-redis --example cost -- PORT` against an idle server on this
//! machine, with `redis-benchmark` on PATH. Each line is the server's time (`INFO cpu`) for one
//! command, at 16 in flight on one connection, over 10,000 keys. It fills the server's memory with
//! those keys.

use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate::{FixedWindow, Quota, Rate, SlidingLog, SlidingWindow, TokenBucket};
use tollgate_redis::{Limiter, Redis};

const IN_FLIGHT: u64 = 16;
const DECISIONS: u64 = 200_000;
const KEYS: u64 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "6379".to_owned());
    let url = format!("redis://127.0.0.1:{port}");
    let mut server = redis::Client::open(url.as_str())?.get_connection()?;
    let redis = Redis::builder(url).deadline(Duration::from_secs(10)).build().await?;
    let _: () = redis::cmd("FLUSHALL").query(&mut server)?;

    benchmark(&port, &["SET", "__rand_int__", "1795362634437800"])?;
    let before = cpu(&mut server)?;
    benchmark(&port, &["GET", "__rand_int__"])?;
    let get = (cpu(&mut server)? - before) / DECISIONS as f64;
    println!("GET by redis-benchmark: {:.2} us", get * 1e6);

    let rate = Rate::per_second(1_000);
    let one = |quota: Quota| vec![quota];
    let cases = [
        ("bucket, by its short script", one(TokenBucket::new(rate).into())),
        ("fixed window", one(FixedWindow::new(rate).into())),
        ("sliding counter", one(SlidingWindow::new(rate).into())),
        ("log", one(SlidingLog::new(rate).into())),
        ("three buckets", vec![TokenBucket::new(rate).into(); 3]),
    ];
    for (name, quotas) in cases {
        let limiter = redis.limiter(name.replace([' ', ','], "-"), quotas).build()?;
        let before = cpu(&mut server)?;
        decide(&limiter).await;
        show(name, (cpu(&mut server)? - before) / DECISIONS as f64, get);
    }
    // As many keys in one script as the limiter sends at once.
    let limiter = redis.limiter("many", [TokenBucket::new(rate)]).build()?;
    let before = cpu(&mut server)?;
    for first in (0..DECISIONS).step_by(512) {
        let keys = (first..first + 512).map(|key| ((key % KEYS).to_string(), 1));
        assert!(limiter.check_many(keys).await.iter().all(Result::is_ok));
    }
    show("bucket, check_many", (cpu(&mut server)? - before) / DECISIONS as f64, get);

    let text = include_str!("../src/script/short.lua");
    let hash: String = redis::cmd("SCRIPT").arg("LOAD").arg(text).query(&mut server)?;
    let before = cpu(&mut server)?;
    let key = "tg1:{k:__rand_int__}:benchmark:b";
    benchmark(&port, &["EVALSHA", &hash, "1", key, "", "1000", "1", "1000", "1000", "1"])?;
    show("bucket, the same script by redis-benchmark", (cpu(&mut server)? - before) / DECISIONS as f64, get);
    Ok(())
}

/// Decides with 16 requests in flight.
async fn decide(limiter: &Limiter) {
    let worker = |worker: u64| async move {
        for number in 0..DECISIONS / IN_FLIGHT {
            let key = (number * IN_FLIGHT + worker) * 7_919 % KEYS;
            let answer = limiter.check(key.to_string()).await;
            assert!(answer.is_ok_and(|answer| answer.is_allowed()));
        }
    };
    futures_util::future::join_all((0..IN_FLIGHT).map(worker)).await;
}

fn show(name: &str, seconds: f64, get: f64) {
    println!("{name}: {:.2} us, {:.1} GET", seconds * 1e6, seconds / get);
}

fn benchmark(port: &str, command: &[&str]) -> std::io::Result<()> {
    let (pipeline, keys, count) = (IN_FLIGHT.to_string(), KEYS.to_string(), DECISIONS.to_string());
    let mut benchmark = Command::new("redis-benchmark");
    benchmark.args(["-p", port, "-c", "1", "-P", &pipeline, "-r", &keys, "-n", &count, "-q"]);
    let status = benchmark.args(command).stdout(Stdio::null()).status()?;
    assert!(status.success(), "redis-benchmark failed");
    Ok(())
}

/// The CPU time that the server has used, in seconds.
fn cpu(server: &mut redis::Connection) -> redis::RedisResult<f64> {
    let info: String = redis::cmd("INFO").arg("cpu").query(server)?;
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    Ok(of("used_cpu_user") + of("used_cpu_sys"))
}
