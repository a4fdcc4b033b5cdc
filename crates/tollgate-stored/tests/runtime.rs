//! Which runtime drives the connections.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tollgate::TscClock;
use tollgate_rules::{Memory, PlainRequest, RuleSet, Scratch, read};
use tollgate_stored::{RuleStores, Stores};

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
