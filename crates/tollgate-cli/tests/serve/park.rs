//! Requests that `tollgate proxy` keeps for later, over kills.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Folder, LONG, Running, tollgate};

/// Each key is parked and drained all the time.
const RULES: &str = "version = 1
rule = [{ name = 'each', key = 'header.x-key', limits = '200/s,burst=1', on_refusal = 'park',
    park = { requests = 100000, requests_per_key = 100000 } }]";

/// What a server without limits was asked for: the `Idempotency-Key` of each time, by target.
pub(crate) type Seen = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// A request that was answered 202.
pub(crate) struct Parked {
    pub(crate) target: String,
    pub(crate) id: String,
}

/// A server that takes so long for each request.
pub(crate) fn upstream(pause: Duration) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let noted = Arc::clone(&noted);
            // A proxy that is killed resets its connections.
            thread::spawn(move || answer(stream, &noted, pause));
        }
    });
    (url, seen)
}

fn answer(mut stream: TcpStream, noted: &Seen, pause: Duration) -> std::io::Result<()> {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while let read @ 1.. = stream.read(&mut buffer)? {
        text += &String::from_utf8_lossy(&buffer[..read]);
        while let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let key = header(head, "idempotency-key").unwrap_or_default().to_owned();
            text = rest.to_owned();
            noted.lock().expect("no panic").entry(target).or_default().push(key);
            thread::sleep(pause);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")?;
        }
    }
    Ok(())
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").filter_map(|line| line.split_once(": ")).find(|(of, _)| *of == name).map(|(_, is)| is)
}

/// Asks until the connection fails, or `ends`. Returns the requests that were answered 202.
pub(crate) fn client(address: &str, key: &str, number: &AtomicU64, ends: &AtomicBool) -> Vec<Parked> {
    let mut kept = Vec::new();
    let Ok(mut stream) = TcpStream::connect(address) else { return kept };
    while !ends.load(Relaxed) {
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
            let location = header(&answer, "location").expect("where its state is");
            let (_, id) = location.rsplit_once('/').expect("a path");
            kept.push(Parked { target, id: id.to_owned() });
        }
    }
    kept
}

/// How many kills a test does.
pub(crate) fn kills() -> u64 {
    std::env::var("TOLLGATE_KILLS").map_or(10, |kills| kills.parse().expect("a number"))
}

/// Waits until the server has seen each request, and checks by which key it did.
pub(crate) fn all_come(kept: &[Parked], seen: &Seen) {
    let (began, mut lost) = (Instant::now(), kept.iter().collect::<Vec<_>>());
    while !lost.is_empty() {
        assert!(began.elapsed() < 3 * LONG, "{} of {} did not come", lost.len(), kept.len());
        thread::sleep(Duration::from_millis(50));
        let seen = seen.lock().expect("no panic");
        lost.retain(|parked| !seen.contains_key(&parked.target));
    }
    let seen = seen.lock().expect("no panic");
    for Parked { target, id } in kept {
        assert!(seen[target].iter().all(|key| key == id), "{target} is {id}, and came as {:?}", seen[target]);
    }
}

#[test]
fn what_was_answered_202_survives_every_kill() {
    let kills = kills();
    let folder = Folder::new("park-kills");
    folder.write("rules.toml", RULES);
    let (url, seen) = upstream(Duration::ZERO);
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
            .map(|key: u8| {
                let (address, number) = (address.clone(), Arc::clone(&number));
                thread::spawn(move || client(&address, &key.to_string(), &number, &AtomicBool::new(false)))
            })
            .collect();
        thread::sleep(Duration::from_millis(100 + kill % 7 * 30));
        proxy.signal("KILL");
        kept.extend(clients.into_iter().flat_map(|client| client.join().expect("no panic")));
    }
    assert!(kept.len() >= usize::try_from(kills).expect("it is small"), "only {} were kept", kept.len());
    let _proxy = start();
    all_come(&kept, &seen);
    eprintln!("{kills} kills, {} requests kept, none lost", kept.len());
}
