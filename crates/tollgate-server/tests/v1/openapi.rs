//! The document, and a server that keeps it: random requests by schemathesis.

use super::support::start;
use tollgate_testing::schemathesis;

#[tokio::test]
async fn the_document_is_served() {
    let server = start("rule = [{ name = 'all', key = 'everyone', limits = '1/h' }]").await;
    let answer = server.call("GET", "/openapi.json", &[], "").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.json()["openapi"], "3.1.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_calls_are_answered_as_the_document_says() {
    let rules = "rule = [{ name = 'each', key = 'client', limits = '5/s,burst=100' },
        { name = 'at-once', key = 'header.k', limits = 'in-flight:2,ttl=1s' }]";
    let server = start(rules).await;
    let document = server.call("GET", "/openapi.json", &[], "").await;
    let document = std::str::from_utf8(&document.body).unwrap();
    let Some(calls) = schemathesis::calls(&server.http().to_string(), document, &[]).await else { return };
    assert!(calls.len() > 500, "{calls:?}");
}
