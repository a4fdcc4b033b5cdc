//! Requests through `tollgate proxy`, and the replay of their log.
//!
//! The test lets one thing happen at a time: a request comes and is decided, or one is answered. It
//! knows so in which order the proxy decides and settles, and the times that it writes down keep
//! that order. How far apart they are must make no difference, since the proxy's clock is not the
//! test's:
//!
//! * windows last 20,000 days, and the next begins in 2079;
//! * buckets win back 100 units a day, 0.07 a minute. All costs are multiples of 10, and a burst
//!   has 5 more: a decision would turn on 5 units, which take 72 minutes.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Instant, SystemTime};

use serde_json::{Value, json};
use tollgate_testing::process::{LONG, Process};
use tollgate_testing::random::Random;

use crate::proxy::proxy;
use crate::{Folder, address_of, tollgate};

const RULES: &str = r#"
version = 1

[[rule]]
name = "failed"
match.path = "/login"
key = "header.x-user"
limits = "fixed-window:4/20000d"
charge_if.status = [401]

[[rule]]
name = "tries"
match.path = "/login"
key = "header.x-user"
limits = "100/d,burst=65"
cost = 10
charge_if.status = [401, 403]

[[rule]]
name = "tokens"
match.path = "/ask"
key = "header.x-user"
limits = "100/d,burst=205"
cost = { from = "header.x-tokens" }
"#;

/// How many requests are made.
const REQUESTS: usize = 10_000;

/// The most that are under way at once.
const MOST: usize = 24;

/// What happens to a request, by its number.
enum Event {
    /// It has come to the upstream, which waits for the response to it.
    Forwarded(usize, Sender<String>),
    /// Its client has the whole answer.
    Answered(usize, u16),
}

