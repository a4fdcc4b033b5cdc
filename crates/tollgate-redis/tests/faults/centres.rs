//! Several data centres, each with a store of its own, and what lies between them.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::{FixedWindow, LeakyBucket, Outcome, Quota, Rate, SlidingLog, TokenBucket};
use tollgate_redis::{BuildError, Centre, CentreLimiter, Redis, Time};
use tollgate_rules::Backend;
use tollgate_testing::stores::{Cluster, Proxy, Server, Store};

use crate::bound::{Load, assert_bound};
use crate::{PATIENT, connect, on_each_store, run};

const NAMES: [&str; 3] = ["eu", "us", "ap"];
const RATE: u64 = 50;
const BURST: u64 = 40;

fn quota() -> TokenBucket {
    TokenBucket::new(Rate::per_second(RATE)).burst(BURST)
}

/// Centres with a proxy on the way from each to each other.
struct World {
    servers: Vec<Server>,
    /// From the first to the second.
    ways: Vec<(usize, usize, Proxy)>,
    centres: Vec<Centre>,
    limiters: Vec<CentreLimiter>,
}

impl World {
    async fn start(store: Store, count: usize, horizon: Duration) -> Option<Self> {
        let servers = (0..count).map(|_| Server::start(store)).collect::<Option<Vec<_>>>()?;
        let (mut ways, mut centres) = (Vec::new(), Vec::new());
        for (from, server) in servers.iter().enumerate() {
            let mut others = Vec::new();
            for (to, other) in servers.iter().enumerate().filter(|(to, _)| *to != from) {
                let proxy = Proxy::to(other.port());
                let redis = connect(proxy.url(), Duration::from_millis(500)).await;
                others.push((NAMES[to], redis));
                ways.push((from, to, proxy));
            }
            let home = connect(server.url(), PATIENT).await;
            centres.push(home.centre(NAMES[from], others).horizon(horizon).build().unwrap());
        }
        let limiters = centres.iter().map(|centre| centre.limiter("api", quota()).build().unwrap()).collect();
        Some(Self { servers, ways, centres, limiters })
    }

    /// Cuts all ways from and to a centre, or mends them.
    fn cut(&self, centre: usize, down: bool) {
        self.ways
            .iter()
            .filter(|(from, to, _)| *from == centre || *to == centre)
            .for_each(|(.., proxy)| proxy.down(down));
    }

    /// The longest time from a charge to its arrival anywhere.
    fn lag(&self) -> f64 {
        let counts = self.centres.iter().flat_map(Centre::counts);
        counts.map(|counts| counts.longest_lag).max().unwrap().as_secs_f64()
    }

    /// Waits until each centre has told the others everything, and asserts that they know it.
    async fn converges(&self) {
        let begun = Instant::now();
        let dirty = |world: &Self| -> u64 {
            world.servers.iter().map(|server| server.keys("*dirty*").len() as u64).sum()
        };
        while dirty(self) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.centres);
            sleep(Duration::from_millis(20)).await;
        }
        let field =
            |server: &Server, key: &str, field: &str| server.ask::<Option<String>>(&["HGET", key, field]);
        for (from, server) in self.servers.iter().enumerate() {
            for key in server.keys("*:api:c") {
                let (born, total) = (field(server, &key, "b"), field(server, &key, "c"));
                assert!(born.is_some() == total.is_some());
                for (to, other) in
                    self.servers.iter().enumerate().filter(|(to, _)| *to != from && born.is_some())
                {
                    let seen = ["b", "c"].map(|name| field(other, &key, &format!("{name}:{}", NAMES[from])));
                    assert_eq!(seen, [born.clone(), total.clone()], "{from} told {to}");
                }
            }
        }
        // The next look of the tasks.
        while self.centres.iter().flat_map(Centre::counts).any(|counts| counts.dirty_keys > 0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.centres);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs a test on so many centres of each store that can be had.
fn on_centres<T: Future<Output = ()>>(count: usize, horizon: Duration, test: impl Fn(World) -> T) {
    for store in Store::ALL {
        run(async {
            let Some(world) = World::start(store, count, horizon).await else { return };
            println!("{store:?}");
            test(world).await;
        });
    }
}

