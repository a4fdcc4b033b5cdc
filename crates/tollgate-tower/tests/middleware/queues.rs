//! Requests that wait in a queue, on tokio's paused clock.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::{Echo, TokioClock, by_peer, header, hourly_bucket, layer_with, request, send, status};
use tokio::time::Instant;
use tollgate::{Clock, LeakyBucket, Quota, Rate, Timer, Timestamp, TokenBucket};
use tollgate_tower::{HeaderStyle, RequestHead, Rule, Tollgate, TollgateLayer};
use tower::{Layer, Service, ServiceExt};

fn queue(per_second: u64, capacity: u64) -> Quota {
    LeakyBucket::queue(Rate::per_second(per_second)).capacity(capacity).into()
}

fn layer(rule: Rule) -> TollgateLayer {
    layer_with(rule.key(by_peer())).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap()
}

/// Sends requests concurrently. Returns each status and the milliseconds until the response.
async fn send_concurrently(layer: &TollgateLayer, count: usize) -> Vec<(u16, u128)> {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move {
                (status(&layer, "/", &[("peer", "192.0.2.1")]).await, begun.elapsed().as_millis())
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn a_queue_spaces_departures_evenly() {
    let answers = send_concurrently(&layer(Rule::new("paced", [queue(2, 5)])), 5).await;
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200; 5]);
    for (place, (_, when)) in answers.iter().enumerate() {
        let ideal = 500 * place as u128;
        // Tokio's timer counts in whole milliseconds.
        assert!((ideal..=ideal + 2).contains(when), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_send_concurrently() {
    let layer = layer(Rule::new("paced", [queue(1, 2)]));
    let answers = send_concurrently(&layer, 3).await;
    assert_eq!(answers[2], (429, 0));
    assert_eq!((answers[0], answers[1].0), ((200, 0), 200));
    assert!((1_000..1_003).contains(&answers[1].1), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn no_request_waits_longer_than_max_wait() {
    let layer = layer(Rule::new("paced", [queue(10, 100)]).max_wait(Duration::from_millis(250)));
    let answers = send_concurrently(&layer, 6).await;
    assert_eq!(answers.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 200, 200, 429, 429, 429]);
    assert!(answers.iter().all(|(_, when)| *when <= 252), "{answers:?}");

    // The refused requests took no turn.
    let begun = Instant::now();
    assert_eq!(status(&layer, "/", &[("peer", "192.0.2.1")]).await, 200);
    assert!(begun.elapsed() <= Duration::from_millis(102), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn retry_after_for_max_wait_is_the_excess() {
    for max_wait in [0, 2] {
        let rule = Rule::new("paced", [queue(1, 100)]).max_wait(Duration::from_secs(max_wait));
        let layer = layer(rule);
        for _ in 0..=max_wait {
            let layer = layer.clone();
            tokio::spawn(async move { status(&layer, "/", &[("peer", "192.0.2.1")]).await });
            tokio::task::yield_now().await;
        }
        let response = send(&layer, request("/", &[("peer", "192.0.2.1")])).await;
        assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("1")));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(status(&layer, "/", &[("peer", "192.0.2.1")]).await, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_max_wait_names_the_queue() {
    let hour = TokenBucket::new(Rate::per_hour(1)).burst(7);
    let layer = layer(Rule::new("paced", [hour.into(), queue(1, 100)]).max_wait(Duration::ZERO));
    assert_eq!(status(&layer, "/", &[("peer", "192.0.2.1")]).await, 200);
    let response = send(&layer, request("/", &[("peer", "192.0.2.1")])).await;
    assert!(response.body().contains(r#""rule":"paced/s","limit":100,"#), "{}", response.body());
}

/// A timer that wakes after half of the duration.
struct EarlyTimer;

impl Timer for EarlyTimer {
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration / 2)
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_woken_early_sleeps_again() {
    let rule = Rule::new("paced", [queue(1, 5)]).key(by_peer());
    let layer = layer_with(rule).clock(TokioClock::new()).timer(EarlyTimer).build().unwrap();
    let answers = send_concurrently(&layer, 2).await;
    assert!(answers[1].1 >= 1_000, "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_gives_its_turn_back() {
    let layer = layer(Rule::new("paced", [queue(1, 2), TokenBucket::new(Rate::per_hour(3)).into()]));
    let client = [("peer", "192.0.2.1")];
    assert_eq!(status(&layer, "/", &client).await, 200);
    for _ in 0..5 {
        let waits = tokio::time::timeout(Duration::from_millis(1), status(&layer, "/", &client)).await;
        assert!(waits.is_err(), "its departure is in a second");
    }
    // The requests that disconnected took neither turns nor tokens.
    let begun = Instant::now();
    assert_eq!(status(&layer, "/", &client).await, 200);
    assert!(begun.elapsed() <= Duration::from_millis(1_002), "{:?}", begun.elapsed());
    assert_eq!(status(&layer, "/", &client).await, 200);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(status(&layer, "/", &client).await, 429, "the tokens of the hour are spent");
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_while_waiting_refunds_the_other_rules() {
    let total = || Rule::new("total", hourly_bucket(2)).key(by_peer());
    let paced = || Rule::new("paced", [queue(1, 5)]).key(by_peer());
    for is_last in [true, false] {
        for styles in [&[][..], &[HeaderStyle::Ietf]] {
            let (first, last) = if is_last { (total(), paced()) } else { (paced(), total()) };
            let layer = layer_with(first).rule(last).headers(styles.iter().copied());
            let layer = layer.clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
            let client = [("peer", "192.0.2.1")];
            assert_eq!(status(&layer, "/", &client).await, 200);
            let gone = tokio::time::timeout(Duration::from_millis(1), status(&layer, "/", &client)).await;
            assert!(gone.is_err());
            assert_eq!(status(&layer, "/", &client).await, 200, "the second token");
            assert_eq!(status(&layer, "/", &client).await, 429);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shadow_queue_delays_no_request() {
    let layer = layer(Rule::new("paced", [queue(1, 2)]).shadow());
    assert_eq!(send_concurrently(&layer, 5).await, [(200, 0); 5]);
}

#[tokio::test(start_paused = true)]
async fn a_steady_stream_passes_at_the_rate_after_a_burst() {
    let layer = layer(Rule::new("api", [TokenBucket::new(Rate::per_second(10)).burst(20)]));
    let mut passed = Vec::new();
    for number in 0..40 {
        if status(&layer, "/", &[("peer", "192.0.2.1")]).await == 200 {
            passed.push(number);
        }
        tokio::time::advance(Duration::from_millis(20)).await;
    }
    // The burst of 20 and 4 tokens that come back meanwhile; then one token each 100 ms.
    let expected: Vec<_> = (0..24).chain([25, 30, 35]).collect();
    assert_eq!(passed, expected, "the first burst, then every fifth");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_holds_no_permit_of_the_inner_service() {
    let layer = layer(Rule::new("paced", [queue(1, 5)]));
    let inner = tower::limit::ConcurrencyLimit::new(Echo, 1);
    let serve = |peer: &'static str| layer.layer(inner.clone()).oneshot(request("/", &[("peer", peer)]));
    assert_eq!(serve("192.0.2.1").await.unwrap().status(), 200);
    let waits = tokio::spawn(serve("192.0.2.1"));
    tokio::task::yield_now().await;
    let begun = Instant::now();
    assert_eq!(serve("192.0.2.2").await.unwrap().status(), 200);
    assert!(begun.elapsed().is_zero(), "{:?}", begun.elapsed());
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_request_can_get_the_only_permit() {
    for rule in
        [Rule::new("paced", [queue(1, 5)]), Rule::new("remembered", hourly_bucket(5)).charge_if(|_, _| true)]
    {
        // The service serves several requests, as in a connection or in `tower::buffer`.
        let mut service = layer(rule).layer(tower::limit::ConcurrencyLimit::new(Echo, 1));
        for _ in 0..3 {
            let answer = service.ready().await.unwrap().call(request("/", &[("peer", "192.0.2.1")]));
            let answer = tokio::time::timeout(Duration::from_secs(60), answer).await;
            assert_eq!(answer.expect("its permit is free").unwrap().status(), 200);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_keeps_no_permit_of_the_inner_service() {
    let layer = layer(Rule::new("once", hourly_bucket(1)));
    let inner = tower::limit::ConcurrencyLimit::new(Echo, 1);
    let serve = async |service: &mut Tollgate<_, _>, peer| {
        let answer = async { service.ready().await.unwrap().call(request("/", &[("peer", peer)])).await };
        let answer = tokio::time::timeout(Duration::from_secs(1), answer).await;
        answer.expect("the permit is free").unwrap().status().as_u16()
    };
    // Both services stay in use after a refusal.
    let (mut one, mut other) = (layer.layer(inner.clone()), layer.layer(inner));
    assert_eq!(serve(&mut one, "192.0.2.1").await, 200);
    assert_eq!(serve(&mut one, "192.0.2.1").await, 429);
    assert_eq!(serve(&mut other, "192.0.2.2").await, 200);
    assert_eq!(serve(&mut one, "192.0.2.3").await, 200);
}

/// Tokio's time. The reading that brings `readings_left` to 0 also sends another request.
#[derive(Clone)]
struct InterferingClock(Arc<Interference>);

struct Interference {
    clock: TokioClock,
    readings_left: AtomicUsize,
    layer: OnceLock<TollgateLayer>,
}

impl Clock for InterferingClock {
    fn now(&self) -> Timestamp {
        let now = self.0.clock.now();
        if self.0.readings_left.fetch_sub(1, Relaxed) == 1 {
            let layer = self.0.layer.get().unwrap();
            let mut other = another(layer);
            if other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(other);
            }
        }
        now
    }
}

type Other = Pin<Box<dyn Future<Output = u16> + Send>>;

fn another(layer: &TollgateLayer) -> Other {
    let layer = layer.clone();
    Box::pin(async move { status(&layer, "/", &[("peer", "192.0.2.1")]).await })
}

/// A queue of one a second with a clock that can send another request in between.
fn layer_with_interference() -> (TollgateLayer, InterferingClock) {
    let clock = InterferingClock(Arc::new(Interference {
        clock: TokioClock::new(),
        readings_left: AtomicUsize::new(usize::MAX),
        layer: OnceLock::new(),
    }));
    let rule = Rule::new("paced", [queue(1, 10)]).key(by_peer()).max_wait(Duration::from_secs(1));
    let layer = layer_with(rule).clock(clock.clone()).timer(tokio::time::sleep).build().unwrap();
    clock.0.layer.set(layer.clone()).unwrap();
    (layer, clock)
}

#[tokio::test(start_paused = true)]
async fn max_wait_holds_if_another_request_comes_in_between() {
    // A decision reads the clock once, before it looks at anything, and a second time is when the
    // request waits already.
    for reading in 1..=2 {
        let (layer, clock) = layer_with_interference();
        let client = [("peer", "192.0.2.1")];
        assert_eq!(status(&layer, "/", &client).await, 200);
        clock.0.readings_left.store(reading, Relaxed);
        let begun = Instant::now();
        let answer = status(&layer, "/", &client).await;
        // Before the charge the other request takes the turn; the next would depart in two seconds.
        let expected = if reading <= 1 { (429, 0) } else { (200, 1) };
        assert_eq!((answer, begun.elapsed().as_secs()), expected, "at reading {reading}");
        // The refused request left no gap behind the other.
        if answer == 429 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(status(&layer, "/", &client).await, 200, "at reading {reading}");
            assert_eq!(begun.elapsed().as_secs(), 2, "at reading {reading}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_if_another_comes_in_between() {
    let (layer, clock) = layer_with_interference();
    clock.0.readings_left.store(1, Relaxed);
    let begun = Instant::now();
    assert_eq!(status(&layer, "/", &[("peer", "192.0.2.1")]).await, 200);
    assert_eq!(begun.elapsed().as_secs(), 1);
}

/// A layer with two styles of headers.
fn layer_with_headers(rule: Rule) -> TollgateLayer {
    layer_with(rule)
        .headers([HeaderStyle::Ietf, HeaderStyle::XRateLimit])
        .clock(TokioClock::new())
        .timer(tokio::time::sleep)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_max_wait_is_consistent_in_all_headers() {
    let layer = layer_with_headers(Rule::new("paced", [queue(1, 100)]).max_wait(Duration::from_secs(2)));
    for _ in 0..3 {
        let layer = layer.clone();
        tokio::spawn(async move { status(&layer, "/", &[]).await });
        tokio::task::yield_now().await;
    }
    let response = send(&layer, request("/", &[])).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("1")));
    assert_eq!(header(&response, "x-ratelimit-reset"), Some("1"));
    assert_eq!(header(&response, "ratelimit"), Some("\"paced\";r=0;t=1"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_max_wait_shows_the_queue_alone() {
    let hour = TokenBucket::new(Rate::per_hour(1)).burst(7).into();
    let layer = layer_with_headers(Rule::new("paced", [hour, queue(1, 100)]).max_wait(Duration::ZERO));
    assert_eq!(status(&layer, "/", &[]).await, 200);
    let response = send(&layer, request("/", &[])).await;
    assert!(!header(&response, "ratelimit").unwrap().contains("paced/h"), "{:?}", response.headers());
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_a_full_queue_respects_max_wait() {
    let cost = |head: RequestHead<'_>| if head.path() == "/vast" { 10 } else { 1 };
    let layer =
        layer_with_headers(Rule::new("paced", [queue(1, 10)]).max_wait(Duration::from_secs(2)).cost(cost));
    assert_eq!(status(&layer, "/vast", &[]).await, 200);
    let response = send(&layer, request("/", &[])).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("8")));
}

#[tokio::test(start_paused = true)]
async fn the_longer_of_two_queues_decides_retry_after() {
    let cost = |head: RequestHead<'_>| head.path().len() as u64;
    let slow = LeakyBucket::queue(Rate::new(10, Duration::from_secs(10))).capacity(10).into();
    let rule = Rule::new("paced", [queue(10, 100), slow]).max_wait(Duration::from_secs(2)).cost(cost);
    let layer = layer_with_headers(rule);
    assert_eq!(status(&layer, "/12345678", &[]).await, 200);
    // The queue has room for a cost of 1, with a wait of 9 s, and no room for a cost of 2.
    for path in ["/", "/2"] {
        let response = send(&layer, request(path, &[])).await;
        assert_eq!(
            (response.status().as_u16(), header(&response, "retry-after")),
            (429, Some("7")),
            "{path}"
        );
        assert_eq!(header(&response, "ratelimit"), Some("\"paced/10s\";r=0;t=7"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_in_two_queues_departs_at_the_later_time() {
    let rules = || [Rule::new("slow", [queue(1, 5)]), Rule::new("fast", [queue(2, 5)])];
    for reversed in [false, true] {
        let mut rules = rules();
        if reversed {
            rules.reverse();
        }
        let [first, last] = rules;
        let layer =
            layer_with(first).rule(last).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
        let begun = Instant::now();
        assert_eq!(status(&layer, "/", &[]).await, 200);
        assert_eq!(status(&layer, "/", &[]).await, 200);
        assert_eq!(begun.elapsed().as_secs(), 1, "reversed: {reversed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_body_does_not_wait() {
    let rule = || Rule::new("paced", [queue(1, 5)]);
    let post = |version, field: &(&str, &str)| {
        let mut request = request("/", &[("peer", "192.0.2.1"), ("method", "POST"), *field]);
        *request.version_mut() = version;
        request
    };
    let (http_11, http_2) = (http::Version::HTTP_11, http::Version::HTTP_2);
    for (version, field, waits) in [
        (http_11, ("content-length", "5"), false),
        (http_11, ("transfer-encoding", "chunked"), false),
        (http_11, ("content-length", "0"), true),
        (http_2, ("content-length", "5"), true),
    ] {
        let waits = if waits { 200 } else { 429 };
        let layer = layer(rule());
        for expected in [200, waits] {
            let response = send(&layer, post(version, &field)).await;
            assert_eq!(response.status(), expected, "{version:?} {field:?}");
            assert_eq!(header(&response, "retry-after"), (expected == 429).then_some("1"));
        }
    }
    let layer = layer(rule().max_wait_with_body(Duration::from_secs(1)));
    let posts = [(); 3].map(|()| {
        tokio::spawn({
            let (layer, request) = (layer.clone(), post(http_11, &("content-length", "5")));
            async move { send(&layer, request).await.status().as_u16() }
        })
    });
    let mut statuses = Vec::new();
    for post in posts {
        statuses.push(post.await.unwrap());
    }
    assert_eq!(statuses, [200, 200, 429], "the third would wait for two seconds");
}
