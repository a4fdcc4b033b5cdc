//! The live page in a real browser.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tollgate_testing::servers::Running;

use crate::client::{RULES, start};
use tollgate_testing::tools;

/// Chromium at a page, with these arguments. Returns what it wrote to its output and its log.
fn browse(chromium: &Path, server: &Running, arguments: &[&str]) -> (String, String) {
    let profile = format!("--user-data-dir={}", server.folder.path().join("chromium").display());
    let quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
    let shown = Command::new(chromium)
        .args(quiet)
        .args(["--virtual-time-budget=3000", "--enable-logging=stderr", &profile])
        .args(arguments)
        .arg(format!("http://{}/", server.admin()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(shown.status.success(), "{said}");
    let errors: Vec<_> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    (String::from_utf8_lossy(&shown.stdout).into_owned(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_draws_the_live_page_without_an_error() {
    let Some(chromium) = tools::find("chromium") else { return };
    let rules = RULES.replace(
        "rule = [",
        "rule = [
    { name = 'later', match.path = '/later', key = 'everyone', limits = '1/d', on_refusal = 'park' },",
    );
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = start(&rules, |settings, directory| {
        settings.http.push("127.0.0.1:0".parse().unwrap());
        settings.proxy.push("127.0.0.1:0".parse().unwrap());
        settings.forward.upstreams.push(format!("http://{unused}").parse().unwrap());
        settings.park = Some(directory.join("parked"));
    })
    .await;
    for turn in 0..12 {
        let status = if turn < 10 { 200 } else { 429 };
        assert_eq!(server.check(r#"{ "client": "203.0.113.9" }"#).status, status);
    }
    for status in [502, 202] {
        let answer = tollgate_testing::http::ask(server.proxy(), "POST", "/later", &[("host", "x")], "");
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    let (drawn, said) = browse(&chromium, &server, &["--dump-dom"]);
    let has = |text: &str| assert!(drawn.contains(text), "{text} is not drawn: {drawn}\n{said}");
    // The page itself names no rule: its script has asked and drawn them.
    for name in ["each", "user", "try", "later"] {
        has(&format!(">{name}<"));
    }
    // On a narrow screen columns are hidden by their class.
    has("<th>how it looks</th>");
    has("<b>generation 1</b>");
    has(", last reload ");
    // The client that was refused twice, among the two that asked, and its share of the refusals.
    has(r#"<td>each</td><td class="number">2</td>"#);
    has("1 of 2</small>");
    has("</span>100 %</td>");
    has("<dt>kept for later</dt><dd>1<span>0 dead</span></dd>");
}

/// Prints the colour of a picture's first dot.
const FIRST_DOT: &str = "
import sys, zlib
picture, at, data = open(sys.argv[1], 'rb').read(), 8, b''
while at < len(picture):
    length = int.from_bytes(picture[at:at + 4], 'big')
    if picture[at + 4:at + 8] == b'IDAT':
        data += picture[at + 8:at + 8 + length]
    at += length + 12
print(zlib.decompress(data)[1:4].hex())
";

#[tokio::test(flavor = "multi_thread")]
async fn the_live_page_is_as_dark_as_the_system() {
    let (Some(chromium), Some(python)) = (tools::find("chromium"), tools::find("python3")) else { return };
    let server = start(RULES, |_, _| ()).await;
    let picture = server.folder.path().join("page.png");
    for (scheme, paper) in [(0, "15181c"), (1, "fdfcfa")] {
        let prefers = format!("--blink-settings=preferredColorScheme={scheme}");
        browse(&chromium, &server, &[&prefers, &format!("--screenshot={}", picture.display())]);
        let dot = Command::new(&python).args(["-c", FIRST_DOT]).arg(&picture).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&dot.stdout).trim(), paper, "of {prefers}");
    }
}
