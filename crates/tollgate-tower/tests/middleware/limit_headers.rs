//! What the rate limit headers say, and when.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use tollgate::{FixedWindow, LeakyBucket, ManualClock, Quota, Rate, TokenBucket};
use tollgate_tower::{HeaderStyle, Rule, TollgateLayer};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{TokioClock, assert_structured, header, layer_with, request, send};

/// A clock whose Unix time does not end in whole seconds.
fn unix_clock() -> ManualClock {
    ManualClock::starting_at(Duration::from_millis(1_700_000_000_300))
}

/// Sends a request to a service that takes this long by the clock.
async fn send_slowly(layer: &TollgateLayer, clock: &ManualClock, takes: Duration) -> Response<String> {
    let clock = clock.clone();
    let service = service_fn(move |_: Request<String>| {
        clock.advance(takes);
        async { Ok::<_, Infallible>(Response::new(String::new())) }
    });
    let response = layer.layer(service).oneshot(request("/", &[])).await.unwrap();
    assert_structured(response.headers());
    response
}

fn number(response: &Response<String>, name: &str) -> u64 {
    header(response, name).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_reset_is_when_more_of_the_limit_comes() {
    let clock = unix_clock();
    let rule = Rule::new("api", [TokenBucket::new(Rate::per_minute(10))]);
    let styles = [HeaderStyle::Ietf, HeaderStyle::RateLimitTrio];
    let layer = layer_with(rule).headers(styles).clock(clock.clone()).build().unwrap();
    for (remaining, reset) in [(9, 6), (8, 6), (7, 5), (6, 5), (5, 4)] {
        let response = send(&layer, request("/", &[])).await;
        assert_eq!(header(&response, "ratelimit"), Some(&*format!("\"api\";r={remaining};t={reset}")));
        assert_eq!(number(&response, "ratelimit-reset"), reset);
        clock.advance(Duration::from_millis(500));
    }
}

#[tokio::test]
async fn the_epoch_never_goes_back_before_a_refusal() {
    let quotas: [Quota; 3] = [
        TokenBucket::new(Rate::per_minute(7)).into(),
        FixedWindow::new(Rate::per_minute(7)).into(),
        LeakyBucket::meter(Rate::per_minute(7)).into(),
    ];
    for quota in quotas {
        let clock = unix_clock();
        let layer = layer_with(Rule::new("api", [quota]))
            .headers([HeaderStyle::XRateLimitEpoch, HeaderStyle::Ietf])
            .clock(clock.clone())
            .build()
            .unwrap();
        let mut last = (0, 0);
        for _ in 0..200 {
            let response = send(&layer, request("/", &[])).await;
            let shown = (number(&response, "x-ratelimit-remaining"), number(&response, "x-ratelimit-reset"));
            if response.status() == 429 {
                assert_eq!(shown, (0, last.1), "{quota}: it tells of the same unit");
            }
            last = shown;
            clock.advance(Duration::from_millis(711));
        }
    }
}

#[tokio::test]
async fn the_limit_that_will_refuse_is_shown() {
    // Both are spent after the third request, and the bucket refills in 10 ms.
    let fast = TokenBucket::new(Rate::per_second(100)).burst(1);
    let quotas: [Quota; 2] = [fast.into(), FixedWindow::new(Rate::per_hour(3)).into()];
    let one_rule = layer_with(Rule::new("api", quotas));
    let two_rules = layer_with(Rule::new("fast", [fast])).rule(Rule::new("slow", [quotas[1]]));
    for layer in [one_rule, two_rules] {
        let clock = ManualClock::new();
        let styles = [HeaderStyle::XRateLimit, HeaderStyle::RateLimitTrio];
        let layer = layer.headers(styles).clock(clock.clone()).build().unwrap();
        for (limit, reset) in [("1", "1"), ("1", "1"), ("3", "3600"), ("3", "3600")] {
            let response = send(&layer, request("/", &[])).await;
            for style in ["x-ratelimit", "ratelimit"] {
                assert_eq!(header(&response, &format!("{style}-limit")), Some(limit));
                assert_eq!(header(&response, &format!("{style}-remaining")), Some("0"));
                assert_eq!(header(&response, &format!("{style}-reset")), Some(reset));
            }
            clock.advance(Duration::from_millis(10));
        }
    }
}

#[tokio::test]
async fn resets_count_from_the_response() {
    let clock = unix_clock();
    let styles = [HeaderStyle::Ietf, HeaderStyle::RateLimitTrio, HeaderStyle::XRateLimitEpoch];
    let layer = layer_with(Rule::new("api", [TokenBucket::new(Rate::per_minute(10)).burst(1)]))
        .headers(styles)
        .clock(clock.clone())
        .build()
        .unwrap();
    let response = send_slowly(&layer, &clock, Duration::from_millis(4_200)).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"api\";r=0;t=2"), "1.8 s are left of 6");
    assert_eq!(header(&response, "ratelimit-reset"), Some("2"));
    assert_eq!(header(&response, "x-ratelimit-reset"), Some("1700000007"), "6.3 s");
    let response = send(&layer, request("/", &[])).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("2")));
    assert_eq!(header(&response, "x-ratelimit-reset"), Some("1700000007"));
    clock.advance(Duration::from_millis(1_800));
    let response = send_slowly(&layer, &clock, Duration::from_secs(9)).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"api\";r=0;t=0"), "more has come already");
}

