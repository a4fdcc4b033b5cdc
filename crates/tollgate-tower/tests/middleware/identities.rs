//! One identity has one limit, however a client spells it.

use http::StatusCode;
use tollgate_tower::{KeyBy, MissingKey, Rule};

use crate::support::{by_header, hourly_bucket, layer_with, request, send};

/// The statuses of requests with these values of a header, one an hour for each key.
async fn statuses(key: KeyBy, header: &str, values: &[&str]) -> Vec<StatusCode> {
    let rule = Rule::new("user", hourly_bucket(1)).key(key).missing_key(MissingKey::Refuse);
    let layer = layer_with(rule).build().unwrap();
    let mut statuses = Vec::new();
    for value in values {
        statuses.push(send(&layer, request("/", &[(header, value)])).await.status());
    }
    statuses
}

#[tokio::test]
async fn credentials_have_one_limit_however_they_are_spelled() {
    let spellings = ["Bearer t", "bEARER t", "bearer   t", "BEARER \t t", "Bearer t"];
    let told = statuses(by_header("authorization"), "authorization", &spellings).await;
    assert_eq!(told[0], 200);
    assert!(told[1..].iter().all(|status| *status == 429), "{told:?}");
    let others = ["Bearer t", "Bearer T", "Basic t"];
    assert_eq!(statuses(by_header("authorization"), "authorization", &others).await, [200; 3]);
}

#[tokio::test]
async fn a_cookie_has_one_limit_however_it_is_escaped() {
    let spellings = ["s=abc", "s=\"abc\"", "s=\"\\141bc\"", "s=%61bc", "s=\"%61bc\"", "s = abc"];
    let told = statuses(KeyBy::cookie("s"), "cookie", &spellings).await;
    assert_eq!(told[0], 200);
    assert!(told[1..].iter().all(|status| *status == 429), "{told:?}");
    assert_eq!(statuses(KeyBy::cookie("s"), "cookie", &["s=abc", "s=Abc", "s=abcd"]).await, [200; 3]);
    let as_sent = KeyBy::request(|head, key| key.push(head.cookie("s").unwrap_or_default()));
    assert_eq!(statuses(as_sent, "cookie", &spellings[..5]).await, [200; 5]);
}
