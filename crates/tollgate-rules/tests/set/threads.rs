//! Many threads on rules whose keys cross.

use std::collections::BTreeMap;
use std::sync::Barrier;

use tollgate::ManualClock;
use tollgate_rules::{Ask, PlainRequest, RuleSet, Scratch};
use tollgate_testing::random::Random;

use crate::{header, rules};

const THREADS: u64 = 4;
const CLIENTS: u64 = 3;
const USERS: u64 = 4;

fn request(client: u64, user: u64) -> PlainRequest {
    PlainRequest {
        client: Some([192, 0, 2, client as u8].into()),
        labels: vec![header("user", &format!("user-{user}"))],
        ..PlainRequest::default()
    }
}

/// The units admitted by each rule and key, by all threads: of everyone, each client, each user.
type Admitted = BTreeMap<(usize, u64), u64>;

/// Has the threads send requests, of which each rule admits what it can.
fn crowd(set: &RuleSet<ManualClock>, seed: u64, requests: u64) -> Admitted {
    let start = Barrier::new(THREADS as usize);
    let one = |thread: u64| {
        let (mut random, mut scratch) = (Random::with_seed(seed * THREADS + thread), Scratch::default());
        let mut admitted = Admitted::new();
        start.wait();
        for _ in 0..requests {
            let (client, user) = (random.u64(..CLIENTS), random.u64(..USERS));
            let ask = Ask { cost: random.u64(1..=3), ..Ask::default() };
            if set.ask(&request(client, user), ask, &mut scratch).is_admitted() {
                for key in [(0, 0), (1, client), (2, user)] {
                    *admitted.entry(key).or_default() += ask.cost;
                }
            }
        }
        admitted
    };
    let one = &one;
    let mut all = Admitted::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || one(thread))).collect();
        for thread in threads {
            for (key, units) in thread.join().unwrap() {
                *all.entry(key).or_default() += units;
            }
        }
    });
    all
}

/// The remaining units of everyone, the client and the user.
fn left(set: &RuleSet<ManualClock>, client: u64, user: u64) -> Vec<u64> {
    let ask = Ask { cost: 0, is_peek: true, ..Ask::default() };
    let mut scratch = Scratch::default();
    let verdict = set.ask(&request(client, user), ask, &mut scratch);
    verdict.lines().iter().map(|line| line.remaining).collect()
}

#[test]
fn crossing_keys_are_charged_what_was_admitted_only() {
    let limits = [90, 40, 25];
    let text = format!(
        "rule = [{{ name = 'all', key = 'everyone', limits = 'fixed-window:{}/d' }},\
         {{ name = 'client', key = 'client', limits = 'fixed-window:{}/d' }},\
         {{ name = 'user', key = 'label.user', limits = '{}/d' }}]",
        limits[0], limits[1], limits[2]
    );
    for seed in 0..150 {
        // The clock stands still: no charge of a refused request drips away.
        let set = RuleSet::new(rules(&text), ManualClock::new()).unwrap();
        let admitted = crowd(&set, seed, 60);
        for (&(rule, key), &units) in &admitted {
            assert!(units <= limits[rule], "seed {seed}: rule {rule}, key {key}: {units} units");
        }
        for client in 0..CLIENTS {
            for user in 0..USERS {
                let spent =
                    [(0, 0), (1, client), (2, user)].map(|key| admitted.get(&key).copied().unwrap_or(0));
                let expected: Vec<u64> =
                    limits.iter().zip(spent).map(|(limit, spent)| limit - spent).collect();
                assert_eq!(left(&set, client, user), expected, "seed {seed}: client {client}, user {user}");
            }
        }
    }
}

#[test]
fn a_race_for_the_last_unit_charges_the_winner_only() {
    const LIMIT: u64 = 1 << 20;
    // Offers that are charged together; and a rule of two limits, which is charged by itself.
    race_for_the_last_unit(LIMIT, &format!("'{LIMIT}/d'"));
    race_for_the_last_unit(LIMIT, &format!("['{LIMIT}/d', '{}/d']", 2 * LIMIT));
}

/// Two threads at a time want the only unit of a user. `of_client` are the limits of another rule.
fn race_for_the_last_unit(limit: u64, of_client: &str) {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    const RACES: u64 = 10_000;
    let text = format!(
        "rule = [{{ name = 'all', key = 'everyone', limits = 'fixed-window:{limit}/d' }},\
         {{ name = 'client', key = 'client', limits = {of_client} }},\
         {{ name = 'user', key = 'label.user', limits = 'fixed-window:1/d' }}]"
    );
    let set = RuleSet::new(rules(&text), ManualClock::new()).unwrap();
    let (arrived, admitted) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut scratch = Scratch::default();
                for user in 0..RACES {
                    let request = request(0, user);
                    arrived.fetch_add(1, SeqCst);
                    // Both begin at once, where each has a core of its own.
                    let mut spins = 0_u32;
                    while arrived.load(SeqCst) < 2 * (user + 1) {
                        spins += 1;
                        if spins > 10_000 {
                            std::thread::yield_now();
                        }
                    }
                    admitted.fetch_add(u64::from(set.check(&request, &mut scratch).is_admitted()), SeqCst);
                }
            });
        }
    });
    assert_eq!(admitted.load(SeqCst), RACES);
    assert_eq!(left(&set, 0, 0), [limit - RACES, limit - RACES, 0]);
}

#[test]
fn no_limit_of_any_algorithm_admits_more_to_a_crowd() {
    let text = "rule = [{ name = 'all', key = 'everyone', limits = ['sliding-log:90/d', 'sliding-window:80/d'] },\
        { name = 'client', key = 'client', limits = 'sliding-log:40/d' },\
        { name = 'user', key = 'label.user', limits = ['25/d', 'leaky-bucket:30/d'] }]";
    for seed in 0..100 {
        let set = RuleSet::new(rules(text), ManualClock::new()).unwrap();
        for (&(rule, key), &units) in &crowd(&set, seed, 60) {
            assert!(units <= [80, 40, 25][rule], "seed {seed}: rule {rule}, key {key}: {units} units");
        }
    }
}

#[test]
fn no_more_are_in_flight_than_rules_admit() {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    let text = "rule = [{ name = 'all', key = 'everyone', limits = 'in-flight:2' },\
        { name = 'client', key = 'client', limits = ['in-flight:1,ttl=1h', 'fixed-window:100000/d'] }]";
    let set = RuleSet::new(rules(text), ManualClock::new()).unwrap();
    let (all, clients) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; CLIENTS as usize]);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (set, all, clients) = (&set, &all, &clients);
            scope.spawn(move || {
                let (mut random, mut scratch) = (Random::with_seed(thread), Scratch::default());
                for _ in 0..3_000 {
                    let client = random.u64(..CLIENTS);
                    let verdict = set.check(&request(client, 0), &mut scratch);
                    if verdict.is_admitted() {
                        let ticket = verdict.ticket();
                        assert!(all.fetch_add(1, SeqCst) < 2);
                        assert!(clients[client as usize].fetch_add(1, SeqCst) < 1);
                        clients[client as usize].fetch_sub(1, SeqCst);
                        all.fetch_sub(1, SeqCst);
                        drop(ticket);
                    }
                }
            });
        }
    });
    assert_eq!(left(&set, 0, 0)[0], 2);
}
