//! Bans: once refused, refused for so long.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Response;
use tokio::time::{Instant, advance};
use tollgate::{
    Clock, CountPolicy, FixedWindow, LeakyBucket, ManualClock, Quota, Rate, SlidingLog, SlidingWindow,
    Timestamp, TokenBucket, WhenFull,
};
use tollgate_tower::{
    BuildError, HeaderStyle, HttpResponder, MissingKey, OnBackendError, RequestHead, Rule, TollgateLayer,
};
use tower::{Layer, ServiceExt};

use crate::support::{
    Echo, TokioClock, by_header, header, hourly_bucket, layer_with, request, send, status, statuses,
};

const TEN_MINUTES: Duration = Duration::from_secs(600);
const STYLES: [HeaderStyle; 5] = [
    HeaderStyle::Ietf,
    HeaderStyle::GitHub,
    HeaderStyle::XRateLimit,
    HeaderStyle::XRateLimitRetryAfter,
    HeaderStyle::RateLimitTrio,
];

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One request a second of each key, and a ban of ten minutes.
fn one_a_second() -> Rule {
    Rule::new("api", [FixedWindow::new(Rate::per_second(1))]).key(by_header("k")).ban(TEN_MINUTES)
}

fn layer_by(clock: &ManualClock, rule: Rule) -> TollgateLayer {
    layer_with(rule).clock(clock.clone()).build().unwrap()
}

/// Moves the clock to so many milliseconds after its zero.
fn go_to(clock: &ManualClock, time: u64) {
    clock.advance(millis(time) - clock.now().saturating_since(Timestamp::ZERO));
}

async fn get(layer: &TollgateLayer, key: &str) -> Response<String> {
    send(layer, request("/", &[("k", key)])).await
}

#[tokio::test]
async fn a_key_once_refused_is_refused_until_the_ban_ends() {
    let clock = ManualClock::new();
    let layer = layer_by(&clock, one_a_second());
    let seconds = [(0, None), (500, Some(600)), (1_000, Some(600)), (599_000, Some(2)), (600_499, Some(1))];
    for (time, retry_after) in seconds {
        go_to(&clock, time);
        let response = get(&layer, "a").await;
        let told = header(&response, "retry-after").map(|seconds| seconds.parse::<u64>().unwrap());
        assert_eq!(told, retry_after, "at {time} ms");
        assert_eq!(response.status(), if retry_after.is_some() { 429 } else { 200 });
        assert_eq!(get(&layer, &format!("other at {time}")).await.status(), 200);
    }
    go_to(&clock, 600_500);
    assert_eq!(get(&layer, "a").await.status(), 200);
}

#[tokio::test]
async fn headers_and_body_tell_the_end_of_the_ban() {
    let quotas: [Quota; 2] =
        [FixedWindow::new(Rate::per_second(1)).into(), TokenBucket::new(Rate::per_day(50)).into()];
    let single = || Rule::new("api", [FixedWindow::new(Rate::per_second(1))]);
    let waits = Arc::new(Mutex::new(Vec::new()));
    for (rule, shown) in [(single(), "api"), (Rule::new("api", quotas), "api/s")] {
        let (clock, noted) = (ManualClock::new(), Arc::clone(&waits));
        let layer = layer_with(rule.key(by_header("k")).ban(TEN_MINUTES)).clock(clock.clone());
        let layer = layer.headers(STYLES).responder(HttpResponder::json());
        let layer = layer.on_limited(move |refusal| noted.lock().unwrap().push(refusal.retry_after()));
        let layer = layer.build().unwrap();
        assert_eq!(get(&layer, "a").await.status(), 200);
        // The refusal that begins the ban, one beside a spent limit, and one beside a whole limit.
        for (time, left) in [(200, 600), (300, 600), (300_200, 300), (600_199, 1)] {
            go_to(&clock, time);
            let response = get(&layer, "a").await;
            let left = left.to_string();
            for name in ["retry-after", "x-ratelimit-retry-after", "x-ratelimit-reset", "ratelimit-reset"] {
                assert_eq!(header(&response, name), Some(&*left), "{name} at {time}");
            }
            assert_eq!(header(&response, "x-ratelimit-remaining"), Some("0"));
            assert_eq!(header(&response, "x-ratelimit-resource"), Some(shown));
            let ietf = header(&response, "ratelimit").unwrap();
            assert!(ietf.starts_with(&format!("\"{shown}\";r=0;t={left}")), "{ietf}");
            let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
            assert_eq!(
                (&body["remaining"], &body["retry_after"]),
                (&0.into(), &left.parse::<u64>().unwrap().into())
            );
        }
        let expected = [600_000, 599_900, 300_000, 1].map(|left| Some(millis(left)));
        assert_eq!(std::mem::take(&mut *waits.lock().unwrap()), expected);
    }
}

