//! Who may administer.

use std::net::SocketAddr;
use std::process::Command;

use tollgate_testing::folder::{Folder, free_port};
use tollgate_testing::process::Process;
use tollgate_testing::{http, tools};

use crate::client::{RULES, start};

const ADMIN: [(&str, &str); 7] = [
    ("GET", "/openapi.json"),
    ("GET", "/admin/rules"),
    ("GET", "/admin/live"),
    ("GET", "/admin/top?rule=each"),
    ("POST", "/admin/plan"),
    ("POST", "/admin/reload"),
    ("POST", "/admin/keys/each"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_a_browser_changes_nothing() {
    let server = start(RULES, |_, _| {}).await;
    let host = server.admin().to_string();
    let host = ("host", &*host);
    for (method, path) in ADMIN.into_iter().filter(|(method, _)| *method == "POST") {
        // What a form or a simple fetch of another origin can send.
        let page = [host, ("origin", "https://evil.example"), ("content-type", "text/plain")];
        assert_eq!(server.administer_with(method, path, &page, "x").status, 403, "{path}");
        // The preflight for the header is answered without permission.
        let preflight =
            [host, ("origin", "https://evil.example"), ("access-control-request-headers", "x-tollgate")];
        let answer = server.administer_with("OPTIONS", path, &preflight, "");
        let is_refused = answer.status.as_u16() >= 400;
        let allows = answer.headers.keys().any(|name| name.as_str().starts_with("access-control-allow"));
        assert!(is_refused && !allows, "{answer:?}");
    }
    assert_eq!(server.administer("GET", "/admin/rules", "").json()["generation"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebound_name_reads_and_changes_nothing() {
    let server = start(RULES, |_, _| {}).await;
    for (method, path) in ADMIN {
        let answer =
            server.administer_with(method, path, &[("host", "evil.example:9080"), ("x-tollgate", "1")], "");
        assert_eq!(answer.status, 403, "{path}");
        assert!(!answer.text().contains("each"), "{}", answer.text());
    }
}

/// As the proxy is configured without a thought: `proxy_pass`, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn nginx_in_front_administers_nothing() {
    let Some(nginx) = tools::find("nginx") else { return };
    let server = start(RULES, |_, _| {}).await;
    let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let folder = Folder::new();
    // Since 1.29.7 nginx asks by HTTP/1.1 unless it is told otherwise.
    folder.write(
        "nginx.conf",
        format!(
            "daemon off; pid pid; events {{}}
            http {{ access_log off; server {{ listen {free};
                location / {{ proxy_http_version 1.0; proxy_pass http://{}; }} }} }}",
            server.admin()
        ),
    );
    let _nginx = Process::listening(Command::new(nginx).args(tools::NGINX), folder.path(), free);
    for (method, path) in ADMIN {
        let headers = [("host", "localhost"), ("x-tollgate", "1")];
        let answer = http::ask(free, method, path, &headers, "");
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        assert!(answer.text().contains("HTTP/1.0"), "{}", answer.text());
    }
    let answer = http::ask(free, "GET", "/metrics", &[("host", "localhost")], "");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_all_need_it() {
    let server = start(RULES, |settings, directory| {
        std::fs::write(directory.join("token"), "s3cret\n").unwrap();
        settings.admin_token = Some(directory.join("token"));
    })
    .await;
    for (method, path) in ADMIN {
        let answer = server.administer(method, path, "");
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert_eq!(
            server.administer_with(method, path, &[("host", "x"), ("authorization", "Bearer no")], "").status,
            401
        );
    }
    let right = [("host", "gate.example"), ("authorization", "Bearer s3cret")];
    assert_eq!(server.administer_with("GET", "/admin/rules", &right, "").status, 200);
    assert_eq!(server.administer_with("POST", "/admin/reload", &right, "").status, 200);
    for path in ["/healthz", "/readyz", "/metrics", "/"] {
        assert_eq!(
            server.administer_with("GET", path, &[("host", "gate.example")], "").status,
            200,
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_token_starts_no_server() {
    let folder = Folder::new();
    let mut settings = tollgate_server::Settings::new(folder.write("rules.toml", RULES));
    for token in ["", "\n", " \nx"] {
        settings.admin_token = Some(folder.write("token", token));
        let error = tollgate_server::Server::start(settings.clone()).await.unwrap_err();
        assert!(matches!(error, tollgate_server::StartError::AdminToken(_)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_page_may_load_nothing() {
    let server = start(RULES, |_, _| {}).await;
    let page = server.administer_with("GET", "/", &[("host", "localhost")], "");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
}
