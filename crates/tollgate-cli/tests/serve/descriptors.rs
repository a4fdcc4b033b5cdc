//! A process that may open few files.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use tollgate_testing::process::{LONG, Process};

use crate::proxy::{proxy, upstream};
use crate::{Folder, address_of, get};

/// The program, with few file descriptors: so many at first, and as many as it may ask for.
fn with_descriptors(soft: usize, hard: usize, program: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -S -n {soft} && ulimit -H -n {hard} && exec \"$@\""), "sh"]);
    shell.arg(program.get_program()).args(program.get_args());
    shell
}

/// The status line of an answer without a long body.
fn asks(client: &mut TcpStream) -> String {
    client.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n").expect("it is connected");
    let mut answer = [0; 4096];
    let read = client.read(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn idle_clients_leave_descriptors_to_upstreams() {
    let folder = Folder::new();
    folder.write("rules.toml", "version = 1\nrule = [{ name = 'a', key = 'client', limits = '10000/s' }]");
    // It closes each connection, so that each request needs a descriptor.
    let upstream = upstream();
    let options = ["--listen", "127.0.0.1:0", "--threads", "2", "--upstream", &upstream];
    let program = proxy(&folder.path("rules.toml"), &options);
    let mut server = Process::start(with_descriptors(64, 256, &program));
    let shared = server.says("file descriptors are shared");
    assert!(shared.contains("all=256") && !shared.contains("upstreams=0 "), "{shared}");
    server.says("a listener takes fewer connections than --max-connections 10000");
    let (admin, proxy) = (address_of(&mut server, "admin"), address_of(&mut server, "proxy"));
    let mut client = TcpStream::connect(&proxy).expect("it listens");
    client.set_read_timeout(Some(LONG)).expect("it is open");
    assert_eq!(asks(&mut client), "HTTP/1.1 200 OK");
    // It is never the one that is idle longest.
    let idle = (0..300).map(|_| {
        assert_eq!(asks(&mut client), "HTTP/1.1 200 OK");
        TcpStream::connect(&proxy).expect("it waits")
    });
    let idle: Vec<_> = idle.collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        assert_eq!(asks(&mut client), "HTTP/1.1 200 OK");
    }
    let page = get(&admin, "/metrics");
    let most =
        page.lines().find_map(|line| line.strip_prefix("tollgate_connections_max{listener=\"proxy\"} "));
    let most: usize = most.expect("it is on the page").parse().expect("a number");
    assert!((8..80).contains(&most), "{most}");
    drop(idle);
}
