//! Handles: keys that are peeked at, credited and reset while the layer serves.

use std::time::Duration;

use tokio::time::Instant;
use tollgate::{FixedWindow, LeakyBucket, ManualClock, Rate, TokenBucket};
use tollgate_tower::{OnBackendError, RequestHead, Rule};

use crate::support::{TokioClock, by_header, by_peer, hourly_bucket, layer_with, request, status, statuses};

#[tokio::test]
async fn a_handler_sees_and_changes_the_key_of_its_request() {
    let rule = Rule::new("api", hourly_bucket(5))
        .key(by_header("k"))
        .tier(|head| head.path() == "/paid", hourly_bucket(9))
        .for_key("own", hourly_bucket(2))
        .skip(|head| head.path() == "/free");
    let layer = layer_with(rule).clock(ManualClock::new()).build().unwrap();
    let api = layer.handle("api").unwrap();
    for (path, key, limit) in [("/", "a", 5), ("/paid", "a", 9), ("/paid", "own", 2)] {
        let ours = request(path, &[("k", key)]);
        let ours = api.key_of(RequestHead::of(&ours)).unwrap();
        assert_eq!((ours.peek(0).limit, ours.peek(0).remaining), (limit, limit));
        for _ in 0..limit {
            assert_eq!(status(&layer, path, &[("k", key)]).await, 200);
        }
        assert_eq!((ours.peek(0).remaining, ours.peek(1).reset), (0, Duration::from_secs(3_600)));
        assert_eq!(status(&layer, path, &[("k", key)]).await, 429);
        assert_eq!(ours.credit(1), 1);
        assert_eq!(status(&layer, path, &[("k", key)]).await, 200);
        assert_eq!(status(&layer, path, &[("k", key)]).await, 429);
        assert!(ours.reset());
        assert_eq!(ours.peek(0).remaining, limit);
    }
    assert!(api.key_of(RequestHead::of(&request("/free", &[("k", "a")]))).is_none());
}

#[tokio::test]
async fn a_key_is_found_by_its_bytes() {
    let rule = Rule::new("api", hourly_bucket(1)).key(by_header("k")).for_key("own", hourly_bucket(3));
    let layer = layer_with(rule).build().unwrap();
    let api = layer.handle("api").unwrap();
    for (key, limit) in [("a", 1), ("own", 3)] {
        assert_eq!(statuses(&layer, 4, &[("k", key)]).await.iter().filter(|&&s| s == 200).count(), limit);
        assert!(api.key(key).unwrap().reset());
        assert_eq!(api.key(key).unwrap().peek(0).remaining, limit as u64);
    }
    let backend = Rule::backend("store", crate::shadow::Everything, OnBackendError::Refuse);
    let layer = layer_with(backend).build().unwrap();
    let store = layer.handle("store").unwrap();
    assert!(store.key("a").is_none() && store.usage().is_none());
}

#[tokio::test]
async fn peek_shows_the_limit_that_decides() {
    let quotas = [TokenBucket::new(Rate::per_hour(4)).into(), FixedWindow::new(Rate::per_day(6)).into()];
    let quotas: [tollgate::Quota; 2] = quotas;
    let layer = layer_with(Rule::new("api", quotas)).clock(ManualClock::new()).build().unwrap();
    let api = layer.handle("api").unwrap();
    let anyone = request("/", &[]);
    let all = api.key_of(RequestHead::of(&anyone)).unwrap();
    assert_eq!(all.peek(0).limit, 4);
    assert_eq!(statuses(&layer, 4, &[]).await, [200; 4]);
    // A day is the longer wait.
    assert_eq!((all.peek(0).limit, all.peek(3).limit, all.peek(3).remaining), (4, 6, 2));
}

#[tokio::test(start_paused = true)]
async fn a_reset_queue_gives_no_abandoned_turns_to_new_requests() {
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(10);
    for is_reset in [true, false] {
        for abandons_first in [true, false] {
            let rule = Rule::new("paced", [queue]).key(by_peer());
            let layer = layer_with(rule).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
            let client = [("peer", "192.0.2.1")];
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let layer = layer.clone();
                    tokio::spawn(async move { status(&layer, "/", &client).await })
                })
                .collect();
            tokio::task::yield_now().await;
            let paced = layer.handle("paced").unwrap();
            let forgive = || {
                let request = request("/", &client);
                let key = paced.key_of(RequestHead::of(&request)).unwrap();
                if is_reset { assert!(key.reset()) } else { assert_eq!(key.credit(3), 3) }
            };
            if !abandons_first {
                forgive();
            }
            waiting[1].abort();
            tokio::task::yield_now().await;
            if abandons_first {
                forgive();
            }
            let begun = Instant::now();
            assert_eq!(status(&layer, "/", &client).await, 200);
            assert_eq!(begun.elapsed(), Duration::ZERO, "a new queue: {is_reset} {abandons_first}");
        }
    }
}
