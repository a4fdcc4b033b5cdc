//! How many requests wait, and how long.

use tollgate::{LeakyBucket, Rate};
use tollgate_tower::{Rule, TollgateLayer};

use crate::support::{TokioClock, hourly_bucket, layer_with, status};

fn paced() -> TollgateLayer {
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(10);
    let layer = layer_with(Rule::new("all", hourly_bucket(100))).rule(Rule::new("paced", [queue]));
    layer.clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap()
}

/// One request is served at once, one waits for a second, and the client of a third leaves. Returns
/// how many wait: with the third, without it, and at the end.
async fn three_requests(layer: &TollgateLayer) -> [usize; 3] {
    let paced = layer.handle("paced").unwrap();
    assert_eq!(status(layer, "/", &[]).await, 200);
    let send = || {
        let layer = layer.clone();
        tokio::spawn(async move { status(&layer, "/", &[]).await })
    };
    let (waits, leaves) = (send(), send());
    tokio::task::yield_now().await;
    let with_both = paced.waiting();
    leaves.abort();
    tokio::task::yield_now().await;
    let with_one = paced.waiting();
    assert_eq!(waits.await.unwrap(), 200);
    [with_both, with_one, paced.waiting()]
}

#[tokio::test(start_paused = true)]
async fn a_handle_tells_how_many_requests_wait() {
    let layer = paced();
    assert_eq!(three_requests(&layer).await, [2, 1, 0]);
    assert_eq!(layer.handle("all").unwrap().waiting(), 0);
}

#[cfg(feature = "metrics")]
#[test]
fn waiting_requests_and_their_waits_are_recorded() {
    let recorder = crate::series::Series::default();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let layer = paced();
            let waiting = || recorder.named("tollgate_waiting_requests");
            let requests = tokio::spawn(async move { three_requests(&layer).await });
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            assert_eq!(waiting()["paced"], 1.0);
            requests.await.unwrap();
            assert_eq!(waiting()["paced"], 0.0);
            assert_eq!(waiting().len(), 1);
        });
    });
    let waits = recorder.named("tollgate_wait_seconds");
    assert!((1.0..1.01).contains(&waits["paced"]), "{waits:?}");
}
