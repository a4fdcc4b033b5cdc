//! Which runtime drives the connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tollgate::TscClock;
use tollgate_redis::rules::{RuleStores, Stores};
use tollgate_rules::{PlainRequest, RuleSet, Scratch};
use tollgate_rules_file::{Memory, read};

/// A store that closes its connections at once, and counts them.
fn closing() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            drop(stream);
            counted.fetch_add(1, Relaxed);
        }
    });
    (url, count)
}

/// Asks the store of a rule on a runtime that ends then.
fn ask(set: &RuleSet<TscClock>, stores: &RuleStores) {
    let asks = set.check(&PlainRequest::default(), &mut Scratch::default()).unasked();
    let asking = Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(asking.block_on(stores.ask(asks)).len(), 1);
}

fn connects_again(count: &AtomicUsize, within: Duration) -> bool {
    let (before, begun) = (count.load(Relaxed), Instant::now());
    while count.load(Relaxed) == before && begun.elapsed() < within {
        std::thread::sleep(Duration::from_millis(5));
    }
    count.load(Relaxed) > before
}

/// A server of a cluster that has all slots by its own map, and answers that all have moved.
fn moved(to: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, to) = (listener.local_addr().unwrap(), to.to_owned());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let to = to.clone();
            // A client may leave.
            std::thread::spawn(move || answer_all(stream, address.port(), &to));
        }
    });
    format!("redis://{address}")
}

fn answer_all(mut stream: TcpStream, port: u16, to: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let number = |reader: &mut BufReader<TcpStream>| -> std::io::Result<usize> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let digits = line.get(1..).and_then(|digits| digits.trim_end().parse().ok());
        digits.ok_or(std::io::ErrorKind::UnexpectedEof.into())
    };
    loop {
        let mut words = Vec::new();
        for _ in 0..number(&mut reader)? {
            let length = number(&mut reader)?;
            let mut word = vec![0; length + 2];
            reader.read_exact(&mut word)?;
            words.push(String::from_utf8_lossy(&word[..length]).into_owned());
        }
        let answer = match &*words[0] {
            "CLUSTER" => format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n"),
            word if word.starts_with("EVAL") => format!("-MOVED 1 {to}\r\n"),
            _ => "+OK\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes())?;
    }
}

#[test]
fn a_redirect_leads_to_a_connection_of_the_same_runtime() {
    let (to, count) = closing();
    let url = moved(to.trim_start_matches("redis://"));
    let text = format!(
        "version = 1
        stores.all = {{ url = '{url}', cluster = ['{url}'], deadline = '2s' }}
        rule = [{{ name = 'r', key = 'everyone', limits = '1/s', store = 'all' }}]"
    );
    let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    let set = RuleSet::new(rules, TscClock::default()).unwrap();
    let own: Runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stores = Stores::default().on_runtime(own.handle().clone()).of(&set).unwrap();
    let begun = Instant::now();
    while count.load(Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no redirect is followed");
        ask(&set, &stores);
    }
    // The runtime of the request has ended.
    assert!(connects_again(&count, Duration::from_secs(20)), "it is driven");
}

#[test]
fn connections_outlive_the_runtime_of_the_request_that_made_them() {
    let (url, count) = closing();
    let text =
        format!("version = 1\nrule = [{{ name = 'r', key = 'everyone', limits = '1/s', store = '{url}' }}]");
    let rules = read("rules.toml", &Memory::new("rules.toml", text)).into_rules().unwrap();
    let set = RuleSet::new(rules, TscClock::default()).unwrap();
    let own: Runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stores = Stores::default().on_runtime(own.handle().clone()).of(&set).unwrap();
    ask(&set, &stores);
    assert!(connects_again(&count, Duration::from_secs(20)), "it is driven");
    drop(stores);
    drop(own);
    // Without a runtime of their own they end with that of the request.
    let stores = Stores::default().of(&set).unwrap();
    ask(&set, &stores);
    assert!(!connects_again(&count, Duration::from_secs(1)), "nothing drives it");
}
