//! Which requests are admitted, and what their headers tell.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Uri;
use tollgate_tower::RuleOutcome;

use super::{File, X, Y, layer, send, serve_by, status, statuses};
use crate::support::{Echo, header, request};

#[tokio::test]
async fn a_limit_in_a_file_admits_exactly_its_burst() {
    let file = File::new("rule = [{ name = 'each', key = 'client', limits = '10/s,burst=20' }]");
    let (layer, clock) = file.build();
    assert_eq!(statuses(&layer, 21, "/", &[X]).await, [&[200; 20][..], &[429]].concat());
    let refused = send(&layer, "/", &[X]).await;
    assert_eq!(header(&refused, "retry-after"), Some("1"));
    assert_eq!(header(&refused, "cache-control"), Some("no-store"));
    assert_eq!(header(&refused, "ratelimit"), Some("\"each\";r=0;t=1"));
    assert_eq!(header(&refused, "ratelimit-policy"), Some("\"each\";q=20;w=2"));
    assert_eq!(status(&layer, "/", &[Y]).await, 200);
    clock.advance(Duration::from_nanos(99_999_999));
    assert_eq!(status(&layer, "/", &[X]).await, 429);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(status(&layer, "/", &[X]).await, 200);
}

#[tokio::test]
async fn headers_tell_the_tightest_limit_of_each_enforced_rule() {
    let layer = layer(
        "answer.styles = ['ietf', 'x-ratelimit', 'trio']
         rule = [
            { name = 'two', key = 'client', limits = ['5/min', '100/h'] },
            { name = 'all', key = 'everyone', limits = 'fixed-window:50/h' },
            { name = 'office', match.client = '192.0.2.0/24', key = 'client', limits = 'unlimited' },
            { name = 'at-once', key = 'everyone', limits = 'in-flight:3' },
        ]",
    );
    let response = send(&layer, "/", &[X]).await;
    assert_eq!(
        header(&response, "ratelimit"),
        Some("\"two/min\";r=4;t=12, \"all\";r=49;t=3600, \"at-once\";r=2")
    );
    assert_eq!(
        header(&response, "ratelimit-policy"),
        Some("\"two/min\";q=5;w=60, \"two/h\";q=100;w=3600, \"all\";q=50;w=3600")
    );
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("4"));
    assert_eq!(header(&response, "ratelimit-limit"), Some("5"));
    assert_eq!(header(&response, "retry-after"), None);
    let office = send(&layer, "/", &[("peer", "192.0.2.9")]).await;
    assert!(!header(&office, "ratelimit").unwrap().contains("office"), "it has no limit to tell");
    assert_eq!(statuses(&layer, 4, "/", &[X]).await, [200; 4]);
    let refused = send(&layer, "/", &[X]).await;
    assert_eq!(header(&refused, "ratelimit"), Some("\"two/min\";r=0;t=12"));
    assert_eq!(header(&refused, "ratelimit-policy"), header(&response, "ratelimit-policy"));
}

#[tokio::test]
async fn a_request_refused_by_one_rule_is_charged_to_none() {
    let layer = layer(
        "rule = [
            { name = 'a', key = 'everyone', limits = 'fixed-window:2/min' },
            { name = 'b', key = 'client', limits = 'fixed-window:1/min' },
        ]",
    );
    assert_eq!(statuses(&layer, 2, "/", &[X]).await, [200, 429]);
    assert_eq!(status(&layer, "/", &[Y]).await, 200);
    let refused = send(&layer, "/", &[("peer", "192.0.2.1")]).await;
    assert_eq!((refused.status().as_u16(), header(&refused, "ratelimit")), (429, Some("\"a\";r=0;t=60")));
}

#[tokio::test]
async fn a_request_that_no_rule_concerns_is_admitted() {
    let layer = layer("rule = [{ name = 'x', match.path = '/x', key = 'everyone', limits = '1/h' }]");
    for _ in 0..3 {
        let response = send(&layer, "/y", &[X]).await;
        assert_eq!((response.status().as_u16(), header(&response, "ratelimit")), (200, None));
    }
    assert_eq!(statuses(&layer, 2, "/X/?q", &[X]).await, [200, 429]);
}

