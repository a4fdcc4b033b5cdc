//! Real stores that fail while requests come: what the caller sees, and that no key passes its
//! bound, counted over every interval.

mod bound;
mod centres;
mod clocks;
mod crowd;
mod down;
mod eviction;
mod figures;
mod flapping;
mod load;
mod logged;
mod masters;
mod network;
mod promotion;
mod refusing;
mod shadow;
mod slow;

use std::time::Duration;

use tollgate_redis::{BreakerCounts, Limiter, Redis};
use tollgate_testing::stores::{Server, Store};

/// The deadline where the test is about deadlines.
const DEADLINE: Duration = Duration::from_millis(10);

/// A deadline that a loaded machine keeps, where the test is not about deadlines.
const PATIENT: Duration = Duration::from_secs(10);

/// Runs a test on each store that can be had.
fn on_each_store<T: Future<Output = ()>>(test: impl Fn(Server) -> T) {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        println!("{store:?}");
        run(test(server));
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(test)
}

async fn connect(url: String, deadline: Duration) -> Redis {
    Redis::builder(url).deadline(deadline).build().await.unwrap()
}

/// Checks until the breaker is open. One check may miss its deadline, which does not open it.
async fn until_store_fails(limiter: &Limiter) {
    for _ in 0..3_000 {
        if limiter.counts().breaker.is_open {
            return;
        }
        let _ = limiter.check("alice").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the breaker does not open");
}

/// Waits until the breaker is open or closed, as it must become without a request.
async fn until_breaker(limiter: &Limiter, is_open: bool) -> BreakerCounts {
    for _ in 0..3_000 {
        let breaker = limiter.counts().breaker;
        if breaker.is_open == is_open {
            return breaker;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the breaker's is_open stays {}", !is_open);
}
