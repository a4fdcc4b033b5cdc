//! What counts as a try of a request that is kept for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::sleep;
use tollgate_testing::upstream::{full, upstream};
use tollgate_testing::wait::LONG;

use super::park::{Journal, Kept, Parking};

const RULE: &str = "key = 'client', limits = '1/s,burst=1', match.path = '/later', park.tries = 1";

/// A balancer that answers 503 while the servers behind it are down, also for its health.
#[tokio::test]
async fn a_balancer_that_is_down_uses_tries_unless_asked() {
    for asks in [true, false] {
        let is_down = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_down);
        let address = upstream(move |_: Request<Incoming>| {
            let status = if shared.load(Relaxed) { 503 } else { 200 };
            async move { Response::builder().status(status).body(full("done")).unwrap() }
        });
        let url = format!("http://{}", address.await);
        let parking = Parking::with(&Kept::File, RULE, &url, Journal::default(), |settings| {
            settings.forward.health_path = asks.then(|| "/health".parse().unwrap());
            settings.forward.health_interval = Duration::from_millis(20);
        })
        .await;
        is_down.store(true, Relaxed);
        // The proxy answers itself once it knows.
        let (text, began) = (if asks { "no upstream is well" } else { "done" }, Instant::now());
        while !String::from_utf8_lossy(&parking.proxy.get("/", &[]).await.body).contains(text) {
            assert!(began.elapsed() < LONG, "its health is not asked");
        }
        assert_eq!(parking.post("/later", "").await.status, 503);
        let id = parking.parked("/later", "").await;
        if asks {
            sleep(Duration::from_millis(1500)).await;
            assert_eq!(parking.becomes(&id, "parked").await["tries"], 0);
            is_down.store(false, Relaxed);
            assert_eq!(parking.becomes(&id, "sent").await["tries"], 1);
        } else {
            assert_eq!(parking.becomes(&id, "dead").await["status"], 503);
        }
    }
}