#[tokio::test]
async fn a_shadow_rule_is_told_to_no_client() {
    let file = File::new(
        "rule = [
            { name = 'lower', key = 'client', limits = 'fixed-window:1/min', mode = 'shadow' },
            { name = 'each', key = 'client', limits = 'fixed-window:3/min' },
        ]",
    );
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = Arc::clone(&told);
    let layer = file.layer().clock(tollgate::ManualClock::new()).on_decision(move |decision| {
        let limit = decision.limit().map(|limit| limit.limit);
        tells.lock().unwrap().push((
            decision.rule().to_owned(),
            decision.is_shadow(),
            decision.outcome(),
            limit,
        ));
    });
    let layer = layer.build().unwrap();
    for expected in [200, 200, 200, 429] {
        let response = send(&layer, "/", &[X]).await;
        assert_eq!(response.status(), expected);
        for name in ["ratelimit", "ratelimit-policy"] {
            assert!(!header(&response, name).unwrap().contains("lower"), "{name}");
        }
        assert!(!response.body().contains("lower"));
    }
    let told = told.lock().unwrap();
    let outcomes = |rule| told.iter().filter(move |one| one.0 == rule).map(|one| one.2).collect::<Vec<_>>();
    use RuleOutcome::{Allowed, Limited};
    assert_eq!(outcomes("lower"), [Allowed, Limited, Limited, Limited]);
    assert_eq!(outcomes("each"), [Allowed, Allowed, Allowed, Limited]);
    assert_eq!((told[0].1, told[0].3, told[1].1, told[1].3), (true, Some(1), false, Some(3)));
}

#[tokio::test]
async fn the_host_is_that_of_the_target_or_the_header() {
    let layer = layer("rule = [{ name = 'hosts', key = 'host', missing = 'refuse', limits = '1/h' }]");
    assert_eq!(statuses(&layer, 2, "/", &[("host", "a.example")]).await, [200, 429]);
    assert_eq!(statuses(&layer, 1, "/", &[("host", "A.example:80")]).await, [429]);
    assert_eq!(statuses(&layer, 2, "http://b.example/", &[]).await, [200, 429]);
    assert_eq!(statuses(&layer, 2, "http://c.example/", &[("host", "C.example")]).await, [200, 429]);
    assert_eq!(statuses(&layer, 1, "/", &[("host", "c.example")]).await, [429]);
    let twice = [("host", "d.example"), ("host", "e.example")];
    assert_eq!(send(&layer, "/", &twice).await.status(), 429, "it has no host that counts");
}

#[tokio::test]
async fn rules_see_the_original_path_behind_a_router() {
    #[derive(Clone)]
    struct Original(Uri);
    let file = File::new("rule = [{ name = 'x', match.path = '/api/x', key = 'everyone', limits = '1/h' }]");
    let layer = file.layer().original_uri(|original: &Original| &original.0).build().unwrap();
    for expected in [200, 429] {
        let mut inner = request("/x", &[X]);
        inner.extensions_mut().insert(Original(Uri::from_static("/api/x")));
        assert_eq!(serve_by(&layer, Echo, inner).await.status(), expected);
    }
    assert_eq!(status(&layer, "/x", &[X]).await, 200);
}

#[tokio::test]
async fn a_cost_in_a_header_is_charged() {
    let layer = layer(
        "rule = [{ name = 'n', key = 'everyone', limits = 'fixed-window:10/min', cost = { from = 'header.n' } }]",
    );
    let response = send(&layer, "/", &[("n", "4")]).await;
    assert_eq!(header(&response, "ratelimit"), Some("\"n\";r=6;t=60"));
    assert_eq!(status(&layer, "/", &[("n", "7")]).await, 429);
    assert_eq!(status(&layer, "/", &[("n", "6")]).await, 200);
}
