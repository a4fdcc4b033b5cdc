//! No key and no token where others read.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::client::{RULES, TestServer};

/// Everything that this process logs.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_token_is_logged() {
    let logged = Logged::default();
    let writer = logged.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let token = "token-6f1c2d";
    let server = TestServer::start(RULES, |settings, directory| {
        std::fs::write(directory.join("token"), token).unwrap();
        settings.admin_token = Some(directory.join("token"));
        settings.http.push("127.0.0.1:0".parse().unwrap());
    })
    .await;
    let right = [("host", "x"), ("authorization", &*format!("Bearer {token}"))];
    let mut answers = String::new();
    for number in 0..20_u64 {
        let user = format!("user-{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Decided, and refused at last. The answer is the client's own.
        let call = json!({ "headers": { "x-user": user }, "client": "203.0.113.77" }).to_string();
        let statuses: Vec<_> = (0..7).map(|_| server.check(&call).status).collect();
        assert_eq!(statuses.last(), Some(&429));
        for action in [json!("reset"), json!({ "refund": 2 }), json!("peek"), json!("wrong")] {
            let request = json!({ "headers": { "x-user": user, "cookie": user }, "client": "203.0.113.77" });
            let body = json!({ "request": request, "do": action }).to_string();
            answers += &server.ask_with("POST", "/admin/keys/user", &right, &body).body;
        }
        let wrong = [("host", "x"), ("authorization", &*format!("Bearer {token}{number}"))];
        answers += &server.ask_with("GET", "/admin/rules", &wrong, "").body;
    }
    let page = server.ask_with("GET", "/metrics", &right, "").body;
    assert!(!page.contains("tollgate_decisions_total{listener=\"http\",outcome=\"limited\"} 0"), "{page}");
    assert!(!page.contains("tollgate_keys_limited{rule=\"user\"} 0"), "{page}");
    answers += &page;
    answers += &server.ask_with("GET", "/admin/top?rule=user", &right, "").body;
    answers += &server.ask_with("GET", "/admin/live", &right, "").body;
    let logged = String::from_utf8(logged.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("a key was changed") && logged.contains("administration was denied"), "{logged}");
    assert!(logged.contains("token 127.0.0.1:"), "who: {logged}");
    for text in [&logged, &answers] {
        for secret in ["user-", token, "203.0.113.77"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
