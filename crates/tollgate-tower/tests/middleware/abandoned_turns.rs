//! Turns in a queue that clients abandon, on tokio's paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{TokioClock, by_peer, header, hourly_bucket, layer_with, request, send, status};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tollgate::{Inherit, LeakyBucket, Quota, Rate, TokenBucket};
use tollgate_testing::random::Random;
use tollgate_tower::{RequestHead, Rule, TollgateLayer};

/// A queue of one a second.
fn queue(capacity: u64) -> Quota {
    LeakyBucket::queue(Rate::per_second(1)).capacity(capacity).into()
}

fn layer(capacity: u64) -> TollgateLayer {
    let cost = |head: RequestHead<'_>| {
        head.header("cost").map_or(1, |cost| std::str::from_utf8(cost).unwrap().parse().unwrap())
    };
    let rule = Rule::new("paced", [queue(capacity)]).key(by_peer()).cost(cost);
    layer_with(rule).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap()
}

/// A request that is served beside the test: its status, and the seconds until the response.
pub(crate) type Arrival = JoinHandle<(u16, f64)>;

/// Sends a request by `status`, which returns the status of its response.
pub(crate) fn timed(status: impl Future<Output = u16> + Send + 'static) -> Arrival {
    let begun = Instant::now();
    tokio::spawn(async move { (status.await, (begun.elapsed().as_secs_f64() * 100.0).round() / 100.0) })
}

fn arrive(layer: &TollgateLayer, peer: &'static str, cost: &'static str) -> Arrival {
    let layer = layer.clone();
    timed(async move { status(&layer, "/", &[("peer", peer), ("cost", cost)]).await })
}

const A: &str = "192.0.2.1";
const B: &str = "192.0.2.2";

/// Sends `count` requests of key `A`, each after the one before it has its turn.
async fn queue_up(layer: &TollgateLayer, count: usize) -> Vec<Arrival> {
    one_by_one(count, || arrive(layer, A, "1")).await
}

/// Sends `count` requests by `arrive`, each after the one before it has its turn.
pub(crate) async fn one_by_one(count: usize, arrive: impl Fn() -> Arrival) -> Vec<Arrival> {
    let mut waiting = Vec::new();
    for _ in 0..count {
        waiting.push(arrive());
        tokio::task::yield_now().await;
    }
    waiting
}

pub(crate) async fn disconnect(waits: Arrival) {
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled(), "it was still waiting");
}

#[tokio::test(start_paused = true)]
async fn those_behind_an_abandoned_turn_move_up() {
    let layer = layer(4);
    those_behind_the_second_move_up(|| arrive(&layer, A, "1")).await;
}

/// Checks by requests of one key that those behind one that left move up before the next one comes,
/// in a queue of one a second that is full by three that wait.
pub(crate) async fn those_behind_the_second_move_up(arrive: impl Fn() -> Arrival) {
    let mut waiting = one_by_one(4, &arrive).await;
    disconnect(waiting.remove(1)).await;
    let (next, after) = (arrive(), arrive());
    assert_eq!(after.await.unwrap(), (429, 0.0), "the queue is full again");
    let mut departed = Vec::new();
    for waits in waiting {
        departed.push(waits.await.unwrap());
    }
    assert_eq!(departed, [(200, 0.0), (200, 1.0), (200, 2.0)]);
    assert_eq!(next.await.unwrap(), (200, 3.0), "the end of the queue");
}

#[tokio::test(start_paused = true)]
async fn one_that_moved_up_gives_nothing_back() {
    let rule = Rule::new("paced", [queue(9)]).charge_if(|status, _| status == 200);
    let layer = layer_with(rule).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
    the_turn_of_one_that_moved_up_stays(|want| {
        let layer = layer.clone();
        timed(async move { status(&layer, "/", &[("x-want", want)]).await })
    })
    .await;
}

/// Checks by requests of one key, of which those are charged that end with 200, in a queue of one a
/// second: another request has the turn that the last one had before it moved up.
pub(crate) async fn the_turn_of_one_that_moved_up_stays(arrive: impl Fn(&'static str) -> Arrival) {
    let mut waiting = Vec::new();
    for want in ["200", "200", "404"] {
        waiting.push(arrive(want));
        tokio::task::yield_now().await;
    }
    disconnect(waiting.remove(1)).await;
    let next = arrive("200");
    assert_eq!(waiting.remove(1).await.unwrap(), (404, 1.0));
    assert_eq!(arrive("200").await.unwrap(), (200, 2.0), "a second behind the next one");
    assert_eq!(next.await.unwrap(), (200, 2.0));
}

#[tokio::test(start_paused = true)]
async fn a_turn_can_be_abandoned_again() {
    let layer = layer(3);
    let mut waiting = queue_up(&layer, 3).await;
    disconnect(waiting.remove(1)).await;
    for _ in 0..5 {
        let waits = arrive(&layer, A, "1");
        tokio::task::yield_now().await;
        disconnect(waits).await;
    }
    assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 2.0), "behind the third");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_turn_expires_at_its_departure() {
    let layer = layer(3);
    let mut waiting = queue_up(&layer, 3).await;
    disconnect(waiting.remove(1)).await;
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 0.5), "the engine's next departure");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_turn_serves_its_key_and_fitting_costs() {
    let layer = layer(9);
    let mut waiting = queue_up(&layer, 1).await;
    waiting.extend([
        arrive(&layer, A, "2"),
        arrive(&layer, A, "1"),
        arrive(&layer, B, "1"),
        arrive(&layer, B, "1"),
    ]);
    tokio::task::yield_now().await;
    // It would depart after one second, and the request behind it, which has room in its turn, two
    // seconds later.
    disconnect(waiting.remove(1)).await;
    let arrivals = [(B, "1"), (A, "3"), (A, "2"), (A, "1")].map(|(peer, cost)| arrive(&layer, peer, cost));
    let mut answers = Vec::new();
    for waits in arrivals {
        answers.push(waits.await.unwrap());
    }
    // The queue of the other key; the end of the queue, twice; the turn of the one that moved up.
    assert_eq!(answers, [(200, 2.0), (200, 4.0), (200, 7.0), (200, 3.0)]);
    assert_eq!(waiting.remove(1).await.unwrap(), (200, 1.0));
}

