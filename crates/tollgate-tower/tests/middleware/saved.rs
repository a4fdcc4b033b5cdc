//! Save and restore: a restart of a server forgives no debt and no ban.

mod changed;
mod damage;
mod meanwhile;

use std::time::Duration;

use http::Request;
use tollgate::{
    Clock, FixedWindow, Inherit, LeakyBucket, ManualClock, Quota, Rate, RestoreError, SlidingLog,
    SlidingWindow, Timestamp, TokenBucket,
};
use tollgate_testing::random::Random;
use tollgate_tower::{
    Backend, Builder, Limit, LimitState, OnBackendError, RequestHead, Rule, SavedLimits, StoreReply,
    TollgateLayer,
};

use crate::support::{by_header, hourly_bucket, layer_with, request, send, status, statuses};

const SECOND: Duration = Duration::from_secs(1);
const BAN: Duration = Duration::from_secs(600);
const KEYS: [&str; 4] = ["a", "b", "c", "own"];

/// A clock whose zero is this Unix time.
fn clock(unix: Duration) -> ManualClock {
    ManualClock::starting_at(unix)
}

/// The file of a layer.
fn saved<R, B>(layer: &TollgateLayer<R, B>) -> Vec<u8> {
    let mut file = Vec::new();
    layer.save(&mut file).expect("a vector takes all");
    file
}

/// Restores a layer that begins with all that was saved.
fn restored(settings: Builder, file: &[u8]) -> TollgateLayer {
    let (layer, forgotten) = settings.restore(file).unwrap();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    layer
}

/// Every kind of rule that keeps debts.
fn every_kind() -> Builder {
    let minute = Rate::per_minute;
    let window = FixedWindow::new(Rate::per_hour(20));
    let several = [Quota::from(TokenBucket::new(minute(6)).burst(10)), window.into()];
    let paid = TokenBucket::new(Rate::per_second(1)).burst(50);
    let rules = [
        Rule::new("several", several)
            .tier(|head| head.path() == "/paid", [paid])
            .for_key("own", [SlidingLog::new(minute(3))]),
        Rule::new("banning", [FixedWindow::new(Rate::per_second(1))])
            .when(|head| head.path() == "/ban")
            .ban(BAN),
        Rule::new("window", [SlidingWindow::new(minute(30)).subwindows(6)]),
        Rule::new("paced", [LeakyBucket::queue(Rate::per_second(2)).capacity(9)]).max_wait(Duration::ZERO),
        Rule::new("meter", [LeakyBucket::meter(minute(15))]),
        Rule::new("first", [FixedWindow::new(minute(40)).from_first_hit()]),
        Rule::new("trial", hourly_bucket(2)).shadow().ban(BAN),
    ];
    let keyed = rules.into_iter().map(|rule| rule.key(by_header("k")).max_keys(64));
    keyed.fold(TollgateLayer::builder(), Builder::rule)
}

/// What each rule shows of each key in each tier.
fn states(layer: &TollgateLayer) -> Vec<(&'static str, &'static str, &'static str, LimitState)> {
    let mut states = Vec::new();
    for rule in ["several", "banning", "window", "paced", "meter", "first", "trial"] {
        for path in ["/", "/paid", "/ban"] {
            for key in KEYS {
                let request: Request<String> = request(path, &[("k", key)]);
                let handle = layer.handle(rule).unwrap();
                let Some(key_of) = handle.key_of(RequestHead::of(&request)) else { continue };
                states.push((rule, path, key, key_of.peek(1)));
            }
        }
    }
    states
}

/// Sends random requests while the clock moves. Returns the statuses.
async fn play(layer: &TollgateLayer, clock: &ManualClock, seed: u64, count: usize) -> Vec<u16> {
    let (mut random, mut statuses) = (Random::with_seed(seed), Vec::new());
    for _ in 0..count {
        let path = ["/", "/", "/", "/paid", "/ban"][random.usize(..5)];
        statuses.push(status(layer, path, &[("k", KEYS[random.usize(..KEYS.len())])]).await);
        clock.advance(Duration::from_millis(random.u64(..700)));
    }
    statuses
}

#[tokio::test]
async fn a_restored_layer_answers_as_the_saved_one_would() {
    let zero = Duration::from_secs(1_700_000_000);
    let old_clock = clock(zero);
    let old = every_kind().clock(old_clock.clone()).build().unwrap();
    let answers = play(&old, &old_clock, 1, 200).await;
    assert!(answers.contains(&200) && answers.contains(&429));
    let mut file = Vec::new();
    let debts = old.save(&mut file).unwrap();
    assert!(debts > 20, "{debts}");
    let spent = |states: &[(&str, &str, &str, LimitState)]| {
        states.iter().filter(|(.., state)| state.remaining + 1 < state.limit).count()
    };
    let mut lasting = Vec::new();
    for gap in [0, 1, 10, 300, 7_200] {
        let time = old_clock.now().saturating_since(Timestamp::ZERO);
        // The next process begins later, and its clock anew.
        old_clock.advance(Duration::from_secs(gap));
        let new_clock = clock(zero + time + Duration::from_secs(gap));
        let new = restored(every_kind().clock(new_clock.clone()), &file);
        assert_eq!(states(&new), states(&old), "{gap} seconds later");
        lasting.push(spent(&states(&old)));
        let again = saved(&new);
        assert_eq!(states(&restored(every_kind().clock(new_clock.clone()), &again)), states(&old));
        if gap <= 1 {
            assert_eq!(
                play(&new, &new_clock, gap + 2, 200).await,
                play(&old, &old_clock, gap + 2, 200).await
            );
            assert_eq!(states(&new), states(&old), "after more requests");
            file = saved(&old);
        }
    }
    assert!(lasting[0] > 20 && *lasting.last().unwrap() < lasting[0], "{lasting:?}");
}

