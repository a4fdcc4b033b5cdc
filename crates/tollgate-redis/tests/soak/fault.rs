//! Faults in a random order.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate_testing::random::Random;
use tollgate_testing::stores::{Cluster, Proxy, Server};

const NAMES: [&str; 10] = [
    "kill",
    "freeze",
    "pause",
    "flush",
    "cut",
    "slow",
    "silence",
    "cut answer",
    "kill of a master",
    "freeze of a master",
];

fn millis(random: &mut Random, range: Range<u64>) -> Duration {
    Duration::from_millis(random.u64(range))
}

/// When a server was started again with an empty store: between the two times.
pub(crate) type Restarts = Vec<(Duration, Duration)>;

/// Breaks one thing after the other, and mends it.
pub(crate) struct Faults {
    server: Server,
    proxies: [Proxy; 2],
    pub(crate) cluster: Cluster,
    random: Random,
    counts: [u64; NAMES.len()],
    pub(crate) restarts: Restarts,
    /// Those of each master of the cluster.
    pub(crate) masters: Vec<Restarts>,
}

impl Faults {
    pub(crate) fn new(server: Server, proxies: [Proxy; 2], cluster: Cluster, seed: u64) -> Self {
        let masters = cluster.masters.iter().map(|_| Restarts::new()).collect();
        let (random, counts, restarts) = (Random::with_seed(seed), [0; NAMES.len()], Restarts::new());
        Self { server, proxies, cluster, random, counts, restarts, masters }
    }

    /// Makes one fault, and waits a while in which all is well.
    pub(crate) async fn next(&mut self, start: Instant) {
        let kind = self.random.usize(..NAMES.len());
        let time = millis(&mut self.random, 30..500);
        let proxy = self.random.usize(..2);
        self.counts[kind] += 1;
        match NAMES[kind] {
            "kill" => {
                let killed = start.elapsed();
                self.server.kill();
                sleep(time).await;
                self.server.restart();
                self.restarts.push((killed, start.elapsed()));
            }
            "freeze" => {
                self.server.freeze();
                sleep(time).await;
                self.server.thaw();
            }
            "pause" => {
                let millis = time.as_millis().to_string();
                let mode = if self.random.bool() { "WRITE" } else { "ALL" };
                self.server.ask::<()>(&["CLIENT", "PAUSE", &millis, mode]);
                sleep(time).await;
            }
            "flush" => self.server.ask::<()>(&["SCRIPT", "FLUSH"]),
            "cut" => {
                self.proxies[proxy].down(true);
                sleep(time).await;
                self.proxies[proxy].down(false);
            }
            "slow" => {
                let (delay, jitter) = (millis(&mut self.random, 0..30), millis(&mut self.random, 0..30));
                self.proxies[proxy].delay(delay, jitter);
                self.proxies[proxy].bytewise(self.random.bool());
                sleep(time).await;
                self.proxies[proxy].delay(Duration::ZERO, Duration::ZERO);
                self.proxies[proxy].bytewise(false);
            }
            "silence" => {
                self.proxies[proxy].half_open(true);
                sleep(time).await;
                self.proxies[proxy].half_open(false);
                // The dropped bytes are missing in the stream.
                self.proxies[proxy].cut();
            }
            "cut answer" => self.proxies[proxy].cut_mid_answer(),
            name => {
                let place = self.random.usize(..self.masters.len());
                let master = &mut self.cluster.masters[place];
                if name == "freeze of a master" {
                    master.freeze();
                    sleep(time).await;
                    master.thaw();
                } else {
                    let killed = start.elapsed();
                    master.kill();
                    sleep(time).await;
                    master.restart();
                    self.masters[place].push((killed, start.elapsed()));
                }
            }
        }
        let rest = millis(&mut self.random, 100..1_500);
        sleep(rest).await;
    }

    /// Waits until nothing that a fault left is under way.
    pub(crate) async fn end(&mut self) {
        sleep(Duration::from_secs(2)).await;
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: u64 = self.counts.iter().sum();
        write!(f, "{total} faults (")?;
        for (place, (name, count)) in NAMES.iter().zip(self.counts).enumerate() {
            write!(f, "{}{count} {name}", if place > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}
