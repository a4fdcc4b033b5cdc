//! What calls are answered by the rules.

use super::proto::{Code, RateLimit, RateLimitResponse, Unit};
use super::{call, client, short, start};

/// The value of a header that the response is to get.
fn header<'r>(response: &'r RateLimitResponse, name: &str) -> Option<&'r str> {
    let headers = &response.response_headers_to_add;
    headers.iter().find(|header| header.key == name).map(|header| &*header.value)
}

#[tokio::test]
async fn a_status_tells_limit_rest_and_reset_in_whole_seconds() {
    let server = start("rule = [{ name = 'each', key = 'entry.user', limits = '2/min' }]").await;
    let mut client = client(&server).await;
    let a = || call("d", &[&[("user", "a")]]);
    let status = client.statuses(a()).await.remove(0);
    let limit = RateLimit { requests_per_unit: 2, unit: Unit::Minute.into(), name: "each".into() };
    assert_eq!((status.code(), status.current_limit.as_ref()), (Code::Ok, Some(&limit)));
    // A token comes back in 30 s, less what has passed: rounded up.
    let reset = status.duration_until_reset.unwrap();
    assert_eq!((status.limit_remaining, reset.seconds, reset.nanos), (1, 30, 0));
    client.statuses(a()).await;

    let response = client.send(a()).await.unwrap();
    let [status] = &*response.statuses else { panic!("one status") };
    assert_eq!((status.code(), status.limit_remaining), (Code::OverLimit, 0));
    let reset = status.duration_until_reset.as_ref().unwrap();
    assert!((25..=30).contains(&reset.seconds) && reset.nanos == 0, "{reset:?}");
    assert_eq!(header(&response, "retry-after"), Some(&*reset.seconds.to_string()));
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    assert!(header(&response, "ratelimit").is_some_and(|value| value.contains("\"each\";r=0")));
    assert!(String::from_utf8_lossy(&response.raw_body).contains("\"each\""));
    assert_eq!(short(&client.statuses(call("d", &[&[("user", "b")]])).await), [(Code::Ok, 1)]);
}

#[tokio::test]
async fn a_rule_says_how_its_refusals_are_answered() {
    let rules = "rule = [{ name = 'no', key = 'everyone', limits = 'block', \
        refuse = { body = 'go away', content_type = 'text/x-no', headers = { x-why = 'so' }, styles = [] } }]";
    let server = start(rules).await;
    let response = client(&server).await.send(call("d", &[&[("a", "b")]])).await.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    assert_eq!(response.raw_body, b"go away");
    assert_eq!(
        (header(&response, "content-type"), header(&response, "x-why")),
        (Some("text/x-no"), Some("so"))
    );
    assert_eq!(header(&response, "retry-after"), None);
    let limit = response.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, &*limit.name), (0, "no"));
}

#[tokio::test]
async fn a_descriptor_refused_leaves_the_others_uncharged() {
    let rules = "rule = [\
        { name = 'one', match.entry.one = '*', key = 'everyone', limits = 'fixed-window:1/d' },\
        { name = 'hundred', match.entry.hundred = '*', key = 'everyone', limits = 'fixed-window:100/d' }]";
    let server = start(rules).await;
    let mut client = client(&server).await;
    let both = || call("d", &[&[("one", "1")], &[("hundred", "1")]]);
    assert_eq!(short(&client.statuses(both()).await), [(Code::Ok, 0), (Code::Ok, 99)]);
    for _ in 0..3 {
        assert_eq!(short(&client.statuses(both()).await), [(Code::OverLimit, 0), (Code::Ok, 99)]);
    }
    let hundred = call("d", &[&[("hundred", "1")]]);
    assert_eq!(short(&client.statuses(hundred).await), [(Code::Ok, 98)]);
}

#[tokio::test]
async fn descriptors_of_one_key_count_together_all_or_nothing() {
    let server = start("rule = [{ name = 'r', key = 'everyone', limits = 'fixed-window:3/d' }]").await;
    let mut client = client(&server).await;
    let twice = || call("d", &[&[("a", "1")], &[("b", "1")]]);
    assert_eq!(short(&client.statuses(twice()).await), [(Code::Ok, 2), (Code::Ok, 1)]);
    // One hit is left: each descriptor would pass alone.
    assert_eq!(short(&client.statuses(twice()).await), [(Code::Ok, 1), (Code::OverLimit, 0)]);
    assert_eq!(short(&client.statuses(call("d", &[&[("a", "1")]])).await), [(Code::Ok, 0)]);
}

