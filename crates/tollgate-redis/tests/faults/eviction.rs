//! A store that evicts keys when its memory is full.

use tollgate::{Rate, TokenBucket};
use tollgate_testing::logs::{self, Level};
use tollgate_testing::stores::{Server, Store};

use crate::{PATIENT, connect, run};

/// The number after `name:` in an answer of INFO.
fn number(server: &Server, section: &str, name: &str) -> u64 {
    let info: String = server.ask(&["INFO", section]);
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
}

#[test]
fn an_evicted_key_costs_one_burst() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        for store in Store::ALL {
            let Some(server) = Server::start_with(store, &[&format!("--maxmemory-policy {policy}")]) else {
                continue;
            };
            run(async {
                const KEYS: u64 = 12_000;
                const BURST: u64 = 2;
                let redis = connect(server.url(), PATIENT).await;
                let quota = TokenBucket::new(Rate::per_day(1)).burst(BURST);
                let limiter = redis.limiter("api", [quota]).build().unwrap();
                let room = number(&server, "memory", "used_memory") + 600_000;
                server.ask::<()>(&["CONFIG", "SET", "maxmemory", &room.to_string()]);
                let mut admitted = 0;
                for _ in 0..2 {
                    for first in (0..KEYS).step_by(500) {
                        // Three of cost 1: two are admitted, and more only after an eviction.
                        let keys = (first..first + 500).flat_map(|key| [key; 3]);
                        let answers = limiter.check_many(keys.map(|key| (key.to_string(), 1))).await;
                        let allowed = answers.into_iter().filter(|answer| match answer {
                            Ok(answer) => answer.is_allowed(),
                            Err(failed) => panic!("{failed}"),
                        });
                        admitted += allowed.count() as u64;
                    }
                }
                let evicted = number(&server, "stats", "evicted_keys");
                println!("{store:?} {policy}: {admitted} admitted, {KEYS} keys, {evicted} evicted");
                assert!(evicted > 0 && admitted > BURST * KEYS, "evictions cost something");
                assert!(admitted <= BURST * (KEYS + evicted), "at most a burst for each");
            });
        }
    }
}

#[test]
fn build_warns_of_a_store_that_evicts() {
    for store in Store::ALL {
        let Some(server) = Server::start(store) else { continue };
        let warnings = |server: &Server, url: String| {
            let log = logs::capture(Level::WARN);
            let redis = run(connect(url, PATIENT));
            assert!(server.ask::<u64>(&["DBSIZE"]) == 0);
            drop(redis);
            log.lines().concat()
        };
        assert_eq!(warnings(&server, server.url()), "", "noeviction is the default");
        server.ask::<()>(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
        let told = warnings(&server, server.url());
        assert!(told.contains("evict") && told.contains("volatile-ttl"), "{told}");
        // Not every user may ask, and that is no failure.
        server.ask::<()>(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-config"]);
        let url = server.url().replace("redis://", "redis://app:secret@");
        assert_eq!(warnings(&server, url), "");
    }
}
