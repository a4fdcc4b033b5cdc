//! What rules say, said by the proxy.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tollgate_server::Settings;
use tollgate_testing::client::call;
use tollgate_testing::http::Answer;
use tollgate_testing::upstream::{Gate, echo};

use super::support::{Proxy, start, start_with};

#[tokio::test]
async fn a_refused_request_does_not_reach_the_upstream() {
    let gate = Gate::new().await;
    let rule = "rule = [{ name = 'each', key = 'client', limits = '2/h,burst=2',
        refuse = { status = 420, body = 'calm down', content_type = 'text/plain' } }]";
    let proxy = start(rule, std::slice::from_ref(&gate.url)).await;
    for left in ["1", "0"] {
        let answer = proxy.get("/free", &[]).await;
        assert_eq!(answer.status, 200);
        assert!(answer.header("ratelimit").starts_with(&format!("\"each\";r={left}")));
        assert_eq!(answer.body, "done");
    }
    let answer = proxy.get("/free", &[]).await;
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (420, &b"calm down"[..]));
    assert_eq!(answer.header("retry-after"), "1800");
    assert_eq!(gate.arrived.load(Relaxed), 2);
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_the_limits_headers() {
    let proxy = start("rule = [{ name = 'each', key = 'client', limits = '1/h' }]", &[echo().await]).await;
    assert_eq!(proxy.status("/").await, 200);
    let answer = proxy.get("/", &[]).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert!(answer.header("ratelimit").starts_with("\"each\";r=0;t="), "{}", answer.header("ratelimit"));
    assert!(answer.header("ratelimit-policy").starts_with("\"each\";q=1;w=3600"));
}

#[tokio::test]
async fn only_the_listed_statuses_are_charged() {
    let rule = "rule = [{ name = 'failed', key = 'client', limits = '2/h,burst=2', charge_if.status = 401 }]";
    let proxy = start(rule, &[echo().await]).await;
    for (path, expected) in
        [("/status/200", 200), ("/status/401", 401), ("/status/500", 500), ("/status/401", 401)]
    {
        assert_eq!(proxy.status(path).await, expected);
    }
    assert_eq!(proxy.status("/status/200").await, 429);
}

/// What is left of the rule's limit.
fn left(answer: &Answer) -> u64 {
    let shown = answer.header("ratelimit").split(";r=").nth(1).unwrap_or_default();
    shown.split(';').next().unwrap().parse().unwrap_or_else(|_| panic!("{:?}", answer.headers))
}

#[tokio::test]
async fn a_response_tells_what_its_request_cost() {
    let rule = "rule = [{ name = 'tokens', key = 'client', limits = 'fixed-window:100/d',
        cost = { from = 'header.x-estimate', default = 10 } }]";
    let set = |settings: &mut Settings| settings.forward.cost_header = Some("x-cost".parse().unwrap());
    let proxy = start_with(rule, &[echo().await], set).await;
    let mut before = 100;
    for (cost, charged) in [("4", 4), ("0", 0), ("25", 25), ("x", 10), ("41", 41)] {
        let answer = proxy.get("/", &[("x-cost", cost)]).await;
        assert_eq!((answer.status.as_u16(), left(&answer)), (200, before - 10), "{cost}");
        before -= charged;
    }
    assert_eq!(proxy.get("/", &[("x-cost", "90")]).await.status, 200, "it is known only in the end");
    assert_eq!(proxy.status("/").await, 429, "the debt is kept");
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_answer_has_ended() {
    let gate = Gate::new().await;
    let rule = "rule = [{ name = 'at-once', key = 'everyone', limits = 'in-flight:2' }]";
    let proxy = start(rule, std::slice::from_ref(&gate.url)).await;
    let calls = async { tokio::join!(proxy.status("/a"), proxy.status("/b")) };
    let third = async {
        gate.arrivals(2).await;
        let status = proxy.status("/free").await;
        gate.open();
        status
    };
    assert_eq!(tokio::join!(calls, third), ((200, 200), 429));
    proxy.until("/free", 200).await;
}

