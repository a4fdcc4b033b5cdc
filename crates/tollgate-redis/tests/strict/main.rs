//! Limits in real stores, each decision held against the model.

mod directed;
mod histories;
mod loops;
mod quotas;
mod reference;
mod refunds;
mod topologies;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_redis::{Redis, Time};
use tollgate_testing::stores::Server;

/// Runs a test's future.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// A time that only the test moves, in microseconds.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn set(&self, micros: u64) {
        self.0.store(micros, Ordering::Relaxed);
    }

    fn time(&self) -> Time {
        let now = Arc::clone(&self.0);
        Time::Caller(Arc::new(move || Duration::from_micros(now.load(Ordering::Relaxed))))
    }

    /// A connection that decides at this clock's time, and whose keys outlive the test.
    async fn connect(&self, server: &Server) -> Redis {
        let builder = Redis::builder(server.url()).time(self.time());
        let builder = builder.deadline(Duration::from_secs(60)).slack(Duration::from_secs(3_600));
        builder.build().await.expect("the server is there")
    }
}