/// The recipe of `Rule::ban`, by its claim.
#[tokio::test]
async fn five_failures_in_any_ten_minutes_ban_for_an_hour() {
    let line = "SlidingWindow::new(Rate::new(5, Duration::from_secs(600))).subwindows(6)";
    assert!(include_str!("../../src/rule/mod.rs").contains(line), "the recipe is another");
    let recipe = || {
        let five = SlidingWindow::new(Rate::new(5, Duration::from_secs(600))).subwindows(6);
        let logins = Rule::new("logins", [five]).key(by_header("x-account"));
        logins.charge_if(|status, _| status == 401).ban(Duration::from_secs(3_600))
    };
    // Seconds between attempts: at once, as fast as a bucket would give units back, slower, mixed.
    let paces: [&[u64]; 6] =
        [&[0, 0, 0, 0, 30], &[0, 0, 0, 0, 121], &[100], &[119], &[121], &[0, 300, 7, 130, 60]];
    for pace in paces {
        let clock = ManualClock::new();
        let layer = layer_by(&clock, recipe());
        let attempt = async |want| status(&layer, "/login", &[("x-account", "ada"), ("x-want", want)]).await;
        let (mut now, mut failed, mut banned_until, mut bans) = (0, Vec::new(), 0, 0);
        for wait in pace.iter().cycle().take(2_000) {
            now += wait;
            go_to(&clock, now * 1_000);
            let within = |seconds: u64| failed.iter().filter(|&&then| now - then < seconds).count();
            match attempt("401").await {
                401 => {
                    assert!(now >= banned_until && within(600) < 5, "{pace:?}: admitted at {now} s");
                    failed.push(now);
                }
                _ if now < banned_until => {}
                _ => {
                    // A sub-window is remembered whole.
                    assert!(within(700) >= 5, "{pace:?}: refused at {now} s");
                    (banned_until, bans) = (now + 3_600, bans + 1);
                }
            }
        }
        let is_slow = pace == [121];
        assert!(is_slow || bans > 2, "{pace:?}: {bans} bans of {} failures", failed.len());
        // A log-in that works costs nothing.
        go_to(&clock, (now + 10_000) * 1_000);
        for _ in 0..20 {
            assert_eq!(attempt("200").await, 200);
        }
    }
}

#[tokio::test]
async fn a_limits_longer_refusal_outlasts_the_ban() {
    let clock = ManualClock::new();
    let layer = layer_by(&clock, Rule::new("api", hourly_bucket(1)).ban(millis(1_000)));
    assert_eq!(statuses(&layer, 2, &[]).await, [200, 429]);
    for left in [3_600, 1_800, 1] {
        go_to(&clock, (3_600 - left) * 1_000);
        assert_eq!(header(&get(&layer, "").await, "retry-after"), Some(&*left.to_string()));
    }
}

#[tokio::test]
async fn a_ban_holds_in_every_tier_of_a_key() {
    let clock = ManualClock::new();
    let rule = one_a_second()
        .tier(|head| head.path() == "/paid", hourly_bucket(5))
        .for_key("own", hourly_bucket(1))
        .cost(|head| u64::from(head.path() != "/free"))
        .skip(|head| head.path() == "/health");
    let layer = layer_by(&clock, rule);
    for key in ["a", "own"] {
        let headers = [("k", key)];
        assert_eq!(status(&layer, "/paid", &headers).await, 200);
        assert_eq!(status(&layer, "/free", &headers).await, 200);
        statuses(&layer, 2, &headers).await;
        for path in ["/", "/paid", "/free"] {
            assert_eq!(status(&layer, path, &headers).await, 429, "{key} {path}");
        }
        assert_eq!(status(&layer, "/health", &headers).await, 200);
    }
    let api = layer.handle("api").unwrap();
    let paid = request("/paid", &[("k", "a")]);
    let paid = api.key_of(RequestHead::of(&paid)).unwrap();
    assert_eq!((paid.peek(0).limit, paid.peek(0).remaining, paid.peek(0).reset), (5, 0, TEN_MINUTES));
    clock.advance(TEN_MINUTES);
    assert_eq!((paid.peek(0).remaining, status(&layer, "/paid", &[("k", "a")]).await), (4, 200));
}

