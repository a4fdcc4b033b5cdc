//! Requests that `tollgate proxy` keeps for later, over kills.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Folder, LONG, Running, tollgate};

/// Each key is parked and drained all the time.
const RULES: &str = "version = 1
rule = [{ name = 'each', key = 'header.x-key', limits = '200/s,burst=1', on_refusal = 'park',
    park = { requests = 100000, requests_per_key = 100000 } }]";

/// The targets that a server without limits was asked for.
type Seen = Arc<Mutex<HashSet<String>>>;

fn upstream() -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let noted = Arc::clone(&noted);
            // A proxy that is killed resets its connections.
            thread::spawn(move || answer(stream, &noted));
        }
    });
    (url, seen)
}

fn answer(mut stream: TcpStream, noted: &Seen) -> std::io::Result<()> {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while let read @ 1.. = stream.read(&mut buffer)? {
        text += &String::from_utf8_lossy(&buffer[..read]);
        while let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            text = rest.to_owned();
            noted.lock().expect("no panic").insert(target);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")?;
        }
    }
    Ok(())
}

/// Asks until the connection fails. Returns the targets that were answered 202.
fn client(address: &str, key: usize, number: &AtomicU64) -> Vec<String> {
    let mut kept = Vec::new();
    let Ok(mut stream) = TcpStream::connect(address) else { return kept };
    loop {
        let target = format!("/{}", number.fetch_add(1, Relaxed));
        let request = format!("GET {target} HTTP/1.1\r\nhost: a.test\r\nx-key: {key}\r\n\r\n");
        let (mut answer, mut buffer) = (String::new(), [0; 4096]);
        if stream.write_all(request.as_bytes()).is_err() {
            return kept;
        }
        while !answer.contains("\r\n\r\n") || !(answer.ends_with("done") || answer.ends_with('}')) {
            let Ok(read @ 1..) = stream.read(&mut buffer) else { return kept };
            answer += &String::from_utf8_lossy(&buffer[..read]);
        }
        if answer.starts_with("HTTP/1.1 202 ") {
            kept.push(target);
        }
    }
}

#[test]
fn what_was_answered_202_survives_every_kill() {
    let kills = std::env::var("TOLLGATE_KILLS").map_or(10, |kills| kills.parse().expect("a number"));
    let folder = Folder::new("park-kills");
    folder.write("rules.toml", RULES);
    let (url, seen) = upstream();
    let start = || {
        let mut command = tollgate();
        command.args(["proxy", "--rules", &folder.path("rules.toml"), "--park", &folder.path("park")]);
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", &url]);
        Running::start(command)
    };
    let (number, mut kept) = (Arc::new(AtomicU64::new(0)), Vec::new());
    for kill in 0..kills {
        let mut proxy = start();
        let address = proxy.address("proxy");
        let clients: Vec<_> = (0..4)
            .map(|key| {
                let (address, number) = (address.clone(), Arc::clone(&number));
                thread::spawn(move || client(&address, key, &number))
            })
            .collect();
        thread::sleep(Duration::from_millis(100 + kill % 7 * 30));
        proxy.signal("KILL");
        kept.extend(clients.into_iter().flat_map(|client| client.join().expect("no panic")));
    }
    assert!(kept.len() >= usize::try_from(kills).expect("it is small"), "only {} were kept", kept.len());
    let _proxy = start();
    let began = Instant::now();
    loop {
        let lost: Vec<_> = {
            let seen = seen.lock().expect("no panic");
            kept.iter().filter(|target| !seen.contains(*target)).collect()
        };
        if lost.is_empty() {
            break;
        }
        assert!(began.elapsed() < 3 * LONG, "{} of {} did not come: {lost:?}", lost.len(), kept.len());
        thread::sleep(Duration::from_millis(50));
    }
    eprintln!("{kills} kills, {} requests kept, none lost", kept.len());
}
