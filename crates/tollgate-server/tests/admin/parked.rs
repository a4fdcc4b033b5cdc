//! Changes of parked requests.

use tracing_subscriber::filter::LevelFilter;

use crate::client::start;
use crate::logged::Logged;

const RULES: &str = "version = 1
rule = [{ name = 'later', key = 'everyone', limits = '1/h', on_refusal = 'park' }]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_requests_change_is_logged_by_its_id() {
    let logged = Logged::of_process(LevelFilter::TRACE);
    let server = start(RULES, |settings, directory| {
        settings.proxy.push("127.0.0.1:0".parse().unwrap());
        settings.forward.upstreams.push("http://127.0.0.1:1".parse().unwrap());
        settings.park = Some(directory.join("parked"));
    })
    .await;
    let post = || tollgate_testing::http::ask(server.proxy(), "POST", "/", &[("host", "x")], "");
    post();
    let parked = post();
    assert_eq!(parked.status, 202, "{}", parked.text());
    let list = server.administer("GET", "/admin/parked", "").json();
    let id = list["parked"][0]["id"].as_str().unwrap();
    // While the rules are asked whether it may be sent, it cannot be cancelled.
    let cancelled = || server.administer("DELETE", &format!("/admin/parked/{id}"), "").status;
    let status = (0..100).map(|_| cancelled()).find(|status| *status != 409);
    assert_eq!(status.map(|status| status.as_u16()), Some(200));
    let logged = logged.text();
    let line = logged.lines().find(|line| line.contains("a parked request was changed")).unwrap();
    assert!(line.contains(&format!("id=\"{}\"", &id[..12])), "{line}");
    assert!(line.contains("rule=\"later\" state=\"cancelled\""), "{line}");
    assert!(!line.contains(id), "who has the whole id may ask for the state: {line}");
}