#[test]
fn forwarded_charges_keep_the_bound_of_their_lag() {
    on_centres(3, Duration::from_secs(30), |world| async move {
        let start = Instant::now();
        let loads: Vec<_> = world.limiters.iter().map(|l| Load::start(l, "alice", 3, start)).collect();
        for (.., proxy) in &world.ways {
            proxy.delay(Duration::from_millis(10), Duration::from_millis(20));
        }
        sleep(Duration::from_millis(2_000)).await;
        // Shorter than the horizon: the charges arrive later.
        world.cut(1, true);
        sleep(Duration::from_millis(400)).await;
        world.cut(1, false);
        sleep(Duration::from_millis(2_500)).await;
        let mut admitted = Vec::new();
        for load in loads {
            let met = load.stop().await;
            assert!(met.failed.is_empty(), "{:?}", met.failed);
            admitted.extend(met.admitted);
        }
        world.converges().await;
        let (lag, others) = (world.lag(), (world.servers.len() - 1) as f64);
        let (burst, rate) = (BURST as f64, RATE as f64);
        let time = start.elapsed().as_secs_f64();
        println!("{} admitted in {time:.1} s, lag {lag:.2} s", admitted.len());
        assert!(lag >= 0.4, "the cut is a lag: {lag}");
        assert_bound(&admitted, |seconds| {
            burst + rate * seconds + others * (burst + rate * seconds.min(lag))
        });
    });
}

#[test]
fn a_charge_is_known_in_all_centres() {
    on_centres(3, Duration::from_secs(10), |world| async move {
        // Nothing comes back meanwhile.
        let quota = TokenBucket::new(Rate::per_day(100)).burst(100);
        let limiters: Vec<_> =
            world.centres.iter().map(|centre| centre.limiter("api", quota).build().unwrap()).collect();
        for (limiter, cost) in limiters.iter().zip([20, 30, 50]) {
            assert!(limiter.check_n("alice", cost).await.unwrap().is_allowed());
        }
        world.converges().await;
        for limiter in &limiters {
            let refused = limiter.check("alice").await.unwrap();
            assert!(!refused.is_allowed() && refused.remaining() == 0);
            let wait = refused.retry_after().unwrap();
            assert!(wait > Duration::from_secs(800) && wait <= Duration::from_secs(864), "{wait:?}");
            assert!(limiter.peek("bob", 100).await.unwrap().is_allowed(), "another key");
        }
        let counts = world.centres.iter().flat_map(Centre::counts);
        assert!(
            counts.into_iter().all(|counts| counts.longest_lag > Duration::ZERO || counts.forwarded == 0)
        );
    });
}

#[test]
fn a_cut_beyond_the_horizon_ends_in_agreement() {
    on_centres(2, Duration::from_secs(1), |world| async move {
        let start = Instant::now();
        let loads: Vec<_> = world.limiters.iter().map(|l| Load::start(l, "alice", 3, start)).collect();
        sleep(Duration::from_millis(300)).await;
        world.cut(1, true);
        assert!(world.limiters[0].check("gone").await.unwrap().is_allowed());
        sleep(Duration::from_millis(3_500)).await;
        let late = world.centres[0].counts()[0].clone();
        assert!(late.dirty_keys >= 1 && late.forward_lag > Duration::from_secs(2), "{late:?}");
        world.cut(1, false);
        sleep(Duration::from_millis(500)).await;
        let mut admitted = Vec::new();
        for load in loads {
            admitted.extend(load.stop().await.admitted);
        }
        world.converges().await;
        println!("{} admitted in {:?}", admitted.len(), start.elapsed());
        let (burst, rate) = (BURST as f64, RATE as f64);
        assert_bound(&admitted, |seconds| 2.0 * (burst + rate * seconds));
        // The debt is at most that of the horizon: burst + M * (burst + rate * H).
        let most = BURST + 2 * (BURST + RATE);
        for limiter in &world.limiters {
            let reset = limiter.peek("alice", 1).await.unwrap().reset_after();
            assert!(reset <= Duration::from_secs_f64(most as f64 / rate), "{reset:?}");
        }
    });
}

