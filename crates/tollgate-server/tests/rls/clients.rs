//! Who the client is: all that asks says it in its own words, and all of them agree.

use serde_json::json;
use tollgate_testing::client::{self, connect, talk};
use tollgate_testing::servers::loopback;

use super::proto::Code;
use super::{Client, Running, call, start_with};

const LIMIT: usize = 1000;

/// A server that is asked by a request of JSON, for authorization, by an administrator, by a call
/// of Envoy and by a Redis client.
struct Faces {
    running: Running,
    grpc: Client,
}

/// What a face says: what the rule has left for the client, or why it cannot say.
#[derive(Debug)]
enum Said {
    Left(usize),
    Wrong(String),
}

impl Faces {
    async fn new() -> Self {
        let rules = format!(
            "rule = [{{ name = 'r', key = 'client', limits = 'fixed-window:{LIMIT}/d', missing = 'pass' }}]"
        );
        let running = start_with(&rules, |settings, _| {
            for listener in [&mut settings.http, &mut settings.admin, &mut settings.resp] {
                listener.push(loopback());
            }
        })
        .await;
        Self { grpc: Client::connect(running.grpc()).await, running }
    }

    async fn check(&self, client: &str) -> Said {
        let answer = self.running.post("/v1/check", json!({ "client": client }).to_string()).await;
        let body = answer.json();
        match answer.status.as_u16() {
            200 => Said::Left(body["remaining"].as_u64().unwrap() as usize),
            400 => Said::Wrong(format!("{} {}", body["pointer"], body["detail"].as_str().unwrap())),
            other => panic!("{other}: {body}"),
        }
    }

    async fn authorize(&self, client: &str) -> Said {
        let headers = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/"), ("x-forwarded-for", client)];
        let answer = self.running.call("POST", "/v1/auth", &headers, "").await;
        match answer.status.as_u16() {
            200 => {
                let left = answer.header("ratelimit").strip_prefix("\"r\";r=").unwrap();
                Said::Left(left.split(';').next().unwrap().parse().unwrap())
            }
            400 => Said::Wrong(answer.text().into()),
            _ => panic!("{answer:?}"),
        }
    }

    async fn administer(&self, client: &str) -> Said {
        let order = json!({ "request": { "client": client }, "do": "peek" }).to_string();
        let answer =
            client::call(self.running.admin(), "POST", "/admin/keys/r", &[("x-tollgate", "1")], order).await;
        match answer.status.as_u16() {
            200 => Said::Left(answer.json()["state"]["remaining"].as_u64().unwrap() as usize),
            400 => Said::Wrong(answer.text().into()),
            _ => panic!("{answer:?}"),
        }
    }

    async fn call(&mut self, client: &str) -> Said {
        let response = self.grpc.send(call("d", &[&[("remote_address", client)]])).await.unwrap();
        match response.statuses[0].code() {
            Code::Ok => Said::Left(response.statuses[0].limit_remaining as usize),
            // An error would let the request pass.
            _ => Said::Wrong(String::from_utf8(response.raw_body).unwrap()),
        }
    }

    async fn redis(&self, client: &str) -> Said {
        let said = format!("TG.CHECK r \"{client}\"\r\nQUIT\r\n");
        let heard = talk(connect(self.running.resp()).await, said.as_bytes()).await;
        let heard = String::from_utf8(heard).unwrap();
        match heard.strip_prefix("-ERR ") {
            Some(error) => Said::Wrong(error.lines().next().unwrap().to_owned()),
            None => Said::Left(heard.lines().nth(3).unwrap()[1..].parse().unwrap()),
        }
    }

    async fn all(&mut self, client: &str) -> [Said; 5] {
        [
            self.check(client).await,
            self.redis(client).await,
            self.call(client).await,
            self.authorize(client).await,
            self.administer(client).await,
        ]
    }
}

#[tokio::test]
async fn all_faces_count_an_address_as_one_client() {
    let mut faces = Faces::new().await;
    // The same client in several spellings, and others.
    for (clients, count) in [
        (&["203.0.113.9", "::ffff:203.0.113.9", "::ffff:cb00:7109"][..], 3),
        (&["2001:db8::1", "2001:DB8:0:0:0:0:0:1"], 2),
        (&["0.0.0.0"], 1),
        (&["::"], 1),
    ] {
        let mut left = LIMIT;
        for client in clients {
            let said = faces.all(client).await;
            let mut told = Vec::new();
            for one in &said {
                let Said::Left(left) = one else { panic!("{client}: {said:?}") };
                told.push(*left);
            }
            left -= 4;
            // The administrator only looks.
            assert_eq!(told, [left + 3, left + 2, left + 1, left, left], "{client}");
        }
        assert_eq!(clients.len(), count);
    }
}

#[tokio::test]
async fn no_face_takes_other_text_for_a_client() {
    let mut faces = Faces::new().await;
    let long = "9".repeat(200);
    for client in [
        "localhost",
        "unknown",
        "203.0.113",
        "203.0.113.09",
        "203.0.113.256",
        "203.0.113.9/32",
        "fe80::1%eth0",
        "2001:db8::g",
        "0x7f000001",
        "3405803785",
        "٢٠٣.0.113.9",
        "203.0.113.9 x",
        &long,
    ] {
        let shown: String = client.chars().take(64).collect();
        for (face, said) in faces.all(client).await.into_iter().enumerate() {
            let Said::Wrong(why) = said else { panic!("{client} by {face}: {said:?}") };
            assert!(why.contains("is no IP address"), "{client} by {face}: {why}");
            // As JSON the quotes are escaped.
            let is_named = why.replace('\\', "").contains(&format!("\"{shown}\""));
            assert!(is_named || !shown.is_ascii(), "{client} by {face}: {why}");
        }
    }
    // A proxy may write a port, and a list; others may not.
    for client in ["203.0.113.9:80", "[2001:db8::1]:80", "[2001:db8::1]", "198.51.100.1, 203.0.113.9"] {
        let [check, redis, call, authorize, administer] = faces.all(client).await;
        assert!(matches!(authorize, Said::Left(_)), "{client}: {authorize:?}");
        for said in [check, redis, call, administer] {
            assert!(matches!(said, Said::Wrong(_)), "{client}: {said:?}");
        }
    }
    // Present, and yet none: the rule does not let it pass as absent.
    for said in faces.all("").await {
        assert!(matches!(said, Said::Wrong(_)), "{said:?}");
    }
}

#[tokio::test]
async fn a_call_that_names_two_clients_is_refused() {
    let mut faces = Faces::new().await;
    let two = [("remote_address", "203.0.113.9"), ("remote_address", "203.0.113.9")];
    let response =
        faces.grpc.send(call("d", &[&[("k", "v")], &two, &[("remote_address", "203.0.113.8")]])).await;
    let response = response.unwrap();
    assert_eq!(response.overall_code(), Code::OverLimit);
    let codes: Vec<_> = response.statuses.iter().map(|status| status.code()).collect();
    assert_eq!(codes, [Code::Ok, Code::OverLimit, Code::Ok]);
    assert_eq!(response.raw_body, b"descriptor 1: remote_address comes twice\n");
    // Nothing was charged.
    for client in ["203.0.113.9", "203.0.113.8"] {
        assert!(matches!(faces.call(client).await, Said::Left(left) if left == LIMIT - 1), "{client}");
    }
}