#[tokio::test]
async fn hits_are_the_descriptors_or_else_the_calls() {
    let server = start("rule = [{ name = 'r', key = 'entry.k', limits = 'fixed-window:10/d' }]").await;
    let mut client = client(&server).await;
    let mut one = call("d", &[&[("k", "a")]]);
    assert_eq!(short(&client.statuses(one.clone()).await), [(Code::Ok, 9)]);
    one.hits_addend = 3;
    assert_eq!(short(&client.statuses(one.clone()).await), [(Code::Ok, 6)]);
    one.descriptors[0].hits_addend = Some(5);
    assert_eq!(short(&client.statuses(one.clone()).await), [(Code::Ok, 1)]);
    one.descriptors[0].hits_addend = Some(0);
    for _ in 0..3 {
        assert_eq!(short(&client.statuses(one.clone()).await), [(Code::Ok, 1)], "0 only looks");
    }
    one.descriptors[0].hits_addend = Some(u64::MAX);
    let response = client.send(one).await.unwrap();
    assert_eq!(short(&response.statuses), [(Code::OverLimit, 0)]);
    // No wait helps.
    assert_eq!((header(&response, "retry-after"), &response.statuses[0].duration_until_reset), (None, &None));
    assert_eq!(short(&client.statuses(call("d", &[&[("k", "a")]])).await), [(Code::Ok, 0)]);
}

#[tokio::test]
async fn free_descriptors_are_told_from_unlimited_ones() {
    let rules = "rule = [{ name = 'r', match.domain = 'known', key = 'everyone', limits = 'unlimited' }]";
    let server = start(rules).await;
    let mut client = client(&server).await;
    let free = client.statuses(call("other", &[&[("k", "a")]])).await;
    assert_eq!((short(&free), &free[0].current_limit), (vec![(Code::Ok, 0)], &None));
    let unlimited = client.statuses(call("known", &[&[("k", "a")]])).await;
    assert_eq!((short(&unlimited), &unlimited[0].current_limit), (vec![(Code::Ok, u32::MAX)], &None));
}

#[tokio::test]
async fn what_would_wait_in_a_queue_is_not_charged() {
    let rules =
        "rule = [{ name = 'r', key = 'everyone', limits = 'leaky-bucket:1/h,capacity=5,mode=queue' }]";
    let server = start(rules).await;
    let mut client = client(&server).await;
    let one = || call("d", &[&[("k", "a")]]);
    assert_eq!(client.statuses(one()).await[0].code(), Code::Ok);
    for _ in 0..10 {
        let response = client.send(one()).await.unwrap();
        let [status] = &*response.statuses else { panic!("one status") };
        assert_eq!(status.code(), Code::OverLimit);
        // Charged, the next would wait two hours.
        assert_eq!(status.duration_until_reset.as_ref().map(|time| time.seconds), Some(3_600));
        assert_eq!(header(&response, "retry-after"), Some("3600"));
    }
}

#[tokio::test]
async fn requests_in_flight_are_not_asked() {
    let server = start("rule = [{ name = 'r', key = 'everyone', limits = 'in-flight:1' }]").await;
    let mut client = client(&server).await;
    let mut one = call("d", &[&[("k", "a")]]);
    one.hits_addend = 5;
    let status = client.statuses(one).await.remove(0);
    assert_eq!((status.code(), status.current_limit), (Code::Ok, None));
}

#[tokio::test]
async fn refused_descriptors_of_several_are_counted_where_refusals_count() {
    let rules = "rule = [\
        { name = 'one', match.entry.one = '*', key = 'everyone', limits = 'fixed-window:10/d,count=all' },\
        { name = 'other', match.entry.other = '*', key = 'everyone', limits = 'fixed-window:10/d' }]";
    let server = start(rules).await;
    let mut client = client(&server).await;
    let mut both = call("d", &[&[("one", "1")], &[("other", "1")]]);
    both.descriptors[0].hits_addend = Some(8);
    assert_eq!(short(&client.statuses(both.clone()).await), [(Code::Ok, 2), (Code::Ok, 9)]);
    assert_eq!(short(&client.statuses(both.clone()).await), [(Code::OverLimit, 0), (Code::Ok, 9)]);
    // Two were left, but the refused hits count.
    both.descriptors[0].hits_addend = Some(1);
    assert_eq!(short(&client.statuses(both.clone()).await), [(Code::OverLimit, 0), (Code::Ok, 9)]);
}