#[tokio::test]
async fn a_ban_outlives_a_restart_to_the_nanosecond() {
    let rule = || Rule::new("api", [FixedWindow::new(Rate::per_second(1))]).key(by_header("k")).ban(BAN);
    let before = clock(Duration::ZERO);
    let layer = layer_with(rule()).clock(before.clone()).build().unwrap();
    assert_eq!(statuses(&layer, 2, &[("k", "a")]).await, [200, 429]);
    let file = saved(&layer);
    for (gap, expected) in [(BAN - Duration::from_nanos(1), 429), (BAN, 200)] {
        let layer = restored(layer_with(rule()).clock(clock(gap)), &file);
        assert_eq!(status(&layer, "/", &[("k", "a")]).await, expected);
        assert_eq!(status(&layer, "/", &[("k", "b")]).await, 200);
    }
}

#[tokio::test]
async fn local_limits_of_a_backend_outlive_a_restart() {
    struct Down;
    impl Backend for Down {
        type Error = std::fmt::Error;
        type Receipt = ();
        async fn decide(&self, _: &[u8], _: u64) -> Result<StoreReply, std::fmt::Error> {
            Err(std::fmt::Error)
        }
    }
    let settings = || {
        let fallback = OnBackendError::LimitLocally(vec![hourly_bucket(2)[0].into()]);
        layer_with(Rule::backend("store", Down, fallback).key(by_header("k"))).clock(clock(Duration::ZERO))
    };
    let layer = settings().build().unwrap();
    assert_eq!(status(&layer, "/", &[("k", "a")]).await, 200);
    let layer = restored(settings(), &saved(&layer));
    assert_eq!(statuses(&layer, 2, &[("k", "a")]).await, [200, 429]);
}

#[tokio::test]
async fn requests_in_flight_end_with_the_process() {
    let settings = || {
        let hourly = Rule::new("hourly", hourly_bucket(3)).key(by_header("k"));
        let at_once = Rule::new("at-once", [Limit::InFlight(1)]).key(by_header("k"));
        layer_with(at_once).rule(hourly).clock(clock(Duration::ZERO))
    };
    let layer = settings().build_in_flight().unwrap();
    let body = crate::in_flight::sent();
    let response = crate::in_flight::answered(&layer, &[("k", "a")], body.1).await;
    let file = saved(&layer);
    drop(response);
    let (layer, forgotten) = settings().restore_in_flight(&file[..]).unwrap();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    let left = |rule| layer.handle(rule).unwrap().key("a").unwrap().peek(0).remaining;
    assert_eq!((left("at-once"), left("hourly")), (1, 2));
    let error = settings().restore(&file[..]).unwrap_err();
    assert!(matches!(error, RestoreError::Settings(_)), "{error}");
}

#[tokio::test]
async fn a_turn_that_waited_stays_taken_after_a_restart() {
    let rule =
        || Rule::new("paced", [LeakyBucket::queue(Rate::per_second(1)).capacity(5)]).key(by_header("k"));
    let layer = layer_with(rule()).clock(clock(Duration::ZERO)).build().unwrap();
    // Two departures are taken: now, and in a second.
    assert_eq!(status(&layer, "/", &[("k", "a")]).await, 200);
    let waiting = tokio::spawn({
        let layer = layer.clone();
        async move { send(&layer, request("/", &[("k", "a")])).await.status() }
    });
    while layer.handle("paced").unwrap().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    let layer = restored(layer_with(rule()).clock(clock(Duration::ZERO)), &saved(&layer));
    waiting.abort();
    let paced = layer.handle("paced").unwrap();
    assert_eq!((paced.waiting(), paced.key("a").unwrap().peek(0).remaining), (0, 3));
}

#[tokio::test]
async fn a_reconfigured_layer_is_restored_by_its_current_limits() {
    let rule = |own, paid, partner| {
        Rule::new("api", hourly_bucket(own))
            .key(by_header("k"))
            .tier(|head| head.path() == "/paid", hourly_bucket(paid))
            .for_key("partner", hourly_bucket(partner))
    };
    let settings = |own, paid, partner| layer_with(rule(own, paid, partner)).clock(clock(Duration::ZERO));
    let left = |layer: &TollgateLayer| {
        [("/", "a"), ("/paid", "a"), ("/", "partner")].map(|(path, key)| {
            let request = request(path, &[("k", key)]);
            layer.handle("api").unwrap().key_of(RequestHead::of(&request)).unwrap().peek(0).remaining
        })
    };
    let layer = settings(4, 5, 6).build().unwrap();
    for (path, key) in [("/", "a"), ("/paid", "a"), ("/", "partner")] {
        assert_eq!(status(&layer, path, &[("k", key)]).await, 200);
    }
    layer.reconfigure("api", hourly_bucket(14), Inherit::Additive).unwrap();
    layer.reconfigure_tier("api", 1, hourly_bucket(15), Inherit::Additive).unwrap();
    layer.reconfigure_key("api", "partner", hourly_bucket(16), Inherit::Additive).unwrap();
    // A change that fails leaves the limits that are saved.
    layer.reconfigure("api", hourly_bucket(0), Inherit::Additive).unwrap_err();
    assert_eq!(left(&layer), [13, 14, 15]);
    let file = saved(&layer);
    assert_eq!(left(&restored(settings(14, 15, 16), &file)), [13, 14, 15]);
    // The next process does not know of the change: its own limits apply, and debts stay.
    assert_eq!(left(&restored(settings(4, 5, 6), &file)), [3, 4, 5]);
}
