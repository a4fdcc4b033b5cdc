//! Requests that `tollgate proxy` keeps for later, over kills, a full disk and an upstream that is
//! down.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_testing::faketime::Clock;
use tollgate_testing::process::{LONG, Process};
use tollgate_testing::tools;

use crate::{Folder, address_of, get, tollgate};

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
    (url, serve(listener, pause))
}

fn serve(listener: TcpListener, pause: Duration) -> Seen {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let noted = Arc::clone(&noted);
            // A proxy that is killed resets its connections.
            thread::spawn(move || answer(stream, &noted, pause));
        }
    });
    seen
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

/// What clients ask, and are told, together.
#[derive(Default)]
pub(crate) struct Asked {
    number: AtomicU64,
    kept: AtomicU64,
    refused: AtomicU64,
    /// The end of each target.
    padding: String,
    pub(crate) ends: AtomicBool,
}

impl Asked {
    /// Each target ends so.
    pub(crate) fn with(padding: &str) -> Arc<Self> {
        Arc::new(Self { padding: padding.to_owned(), ..Self::default() })
    }

    /// Waits until so many more have been kept.
    pub(crate) fn keeps(&self, more: u64) {
        wait_for("requests are kept", &self.kept, more);
    }

    /// Waits until so many more have been refused.
    pub(crate) fn refuses(&self, more: u64) {
        wait_for("requests are refused", &self.refused, more);
    }
}

fn wait_for(what: &str, count: &AtomicU64, more: u64) {
    let (mut grew, mut last) = (Instant::now(), count.load(Relaxed));
    let end = last + more;
    while last < end {
        assert!(grew.elapsed() < LONG, "{what}: {} more are missing", end - last);
        thread::sleep(Duration::from_millis(5));
        let now = count.load(Relaxed);
        if now > last {
            (grew, last) = (Instant::now(), now);
        }
    }
}

/// A client that asks until the connection fails, or it is told to end. It returns the requests
/// that were answered 202.
pub(crate) fn client(address: &str, key: String, asked: &Arc<Asked>) -> JoinHandle<Vec<Parked>> {
    let (address, asked) = (address.to_owned(), Arc::clone(asked));
    thread::spawn(move || {
        let mut kept = Vec::new();
        let Ok(mut stream) = TcpStream::connect(address) else { return kept };
        while !asked.ends.load(Relaxed) {
            let target = format!("/{}{}", asked.number.fetch_add(1, Relaxed), asked.padding);
            let Ok(answer) = ask(&mut stream, &target, &key) else { return kept };
            match answer.split(' ').nth(1) {
                Some("202") => {
                    let location = header(&answer, "location").expect("where its state is");
                    let (_, id) = location.rsplit_once('/').expect("a path");
                    kept.push(Parked { target, id: id.to_owned() });
                    asked.kept.fetch_add(1, Relaxed);
                }
                Some("429" | "503") => drop(asked.refused.fetch_add(1, Relaxed)),
                // It was passed on.
                Some("200" | "502") => {}
                _ => panic!("no answer to expect: {answer}"),
            }
        }
        kept
    })
}

fn ask(stream: &mut TcpStream, target: &str, key: &str) -> std::io::Result<String> {
    let request = format!("GET {target} HTTP/1.1\r\nhost: a.test\r\nx-key: {key}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    while !answer.contains("\r\n\r\n") || !(answer.ends_with("done") || answer.ends_with('}')) {
        match stream.read(&mut buffer)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => answer += &String::from_utf8_lossy(&buffer[..read]),
        }
    }
    Ok(answer)
}

/// What clients were told that have ended.
pub(crate) fn kept_by(clients: Vec<JoinHandle<Vec<Parked>>>) -> Vec<Parked> {
    clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
}

/// How many kills a test does.
pub(crate) fn kills() -> u64 {
    std::env::var("TOLLGATE_KILLS").map_or(10, |kills| kills.parse().expect("a number"))
}

/// Waits until the server has seen each request, and checks by which key it did. Returns how many
/// it has seen more than once.
pub(crate) fn all_come(kept: &[Parked], seen: &Seen) -> usize {
    let (mut came, mut lost) = (Instant::now(), kept.iter().collect::<Vec<_>>());
    while !lost.is_empty() {
        assert!(came.elapsed() < LONG, "{} of {} did not come", lost.len(), kept.len());
        thread::sleep(Duration::from_millis(50));
        let (seen, before) = (seen.lock().expect("no panic"), lost.len());
        lost.retain(|parked| !seen.contains_key(&parked.target));
        if lost.len() < before {
            came = Instant::now();
        }
    }
    let seen = seen.lock().expect("no panic");
    for Parked { target, id } in kept {
        assert!(seen[target].iter().all(|key| key == id), "{target} is {id}, and came as {:?}", seen[target]);
    }
    kept.iter().filter(|parked| seen[&parked.target].len() > 1).count()
}