/// The totals of two births of a key, in any order and more than once.
#[test]
fn merges_are_idempotent_and_come_in_any_order() {
    const MERGE: &str = include_str!("../../src/centre/merge.lua");
    on_each_store(|server| async move {
        let time: Vec<u64> = server.ask(&["TIME"]);
        let now = time[0] * 1_000_000 + time[1];
        let merge = |key: &str, born: u64, total: u64, sent: u64| -> Vec<u64> {
            // A token in 864 s: p = 1, q = 864,000,000.
            let numbers = [born, total, 1, 864_000_000, 100].map(|number| number.to_string());
            let (sent, mut command) = (sent.to_string(), vec!["EVAL", MERGE, "1", key, "us"]);
            command.extend([sent.as_str(), "10000000", "1000", "2"]);
            command.extend(numbers.iter().map(String::as_str));
            server.ask(&command)
        };
        let state = |key: &str| -> (Vec<u64>, u64) {
            let field = |name| server.ask::<String>(&["HGET", key, name]).parse::<u64>().unwrap();
            (vec![field("b:us"), field("c:us")], (field("T") - now) / 864_000_000)
        };
        let totals = [(1, 10), (1, 30), (2, 5), (2, 12)];
        // All orders of the four, with the last one twice.
        for order in 0..24_usize {
            let (mut left, mut key, mut rest) = (totals.to_vec(), String::from("k"), order);
            let (mut debt, mut seen) = (0, (0, 0));
            for size in (1..=4).rev() {
                let (born, total) = left.remove(rest % size);
                rest /= size;
                key = format!("k{order}");
                for _ in 0..2 {
                    let taken = merge(&key, now - 9 + born, total, now);
                    assert_eq!(taken, [u64::from(born >= seen.0)], "an older birth is not taken");
                    if (born, total) > seen {
                        debt += if born == seen.0 { total - seen.1 } else { total };
                        seen = (born, total);
                    }
                }
            }
            assert_eq!(state(&key), (vec![now - 9 + 2, 12], debt), "order {order}");
        }
        assert_eq!(merge("old", now, 10, now - 11_000_000), [0], "sent longer ago than the horizon");
        assert!(!server.ask::<bool>(&["EXISTS", "old"]));
        // However much is charged: 100 + 2 * (100 + 1).
        assert_eq!(merge("much", now, 1_000_000, now), [1]);
        assert_eq!(state("much").1, 302);
    });
}

/// A key is charged between the moments when its total is read and when it is confirmed.
#[test]
fn a_charge_during_forwarding_waits_for_the_next_time() {
    on_each_store(|server| async move {
        const SCRIPTS: [&str; 3] = [
            include_str!("../../src/centre/check.lua"),
            include_str!("../../src/centre/collect.lua"),
            include_str!("../../src/centre/settle.lua"),
        ];
        let eval = |script: usize, words: &[&str]| -> Vec<String> {
            server.ask(&[&["EVAL", SCRIPTS[script]], words].concat())
        };
        let check = || -> u64 {
            let words = ["2", "key", "dirty", "1", "1", "1000", "100", "7", "1000000", "60000"];
            let answer: Vec<u8> = server.ask(&[&["EVAL", SCRIPTS[0]], &words[..]].concat());
            // The first number is the time.
            f64::from_le_bytes(*answer.first_chunk().expect("a row of doubles")) as u64
        };
        let waits_since = || server.ask::<Option<u64>>(&["ZSCORE", "dirty", "key"]);
        let first = Some(check());
        let _ = check();
        assert_eq!(waits_since(), first, "the first charge that waits");
        let collected = eval(1, &["2", "lock", "dirty", "me", "60000", "500"]);
        let [sent, waiting, since, mine, key, born, total, ..] = &collected[..] else {
            panic!("{collected:?}")
        };
        assert_eq!((waiting.as_str(), since.parse().ok(), mine.as_str()), ("1", first, "1"));
        assert_eq!((key.as_str(), total.as_str()), ("key", "14"));
        let other = eval(1, &["2", "lock", "dirty", "other", "60000", "500"]);
        assert_eq!((other.len(), other[3].as_str()), (4, "0"), "one process forwards");
        let _ = check();
        let settle = |total: &str| {
            let _: u64 = server.ask(&["EVAL", SCRIPTS[2], "1", "dirty", sent, key, born, total]);
        };
        settle(total);
        assert_eq!(waits_since(), sent.parse().ok(), "what was charged since then waits");
        settle("21");
        assert_eq!(waits_since(), None, "all of it is confirmed");
    });
}

