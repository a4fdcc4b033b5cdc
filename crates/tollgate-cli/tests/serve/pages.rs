//! The commands that pages tell a newcomer to type. Only their ports are others here.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_testing::process::Process;
use tollgate_testing::tools;

use crate::session::Session;
use crate::{address_of, get, tollgate};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(name)).expect("the page is there")
}

/// What follows these words in the page, to the end of the line or a comment.
fn typed<'a>(page: &'a str, words: &str) -> &'a str {
    let (_, rest) = page.split_once(words).unwrap_or_else(|| panic!("the page says {words:?}"));
    let line = rest.lines().next().unwrap_or_default();
    line.split('#').next().unwrap_or_default().trim().trim_end_matches('&').trim()
}

/// Starts `python3 -m http.server` as the page says, on a port of the system's choice. Returns its
/// address, too.
fn python(page: &str) -> (Process, String) {
    let arguments = typed(page, "python3 ").replace("8000", "0");
    let mut python = Command::new("python3");
    python.arg("-u").args(arguments.split_whitespace()).current_dir(ROOT);
    let mut python = Process::of(python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut said = String::new();
    let out = python.child.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut said).expect("it is text");
    let (_, port) = said.split_once(" port ").unwrap_or_else(|| panic!("it says {said:?}"));
    let port = port.split(' ').next().expect("a word");
    (python, format!("127.0.0.1:{port}"))
}

/// The options of a page's command, in this folder. Its upstream is this one.
fn tollgate_as_typed(options: &str, folder: &str, upstream: &str) -> Process {
    let mut command = tollgate();
    command.args(options.replace("127.0.0.1:8000", upstream).split_whitespace()).current_dir(folder);
    command.args(["--admin", "127.0.0.1:0"]);
    Process::start(command)
}

/// Ten requests at once are answered by Python, the next one by the proxy.
fn limits_ten(address: &str) {
    for _ in 0..10 {
        let answer = get(address, "/").to_ascii_lowercase();
        let is_pythons = answer.contains(" 200 ok\r\n") && answer.contains("server: simplehttp/");
        assert!(is_pythons, "{answer}");
    }
    let refused = get(address, "/");
    assert!(refused.starts_with("HTTP/1.1 429 "), "{refused}");
}

#[test]
fn the_proxy_page_limits_python_in_two_commands() {
    if tools::find("python3").is_none() {
        return;
    }
    let page = page("docs/reference/proxy.md");
    let (_python, upstream) = python(&page);
    let options = format!("{} --listen 127.0.0.1:0", typed(&page, "--features serve -- "));
    let mut proxy = tollgate_as_typed(&options, ROOT, &upstream);
    limits_ten(&address_of(&mut proxy, "proxy"));
}

/// Types a page, or its part behind a heading, if these programs are there.
fn type_page(page: &str, heading: Option<&str>, programs: &[&str]) {
    if programs.iter().all(|name| tools::find(name).is_some()) {
        Session::of(page, heading).run();
    }
}

#[test]
fn the_front_page_replays_a_day() {
    type_page("README.md", Some("# Tollgate"), &[]);
}

#[test]
fn the_front_page_limits_python() {
    type_page("README.md", Some("### The proxy"), &["python3", "curl"]);
}

#[test]
fn the_front_page_is_answered_as_a_service() {
    type_page("README.md", Some("### The server"), &["curl", "redis-cli"]);
}

#[test]
fn the_first_page_of_the_library_refuses() {
    type_page("docs/start/library.md", None, &[]);
}

#[test]
fn the_first_page_of_the_middleware_refuses() {
    type_page("docs/start/middleware.md", None, &["curl"]);
}

#[test]
fn the_first_page_of_the_proxy_refuses() {
    type_page("docs/start/proxy.md", None, &["python3", "curl"]);
}

#[test]
fn the_first_page_of_the_server_refuses() {
    type_page("docs/start/server.md", None, &["curl", "redis-cli"]);
}
