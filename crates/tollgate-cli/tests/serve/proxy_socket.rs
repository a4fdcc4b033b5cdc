//! A proxy whose socket is systemd's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testing::process::{LONG, Process};

use crate::proxy::{proxy, upstream};
use crate::systemd::activated;
use crate::{Folder, address_of};

/// One request by a connection of its own.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn no_connection_to_the_socket_fails_over_restarts() {
    let folder = Folder::new();
    folder
        .write("rules.toml", "version = 1\nrule = [{ name = 'each', key = 'client', limits = '1000000/s' }]");
    let (web, other) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let (web, other) = (web.expect("a port"), other.expect("a port"));
    let address = web.local_addr().expect("it is bound");
    let rules = folder.path("rules.toml");
    let (upstream, is_over, answers) = (upstream(), AtomicBool::new(false), AtomicU64::new(0));
    let start = || {
        let clone = |socket: &TcpListener| socket.try_clone().expect("a descriptor").into();
        let command = proxy(&rules, &["--listen", "fd:web", "--upstream", &upstream, "--drain-delay", "0s"]);
        let mut server = activated(&command, (clone(&web), clone(&other)), "web:other");
        assert_eq!(address_of(&mut server, "proxy"), address.to_string());
        server.says("serving");
        server
    };
    let more = |server: &Process| {
        let (before, begun) = (answers.load(Relaxed), Instant::now());
        while answers.load(Relaxed) < before + 50 {
            assert!(begun.elapsed() < LONG, "clients are answered: {}", server.said);
            thread::sleep(Duration::from_millis(5));
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let answer = ask(address).expect("no connection fails");
                        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
                        answers.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            let mut server = start();
            more(&server);
            server.signal("TERM");
            assert_eq!(server.ends(), Some(0), "{}", server.said);
        }
        let server = start();
        more(&server);
        is_over.store(true, Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("no connection fails"));
    });
}
