//! What a check costs that makes no trip, beside a check in this process.

use std::time::{Duration, Instant};

use tollgate::{Limiter, Rate, TokenBucket};
use tollgate_redis::DecidedBy;

use crate::{DEADLINE, PATIENT, connect, on_each_store, until_breaker, until_store_fails};

const CHECKS: u32 = 200_000;

/// The fastest of several runs, for one check.
async fn fastest<T: Future<Output = ()>>(run: impl Fn() -> T) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..9 {
        let start = Instant::now();
        run().await;
        fastest = fastest.min(start.elapsed() / CHECKS);
    }
    fastest
}

fn in_process(rate: Rate) -> Limiter<[u8], TokenBucket> {
    Limiter::builder(TokenBucket::new(rate)).per::<[u8]>().build().unwrap()
}

#[cfg_attr(debug_assertions, ignore = "measures optimized code")]
#[test]
fn a_remembered_refusal_takes_less_than_a_microsecond() {
    on_each_store(|server| async move {
        let local = in_process(Rate::per_day(1));
        let _ = local.check(b"alice");
        let refusal =
            fastest(async || (0..CHECKS).for_each(|_| assert!(!local.check(b"alice").is_allowed()))).await;
        let redis = connect(server.url(), PATIENT).await;
        let quota = TokenBucket::new(Rate::per_day(1));
        let limiter = redis.limiter("api", [quota]).deny_cache(10_000).build().unwrap();
        until_breaker(&limiter, false).await;
        let _ = limiter.check("alice").await.unwrap();
        let remembered = fastest(async || {
            for _ in 0..CHECKS {
                assert!(!limiter.check(b"alice").await.unwrap().is_allowed());
            }
        })
        .await;
        let trips = limiter.counts().decided(DecidedBy::Store).denied;
        println!(
            "a refusal in process {refusal:?}, remembered {remembered:?}, {trips} trips in {} checks",
            9 * CHECKS
        );
        assert!(trips < 100, "{trips} trips: one a second");
        assert!(remembered < Duration::from_micros(1), "{remembered:?}");
    });
}

#[cfg_attr(debug_assertions, ignore = "measures optimized code")]
#[test]
fn an_open_breaker_takes_less_than_a_microsecond() {
    on_each_store(|mut server| async move {
        let local = in_process(Rate::per_second(1_000_000_000));
        let check =
            fastest(async || (0..CHECKS).for_each(|_| assert!(local.check(b"alice").is_allowed()))).await;
        let redis = connect(server.url(), DEADLINE).await;
        let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(100))]).build().unwrap();
        server.kill();
        until_store_fails(&limiter).await;
        let open = fastest(async || {
            for _ in 0..CHECKS {
                assert!(limiter.check(b"alice").await.is_err());
            }
        })
        .await;
        println!("a check in process {check:?}, at an open breaker {open:?}");
        assert!(open < Duration::from_micros(1), "{open:?}");
    });
}