#[tokio::test(start_paused = true)]
async fn resets_of_queued_requests_count_from_the_response() {
    let queue = LeakyBucket::queue(Rate::new(1, Duration::from_secs(5))).capacity(3);
    let hour = TokenBucket::new(Rate::per_hour(1)).burst(9);
    let layer = layer_with(Rule::new("hour", [hour]))
        .rule(Rule::new("paced", [queue]))
        .clock(TokioClock::new())
        .timer(tokio::time::sleep)
        .build()
        .unwrap();
    for (expected, hour) in [("\"paced\";r=2;t=5", 3_600), ("\"paced\";r=1;t=0", 3_595)] {
        let response = send(&layer, request("/", &[])).await;
        let ratelimit = header(&response, "ratelimit").unwrap();
        assert!(ratelimit.ends_with(expected), "{ratelimit}");
        assert!(ratelimit.contains(&format!(";t={hour},")), "{ratelimit}");
    }
}

#[tokio::test]
async fn a_refusal_lists_the_policies_of_all_limits() {
    let quotas: [Quota; 2] =
        [TokenBucket::new(Rate::per_second(1)).into(), FixedWindow::new(Rate::per_hour(9)).into()];
    let layer = layer_with(Rule::new("first", [FixedWindow::new(Rate::per_day(9))]))
        .rule(Rule::new("trial", [TokenBucket::new(Rate::per_second(3))]).shadow())
        .rule(Rule::new("api", quotas))
        .rule(Rule::new("posts", [TokenBucket::new(Rate::per_second(3))]).when(|head| head.path() == "/post"))
        .rule(Rule::new("last", [TokenBucket::new(Rate::per_second(7))]))
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let admitted = send(&layer, request("/", &[])).await;
    let refused = send(&layer, request("/", &[])).await;
    assert_eq!((admitted.status().as_u16(), refused.status().as_u16()), (200, 429));
    let policy = header(&admitted, "ratelimit-policy").unwrap();
    assert_eq!(policy.matches(";q=").count(), 4, "{policy}");
    assert_eq!(header(&refused, "ratelimit-policy"), Some(policy));
    assert_eq!(header(&refused, "ratelimit"), Some("\"api/s\";r=0;t=1"));
}

