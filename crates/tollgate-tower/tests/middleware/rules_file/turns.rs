//! Turns in the queue of a rule that clients abandon, on tokio's paused clock.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_tower::RulesLayer;

use super::{File, X, Y, on_tokio, send, status};
use crate::abandoned_turns::{
    Arrival, come_and_go, disconnect, one_by_one, the_turn_of_one_that_moved_up_stays,
    those_behind_the_second_move_up, timed,
};
use crate::support::{TokioClock, header};

/// A queue of one a second for each client.
fn paced(capacity: u64) -> String {
    format!(
        "rule = [{{ name = 'paced', key = 'client', limits = 'leaky-bucket:1/s,capacity={capacity},mode=queue', \
         cost = {{ from = 'header.cost', default = 1 }} }}]"
    )
}

/// Sends a request. Returns its status and the seconds until the response.
fn arrive(layer: &RulesLayer, peer: (&'static str, &'static str), cost: &'static str) -> Arrival {
    let layer = layer.clone();
    timed(async move { status(&layer, "/", &[peer, ("cost", cost)]).await })
}

/// Sends `count` requests of a client, each after the one before it has its turn.
async fn queue_up(layer: &RulesLayer, count: usize) -> Vec<Arrival> {
    one_by_one(count, || arrive(layer, X, "1")).await
}

#[tokio::test(start_paused = true)]
async fn those_behind_an_abandoned_turn_of_a_rule_move_up() {
    let layer = on_tokio(&paced(4));
    those_behind_the_second_move_up(|| arrive(&layer, X, "1")).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_moved_up_in_a_rule_gives_nothing_back() {
    let layer = on_tokio(&paced(9).replace(" }]", ", charge_if.status = 200 }]"));
    the_turn_of_one_that_moved_up_stays(|want| {
        let layer = layer.clone();
        timed(async move { status(&layer, "/", &[X, ("x-want", want)]).await })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rules_turn_can_be_abandoned_again_and_expires() {
    let layer = on_tokio(&paced(3));
    let mut waiting = queue_up(&layer, 3).await;
    disconnect(waiting.remove(1)).await;
    for _ in 0..5 {
        let waits = arrive(&layer, X, "1");
        tokio::task::yield_now().await;
        disconnect(waits).await;
    }
    let response = send(&layer, "/", &[X]).await;
    // The queue was full; it waited for longer than a place takes to become free.
    assert_eq!(header(&response, "ratelimit"), Some("\"paced\";r=0;t=0"));

    let layer = on_tokio(&paced(3));
    let mut waiting = queue_up(&layer, 3).await;
    disconnect(waiting.remove(1)).await;
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(arrive(&layer, X, "1").await.unwrap(), (200, 0.5), "the engine's next departure");
}

#[tokio::test(start_paused = true)]
async fn a_rules_turn_serves_its_key_and_fitting_costs() {
    let layer = on_tokio(&paced(9));
    let mut waiting = queue_up(&layer, 1).await;
    for (peer, cost) in [(X, "2"), (X, "1"), (Y, "1"), (Y, "1")] {
        waiting.push(arrive(&layer, peer, cost));
    }
    tokio::task::yield_now().await;
    // It would depart after one second, and the request behind it, which has room in its turn, two
    // seconds later.
    disconnect(waiting.remove(1)).await;
    let arrivals =
        [(Y, "1"), (X, "3"), (X, "0"), (X, "2"), (X, "1")].map(|(peer, cost)| arrive(&layer, peer, cost));
    let mut answers = Vec::new();
    for waits in arrivals {
        answers.push(waits.await.unwrap());
    }
    // The queue of the other key; the end of the queue; no wait for cost 0; the end again; the turn
    // of the one that moved up.
    assert_eq!(answers, [(200, 2.0), (200, 4.0), (200, 0.0), (200, 7.0), (200, 3.0)]);
    assert_eq!(waiting.remove(1).await.unwrap(), (200, 1.0));
}

#[tokio::test(start_paused = true)]
async fn a_claimed_turn_is_charged_by_all_other_limits() {
    let paced = paced(9);
    let layer =
        on_tokio(&paced.replace(']', ", { name = 'daily', key = 'client', limits = 'fixed-window:4/d' }]"));
    let mut waiting = queue_up(&layer, 4).await;
    disconnect(waiting.remove(1)).await;
    assert_eq!(arrive(&layer, X, "1").await.unwrap(), (200, 3.0), "by the turn, and the day's fourth");
    let refused = send(&layer, "/", &[X]).await;
    assert_eq!(refused.status(), 429);
    assert!(header(&refused, "ratelimit").unwrap().starts_with("\"daily\""), "{refused:?}");

    // A queue beside another limit of its rule hands on its last turn only.
    let both = paced.replace(
        "'leaky-bucket:1/s,capacity=9,mode=queue'",
        "['leaky-bucket:1/s,capacity=9,mode=queue', '4/d']",
    );
    let layer = on_tokio(&both);
    let mut waiting = queue_up(&layer, 4).await;
    disconnect(waiting.remove(1)).await;
    assert_eq!(arrive(&layer, X, "1").await.unwrap(), (200, 4.0), "the end of the queue");
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_leaves_the_turn_to_others() {
    let block = ", { name = 'no', match.path = '/no', key = 'everyone', limits = 'fixed-window:1/d' }]";
    let layer = on_tokio(&paced(4).replace(']', block));
    assert_eq!(status(&layer, "/no", &[Y]).await, 200);
    let mut waiting = queue_up(&layer, 4).await;
    disconnect(waiting.remove(1)).await;
    assert_eq!(status(&layer, "/no", &[X]).await, 429);
    assert_eq!(arrive(&layer, X, "1").await.unwrap(), (200, 3.0));
}

#[tokio::test(start_paused = true)]
async fn new_rules_forget_abandoned_turns_and_no_departure() {
    let file = File::new(&paced(4));
    let layer = file.layer().clock(TokioClock::new()).timer(tokio::time::sleep).on_reload(|_| {});
    let layer = layer.build().unwrap();
    let mut waiting = queue_up(&layer, 4).await;
    assert_eq!(layer.waiting("paced"), Some(3));
    disconnect(waiting.remove(1)).await;
    file.write(&paced(5));
    layer.reload().unwrap();
    assert_eq!(layer.waiting("paced"), Some(2), "they wait by the rules before");
    disconnect(waiting.remove(1)).await;
    assert_eq!(arrive(&layer, X, "1").await.unwrap(), (200, 4.0), "the end of the queue");
    assert_eq!(waiting.remove(1).await.unwrap().0, 200);
    assert_eq!(layer.waiting("paced"), Some(0));
}

#[tokio::test(start_paused = true)]
async fn departures_of_a_rules_queue_stay_a_second_apart() {
    come_and_go(|| on_tokio(&paced(6)), |layer| async move { status(&layer, "/", &[X]).await }).await;
}