#[tokio::test]
async fn a_look_is_refused_once_late_hits_went_beyond() {
    let server =
        start("rule = [{ name = 'r', key = 'everyone', limits = 'fixed-window:10/d,count=all' }]").await;
    let mut client = client(&server).await;
    let mut one = call("d", &[&[("k", "a")]]);
    for (hits, expected) in
        [(0, (Code::Ok, 10)), (8, (Code::Ok, 2)), (0, (Code::Ok, 2)), (5, (Code::OverLimit, 0))]
    {
        one.descriptors[0].hits_addend = Some(hits);
        assert_eq!(short(&client.statuses(one.clone()).await), [expected], "{hits}");
    }
    one.descriptors[0].hits_addend = Some(0);
    let response = client.send(one).await.unwrap();
    assert_eq!(short(&response.statuses), [(Code::OverLimit, 0)]);
    let reset = response.statuses[0].duration_until_reset.as_ref().unwrap().seconds.to_string();
    assert_eq!(header(&response, "retry-after"), Some(&*reset));
}

#[tokio::test]
async fn a_refused_look_charges_no_other_descriptor() {
    let server = start(
        "rule = [\
        { name = 'seen', match.entry.seen = '*', key = 'everyone', limits = 'fixed-window:2/d,count=all' },\
        { name = 'other', match.entry.other = '*', key = 'everyone', limits = 'fixed-window:9/d' }]",
    )
    .await;
    let mut client = client(&server).await;
    let mut both = call("d", &[&[("other", "1")], &[("seen", "1")]]);
    both.descriptors[1].hits_addend = Some(0);
    assert_eq!(short(&client.statuses(both.clone()).await), [(Code::Ok, 8), (Code::Ok, 2)]);
    let mut late = call("d", &[&[("seen", "1")]]);
    late.hits_addend = 2;
    assert_eq!(short(&client.statuses(late).await), [(Code::Ok, 0)]);
    for _ in 0..2 {
        assert_eq!(short(&client.statuses(both.clone()).await), [(Code::Ok, 8), (Code::OverLimit, 0)]);
    }
}

#[tokio::test]
async fn shadow_rules_refuse_nothing_and_are_told_to_no_client() {
    let rules = "rule = [\
        { name = 'dark', key = 'everyone', limits = 'fixed-window:1/d', mode = 'shadow' },\
        { name = 'lit', key = 'everyone', limits = 'fixed-window:5/d' }]";
    let server = start(rules).await;
    let mut client = client(&server).await;
    for left in [4, 3, 2] {
        let statuses = client.statuses(call("d", &[&[("k", "a")]])).await;
        assert_eq!(short(&statuses), [(Code::Ok, left)]);
        assert_eq!(statuses[0].current_limit.as_ref().unwrap().name, "lit");
    }
}

#[tokio::test]
async fn rules_by_status_charge_what_calls_report() {
    let rules = "rule = [{ name = 'failures', key = 'entry.user', limits = 'fixed-window:1/d', \
        charge_if.status = [401] }]";
    let server = start(rules).await;
    let mut client = client(&server).await;
    let look = || call("d", &[&[("user", "a")]]);
    let report = |status| call("d", &[&[("user", "a"), ("status", status)]]);
    for _ in 0..3 {
        assert_eq!(client.statuses(look()).await[0].code(), Code::Ok, "calls look only");
        assert_eq!(client.statuses(report("200")).await[0].code(), Code::Ok);
    }
    assert_eq!(client.statuses(report("401")).await[0].code(), Code::Ok);
    assert_eq!(client.statuses(look()).await[0].code(), Code::OverLimit);
}

#[tokio::test]
async fn the_remote_address_is_the_client() {
    let rules = "rule = [{ name = 'r', key = 'client', missing = 'pass', limits = 'fixed-window:1/d' }]";
    let server = start(rules).await;
    let mut client = client(&server).await;
    let from = |address| call("d", &[&[("remote_address", address)]]);
    assert_eq!(client.statuses(from("203.0.113.9")).await[0].code(), Code::Ok);
    assert_eq!(client.statuses(from("::ffff:203.0.113.9")).await[0].code(), Code::OverLimit);
    assert_eq!(client.statuses(from("203.0.113.10")).await[0].code(), Code::Ok);
    for _ in 0..2 {
        assert_eq!(client.statuses(call("d", &[&[("k", "203.0.113.9")]])).await[0].code(), Code::Ok);
    }
}
