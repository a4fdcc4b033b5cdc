//! The live page in a real browser.

use std::process::Command;

use crate::client::{RULES, TestServer};
use crate::tools;

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_draws_the_live_page_without_an_error() {
    let Some(chromium) = tools::find("chromium") else { return };
    let server = TestServer::start(RULES, |settings, _| {
        settings.http.push("127.0.0.1:0".parse().unwrap());
    })
    .await;
    assert_eq!(server.check(r#"{ "client": "203.0.113.9" }"#).status, 200);
    let profile = format!("--user-data-dir={}", server.directory.join("chromium").display());
    let page = format!("http://{}/", server.address);
    let quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
    let shown = Command::new(chromium)
        .args(quiet)
        .args(["--virtual-time-budget=3000", "--enable-logging=stderr", "--dump-dom", &profile, &page])
        .output()
        .unwrap();
    let (drawn, said) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(shown.status.success(), "{said}");
    // The page itself names no rule: its script has asked and drawn them.
    for name in ["each", "user", "try"] {
        assert!(drawn.contains(&format!(">{name}<")), "{name} is not drawn: {drawn}\n{said}");
    }
    // On a narrow screen columns are hidden by their class.
    assert!(drawn.contains("<th>how it looks</th>"), "the column that matters most is always there");
    let errors: Vec<_> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
