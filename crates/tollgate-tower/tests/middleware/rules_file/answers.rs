//! The responses to refused requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Response;
use serde_json::{Value, json};
use tollgate_tower::RefusalReason;

use super::{File, X, layer, send, statuses};
use crate::support::header;

/// The response to the second request of a client by a rule with these fields.
async fn second(fields: &str) -> Response<String> {
    let layer = layer(&format!(
        "answer = {{ headers = {{ x-docs = 'https://example.com', x-own = 'file' }} }}
         [[rule]]
         name = 'each'
         key = 'client'
         limits = 'fixed-window:1/min'
         {fields}"
    ));
    assert_eq!(send(&layer, "/", &[X]).await.status(), 200);
    let response = send(&layer, "/", &[X]).await;
    assert_eq!(header(&response, "x-docs"), Some("https://example.com"));
    response
}

fn parsed(response: &Response<String>) -> Value {
    serde_json::from_str(response.body()).unwrap()
}

#[tokio::test]
async fn a_refusal_has_the_format_that_the_file_says() {
    let problem = second("").await;
    assert_eq!((problem.status().as_u16(), header(&problem, "retry-after")), (429, Some("60")));
    assert_eq!(header(&problem, "content-type"), Some("application/problem+json"));
    assert_eq!(parsed(&problem)["violated-policies"], json!(["each"]));
    assert_eq!(parsed(&problem)["status"], 429);

    let busy = second("refuse = { status = 503 }").await;
    assert_eq!((busy.status().as_u16(), &parsed(&busy)["status"]), (503, &json!(503)));

    let json = second("refuse.format = 'json'").await;
    assert_eq!(header(&json, "content-type"), Some("application/json"));
    let expected = json!({
        "error": "Too Many Requests", "rule": "each", "limit": 1, "remaining": 0, "retry_after": 60
    });
    assert_eq!(parsed(&json), expected);

    let text = second("refuse.format = 'text'").await;
    assert_eq!(header(&text, "content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(text.body(), "Too Many Requests: the limit each is spent, retry after 60 s\n");
}

#[tokio::test]
async fn a_rules_own_body_and_headers_win_over_the_files() {
    let own =
        second("refuse = { body = '<p>later', content_type = 'text/html', headers = { x-own = 'rule' } }")
            .await;
    assert_eq!(header(&own, "content-type"), Some("text/html"));
    assert_eq!(
        (&**own.body(), header(&own, "x-own"), header(&own, "retry-after")),
        ("<p>later", Some("rule"), Some("60"))
    );

    let layer = layer(
        "answer = { status = 503, body = 'busy', styles = ['x-ratelimit-retry-after'] }
         rule = [
            { name = 'file', match.path = '/file', key = 'client', limits = '1/min' },
            { name = 'rule', match.path = '/rule', key = 'client', limits = '1/min', refuse = { format = 'json', styles = ['trio'] } },
        ]",
    );
    for path in ["/file", "/rule"] {
        let admitted = send(&layer, path, &[X]).await;
        assert!(admitted.headers().is_empty(), "the file's style is of refusals only");
    }
    let file = send(&layer, "/file", &[X]).await;
    assert_eq!((file.status().as_u16(), &**file.body()), (503, "busy"));
    assert_eq!(header(&file, "content-type"), Some("text/plain"));
    assert_eq!(header(&file, "x-ratelimit-retry-after"), Some("60"));
    let rule = send(&layer, "/rule", &[X]).await;
    assert_eq!((rule.status().as_u16(), &parsed(&rule)["rule"]), (503, &json!("rule")));
    assert_eq!(
        (header(&rule, "ratelimit-reset"), header(&rule, "x-ratelimit-retry-after")),
        (Some("60"), None)
    );
}

#[tokio::test]
async fn a_refusal_for_good_has_no_retry_after() {
    let layer = layer(
        "answer.format = 'json'
         rule = [
            { name = 'n', match.path = '/n', key = 'everyone', limits = '10/s,burst=20', cost = { from = 'header.n' } },
            { name = 'k', match.path = '/k', key = 'header.k', missing = 'refuse', limits = '10/s' },
            { name = 'b', match.path = '/b', key = 'everyone', limits = 'block' },
            { name = 'f', match.path = '/f', key = 'everyone', limits = 'in-flight:1', cost = { from = 'header.n' } },
        ]",
    );
    let expected = [
        ("/n", json!({ "error": "Cost Above Limit", "rule": "n", "limit": 20, "cost": 30 })),
        ("/k", json!({ "error": "No Key To Limit By", "rule": "k" })),
        ("/b", json!({ "error": "Blocked", "rule": "b" })),
        ("/f", json!({ "error": "Cost Above Limit", "rule": "f", "limit": 1, "cost": 30 })),
    ];
    for (path, body) in expected {
        let response = send(&layer, path, &[X, ("n", "30")]).await;
        assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, None), "{path}");
        assert_eq!(parsed(&response), body);
    }
}