#[tokio::test]
async fn a_queue_holds_a_request_with_its_body() {
    let rule =
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:2/s,capacity=3,mode=queue' }]";
    let proxy = start(rule, &[echo().await]).await;
    let begun = Instant::now();
    let call = |body| proxy.call("POST", "/", &[], body);
    let (first, second, third) = tokio::join!(call("one"), call("two"), call("three"));
    for (answer, body) in [(first, "one"), (second, "two"), (third, "three")] {
        assert_eq!(answer.status, 200);
        assert!(answer.body.ends_with(body.as_bytes()), "{:?}", answer.body);
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_request_that_waited_for_too_long_is_not_sent() {
    let gate = Gate::new().await;
    let rule =
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:2/s,capacity=2,mode=queue' }]";
    let set = |settings: &mut Settings| settings.forward.total_timeout = Some(Duration::from_millis(200));
    let proxy = start_with(rule, std::slice::from_ref(&gate.url), set).await;
    assert_eq!(proxy.status("/free").await, 200);
    assert_eq!(proxy.status("/free").await, 504);
    assert_eq!(gate.arrived.load(Relaxed), 1);
}

#[tokio::test]
async fn a_body_that_breaks_in_a_queue_is_counted() {
    let rule =
        "rule = [{ name = 'paced', key = 'everyone', limits = 'leaky-bucket:1/m,capacity=2,mode=queue' }]";
    let admin = |settings: &mut Settings| settings.admin.push("127.0.0.1:0".parse().unwrap());
    let proxy = start_with(rule, &[echo().await], admin).await;
    assert_eq!(proxy.status("/").await, 200);
    let broken = "POST / HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\nno chunk";
    assert!(proxy.raw(broken.as_bytes()).await.starts_with("HTTP/1.1 400 "));
    let counted = "tollgate_protocol_errors_total{listener=\"proxy\",kind=\"body\"} 1";
    assert!(metrics(&proxy).await.contains(counted));
}

#[tokio::test]
async fn shadow_rules_only_count_and_bans_last() {
    let rules = "rule = [
        { name = 'watched', key = 'client', limits = '1/h', mode = 'shadow', match.path = '/watched' },
        { name = 'banned', key = 'client', limits = '1/s', ban = '1h', match.path = '/banned' }]";
    let admin = |settings: &mut Settings| settings.admin.push("127.0.0.1:0".parse().unwrap());
    let proxy = start_with(rules, &[echo().await], admin).await;
    for _ in 0..3 {
        assert_eq!(proxy.status("/watched").await, 200);
    }
    assert_eq!(proxy.status("/banned").await, 200);
    let answer = proxy.until("/banned", 429).await;
    assert_eq!(answer.header("retry-after"), "3600");
    let page = metrics(&proxy).await;
    for line in [
        "tollgate_requests_total{rule=\"watched\",mode=\"shadow\",outcome=\"limited\"} 2",
        "tollgate_connections{listener=\"proxy\"}",
    ] {
        assert!(page.contains(line), "{line} is missing in {page}");
    }
}

/// The page of the administrator's listener.
pub(crate) async fn metrics(proxy: &Proxy) -> String {
    call(proxy.admin(), "GET", "/metrics", &[("host", "localhost")], "").await.text().to_owned()
}

#[tokio::test]
async fn new_rules_are_in_force_for_open_connections() {
    let proxy =
        start("rule = [{ name = 'each', key = 'client', limits = '9/h,burst=9' }]", &[echo().await]).await;
    let mut sender = proxy.http2::<http_body_util::Empty<bytes::Bytes>>().await;
    let mut status = async || {
        let request = http::Request::get("http://a.test/").body(Default::default()).unwrap();
        sender.send_request(request).await.unwrap().status().as_u16()
    };
    assert_eq!(status().await, 200);
    std::fs::write(
        proxy.rules(),
        "version = 1\nrule = [{ name = 'each', key = 'client', limits = 'block' }]",
    )
    .unwrap();
    proxy.server.reload().unwrap();
    assert_eq!(status().await, 429);
}