#[tokio::test(start_paused = true)]
async fn cost_0_neither_waits_nor_takes_a_turn() {
    let layer = layer(4);
    let mut waiting = queue_up(&layer, 3).await;
    disconnect(waiting.remove(1)).await;
    assert_eq!(arrive(&layer, A, "0").await.unwrap(), (200, 0.0));
    assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 2.0), "the turn is still free");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_turn_reports_the_state_of_the_queue() {
    // The queue is as long as before: full, or with room for one more. It waited for longer than a
    // place takes to become free.
    for (capacity, expected) in [(3, "\"paced\";r=0;t=0"), (4, "\"paced\";r=1;t=0")] {
        let layer = layer(capacity);
        let mut waiting = queue_up(&layer, 3).await;
        disconnect(waiting.remove(1)).await;
        let response = send(&layer, request("/", &[("peer", A)])).await;
        assert_eq!(header(&response, "ratelimit"), Some(expected), "of {capacity}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_turn_does_not_bypass_the_rules_other_limits() {
    let hour = TokenBucket::new(Rate::per_hour(1)).burst(5);
    let rule = Rule::new("paced", [queue(5), hour.into()]).key(by_peer());
    let layer = layer_with(rule).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
    let mut waiting = queue_up(&layer, 4).await;
    disconnect(waiting.remove(1)).await;
    assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 4.0), "the end of the queue");
    assert_eq!(arrive(&layer, A, "1").await.unwrap().0, 200, "the token of the request that left");
    assert_eq!(arrive(&layer, A, "1").await.unwrap().0, 429, "the five tokens are spent");
}

#[tokio::test(start_paused = true)]
async fn a_changed_limit_forgets_abandoned_turns() {
    let layer = layer(4);
    let mut waiting = queue_up(&layer, 4).await;
    disconnect(waiting.remove(1)).await;
    layer.reconfigure("paced", [queue(4)], Inherit::Reset).unwrap();
    disconnect(waiting.remove(1)).await;
    // All debt was reset: the first request departs at once, the next after a second.
    assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 0.0));
    assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 1.0));
    assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 1.0));
}

#[tokio::test(start_paused = true)]
async fn departures_stay_a_second_apart_whatever_clients_do() {
    come_and_go(|| layer(6), |layer| async move { status(&layer, "/", &[("peer", A)]).await }).await;
}

/// Has clients of one key come and leave at random, and checks that those that are served are a
/// second apart, in the order in which they came. `layer` makes a layer with a queue of one a
/// second, and `send` sends a request.
pub(crate) async fn come_and_go<L: Clone, F: Future<Output = u16> + Send + 'static>(
    layer: impl Fn() -> L,
    send: impl Fn(L) -> F,
) {
    for seed in 0..20 {
        let (layer, mut random) = (layer(), Random::with_seed(seed));
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut waiting: Vec<JoinHandle<()>> = Vec::new();
        for number in 0..300 {
            match random.u64(..10) {
                0..4 => {
                    let (status, served) = (send(layer.clone()), Arc::clone(&served));
                    waiting.push(tokio::spawn(async move {
                        if status.await == 200 {
                            served.lock().unwrap().push((Instant::now(), number));
                        }
                    }));
                    tokio::task::yield_now().await;
                }
                4..6 if !waiting.is_empty() => {
                    let leaves = waiting.swap_remove(random.usize(..waiting.len()));
                    leaves.abort();
                    let _ = leaves.await;
                }
                _ => sleep(Duration::from_millis(random.u64(..900))).await,
            }
        }
        let served = served.lock().unwrap();
        for pair in served.windows(2) {
            // Tokio's timer counts in whole milliseconds.
            let apart = pair[1].0 - pair[0].0;
            assert!(apart >= Duration::from_millis(998), "{apart:?} with seed {seed}");
            assert!(pair[0].1 < pair[1].1, "{} overtakes {} with seed {seed}", pair[0].1, pair[1].1);
        }
        assert!(served.len() > 20, "{served:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_turns_are_given_back_in_any_order() {
    for newest_first in [true, false] {
        let layer = layer(20);
        assert_eq!(arrive(&layer, A, "1").await.unwrap(), (200, 0.0));
        let mut waiting = queue_up(&layer, 10).await;
        if newest_first {
            waiting.reverse();
        }
        for waits in waiting {
            disconnect(waits).await;
        }
        for place in 1..=10 {
            assert_eq!(
                arrive(&layer, A, "1").await.unwrap(),
                (200, 1.0),
                "place {place}, newest first: {newest_first}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_cannot_block_a_shared_queue() {
    for own_first in [true, false] {
        let own = Rule::new("own", hourly_bucket(5)).key(by_peer());
        let all = Rule::new("all", [queue(50)]);
        let (first, last) = if own_first { (own, all) } else { (all, own) };
        let layer =
            layer_with(first).rule(last).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
        assert_eq!(arrive(&layer, B, "1").await.unwrap(), (200, 0.0));
        for _ in 0..20 {
            for waits in queue_up(&layer, 5).await {
                disconnect(waits).await;
            }
        }
        assert_eq!(arrive(&layer, B, "1").await.unwrap(), (200, 1.0));
    }
}
