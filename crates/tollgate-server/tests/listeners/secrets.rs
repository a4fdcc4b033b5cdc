//! No key and no password in the log.

use tracing_subscriber::filter::LevelFilter;

use super::logged::Logged;
use tollgate_testing::client::{ask, connect, talk};

use super::support::{Grpc, request, start};

/// Keys by the user, and by the address.
const RULES: &str = "rule = [
    { name = 'user', match.header.x-user = '*', key = 'header.x-user', limits = 'fixed-window:1/d' },
    { name = 'entry', match.entry.user = '*', key = 'entry.user', limits = 'fixed-window:1/d' },
]";

#[tokio::test(flavor = "multi_thread")]
async fn no_listener_logs_a_key_or_a_password() {
    let logged = Logged::of_process(LevelFilter::TRACE);
    let server = start(RULES, |settings, _| {
        settings.resp_password = Some(String::from("sesame-7c1f").into());
        settings.resp_admin_password = Some(String::from("sesame-admin-93").into());
    })
    .await;
    let to = server.addresses;
    // Twice, so that each key is refused, too.
    for _ in 0..2 {
        let said = [
            "AUTH sesame-wrong-1a",
            "HELLO 3 AUTH default sesame-wrong-2b",
            "CL.THROTTLE hidden-early 0 1 60",
            "AUTH sesame-7c1f",
            "HELLO 3 AUTH default sesame-7c1f SETNAME hidden-name",
            "AUTH admin sesame-admin-93",
            "CL.THROTTLE hidden-call 0 1 60",
            "CL.THROTTLE hidden-call 0 none 60",
            "TG.CHECK user hidden-check",
            "TG.PEEK user hidden-check",
            "DEL hidden-call",
            "NONSENSE hidden-word",
            "QUIT",
        ];
        let heard = talk(connect(to.resp()).await, (said.join("\r\n") + "\r\n").as_bytes()).await;
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(heard.contains("WRONGPASS") && heard.contains("*5\r\n:0\r\n"), "{heard}");
        let mut grpc = Grpc::over(connect(to.grpc()).await).await;
        grpc.call("hidden-domain", &[("user", "hidden-call-of-envoy")]).await.unwrap();
        let mut http = connect(to.http()).await;
        let json = "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"user\",\"value\":\"hidden-json\"}]}]}";
        let asked = "x-forwarded-method: GET\r\nx-forwarded-uri: /hidden-path\r\nx-user: hidden-auth\r\n\
            x-forwarded-for: 203.0.113.77\r\n";
        let check = "{\"headers\":{\"x-user\":\"hidden-checked\"}}";
        for request in [
            request("POST", "/json", "", json),
            request("GET", "/v1/auth", asked, ""),
            request("POST", "/v1/check", "", check),
            request("POST", "/v1/check", "", "{\"hidden-field\":1}"),
        ] {
            ask(&mut http, &request).await;
        }
        let mut proxy = connect(to.proxy()).await;
        // The middleware may log the paths of refused requests (its feature `tracing`).
        ask(&mut proxy, &request("GET", "/path?hidden-query", "x-user: hidden-proxied\r\n", "")).await;
    }
    let mut admin = connect(to.admin()).await;
    let page = super::support::metrics(&mut admin).await;
    for listener in ["http", "grpc", "resp", "proxy"] {
        let none = format!("tollgate_decisions_total{{listener=\"{listener}\",outcome=\"limited\"}} 0");
        assert!(!page.contains(&none), "{none}");
    }
    let logged = logged.text();
    // It is a log of all that the server says of itself.
    assert!(logged.contains("tollgate_server"), "{logged}");
    for text in [&logged, &page] {
        for secret in ["hidden-", "sesame", "203.0.113.77"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