#[tokio::test]
async fn what_can_never_be_admitted_bans_nobody() {
    let clock = ManualClock::new();
    let cost = |head: RequestHead<'_>| if head.path() == "/vast" { 9 } else { 1 };
    let rule = one_a_second().cost(cost).missing_key(MissingKey::Refuse);
    let layer = layer_by(&clock, rule);
    assert_eq!(status(&layer, "/vast", &[("k", "a")]).await, 400);
    assert_eq!(status(&layer, "/", &[]).await, 400);
    assert_eq!(statuses(&layer, 2, &[("k", "a")]).await, [200, 429]);
    // It stays refused for good, and not until the ban ends.
    let vast = send(&layer, request("/vast", &[("k", "a")])).await;
    assert_eq!((vast.status().as_u16(), header(&vast, "retry-after")), (400, None));
    assert_eq!(layer.handle("api").unwrap().usage().unwrap().live_keys, 2, "one in debt, and banned");
}

#[tokio::test]
async fn what_another_rule_never_admits_bans_nobody() {
    let clock = ManualClock::new();
    let signed = Rule::new("signed", hourly_bucket(9)).key(by_header("sign")).missing_key(MissingKey::Refuse);
    let layer = layer_with(one_a_second()).rule(signed).clock(clock.clone()).build().unwrap();
    let whole = [("k", "a"), ("sign", "s")];
    assert_eq!(status(&layer, "/", &whole).await, 200);
    // Both rules refuse it, and the other one for good.
    assert_eq!(status(&layer, "/", &whole[..1]).await, 400);
    clock.advance(Duration::from_secs(1));
    assert_eq!(status(&layer, "/", &whole).await, 200);
}

#[tokio::test]
async fn a_banned_request_is_charged_to_no_limit() {
    for is_first in [true, false] {
        let clock = ManualClock::new();
        let counted = SlidingLog::new(Rate::per_day(3)).count(CountPolicy::All);
        let quotas: [Quota; 2] = [FixedWindow::new(Rate::per_second(1)).into(), counted.into()];
        let banning = Rule::new("banning", quotas).key(by_header("k")).ban(TEN_MINUTES);
        let other = Rule::new("other", hourly_bucket(10)).key(by_header("k"));
        let (first, last) = if is_first { (banning, other) } else { (other, banning) };
        let layer = layer_with(first).rule(last).clock(clock.clone()).build().unwrap();
        assert_eq!(statuses(&layer, 9, &[("k", "a")]).await[..3], [200, 429, 429]);
        assert_eq!(layer.handle("other").unwrap().key("a").unwrap().peek(0).remaining, 9);
        clock.advance(TEN_MINUTES);
        // The refusal that began the ban may count, and no later one.
        assert_eq!(get(&layer, "a").await.status(), 200);
    }
}

#[tokio::test]
async fn a_refusal_bans_in_any_order_of_the_rules() {
    for is_first in [true, false] {
        for is_shadow in [true, false] {
            let (clock, outcomes) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
            let seen = Arc::clone(&outcomes);
            let banning = if is_shadow { one_a_second().shadow() } else { one_a_second() };
            let other = Rule::new("other", [FixedWindow::new(Rate::per_second(1))]);
            let (first, last) = if is_first { (banning, other) } else { (other, banning) };
            let layer = layer_with(first).rule(last).clock(clock.clone());
            let layer = layer.on_decision(move |decision| {
                if decision.rule() == "api" {
                    seen.lock().unwrap().push((decision.outcome().as_str(), decision.limit().unwrap().reset));
                }
            });
            let layer = layer.build().unwrap();
            let expected = [(0, 200), (0, 429), (2_000, if is_shadow { 200 } else { 429 }), (600_000, 200)];
            for (time, status) in expected {
                go_to(&clock, time);
                assert_eq!(get(&layer, "a").await.status(), status, "at {time}, {is_first} {is_shadow}");
            }
            let outcomes = outcomes.lock().unwrap();
            let expected =
                [("allowed", 1_000), ("limited", 600_000), ("limited", 598_000), ("allowed", 1_000)];
            assert_eq!(*outcomes, expected.map(|(outcome, reset)| (outcome, millis(reset))));
        }
    }
}

