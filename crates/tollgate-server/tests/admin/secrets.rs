//! No key and no token where others read.

use serde_json::json;

use crate::client::{RULES, start};
use tracing_subscriber::filter::LevelFilter;

use crate::logged::Logged;

#[tokio::test(flavor = "multi_thread")]
async fn no_key_and_no_token_is_logged() {
    let logged = Logged::of_process(LevelFilter::TRACE);
    let token = "token-6f1c2d";
    let server = start(RULES, |settings, directory| {
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
        assert!(statuses[6] == 429, "{statuses:?}");
        for action in [json!("reset"), json!({ "refund": 2 }), json!("peek"), json!("wrong")] {
            let request = json!({ "headers": { "x-user": user, "cookie": user }, "client": "203.0.113.77" });
            let body = json!({ "request": request, "do": action }).to_string();
            answers += server.administer_with("POST", "/admin/keys/user", &right, &body).text();
        }
        let wrong = [("host", "x"), ("authorization", &*format!("Bearer {token}{number}"))];
        answers += server.administer_with("GET", "/admin/rules", &wrong, "").text();
    }
    assert_eq!(server.administer_with("POST", "/admin/reload", &right, "").status, 200);
    server.folder.write("rules.toml", "nonsense");
    assert_eq!(server.administer_with("POST", "/admin/reload", &right, "").status, 422);
    let metrics = server.administer_with("GET", "/metrics", &right, "");
    let page = metrics.text();
    assert!(!page.contains("tollgate_decisions_total{listener=\"http\",outcome=\"limited\"} 0"), "{page}");
    assert!(!page.contains("tollgate_keys_limited{rule=\"user\"} 0"), "{page}");
    answers += page;
    answers += server.administer_with("GET", "/admin/top?rule=user", &right, "").text();
    answers += server.administer_with("GET", "/admin/live", &right, "").text();
    let logged = logged.text();
    assert!(logged.contains("administration was denied"), "{logged}");
    for change in ["a key was changed", "reloaded by an administrator", "a reload by an administrator failed"]
    {
        let mut lines = logged.lines().filter(|line| line.contains(change));
        assert!(lines.any(|line| line.contains("who=token 127.0.0.1:")), "{change} in {logged}");
    }
    for text in [&logged, &answers] {
        for secret in ["user-", token, "203.0.113.77"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
