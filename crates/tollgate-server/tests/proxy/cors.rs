//! A page of another origin in a real browser.

use std::process::Command;

use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE};
use http::{Method, Request, Response};
use tokio::task::spawn_blocking;
use tollgate_testing::tools;
use tollgate_testing::upstream::{full, upstream};

use crate::support::start;

/// Asks three times, each time behind a preflight, and shows what it reads.
const PAGE: &str = r#"<body><script>(async () => {
    const read = [];
    for (let number = 0; number < 3; number++) {
        try {
            const answer = await fetch(`http://127.0.0.1:${location.search.slice(1)}/api`,
                { headers: { "x-shop": "1" } });
            const limit = answer.headers.get("ratelimit")?.split(";t=")[0];
            const waits = Number(answer.headers.get("retry-after")) > 0;
            read.push(`${answer.status} ${limit} ${waits}`);
        } catch (error) {
            read.push(error.name);
        }
    }
    document.body.append(read.join(", "));
})()</script>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_reads_limits_and_refusals() {
    let Some(chromium) = tools::find("chromium") else { return };
    let service = upstream(async |request: Request<_>| {
        let body = if *request.method() == Method::OPTIONS { "" } else { PAGE };
        let mut answer = Response::new(full(body.to_owned()));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, "text/html".parse().unwrap());
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, "*".parse().unwrap());
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, "x-shop".parse().unwrap());
        answer
    })
    .await;
    let rules = format!(
        "cors = ['http://{service}']
         rule = [{{ name = 'each', key = 'client', limits = 'fixed-window:2/1000d' }}]"
    );
    let proxy = start(&rules, &[format!("http://{service}")]).await;
    let page = format!("http://{service}/page?{}", proxy.proxy().port());
    let profile = format!("--user-data-dir={}", proxy.folder.path().join("chromium").display());
    let mut browser = Command::new(chromium);
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    browser.args(["--no-first-run", "--virtual-time-budget=5000", "--dump-dom", &profile, &page]);
    let shown = spawn_blocking(move || browser.output().unwrap()).await.unwrap();
    let drawn = String::from_utf8_lossy(&shown.stdout);
    let read = r#"200 "each";r=1 false, 200 "each";r=0 false, 429 "each";r=0 true"#;
    assert!(drawn.contains(read), "{drawn} {}", String::from_utf8_lossy(&shown.stderr));
}