#[tokio::test]
async fn a_reset_lifts_the_ban_that_a_credit_keeps() {
    let clock = ManualClock::new();
    let layer = layer_by(&clock, one_a_second());
    let api = layer.handle("api").unwrap();
    let key = api.key("a").unwrap();
    assert_eq!(statuses(&layer, 2, &[("k", "a")]).await, [200, 429]);
    assert_eq!(key.credit(1), 1);
    assert_eq!(get(&layer, "a").await.status(), 429);
    assert_eq!((key.peek(1).remaining, key.peek(1).reset), (0, TEN_MINUTES));
    assert!(key.reset());
    assert_eq!(key.peek(0).remaining, 1);
    assert_eq!(statuses(&layer, 2, &[("k", "a")]).await, [200, 429], "and it may be banned again");
    clock.advance(Duration::from_secs(5));
    assert_eq!(key.peek(0).reset, Duration::from_secs(595));
}

#[tokio::test]
async fn charge_if_bans_by_refusals_not_by_responses() {
    let clock = ManualClock::new();
    let rule = Rule::new("logins", hourly_bucket(2)).key(by_header("k")).ban(TEN_MINUTES);
    let layer = layer_by(&clock, rule.charge_if(|status, _| status == 401));
    let attempt = async |status: &str| send(&layer, request("/", &[("k", "a"), ("x-want", status)])).await;
    for status in ["401", "200", "200", "401", "200"] {
        let expected = if status == "200" { 200 } else { 401 };
        let is_spent = layer.handle("logins").unwrap().key("a").unwrap().peek(0).remaining == 0;
        assert_eq!(attempt(status).await.status(), if is_spent { 429 } else { expected });
    }
    assert_eq!(header(&attempt("200").await, "retry-after"), Some("3600"));
}

#[tokio::test(start_paused = true)]
async fn a_queues_refusal_bans_and_waiting_requests_keep_turns() {
    let queue = LeakyBucket::queue(Rate::per_second(1)).capacity(10);
    let rule = Rule::new("paced", [queue]).key(by_header("k")).max_wait(millis(1_500)).ban(TEN_MINUTES);
    let layer = layer_with(rule).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
    let begun = Instant::now();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let layer = layer.clone();
            tokio::spawn(async move { (status(&layer, "/", &[("k", "a")]).await, begun.elapsed()) })
        })
        .collect();
    let mut outcomes = Vec::new();
    for request in waiting {
        outcomes.push(request.await.unwrap());
    }
    assert_eq!(outcomes, [(200, millis(0)), (200, millis(1_000)), (429, millis(0))]);
    assert_eq!(header(&get(&layer, "a").await, "retry-after"), Some("599"));
    advance(Duration::from_secs(598)).await;
    assert_eq!(get(&layer, "a").await.status(), 429);
    advance(Duration::from_secs(1)).await;
    assert_eq!(get(&layer, "a").await.status(), 200);
}

#[tokio::test]
async fn a_full_table_of_bans_refuses_no_other_key() {
    for when_full in [WhenFull::Share, WhenFull::Deny, WhenFull::Allow] {
        let clock = ManualClock::new();
        let layer = layer_by(&clock, one_a_second().max_keys(8).when_full(when_full));
        let api = layer.handle("api").unwrap();
        let mut banned = 0;
        for key in 0..200 {
            // The limit's own table holds a few keys of this second.
            clock.advance(Duration::from_secs(1));
            let key = key.to_string();
            assert_eq!(get(&layer, &key).await.status(), 200, "{when_full:?} {key}");
            let refusal = get(&layer, &key).await;
            let left = header(&refusal, "retry-after").unwrap();
            assert!(["1", "600"].contains(&left), "{left}");
            banned += u64::from(left == "600");
            // What it says is so.
            clock.advance(Duration::from_secs(1));
            assert_eq!(get(&layer, &key).await.status(), if left == "600" { 429 } else { 200 });
        }
        assert!((8..200).contains(&banned), "{banned}");
        assert!(api.stats().admitted_uncounted > 0);
    }
}

