//! What do decisions without a trip cost, in instructions?
//!
//! ```text
//! cargo build --profile bench -p tollgate-redis --example local_paths
//! for path in refused deny admitted open; do
//!     valgrind --tool=callgrind --toggle-collect='*measured*' --callgrind-out-file=/dev/null \
//!         target/release/examples/local_paths $path
//! done
//! ```
//!
//! `Collected` is the number of instructions of 10,000 decisions. `refused` and `admitted` are the
//! engine's, in process; `deny` is a refusal by the deny cache, `open` a check while the breaker is
//! open. It starts a `redis-server` from PATH.

use std::error::Error;
use std::hint::black_box;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate::{Rate, TokenBucket};
use tollgate_redis::Redis;

const CALLS: u32 = 10_000;

#[inline(never)]
fn measured(run: impl FnOnce()) {
    run();
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = |rate| tollgate::Limiter::builder(TokenBucket::new(rate)).per::<[u8]>().build();
    if path == "refused" || path == "admitted" {
        let rate = if path == "refused" { Rate::per_day(1) } else { Rate::per_second(1_000_000_000) };
        let limiter = local(rate)?;
        let _ = limiter.check(b"alice");
        let run = async || {
            for _ in 0..CALLS {
                async { drop(black_box(limiter.check(b"alice"))) }.await;
            }
        };
        measured(|| runtime.block_on(run()));
        return Ok(());
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let mut server = Command::new("redis-server");
    server.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    let mut server = server.stdout(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    let limiter = runtime.block_on(async {
        let url = format!("redis://127.0.0.1:{port}");
        let redis = Redis::builder(url).deadline(Duration::from_secs(10)).build().await?;
        let limiter = redis.limiter("paths", [TokenBucket::new(Rate::per_day(1))]);
        limiter.deny_cache(if path == "deny" { 1_024 } else { 0 }).build()
    })?;
    let is_ready = async || match &*path {
        "deny" => {
            let _ = limiter.check(b"alice").await;
            limiter.check(b"alice").await.is_ok_and(|answer| !answer.is_allowed())
        }
        _ => limiter.check(b"alice").await.is_err() && limiter.counts().breaker.is_open,
    };
    if path == "open" {
        server.kill()?;
    }
    runtime.block_on(async {
        while !is_ready().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let run = async || {
        for _ in 0..CALLS {
            drop(black_box(limiter.check(b"alice").await));
        }
    };
    measured(|| runtime.block_on(run()));
    let counts = limiter.counts();
    let by = counts.decided(tollgate_redis::DecidedBy::DenyCache).denied;
    println!(
        "{by} by the deny cache, {} by the open breaker",
        counts.failed(tollgate_redis::FailureKind::BreakerOpen)
    );
    let _ = server.kill();
    server.wait()?;
    Ok(())
}