#[test]
fn only_buckets_are_forwarded() {
    on_each_store(|server| async move {
        let there = connect(server.url(), PATIENT).await;
        let home = connect(server.url(), PATIENT).await;
        let centre = home.centre("eu", [("us", there.clone())]).build().unwrap();
        let quotas: [Quota; 3] = [
            FixedWindow::new(Rate::per_second(9)).into(),
            SlidingLog::new(Rate::per_second(9)).into(),
            LeakyBucket::queue(Rate::per_second(9)).capacity(9).into(),
        ];
        for quota in quotas {
            let error = centre.limiter("api", quota).build().unwrap_err();
            assert_eq!(error, BuildError::Unsupported { setting: "centres for this algorithm" });
        }
        assert!(centre.limiter("api", LeakyBucket::meter(Rate::per_second(9)).capacity(9)).build().is_ok());
        let fast = TokenBucket::new(Rate::per_second(1_000_000_000_000_000)).burst(1);
        assert!(matches!(centre.limiter("api", fast).build(), Err(BuildError::OutOfRange { .. })));
        let error = home.centre("eu", [("eu", there.clone())]).build().unwrap_err();
        assert_eq!(error, BuildError::Name { name: "eu".to_owned() });
        let short = home.centre("eu", [("us", there.clone())]).horizon(Duration::from_millis(9)).build();
        assert!(matches!(short, Err(BuildError::OutOfRange { field: "horizon", .. })));
        let callers = Redis::builder(server.url()).time(Time::of_callers()).deadline(PATIENT).build().await;
        let error = callers.unwrap().centre("eu", [("us", there)]).build().unwrap_err();
        assert!(matches!(error, BuildError::Unsupported { .. }), "{error}");
    });
}

/// Two centres without anything between them: the limit is divided.
#[test]
fn shares_of_centres_sum_to_the_limit() {
    for store in Store::ALL {
        let (Some(eu), Some(us)) = (Server::start(store), Server::start(store)) else { continue };
        run(async {
            let start = Instant::now();
            let mut loads = Vec::new();
            for (server, share) in [(&eu, 3), (&us, 1)] {
                let quota = TokenBucket::new(Rate::per_second(RATE * share / 4)).burst(BURST * share / 4);
                let limiter = connect(server.url(), PATIENT).await.limiter("api", [quota]).build().unwrap();
                loads.push(Load::start(&limiter, "alice", 4, start));
            }
            sleep(Duration::from_millis(1_500)).await;
            let mut admitted = Vec::new();
            for load in loads {
                let met = load.stop().await;
                assert!(met.failed.is_empty(), "{:?}", met.failed);
                admitted.extend(met.admitted);
            }
            assert!(admitted.len() as u64 > BURST, "{}", admitted.len());
            assert_bound(&admitted, |seconds| BURST as f64 + RATE as f64 * seconds);
        });
    }
}

/// More totals than leave at once, each of a key that the other centre knows from a later time.
#[test]
fn totals_that_are_not_taken_hold_up_no_other() {
    on_centres(2, Duration::from_secs(30), |world| async move {
        let [home, there] = &world.servers[..] else { unreachable!() };
        let limiter = &world.limiters[0];
        world.cut(1, true);
        let checks = (0..3_000).map(|number| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.check(format!("k{number}")).await.unwrap().is_allowed() })
        });
        for check in checks.collect::<Vec<_>>() {
            assert!(check.await.unwrap());
        }
        let mut connection = redis::Client::open(there.url()).unwrap().get_connection().unwrap();
        let mut known = redis::pipe();
        home.keys("*:api:c").iter().for_each(|key| {
            known.hset(key, "b:eu", 9_000_000_000_000_000_u64).ignore();
        });
        known.query::<()>(&mut connection).unwrap();
        world.cut(1, false);
        let begun = Instant::now();
        assert!(limiter.check_n("alice", 10).await.unwrap().is_allowed());
        let total =
            || there.keys("*:alice:api:c").iter().any(|key| there.ask::<u64>(&["HGET", key, "c:eu"]) == 10);
        while !total() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is not forwarded");
            sleep(Duration::from_millis(20)).await;
        }
        let counts = &world.centres[0].counts()[0];
        assert!(counts.failed > 0 && counts.dirty_keys >= 3_000, "{counts:?}");
    });
}

