//! `POST /json`: the same service as proto3 writes it.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_server::probe::{CallAnswer, CallProbe};

use super::start_with;

const RULES: &str = "rule = [{ name = 'r', key = 'entry.k', limits = 'fixed-window:10/d' }]";

/// Status and body of an answer.
async fn post(address: SocketAddr, body: &str) -> (u16, Value) {
    let answer = tollgate_testing::client::call(address, "POST", "/json", &[], body.to_owned()).await;
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn calls_as_json_are_answered_as_the_reference_does() {
    let server = start_with(RULES, |settings, _| {
        settings.http = std::mem::take(&mut settings.grpc);
    })
    .await;
    let call = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"a"}]}],"hitsAddend":"4"}"#;
    let (status, mut body) = post(server.http(), call).await;
    let reset = body["statuses"][0].as_object_mut().unwrap().remove("durationUntilReset").unwrap();
    let seconds: u64 = reset.as_str().unwrap().strip_suffix('s').unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&seconds));
    let limit = json!({ "requestsPerUnit": 10, "unit": "DAY", "name": "r" });
    let expected = json!({ "code": "OK", "currentLimit": limit, "limitRemaining": 6 });
    assert_eq!((status, body), (200, json!({ "overallCode": "OK", "statuses": [expected] })));

    let (status, body) = post(server.http(), &call.replace("\"4\"", "7")).await;
    assert_eq!((status, &body["overallCode"]), (429, &json!("OVER_LIMIT")));
    assert_eq!(body["statuses"][0].get("limitRemaining"), None, "0 is left out");
    assert_eq!(body["responseHeadersToAdd"][0]["key"], "content-type");
    // {"type": ... in base64.
    assert!(body["rawBody"].as_str().unwrap().starts_with("eyJ0eXBlIjo"), "{body}");

    let (status, body) = post(server.http(), r#"{"domain":"","descriptors":[]}"#).await;
    assert_eq!((status, &body["detail"]), (400, &json!("rate limit domain must not be empty")));
    let (status, body) =
        post(server.http(), r#"{"domain":"d","descriptors":[{"entries":[{"kye":"k"}]}]}"#).await;
    assert_eq!((status, &body["pointer"]), (400, &json!("/descriptors/0/entries/0/kye")));
}

/// A call of one descriptor with this beside its entries, and this beside the descriptors.
fn with(descriptor: &str, call: &str) -> String {
    format!(r#"{{"domain":"d","descriptors":[{{"entries":[{{"key":"k","value":"v"}}]{descriptor}}}]{call}}}"#)
}

#[test]
fn json_is_read_as_proto3_says() {
    let cases = [
        (with("", ""), 1),
        (with("", r#","hitsAddend":3"#), 3),
        (with("", r#","hits_addend":3.0"#), 3),
        (with("", r#","hitsAddend":3e0"#), 3),
        (with("", r#","hitsAddend":null"#), 1),
        (with(r#","hitsAddend":"5""#, r#","hitsAddend":2"#), 5),
        (with(r#","hits_addend":0"#, r#","hitsAddend":2"#), 0),
        (with(r#","limit":{"requestsPerUnit":"3","unit":"MINUTE"}"#, ""), 1),
        (with(r#","limit":{"requests_per_unit":3,"unit":2}"#, ""), 1),
        (with(r#","limit":null"#, ""), 1),
    ];
    for (body, hits) in cases {
        let probe = CallProbe::new();
        assert_eq!(probe.json(body.as_bytes()).0, CallAnswer::Ok, "{body}");
        assert_eq!(probe.left(), 1_000 - hits, "{body}");
    }
}

#[test]
fn json_that_is_no_call_is_refused_and_charges_nothing() {
    let bodies = [
        String::new(),
        "[]".into(),
        "null".into(),
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]} x"#.into(),
        with("", r#","hitsAddend":-1"#),
        with("", r#","hitsAddend":1.5"#),
        with("", r#","hitsAddend":"+1""#),
        with("", r#","hitsAddend":"""#),
        with("", r#","hitsAddend":4294967296"#),
        with("", r#","hitsAddend":true"#),
        with("", r#","hitsAddend":1,"hits_addend":1"#),
        with(r#","hitsAddend":18446744073709551616"#, ""),
        with(r#","limit":{"unit":"FORTNIGHT"}"#, ""),
        with("", r#","more":1"#),
        format!(r#"{{"domain":"d","descriptors":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000)),
    ];
    let probe = CallProbe::new();
    for body in bodies {
        let (answer, told) = probe.json(body.as_bytes());
        assert_eq!((answer, &told["status"]), (CallAnswer::Error, &json!(400)), "{body:.100}");
    }
    assert_eq!(probe.left(), 1_000);
}
