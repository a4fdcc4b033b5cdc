//! `tollgate proxy` as a process.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use crate::{Folder, Running, fails, tollgate};

/// A server that knows nothing of limits, and answers each connection once.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            if stream.read(&mut [0; 4096]).expect("a request") > 0 {
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone";
                stream.write_all(answer.as_bytes()).expect("it is sent");
            }
        }
    });
    url
}

/// `tollgate proxy` with these rules, on ports of the system's choice.
fn proxy(rules: &str, options: &[&str]) -> Command {
    let mut command = tollgate();
    command.args(["proxy", "--rules", rules, "--admin", "127.0.0.1:0"]).args(options);
    command
}

/// The answer to a request, as it comes.
fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = b"GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n";
    stream.write_all(request).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_pages_first_example_limits_each_client() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../tollgate-server/examples/proxy.toml");
    let options = ["--listen", "127.0.0.1:0", "--upstream", &upstream()];
    let mut server = Running::start(proxy(rules, &options));
    let address = server.address("proxy");
    for left in (0..10).rev() {
        let answer = get(&address);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("done"), "{answer}");
        assert!(answer.contains(&format!("ratelimit: \"each-client\";r={left};")), "{answer}");
    }
    let answer = get(&address);
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("retry-after: "), "{answer}");
    server.signal("TERM");
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn a_restarted_proxy_forgives_nothing() {
    let folder = Folder::new("proxy-state");
    folder.write(
        "rules.toml",
        "version = 1\nrule = [{ name = 'each', key = 'client', limits = '2/d,burst=2' }]",
    );
    let (rules, state, upstream) = (folder.path("rules.toml"), folder.path("state"), upstream());
    let options =
        ["--listen", "127.0.0.1:0", "--upstream", &upstream, "--state", &state, "--drain-delay", "0s"];
    let statuses = ["200", "200", "429"];
    for admitted in [2, 0] {
        let mut server = Running::start(proxy(&rules, &options));
        let address = server.address("proxy");
        for status in &statuses[2 - admitted..] {
            let answer = get(&address);
            assert_eq!(answer.split(' ').nth(1), Some(*status), "{answer}");
        }
        server.signal("TERM");
        assert_eq!(server.ends(), Some(0));
    }
}

#[test]
fn an_upstream_that_fails_is_logged() {
    let folder = Folder::new("proxy-down");
    // The port is free again when the listener is dropped.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let (rules, upstream) = (folder.path("rules.toml"), format!("http://{closed}"));
    let mut server = Running::start(proxy(&rules, &["--listen", "127.0.0.1:0", "--upstream", &upstream]));
    let answer = get(&server.address("proxy"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let warned = server.says("an upstream fails");
    assert!(warned.contains("WARN") && warned.contains(&upstream), "{warned}");
}

#[test]
fn a_proxy_in_front_of_itself_does_not_start() {
    let folder = Folder::new("proxy-itself");
    // The port is free again when the listener is dropped.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let listen = format!("0.0.0.0:{}", free.port());
    let rules = folder.path("rules.toml");
    for upstream in [format!("http://{free}"), format!("http://localhost:{}", free.port())] {
        let (code, said) = fails(proxy(&rules, &["--listen", &listen, "--upstream", &upstream]));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&upstream) && said.contains("own --listen"), "{said}");
    }
}

#[test]
fn a_file_that_parks_nothing_is_left_as_it_is() {
    let folder = Folder::new("proxy-park");
    let rules = folder.path("rules.toml");
    let options = ["--listen", "127.0.0.1:0", "--upstream", "http://a.test", "--park", &rules];
    let (code, said) = fails(proxy(&rules, &options));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("rules.toml: it is no file of parked requests"), "{said}");
    assert_eq!(std::fs::read_to_string(&rules).expect("it is there"), crate::RULES);
}

#[test]
fn wrong_options_of_the_proxy_say_what_to_do() {
    let folder = Folder::new("proxy-errors");
    let rules = folder.path("rules.toml");
    let cases: [(&[&str], &[&str]); 6] = [
        (&[], &["--upstream <URL>"]),
        (&["--upstream", "127.0.0.1:8000"], &["is no upstream", "write http://HOST:PORT"]),
        (&["--upstream", "http://a.test/api"], &["http://a.test/api", "without a path"]),
        (&["--upstream", "http://a.test", "--health-path", "healthz"], &["write /healthz"]),
        (&["--upstream", "https://a.test", "--upstream-ca", "/none.pem"], &["/none.pem cannot be read"]),
        (
            &["--upstream", "http://a.test", "--listen", "unix:/tmp/none", "--listen-tls", "a,b"],
            &["no --listen listens there"],
        ),
    ];
    for (options, parts) in cases {
        let (code, said) = fails(proxy(&rules, options));
        assert_eq!(code, Some(2), "{options:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{options:?}: {said}");
    }
}