/// A head with its fields in lower case; `None` where the connection ends.
fn head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head.to_ascii_lowercase())
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// A server that asks the test for each response.
fn upstream(events: Sender<Event>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let events = events.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                while let Some(head) = head(&mut reader) {
                    let number = field(&head, "x-number").expect("it has one").parse().expect("a number");
                    let (respond, response) = channel();
                    if events.send(Event::Forwarded(number, respond)).is_err() {
                        return;
                    }
                    let Ok(response) = response.recv() else { return };
                    if stream.write_all(response.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// A client that sends one request after the other, and tells of each answer.
fn client(address: String, requests: Receiver<(usize, String)>, events: Sender<Event>) {
    let connect = || {
        let stream = TcpStream::connect(&address).expect("it listens");
        BufReader::new(stream)
    };
    let mut stream = connect();
    for (number, request) in requests {
        stream.get_mut().write_all(request.as_bytes()).expect("it is sent");
        let head = head(&mut stream).expect("an answer");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let length = field(&head, "content-length").map_or(0, |length| length.parse().expect("a number"));
        stream.read_exact(&mut vec![0; length]).expect("a body");
        if field(&head, "connection") == Some("close") {
            stream = connect();
        }
        if events.send(Event::Answered(number, status)).is_err() {
            return;
        }
    }
}

/// A request that is under way.
struct UnderWay {
    number: usize,
    client: usize,
    respond: Sender<String>,
}

/// What the log says of a request.
struct Recorded {
    arrived: u64,
    path: &'static str,
    user: String,
    tokens: u64,
}

/// The log of the requests that the proxy serves at `address`, in the order in which they end.
fn record(address: &str, events: &Receiver<Event>, tell: &Sender<Event>) -> Vec<Value> {
    let mut random = Random::with_seed(3);
    let mut clients: Vec<_> = (0..MOST)
        .map(|_| {
            let (send, requests) = channel();
            let (address, tell) = (address.to_owned(), tell.clone());
            thread::spawn(move || client(address, requests, tell));
            send
        })
        .collect();
    let mut free: Vec<usize> = (0..MOST).collect();
    let (begun, mut last) = (Instant::now(), 0);
    let zero =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let mut now = || {
        last = (zero + begun.elapsed().as_nanos() as u64).max(last + 1);
        last
    };
    let (mut requests, mut under_way, mut log) = (Vec::new(), Vec::<UnderWay>::new(), Vec::new());
    let next = || events.recv_timeout(LONG).expect("something happens");
    while log.len() < REQUESTS {
        let may_begin = requests.len() < REQUESTS && !free.is_empty();
        if may_begin && (under_way.is_empty() || random.u64(..2) == 0) {
            let number = requests.len();
            // A user makes some eighty requests, and then others come.
            let user = format!("user-{}", number / 40 * 3 + random.usize(..6));
            let (path, tokens) = (["/login", "/ask"][random.usize(..2)], random.u64(..8) * 10);
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: a.test\r\ncontent-length: 0\r\nx-user: {user}\r\n\
                 x-tokens: {tokens}\r\nx-number: {number}\r\n\r\n"
            );
            requests.push(Recorded { arrived: now(), path, user, tokens });
            let client = free.pop().expect("one is free");
            clients[client].send((number, request)).expect("it waits");
            match next() {
                Event::Forwarded(of, respond) if of == number => {
                    under_way.push(UnderWay { number, client, respond });
                }
                Event::Answered(of, 429) if of == number => {
                    free.push(client);
                    log.push(line(&requests[number], now(), 429, None));
                }
                Event::Forwarded(of, _) | Event::Answered(of, _) => panic!("{of} in place of {number}"),
            }
            continue;
        }
        let UnderWay { number, client, respond } = under_way.swap_remove(random.usize(..under_way.len()));
        let status = [200, 200, 200, 401, 401, 403, 500][random.usize(..7)];
        let cost = (random.u64(..4) > 0).then(|| random.u64(..12) * 10);
        let told = cost.map_or(String::new(), |cost| format!("x-cost: {cost}\r\n"));
        let response = format!("HTTP/1.1 {status} X\r\ncontent-length: 4\r\n{told}\r\ndone");
        respond.send(response).expect("the upstream waits");
        match next() {
            Event::Answered(of, answered) if (of, answered) == (number, status) => {}
            Event::Forwarded(of, _) | Event::Answered(of, _) => panic!("{of} in place of {number}"),
        }
        free.push(client);
        log.push(line(&requests[number], now(), status, cost));
    }
    clients.clear();
    log
}

fn line(request: &Recorded, ended: u64, status: u16, cost: Option<u64>) -> Value {
    let Recorded { arrived, path, user, tokens } = request;
    json!({"t_ns": ended, "duration_ns": ended - arrived, "ip": "127.0.0.1", "method": "POST", "path": path,
        "status": status, "user": user, "tokens": tokens, "used": cost})
}

/// Whether a replay of the log admits each line.
fn replayed(folder: &Folder, log: &[Value]) -> Vec<bool> {
    let mut text = String::new();
    log.iter().for_each(|line| writeln!(text, "{line}").expect("a text"));
    folder.write("access.json", &text);
    let (rules, log) = (folder.path("rules.toml"), folder.path("access.json"));
    let maps = ["header.x-user=user", "header.x-tokens=tokens", "settles=used"].map(|map| ["--map", map]);
    let mut command = tollgate();
    command.args(["replay", "--rules", &rules, &log, "--format", "json", "--decisions", "-"]);
    let output = command.args(maps.concat()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let decisions = String::from_utf8(output.stdout).expect("it is text");
    let mut by_line: Vec<(u64, bool)> = decisions
        .lines()
        .map(|line| {
            let decision: Value = serde_json::from_str(line).expect("an object");
            (decision["line"].as_u64().expect("a number"), decision["admitted"] == true)
        })
        .collect();
    by_line.sort_unstable();
    by_line.into_iter().map(|(_, admitted)| admitted).collect()
}

#[test]
fn the_proxys_log_is_replayed_as_the_proxy_decided() {
    let folder = Folder::new();
    folder.write("rules.toml", RULES);
    let (tell, events) = channel();
    let upstream = upstream(tell.clone());
    let options = ["--listen", "127.0.0.1:0", "--upstream", &upstream, "--cost-header", "x-cost"];
    let mut server = Process::start(proxy(&folder.path("rules.toml"), &options));
    let address = address_of(&mut server, "proxy");
    let mut log = record(&address, &events, &tell);
    let admitted: Vec<bool> = log.iter().map(|line| line["status"] != 429).collect();
    let refused = admitted.iter().filter(|admitted| !**admitted).count();
    assert!((1_000..9_000).contains(&refused), "{refused} refused");

    let again = replayed(&folder, &log);
    let differs = |again: &[bool]| -> Vec<usize> {
        let pairs = admitted.iter().zip(again).enumerate();
        pairs.filter(|(_, (live, again))| live != again).map(|(index, _)| index + 1).collect()
    };
    assert_eq!((again.len(), differs(&again)), (REQUESTS, vec![]), "lines that are decided otherwise");

    // Requests that are taken to end at once are refused less often.
    log.iter_mut().for_each(|line| _ = line.as_object_mut().expect("an object").remove("duration_ns"));
    let at_once = differs(&replayed(&folder, &log));
    assert!(at_once.len() > 500, "{} of {refused}", at_once.len());
    println!("{refused} of {REQUESTS} refused; {} are decided otherwise without durations", at_once.len());
}
