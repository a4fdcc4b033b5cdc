//! Ten thousand keys, asked for by several nodes at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{Rate, TokenBucket};
use tollgate_redis::{DecidedBy, Limiter};
use tollgate_testing::random::Random;
use tollgate_testing::stores::Server;

use crate::bound::{Admission, assert_bound};
use crate::{PATIENT, connect, on_each_store, until_breaker};

const KEYS: u64 = 10_000;
const NODES: u64 = 3;
const TASKS: u64 = 8;
const RATE: u64 = 5;

/// The number after `name` in an answer of INFO, up to a comma or the end of the line.
fn number(server: &Server, section: &str, name: &str) -> u64 {
    let info: String = server.ask(&["INFO", section]);
    let (_, rest) = info.split_once(name).unwrap_or_else(|| panic!("no {name}"));
    rest.split([',', '\r', '\n']).next().unwrap().parse().unwrap()
}

/// Checks keys until the time is over: every other one among 50 that all tasks share.
async fn check(limiter: Limiter, seed: u64, start: Instant, time: Duration) -> Vec<(u64, Admission)> {
    let (mut random, mut admitted) = (Random::with_seed(seed), Vec::new());
    while start.elapsed() < time {
        let keys = if random.bool() { 50 } else { KEYS };
        let key = random.u64(..keys);
        let sent = start.elapsed();
        let answer = limiter.check(key.to_string()).await.unwrap();
        if answer.is_allowed() {
            admitted.push((key, Admission { sent, answered: start.elapsed() }));
        }
    }
    admitted
}

#[test]
fn ten_thousand_keys_keep_their_limits_and_leave_nothing() {
    on_each_store(|server| async move {
        let quota = TokenBucket::new(Rate::per_second(RATE)).burst(RATE);
        let mut limiters = Vec::new();
        for _ in 0..NODES {
            let limiter = connect(server.url(), PATIENT).await.limiter("api", [quota]).build().unwrap();
            until_breaker(&limiter, false).await;
            // The server learns the script, so that no later check makes two trips.
            let _ = limiter.check("first").await.unwrap();
            limiters.push(limiter);
        }
        let memory = number(&server, "memory", "used_memory:");
        server.ask::<()>(&["CONFIG", "RESETSTAT"]);
        let start = Instant::now();
        let tasks = (0..NODES * TASKS).map(|task| {
            let limiter = limiters[(task % NODES) as usize].clone();
            tokio::spawn(check(limiter, task, start, Duration::from_secs(3)))
        });
        let mut by_key: HashMap<u64, Vec<Admission>> = HashMap::new();
        for task in tasks.collect::<Vec<_>>() {
            for (key, admission) in task.await.unwrap() {
                by_key.entry(key).or_default().push(admission);
            }
        }
        let decided: u64 = limiters
            .iter()
            .map(|limiter| {
                let counts = limiter.counts().decided(DecidedBy::Store);
                counts.allowed + counts.denied
            })
            .sum();
        let executed = number(&server, "commandstats", "cmdstat_evalsha:calls=");
        assert_eq!(executed + NODES, decided, "each answer is one script, and no answer is lost");
        let full = number(&server, "memory", "used_memory:");
        for admitted in by_key.values() {
            assert_bound(admitted, |seconds| RATE as f64 * (1.0 + seconds));
        }
        let most = by_key.values().map(Vec::len).max().unwrap();
        assert!(most as u64 > RATE, "some key was asked for beyond its burst");
        let begun = Instant::now();
        while server.ask::<u64>(&["DBSIZE"]) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(120), "the keys do not expire");
            sleep(Duration::from_millis(100)).await;
        }
        // The table of keys shrinks a little later.
        let back = loop {
            let now = number(&server, "memory", "used_memory:");
            if now < memory + (full.saturating_sub(memory)) / 4 {
                break now;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{memory} before, {full} full, {now} after");
            sleep(Duration::from_millis(100)).await;
        };
        println!("{decided} decided, {} keys; {memory} bytes, {full}, then {back}", by_key.len());
    });
}
