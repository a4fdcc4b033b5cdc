//! As many requests as the store can answer, and more: load alone fails no check that it could have
//! answered.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{Counts, DecidedBy, FailureKind, Limiter};
use tollgate_testing::stores::{Server, Store};

use crate::{DEADLINE, connect, on_each_store, run, until_breaker};

/// The arguments of a server that has each write on its disk before it answers.
const SYNCED: [&str; 2] = ["--appendonly yes", "--appendfsync always"];

/// As a refusal tells its client: `Retry-After: 1`.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Lets clients check keys of their own, each as soon as its last check is answered, and if it is
/// not, after a pause.
async fn load(limiter: &Limiter, clients: usize, time: Duration, pause: Duration) -> Counts {
    let begun = Instant::now();
    let client = |number: usize| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            while begun.elapsed() < time {
                if limiter.check(number.to_le_bytes()).await.is_ok() {
                    continue;
                }
                // A check that fails at once must not keep the others from their turn.
                match pause.is_zero() {
                    true => tokio::task::yield_now().await,
                    false => tokio::time::sleep(pause).await,
                }
            }
        })
    };
    for client in (0..clients).map(client).collect::<Vec<_>>() {
        client.await.unwrap();
    }
    limiter.counts()
}

fn answered(counts: &Counts) -> u64 {
    let by_store = counts.decided(DecidedBy::Store);
    by_store.allowed + by_store.denied
}

fn failed(counts: &Counts) -> Vec<(&'static str, u64)> {
    let counted = FailureKind::ALL.iter().map(|&kind| (kind.name(), counts.failed(kind)));
    counted.filter(|(_, count)| *count > 0).collect()
}

async fn limiter(server: &Server, deadline: Duration) -> Limiter {
    let redis = connect(server.url(), deadline).await;
    let limiter = redis.limiter("api", [TokenBucket::new(Rate::per_second(1_000))]).build().unwrap();
    until_breaker(&limiter, false).await;
    limiter
}

/// Two thousand clients, where a few hundred requests fill a deadline.
#[test]
fn more_load_than_a_store_can_answer_opens_no_breaker() {
    on_each_store(|server| async move {
        let limiter = limiter(&server, 10 * DEADLINE).await;
        let counts = load(&limiter, 2_000, Duration::from_secs(2), Duration::ZERO).await;
        println!("{} answered; failed: {:?}", answered(&counts), failed(&counts));
        assert_eq!((counts.breaker.opened, counts.failed(FailureKind::BreakerOpen)), (0, 0));
        assert!(answered(&counts) > 500, "{:?}", failed(&counts));
    });
}

/// Prints what share of the checks a store leaves without an answer: with all defaults, at as much
/// load as it can answer, and at more.
#[cfg_attr(debug_assertions, ignore = "measures optimized code")]
#[test]
fn a_store_at_full_load_refuses_less_than_a_thousandth() {
    for store in Store::ALL {
        for (name, arguments) in [("memory", &[][..]), ("appendfsync always", &SYNCED[..])] {
            for (clients, pause) in [(50, Duration::ZERO), (5_000, Duration::ZERO), (5_000, RETRY_AFTER)] {
                let Some(server) = Server::start_with(store, arguments) else { continue };
                let counts = run(async {
                    let limiter = limiter(&server, DEADLINE).await;
                    load(&limiter, clients, Duration::from_secs(10), pause).await
                });
                let (answered, failed) = (answered(&counts), failed(&counts));
                let all = answered + failed.iter().map(|(_, count)| count).sum::<u64>();
                let share = 100.0 * (all - answered) as f64 / all as f64;
                println!(
                    "{store:?}, {name}, {clients} clients, pause {pause:?}: {answered} answered, {share:.3} % not: {failed:?}"
                );
                // So many clients of one process leave its own threads no time to read the answers.
                if clients == 50 {
                    assert_eq!(counts.breaker.opened, 0, "load alone opens the breaker");
                    assert!(share < 0.1, "{share} %");
                }
            }
        }
    }
}
