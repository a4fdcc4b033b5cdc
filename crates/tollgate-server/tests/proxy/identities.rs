//! One identity has one limit at every door, however it is spelled: at the proxy, where another
//! proxy asks `/v1/auth`, and where a service asks `/v1/check`.

use serde_json::json;
use tollgate_server::Settings;
use tollgate_testing::client;
use tollgate_testing::servers::loopback;
use tollgate_testing::upstream::echo;

use super::support::{Proxy, start, start_with};

/// A header as it is sent.
type Sent = (&'static str, String);

/// A server with all doors. The proxy drops no header, so that the rules see each.
async fn doors(rules: &str) -> Proxy {
    let set = |settings: &mut Settings| {
        settings.http.push(loopback());
        settings.forward.keeps_underscores = true;
    };
    start_with(rules, &[echo().await], set).await
}

/// The statuses of requests with each of these headers, by each door.
async fn asked(rules: &str, sent: &[Sent]) -> [Vec<u16>; 3] {
    let [proxy, auth, check] = [doors(rules).await, doors(rules).await, doors(rules).await];
    let mut statuses = [const { Vec::new() }; 3];
    for (name, value) in sent {
        let asks = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/"), ("x-forwarded-host", "a.test")];
        let own = [(*name, value.as_str())];
        let forwarded = [&asks[..], &own].concat();
        let call = json!({ "headers": { *name: value } }).to_string();
        statuses[0].push(proxy.get("/", &own).await.status.as_u16());
        let answer = client::call(auth.http(), "GET", "/v1/auth", &forwarded, "").await;
        statuses[1].push(answer.status.as_u16());
        statuses[2].push(check.post("/v1/check", call).await.status.as_u16());
    }
    statuses
}

/// Asserts that each door admits the first of these requests and no other, by a limit of one an
/// hour.
async fn are_one(key: &str, sent: Vec<Sent>) {
    let rules = format!("rule = [{{ name = 'each', key = '{key}', limits = '1/h', missing = 'pass' }}]");
    for (door, statuses) in ["proxy", "auth", "check"].iter().zip(asked(&rules, &sent).await) {
        let admitted: Vec<_> = sent.iter().zip(&statuses).filter(|(_, status)| **status == 200).collect();
        assert_eq!((admitted.len(), statuses[0]), (1, 200), "{door}: {admitted:?}");
    }
}

#[tokio::test]
async fn every_door_has_one_limit_for_credentials() {
    let cased = |bits: u32| {
        let letter = |(at, letter): (u32, char)| match bits >> at & 1 {
            1 => letter.to_ascii_uppercase(),
            _ => letter,
        };
        ("authorization", (0..).zip("bearer".chars()).map(letter).collect::<String>() + " secret")
    };
    let blanks = (2..=21).map(|count| ("authorization", format!("Bearer{}secret", " ".repeat(count))));
    are_one("header.authorization", (0..64).map(cased).chain(blanks).collect()).await;
}

#[tokio::test]
async fn every_door_has_one_limit_for_a_misspelled_header() {
    let names = ["x-api-key", "x_api_key", "x-api_key", "x_api-key", "x.api.key", "x!api*key"];
    are_one("header.X-Api-Key", names.map(|name| (name, "secret".to_owned())).to_vec()).await;
}

/// Many upstreams would see another header than the rules do.
#[tokio::test]
async fn headers_with_underscores_go_on_only_if_asked() {
    let rules = "rule = [{ name = 'each', key = 'client', limits = '1000/s' }]";
    let sent = [("x_api_key", "6"), ("x-api-key", "7")];
    let said = async |proxy: Proxy| {
        let said = proxy.get("/", &sent).await.body;
        String::from_utf8(said.to_vec()).unwrap()
    };
    let dropped = said(start(rules, &[echo().await]).await).await;
    assert!(dropped.contains("x-api-key: 7\n") && !dropped.contains("x_api_key"), "{dropped}");
    let kept = said(doors(rules).await).await;
    assert!(kept.contains("x-api-key: 7\n") && kept.contains("x_api_key: 6\n"), "{kept}");
}

#[tokio::test]
async fn every_door_has_one_limit_for_a_cookie() {
    let spellings =
        ["abc", r#""abc""#, r#""\141bc""#, r#""\a\142c""#, "%61bc", r#""%61%62%63""#, "%61%62%63"];
    are_one("cookie.s", spellings.map(|value| ("cookie", format!("a=1; s={value}"))).to_vec()).await;
}

#[tokio::test]
async fn an_invalid_host_is_refused_at_every_door() {
    let rules = "rule = [{ name = 'each', key = 'everyone', limits = 'block', match.host = 'b.test' }]";
    let server = doors(rules).await;
    for host in ["[a.test]", "[::1]x", ":80", "a.test:x", "a..test"] {
        let said = server.raw(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await;
        assert!(said.starts_with("HTTP/1.1 400 "), "{host}: {said}");
        let asks = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/"), ("x-forwarded-host", host)];
        let answer = client::call(server.http(), "GET", "/v1/auth", &asks, "").await;
        assert_eq!(answer.status, 429, "{host}");
        let call = json!({ "host": host }).to_string();
        assert_eq!(server.post("/v1/check", call).await.status, 429, "{host}");
    }
    for host in ["a.test", "a.test:80", "[::1]:80"] {
        assert_eq!(server.call("GET", "/", &[], "").await.status, 200);
        let call = json!({ "host": host }).to_string();
        assert_eq!(server.post("/v1/check", call).await.status, 200, "{host}");
    }
}