#[tokio::test]
async fn a_full_table_bans_no_new_key() {
    let ban = Duration::from_secs(100 * 3_600);
    let quotas: [Quota; 3] = [
        TokenBucket::new(Rate::per_hour(1)).burst(4).into(),
        FixedWindow::new(Rate::per_hour(4)).into(),
        SlidingLog::new(Rate::per_hour(4)).into(),
    ];
    for (quota, when_full) in
        quotas.iter().flat_map(|quota| [(quota, WhenFull::Share), (quota, WhenFull::Deny)])
    {
        let rule = Rule::new("api", [*quota]).key(by_header("k")).max_keys(8).when_full(when_full).ban(ban);
        let clock = ManualClock::new();
        let layer = layer_by(&clock, rule);
        assert_eq!(statuses(&layer, 5, &[("k", "a")]).await, [200, 200, 200, 200, 429]);
        let mut refused = 0;
        for key in 0..300 {
            let key = key.to_string();
            let response = get(&layer, &key).await;
            if response.status() == 429 {
                let wait: u64 = header(&response, "retry-after").unwrap().parse().unwrap();
                assert!(wait <= 4 * 3_600, "{quota} {when_full:?}: {wait} s");
                refused += 1;
            }
        }
        assert!(refused > 100, "{quota} {when_full:?}: {refused}");
        // Its own debt bans a key also while the table is full.
        assert_eq!(header(&get(&layer, "a").await, "retry-after"), Some("360000"));
        clock.advance(Duration::from_secs(4 * 3_600));
        for key in 0..8 {
            assert_eq!(get(&layer, &key.to_string()).await.status(), 200, "{quota} {when_full:?}");
        }
    }
}

#[test]
fn an_impossible_ban_is_a_typed_error() {
    let build = |rule: Rule| layer_with(rule).build().map(drop).unwrap_err();
    let longest = Duration::from_secs(315_576_000);
    for given in [Duration::ZERO, longest + Duration::from_nanos(1), Duration::MAX] {
        let error = build(one_a_second().ban(given));
        assert_eq!(error, BuildError::BanDuration { rule: String::from("api"), given });
        let text = format!("rule \"api\": the ban is {given:?}, but must be between 1ns and 315576000s");
        assert_eq!(error.to_string(), text);
    }
    for fits in [Duration::from_nanos(1), longest] {
        assert!(layer_with(one_a_second().ban(fits)).build().is_ok());
    }
    let backend = Rule::backend("store", crate::shadow::Everything, OnBackendError::Refuse);
    let rule = String::from("store");
    assert_eq!(build(backend.ban(TEN_MINUTES)), BuildError::BackendSetting { rule, setting: "ban" });
    let per_request = Rule::per_request("plan", |_| None).ban(TEN_MINUTES);
    let rule = String::from("plan");
    assert_eq!(build(per_request), BuildError::PerRequestSetting { rule, setting: "ban" });
}

/// A clock that acts once, at one of its next readings: what another thread does meanwhile.
#[derive(Default)]
struct Interrupted {
    clock: ManualClock,
    readings_left: AtomicUsize,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Interrupted {
    fn now(&self) -> Timestamp {
        if self.readings_left.fetch_sub(1, Ordering::Relaxed) == 1
            && let Some(act) = self.act.lock().unwrap().take()
        {
            act();
        }
        self.clock.now()
    }
}

/// Returns status and `Retry-After` of a request that is answered at once.
fn answer_at_once(layer: &TollgateLayer, path: &str) -> (u16, Option<String>) {
    let mut response = pin!(layer.layer(Echo).oneshot(request(path, &[("k", "a")])));
    match response.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(response)) => {
            (response.status().as_u16(), header(&response, "retry-after").map(String::from))
        }
        _ => panic!("it waits"),
    }
}

#[test]
fn no_request_is_admitted_after_a_concurrent_refusal() {
    let hourly = Rate::per_hour(1);
    let quotas =
        [Quota::from(TokenBucket::new(hourly).burst(5)), LeakyBucket::queue(hourly).capacity(5).into()];
    for quota in quotas {
        let clock = Arc::new(Interrupted::default());
        let cost = |head: RequestHead<'_>| head.path()[1..].parse().unwrap();
        let rule = Rule::new("api", [quota]).key(by_header("k")).cost(cost).ban(TEN_MINUTES);
        let layer = layer_with(rule).headers([]).clock(Arc::clone(&clock)).build().unwrap();
        assert_eq!(answer_at_once(&layer, "/4"), (200, None));
        let other = layer.clone();
        let act = move || assert_eq!(answer_at_once(&other, "/5").0, 429);
        *clock.act.lock().unwrap() = Some(Box::new(act));
        // A decision reads the clock once, before it looks at anything.
        clock.readings_left.store(1, Ordering::Relaxed);
        let banned = (429, Some(String::from("600")));
        assert_eq!(answer_at_once(&layer, "/1"), banned, "{quota}");
        assert!(clock.act.lock().unwrap().is_none());
        clock.clock.advance(TEN_MINUTES);
        let key = layer.handle("api").unwrap();
        assert_eq!(key.key("a").unwrap().peek(0).remaining, 1, "it is not charged");
    }
}