#[tokio::test]
async fn github_headers_are_those_of_the_shown_limit() {
    let clock = unix_clock();
    let layer = layer_with(Rule::new("core", [FixedWindow::new(Rate::per_hour(60))]))
        .headers([HeaderStyle::GitHub])
        .clock(clock.clone())
        .build()
        .unwrap();
    for used in 1..=61_u64 {
        let response = send(&layer, request("/", &[])).await;
        assert_eq!(number(&response, "x-ratelimit-used"), used.min(60));
        assert_eq!(number(&response, "x-ratelimit-remaining"), 60_u64.saturating_sub(used));
        assert_eq!(header(&response, "x-ratelimit-resource"), Some("core"));
        assert_eq!(number(&response, "x-ratelimit-reset"), 1_700_002_800, "the end of the hour");
    }
}

#[tokio::test]
async fn retry_after_covers_every_rule_that_would_refuse() {
    let clock = ManualClock::new();
    let layer = layer_with(Rule::new("fast", [TokenBucket::new(Rate::per_second(1))]))
        .rule(Rule::new("trial", [FixedWindow::new(Rate::per_day(1))]).shadow())
        .rule(Rule::new("slow", [FixedWindow::new(Rate::per_hour(1))]))
        .rule(Rule::new("wide", [FixedWindow::new(Rate::per_day(2))]))
        .headers([HeaderStyle::Ietf, HeaderStyle::XRateLimit])
        .clock(clock.clone())
        .build()
        .unwrap();
    assert_eq!(send(&layer, request("/", &[])).await.status(), 200);
    let response = send(&layer, request("/", &[])).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("3600")));
    assert_eq!(header(&response, "ratelimit"), Some("\"fast\";r=0;t=1, \"slow\";r=0;t=3600"));
    assert_eq!(header(&response, "x-ratelimit-reset"), Some("3600"));
    assert!(response.body().contains(r#""rule":"slow""#), "{}", response.body());
    // The refused request was charged nowhere.
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(send(&layer, request("/", &[])).await.status(), 200);
    let response = send(&layer, request("/", &[])).await;
    assert_eq!(header(&response, "retry-after"), Some("82800"), "now all of them refuse");
}

#[tokio::test(start_paused = true)]
async fn retry_after_covers_later_queues_and_refusals_for_good() {
    let fast = || Rule::new("fast", [TokenBucket::new(Rate::per_second(10)).burst(1)]);
    let queue = LeakyBucket::queue(Rate::new(1, Duration::from_secs(5))).capacity(3);
    let paced = Rule::new("paced", [queue]).max_wait(Duration::from_secs(2));
    let layer = layer_with(fast()).rule(paced).clock(ManualClock::new()).build().unwrap();
    assert_eq!(send(&layer, request("/", &[])).await.status(), 200);
    let response = send(&layer, request("/", &[])).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, Some("3")));
    assert_eq!(header(&response, "ratelimit"), Some("\"fast\";r=0;t=1, \"paced\";r=0;t=3"));

    let large = Rule::new("large", [TokenBucket::new(Rate::per_hour(5))]);
    let large = large.cost(|head| if head.path() == "/" { 1 } else { 6 });
    let layer = layer_with(fast()).rule(large).clock(ManualClock::new()).build().unwrap();
    assert_eq!(send(&layer, request("/", &[])).await.status(), 200);
    let response = send(&layer, request("/large", &[])).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (400, None));
}

#[tokio::test(start_paused = true)]
async fn remaining_is_what_departs_within_max_wait() {
    let queue = LeakyBucket::queue(Rate::per_second(10)).capacity(30);
    let rule = Rule::new("paced", [queue]).max_wait(Duration::from_millis(500));
    let layer = layer_with(rule).clock(TokioClock::new()).timer(tokio::time::sleep).build().unwrap();
    let response = send(&layer, request("/", &[])).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"paced\";r=5;t=1"));
    let more = (0..6).map(|_| {
        let layer = layer.clone();
        tokio::spawn(async move { send(&layer, request("/", &[])).await.status().as_u16() })
    });
    let mut statuses = Vec::new();
    for answer in more.collect::<Vec<_>>() {
        statuses.push(answer.await.unwrap());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
}
