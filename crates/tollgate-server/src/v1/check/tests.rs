//! The bytes of answers.

use std::sync::Arc;

use http_body_util::BodyExt;
use tollgate::ManualClock;
use tollgate_net::listen::Peer;
use tollgate_net::web::RequestBody;
use tollgate_rules::LiveRules;
use tollgate_rules_file::{Memory, read};

use super::*;
use crate::core::Core;
use crate::settings::Settings;

/// The store of the last rule is not there. The answer's headers need escapes.
const RULES: &str = r#"
version = 1
stores.gone = { url = 'redis://127.0.0.1:1', deadline = '100ms' }
rule = [
    { name = 'all', key = 'everyone', limits = ['fixed-window:40/min', '3000/h'], match.path = '/**' },
    { name = 'each', key = 'client', missing = 'refuse', limits = 'fixed-window:3/min', match.path = '/a/**' },
    { name = 'banned', match.host = 'b', key = 'everyone', limits = 'block' },
    { name = 'shadow', mode = 'shadow', key = 'everyone', limits = '1/h' },
    { name = 'stored', match.host = 's', key = 'everyone', limits = '5/h', store = 'gone' },
]
[answer]
headers = { "x-note" = "a \"quote\", a \\ and a\ttab", "ratelimit" = "own" }
"#;

/// Requests that are admitted, refused, too dear, without a key, blocked, and unavailable.
const CALLS: [&str; 9] = [
    r#"{"target":"/a/b","client":"203.0.113.9"}"#,
    r#"{"target":"/a/b","client":"203.0.113.9","cost":2}"#,
    r#"{"target":"/a/b","client":"203.0.113.9"}"#,
    r#"{"target":"/a/b","client":"2001:db8::1","cost":4}"#,
    r#"{"target":"/a/b","client":"2001:db8::1","cost":0}"#,
    r#"{"target":"/a"}"#,
    r#"{"target":"/c","host":"b"}"#,
    r#"{"target":"/c","host":"s"}"#,
    r#"{"host":"none","method":"G\"ET"}"#,
];

/// The answers to checks.
const ANSWERS: [&str; 9] = [
    r#"{"outcome":"admitted","rule":"each","limit":3,"remaining":2,"reset_ns":60000000000,"delay_ns":0,"headers":{"ratelimit-policy":"\"all/min\";q=40;w=60, \"all/h\";q=3000;w=3600, \"each\";q=3;w=60","ratelimit":"\"all/min\";r=39;t=60, \"each\";r=2;t=60"},"generation":1}"#,
    r#"{"outcome":"admitted","rule":"each","limit":3,"remaining":0,"reset_ns":60000000000,"delay_ns":0,"headers":{"ratelimit-policy":"\"all/min\";q=40;w=60, \"all/h\";q=3000;w=3600, \"each\";q=3;w=60","ratelimit":"\"all/min\";r=37;t=60, \"each\";r=0;t=60"},"generation":1}"#,
    r#"{"outcome":"refused","rule":"each","limit":3,"remaining":0,"retry_after_ns":60000000000,"reset_ns":60000000000,"delay_ns":0,"headers":{"ratelimit":"own","x-note":"a \"quote\", a \\ and a\ttab","cache-control":"no-store","retry-after":"60"},"generation":1}"#,
    r#"{"outcome":"never","rule":"each","limit":3,"remaining":3,"reset_ns":0,"delay_ns":0,"headers":{"ratelimit":"own","x-note":"a \"quote\", a \\ and a\ttab","cache-control":"no-store"},"generation":1}"#,
    r#"{"outcome":"admitted","rule":"each","limit":3,"remaining":3,"reset_ns":0,"delay_ns":0,"headers":{"ratelimit-policy":"\"all/min\";q=40;w=60, \"all/h\";q=3000;w=3600, \"each\";q=3;w=60","ratelimit":"\"all/min\";r=37;t=60, \"each\";r=3;t=0"},"generation":1}"#,
    r#"{"outcome":"no_key","rule":"each","limit":0,"remaining":0,"reset_ns":0,"delay_ns":0,"headers":{"ratelimit":"own","x-note":"a \"quote\", a \\ and a\ttab","cache-control":"no-store"},"generation":1}"#,
    r#"{"outcome":"blocked","rule":"banned","limit":0,"remaining":0,"reset_ns":0,"delay_ns":0,"headers":{"ratelimit":"own","x-note":"a \"quote\", a \\ and a\ttab","cache-control":"no-store"},"generation":1}"#,
    r#"{"outcome":"unavailable","rule":"stored","retry_after_ns":1000000000,"delay_ns":0,"headers":{"ratelimit":"own","x-note":"a \"quote\", a \\ and a\ttab","cache-control":"no-store","retry-after":"1"},"generation":1}"#,
    r#"{"outcome":"admitted","delay_ns":0,"headers":{},"generation":1}"#,
];

fn service(rules: &str) -> Service {
    let clock: ServerClock = Arc::new(ManualClock::new());
    let rules = read("rules.toml", &Memory::new("rules.toml", rules)).into_rules().unwrap();
    let live = LiveRules::new(rules, [0; 32], Arc::clone(&clock)).unwrap();
    Service::new(Arc::new(Core::new(live, clock, 16, false).unwrap()), &Settings::new("rules.toml"))
}

/// The text of an answer, and its headers in their order.
async fn ask(service: &Service, path: &str, body: &str) -> (String, Vec<(String, String)>) {
    let (head, body) = service.post_waiting(path, body.as_bytes()).await.into_parts();
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (text, headers.filter(|(name, _)| name != "content-type").collect())
}

#[tokio::test]
async fn a_batch_answers_as_its_requests_alone_do() {
    for path in ["/v1/check", "/v1/peek"] {
        let (alone, batched) = (service(RULES), service(RULES));
        let (mut answers, mut admitted) = (Vec::new(), true);
        for call in CALLS {
            let (text, headers) = ask(&alone, path, call).await;
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            admitted &= json["outcome"] == "admitted";
            let shown = headers.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)));
            let object = format!("\"headers\":{{{}}}", shown.collect::<Vec<_>>().join(","));
            assert!(text.contains(&object), "{text}: {object}");
            answers.push(text);
        }
        let body = format!("{{\"requests\":[{}]}}", CALLS.join(","));
        let expected = format!("{{\"admitted\":{admitted},\"results\":[{}]}}", answers.join(","));
        // Those that need no store are decided first: the last shows no limit of theirs.
        assert_eq!(ask(&batched, path, &body).await.0, expected, "{path}");
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[tokio::test]
async fn answers_to_checks_keep_their_bytes() {
    let service = service(RULES);
    for (call, expected) in CALLS.iter().zip(ANSWERS) {
        assert_eq!(ask(&service, "/v1/check", call).await.0, expected, "{call}");
    }
}

/// The largest block of memory that glibc keeps for the thread that freed it.
#[tokio::test]
async fn an_answer_takes_a_block_of_its_thread() {
    let request = http::Request::post("/v1/check").body(RequestBody::whole("{}".into())).unwrap();
    let answer = Arc::new(service(RULES)).answer(Peer::Unix, request);
    assert!(size_of_val(&answer) <= 1_032, "{} bytes", size_of_val(&answer));
    assert_eq!(answer.await.status(), StatusCode::OK);
}