/// Two processes of a centre: when the one that forwards ends, the other one takes over.
#[test]
fn another_process_forwards_when_one_ends() {
    on_each_store(|server| async move {
        let Some(other) = Server::start(server.store()) else { return };
        let quota = TokenBucket::new(Rate::per_day(10)).burst(10);
        let mut processes = Vec::new();
        for _ in 0..2 {
            let home = connect(server.url(), PATIENT).await;
            let there = connect(other.url(), PATIENT).await;
            processes.push(home.centre("eu", [("us", there)]).build().unwrap());
            sleep(Duration::from_millis(200)).await;
        }
        let limiter = processes[1].limiter("api", quota).build().unwrap();
        let us =
            connect(other.url(), PATIENT).await.centre("us", [("eu", connect(server.url(), PATIENT).await)]);
        let us = us.build().unwrap().limiter("api", quota).build().unwrap();
        for cost in [4, 6] {
            let left = us.peek("alice", 0).await.unwrap().remaining();
            assert!(limiter.check_n("alice", cost).await.unwrap().is_allowed());
            let begun = Instant::now();
            while us.peek("alice", 0).await.unwrap().remaining() > left - cost {
                assert!(begun.elapsed() < Duration::from_secs(60), "nobody forwards");
                sleep(Duration::from_millis(20)).await;
            }
            // After the first round the process that holds the locks ends.
            processes.swap_remove(0);
        }
    });
}

#[test]
fn a_centres_store_may_be_a_cluster() {
    for store in Store::ALL {
        let (Some(cluster), Some(other)) = (Cluster::start(store, 2), Server::start(store)) else { continue };
        run(async {
            let urls = cluster.urls();
            let builder = Redis::builder(&urls[0]).cluster(&urls[1..]).deadline(PATIENT);
            let (eu, us) = (builder.build().await.unwrap(), connect(other.url(), PATIENT).await);
            let quota = TokenBucket::new(Rate::per_day(2)).burst(2);
            let [here, there] =
                [(&eu, "eu", &us, "us"), (&us, "us", &eu, "eu")].map(|(home, name, far, its)| {
                    home.centre(name, [(its, far.clone())])
                        .build()
                        .unwrap()
                        .limiter("api", quota)
                        .build()
                        .unwrap()
                });
            for number in 0..20 {
                let key = format!("key {number}");
                assert!(here.check(&key).await.unwrap().is_allowed());
                assert!(there.check(&key).await.unwrap().is_allowed());
            }
            for number in 0..20 {
                let (key, begun) = (format!("key {number}"), Instant::now());
                for limiter in [&here, &there] {
                    while limiter.peek(&key, 1).await.unwrap().is_allowed() {
                        assert!(begun.elapsed() < Duration::from_secs(60), "{key} is not forwarded");
                        sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        });
    }
}

#[test]
fn a_centre_is_a_backend_that_takes_nothing_back() {
    for store in Store::ALL {
        run(async {
            let Some(world) = World::start(store, 2, Duration::from_secs(10)).await else { return };
            let here = &world.limiters[0];
            let admitted = Backend::decide(here, b"alice", BURST).await.unwrap();
            assert_eq!((admitted.outcome, admitted.receipt, admitted.limit), (Outcome::Allowed, None, BURST));
            let refused = Backend::decide(here, b"alice", BURST).await.unwrap();
            assert!(refused.outcome == Outcome::Denied && refused.wait() > Duration::ZERO, "{refused:?}");
            assert_eq!(Backend::decide(here, b"alice", BURST + 1).await.unwrap().outcome, Outcome::Never);
        });
    }
}