#[tokio::test]
async fn jitter_spreads_retry_after_and_hooks_see_the_exact_wait() {
    let file = File::new(
        "answer = { jitter = '1000s', styles = [] }
         rule = [{ name = 'each', key = 'client', limits = 'fixed-window:1/min' }]",
    );
    let waits = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&waits);
    let layer = file.layer().clock(tollgate::ManualClock::new()).on_limited(move |refusal| {
        assert_eq!((refusal.rule(), refusal.reason()), ("each", RefusalReason::Limited));
        kept.lock().unwrap().push(refusal.retry_after());
    });
    let layer = layer.build().unwrap();
    assert_eq!(statuses(&layer, 1, "/", &[X]).await, [200]);
    let mut told = Vec::new();
    for _ in 0..50 {
        let response = send(&layer, "/", &[X]).await;
        told.push(header(&response, "retry-after").unwrap().parse::<u64>().unwrap());
    }
    assert!(told.iter().all(|wait| (60..=1_060).contains(wait)), "{told:?}");
    assert!(told.iter().min() < Some(&460) && told.iter().max() > Some(&660), "{told:?}");
    assert_eq!(*waits.lock().unwrap(), [Some(Duration::from_secs(60)); 50]);
}

/// Of an admitted request, too: its client comes back by them. Within a response all agree.
#[tokio::test]
async fn jitter_moves_every_number_that_a_client_waits_for() {
    let file = File::new(
        "answer = { jitter = '1000s', styles = ['ietf', 'x-ratelimit', 'trio', 'x-ratelimit-retry-after'] }
         rule = [{ name = 'each', key = 'client', limits = 'fixed-window:1/min' }]",
    );
    let (layer, clock) = file.build();
    let mut told = std::collections::BTreeSet::new();
    for number in 0..40 {
        let response = send(&layer, "/", &[X]).await;
        let is_refused = number % 2 == 1;
        assert_eq!(response.status(), if is_refused { 429 } else { 200 });
        let number_of = |name| header(&response, name).unwrap().rsplit('=').next().unwrap().parse::<u64>();
        let names = ["ratelimit", "x-ratelimit-reset", "ratelimit-reset"];
        let refusals = ["retry-after", "x-ratelimit-retry-after"];
        let names = names.iter().chain(refusals.iter().filter(|_| is_refused));
        let numbers: std::collections::BTreeSet<_> = names.map(|name| number_of(name).unwrap()).collect();
        assert_eq!(numbers.len(), 1, "{:?}", response.headers());
        assert!(numbers.iter().all(|wait| (60..=1_060).contains(wait)), "{numbers:?}");
        told.extend(numbers);
        if is_refused {
            clock.advance(Duration::from_secs(60));
        }
    }
    assert!(told.first() < Some(&460) && told.last() > Some(&660), "{told:?}");
}

/// What a browser asks and reads for a page of `https://shop.example`.
#[tokio::test]
async fn a_page_in_a_browser_reads_limits_and_refusals() {
    let text = "cors = ['https://shop.example']
         rule = [{ name = 'each', key = 'client', limits = 'fixed-window:2/h' },
                 { name = 'deny', key = 'everyone', limits = 'block', match.path = '/denied' }]";
    let shop = ("origin", "https://shop.example");
    let preflight = [("method", "OPTIONS"), X, shop, ("access-control-request-method", "PUT")];
    let layer = File::new(text).build().0;
    for _ in 0..5 {
        let answer = send(&layer, "/", &preflight).await;
        assert_eq!((answer.status().as_u16(), header(&answer, "ratelimit")), (200, None), "it is free");
    }
    assert_eq!(send(&layer, "/denied", &preflight).await.status(), 429, "and blocked by what blocks");
    assert_eq!(statuses(&layer, 2, "/", &[X, shop]).await, [200; 2]);
    let refused = send(&layer, "/", &[X, shop]).await;
    let read = |name| header(&refused, name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(refused.status(), 429);
    assert_eq!(read("access-control-allow-origin"), "https://shop.example");
    assert_eq!((read("access-control-allow-credentials"), read("vary")), ("true", "Origin"));
    for name in ["Retry-After", "RateLimit", "X-RateLimit-Reset"] {
        assert!(read("access-control-expose-headers").split(", ").any(|exposed| exposed == name), "{name}");
    }
    assert_eq!(send(&layer, "/", &preflight).await.status(), 200, "also of a client that is refused");
    // Other pages learn nothing.
    let other = send(&layer, "/", &[X, ("origin", "https://evil.example")]).await;
    assert_eq!((other.status().as_u16(), header(&other, "access-control-allow-origin")), (429, None));
    // Without the field all is as ever.
    let layer = File::new(&text.replace("cors = ['https://shop.example']", "")).build().0;
    assert!(header(&send(&layer, "/", &preflight).await, "ratelimit").is_some(), "it is charged");
}

#[tokio::test]
async fn a_ban_is_told_in_the_retry_after() {
    let file =
        File::new("rule = [{ name = 'r', key = 'client', limits = 'fixed-window:1/s', ban = '10min' }]");
    let (layer, clock) = file.build();
    assert_eq!(statuses(&layer, 2, "/", &[X]).await, [200, 429]);
    clock.advance(Duration::from_secs(300));
    let banned = send(&layer, "/", &[X]).await;
    assert_eq!(header(&banned, "retry-after"), Some("300"));
    assert_eq!(header(&banned, "ratelimit"), Some("\"r\";r=0;t=300"));
    clock.advance(Duration::from_secs(300));
    assert_eq!(statuses(&layer, 1, "/", &[X]).await, [200]);
}