/// The options of a proxy that keeps requests in a file of this folder.
fn options(folder: &Folder, upstream: &str) -> Vec<String> {
    let (rules, park) = (folder.path("rules.toml"), folder.path("park"));
    let options = ["proxy", "--rules", &rules, "--park", &park, "--listen", "127.0.0.1:0"];
    let more = ["--admin", "127.0.0.1:0", "--upstream", upstream];
    options.iter().chain(&more).map(|&option| option.to_owned()).collect()
}

fn start(folder: &Folder, upstream: &str) -> Process {
    let mut command = tollgate();
    command.args(options(folder, upstream));
    Process::start(command)
}

#[test]
fn what_was_answered_202_survives_every_kill() {
    let kills = kills();
    let folder = Folder::new();
    folder.write("rules.toml", RULES);
    let (url, seen) = upstream(Duration::ZERO);
    let (asked, mut kept) = (Arc::<Asked>::default(), Vec::new());
    for kill in 0..kills {
        let mut proxy = start(&folder, &url);
        let address = address_of(&mut proxy, "proxy");
        let clients = (0..4).map(|key| client(&address, format!("{key}"), &asked)).collect();
        thread::sleep(Duration::from_millis(100 + kill % 7 * 30));
        proxy.kill();
        kept.extend(kept_by(clients));
    }
    assert!(kept.len() >= usize::try_from(kills).expect("it is small"), "only {} were kept", kept.len());
    let mut proxy = start(&folder, &url);
    address_of(&mut proxy, "proxy");
    let twice = all_come(&kept, &seen);
    eprintln!("{kills} kills of the proxy, {} requests kept, none lost, {twice} sent once more", kept.len());
}

#[test]
fn a_full_disk_loses_nothing_that_was_answered_202() {
    let folder = Folder::new();
    folder.write("rules.toml", RULES);
    let (url, seen) = upstream(Duration::ZERO);
    let mut command = Command::new("sh");
    // A new file has 1552 KiB, and may have 48 more; the signal of that limit is ignored, so that a
    // write fails instead.
    command.args(["-c", "trap '' XFSZ; ulimit -f 3200; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_tollgate")]);
    command.args(options(&folder, &url));
    let mut full = Process::start(command);
    let (address, asked) = (address_of(&mut full, "proxy"), Asked::with(&format!("?{}", "x".repeat(4000))));
    let clients = (0..4).map(|key| client(&address, format!("{key}"), &asked)).collect();
    asked.refuses(100);
    asked.ends.store(true, Relaxed);
    let kept = kept_by(clients);
    full.says("File too large");
    full.kill();
    assert!(kept.len() > 20, "only {} were kept", kept.len());
    let mut proxy = start(&folder, &url);
    address_of(&mut proxy, "proxy");
    let twice = all_come(&kept, &seen);
    let refused = asked.refused.load(Relaxed);
    eprintln!("{refused} refused, {} requests kept, none lost, {twice} sent once more", kept.len());
}

/// How often the proxy has tried to reach an upstream that is down.
fn tries(admin: &str) -> u64 {
    let page = get(admin, "/metrics");
    let counted = "tollgate_protocol_errors_total{listener=\"proxy\",kind=\"upstream_connect\"} ";
    let count = page.lines().find_map(|line| line.strip_prefix(counted));
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn an_upstream_down_for_an_hour_loses_nothing() {
    let folder = Folder::new();
    // How long a request is kept is as ever.
    folder.write("rules.toml", RULES);
    if tools::find("faketime").is_none() {
        return;
    }
    let clock = Clock::right(folder.0.path()).expect("the program's library");
    // No client's port, as that of 127.0.0.1 may become.
    let closed = TcpListener::bind("127.0.0.2:0").expect("a port").local_addr().expect("it is bound");
    let url = format!("http://{closed}");
    let start = || {
        let mut command = tollgate();
        command.args(options(&folder, &url));
        clock.drive(&mut command);
        let mut proxy = Process::start(command);
        let (admin, address) = (address_of(&mut proxy, "admin"), address_of(&mut proxy, "proxy"));
        (proxy, admin, address)
    };
    // An upstream that is down is tried again, at the new time.
    let is_tried_at = |admin: &str, time: &str| {
        clock.set(time);
        let (began, before) = (Instant::now(), tries(admin));
        while tries(admin) < before + 8 {
            assert!(began.elapsed() < LONG, "it is not tried at {time}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    let (mut proxy, admin, address) = start();
    let asked = Arc::<Asked>::default();
    let clients = (0..8).map(|key| client(&address, format!("{key}"), &asked)).collect();
    asked.keeps(400);
    asked.ends.store(true, Relaxed);
    let kept = kept_by(clients);
    is_tried_at(&admin, "+30m");
    proxy.kill();
    let (_proxy, admin, _) = start();
    is_tried_at(&admin, "+61m");
    is_tried_at(&admin, "+62m");
    let seen = serve(TcpListener::bind(closed).expect("it is free still"), Duration::ZERO);
    // The longest pause between two tries is over.
    clock.set("+64m");
    let twice = all_come(&kept, &seen);
    assert_eq!(twice, 0, "of {}", kept.len());
    eprintln!("down for an hour, {} requests kept, none lost", kept.len());
}
