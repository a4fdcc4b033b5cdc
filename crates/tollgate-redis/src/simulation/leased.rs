//! Nodes that take permits ahead, and crash, stall and lose answers.

use std::time::Duration;

use tollgate_testing::random::Random;

use super::store::{Charge, Store};

use super::{Events, arrivals, excess, runs};
use crate::deny::{DenyCache, Refusal};
use crate::lease::simulated::{Asked, Kept, Place, Rules, Slot, Terms};

const KEY: u64 = 7;

/// A fault of the implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    TtlFromTheAnswer,
    ReturnedTwice,
    LapsedPermitsSpent,
}

enum Event {
    Request(usize),
    /// At the store: a node's trip, with the time at which it was sent.
    Trip(Trip),
    Answered(Trip, u64, Charge, u64),
    /// A lease's ttl ends.
    Ends(usize, u64, Place, Charge),
    Returned(Charge, u64),
    Crash(usize),
    /// A node does nothing for so long: messages to it wait.
    Stall(usize, u64),
}

#[derive(Clone, Copy)]
struct Trip {
    node: usize,
    life: u64,
    sent: u64,
    least: u64,
    most: u64,
    is_strict: bool,
}

struct Node {
    slot: Slot<()>,
    deny: DenyCache,
    /// Counts its crashes: an answer for an earlier life is lost.
    life: u64,
    stalls_until: u64,
    spent: u64,
}

struct World {
    events: Events<Event>,
    random: Random,
    store: Store,
    nodes: Vec<Node>,
    rules: Rules,
    /// The longest time in one direction, and whether some messages take longer or are lost.
    network: u64,
    is_lossy: bool,
    bug: Bug,
    spent: Vec<u64>,
    trips: u64,
    /// Requests that a remembered refusal refused although the store would not.
    wrong: u64,
}

const fn micros(time: u64) -> Duration {
    Duration::from_micros(time)
}

impl World {
    fn latency(&mut self) -> u64 {
        if self.is_lossy && self.random.u64(..50) == 0 {
            return self.random.u64(self.network..=20 * self.network);
        }
        self.random.u64(self.network / 4..=self.network)
    }

    fn run(&mut self) {
        while let Some(event) = self.events.next() {
            let node = match event {
                Event::Request(node) | Event::Ends(node, ..) => Some(node),
                Event::Answered(trip, ..) => Some(trip.node),
                _ => None,
            };
            match node.map(|node| self.nodes[node].stalls_until) {
                Some(until) if until > self.events.now => self.events.at(until, event),
                _ => self.happens(event),
            }
        }
    }

    fn happens(&mut self, event: Event) {
        let now = self.events.now;
        match event {
            Event::Request(node) => self.request(node),
            Event::Trip(trip) => {
                let (granted, charge) = self.store.take(now, trip.least, trip.most);
                let wait = self.store.wait(now, trip.least);
                // A lost answer: the node hears at its deadline that there is none.
                if !self.is_lossy || self.random.u64(..40) > 0 {
                    let at = now + self.latency();
                    self.events.at(at, Event::Answered(trip, granted, charge, wait));
                } else if !trip.is_strict && self.nodes[trip.node].life == trip.life {
                    let _ = self.nodes[trip.node].slot.not_granted();
                }
            }
            Event::Answered(trip, granted, charge, wait) => self.answered(trip, granted, charge, wait),
            Event::Ends(node, life, place, charge) => {
                if self.nodes[node].life == life
                    && let Some(ended) = self.nodes[node].slot.close(place)
                {
                    self.give_back(charge, ended.left);
                }
            }
            Event::Returned(charge, permits) => self.store.refund(now, charge, permits),
            Event::Crash(node) => {
                let node = &mut self.nodes[node];
                node.slot = new_slot(&self.rules, now);
                node.life += 1;
            }
            Event::Stall(node, time) => self.nodes[node].stalls_until = now + time,
        }
    }

    fn request(&mut self, number: usize) {
        let (now, rules) = (self.events.now, self.rules);
        let at = micros(now);
        let good = match self.bug {
            Bug::LapsedPermitsSpent => Duration::ZERO,
            _ => at,
        };
        let node = &self.nodes[number];
        if let Some((_, spent)) = node.slot.spend(KEY, 1, good) {
            let ahead = spent.passes_half(1).then(|| node.slot.ask_ahead(KEY, &spent, at, &rules));
            if let Some(most) = ahead.flatten() {
                self.send(number, most, false);
            }
            self.spend(number);
        } else if node.deny.refused(KEY, 1, at).is_some() {
            self.wrong += u64::from(self.store.wait(now, 1) == 0);
        } else {
            match node.slot.ask(KEY, 1, at, &rules, || ((), ())) {
                Asked::Begins(most, ()) => self.send(number, most, false),
                Asked::Strict => self.send(number, 1, true),
                Asked::Waits(()) => {}
                Asked::Spent(..) => unreachable!("no other thread brings permits"),
            }
        }
    }

    fn send(&mut self, node: usize, most: u64, is_strict: bool) {
        self.trips += 1;
        let (sent, life) = (self.events.now, self.nodes[node].life);
        let at = sent + self.latency();
        self.events.at(at, Event::Trip(Trip { node, life, sent, least: 1, most, is_strict }));
    }

    fn spend(&mut self, node: usize) {
        self.nodes[node].spent += 1;
        self.spent.push(self.events.now);
    }

    fn answered(&mut self, trip: Trip, granted: u64, charge: Charge, wait: u64) {
        let (now, ttl) = (self.events.now, self.rules.ttl);
        let sent = if self.bug == Bug::TtlFromTheAnswer { now } else { trip.sent };
        let (sent, at) = (micros(sent), micros(now));
        if self.nodes[trip.node].life != trip.life {
            return;
        }
        let node = &self.nodes[trip.node];
        if granted == 0 {
            match trip.is_strict {
                true => node.slot.refused_strictly(KEY),
                false => drop(node.slot.not_granted()),
            }
            let wait = micros(wait);
            let refusal = Refusal { cost: 1, wait, reset: wait, limit: 0, most: 1, remaining: 0 };
            node.deny.remember(KEY, refusal, micros(trip.sent));
        } else if trip.is_strict {
            // An answer is used within the deadline, which is no longer than the ttl.
            if at < sent + ttl {
                self.spend(trip.node);
            }
        } else {
            let (until, mut served) = (sent + ttl, 0);
            let terms = Terms { until, ..Terms::default() };
            let kept = node.slot.granted(KEY, granted, (sent, at), terms, |(), place| {
                served += u64::from(place.is_some());
                true
            });
            for _ in 0..served {
                self.spend(trip.node);
            }
            match kept {
                Kept::Late => self.give_back(charge, granted),
                Kept::Lease(place, _) => {
                    let ends = Event::Ends(trip.node, trip.life, place, charge);
                    if self.bug != Bug::LapsedPermitsSpent {
                        self.events.at(until.as_micros() as u64, ends);
                    }
                }
            }
        }
    }

    fn give_back(&mut self, charge: Charge, permits: u64) {
        if permits == 0 || self.is_lossy && self.random.u64(..40) == 0 {
            return;
        }
        let times = if self.bug == Bug::ReturnedTwice { 2 } else { 1 };
        for _ in 0..times {
            let at = self.events.now + self.latency();
            self.events.at(at, Event::Returned(charge, permits));
        }
    }
}

fn new_slot(rules: &Rules, now: u64) -> Slot<()> {
    let slot = Slot::new(rules);
    assert!(slot.give(KEY, rules, micros(now)));
    slot
}

/// A world without events. The limit wins back `p` grains a microsecond; a permit is `q`.
fn world(random: Random, (p, q, burst): (u64, u64, u64), nodes: u32, ttl: u64, network: u64) -> World {
    let rules = Rules { ttl: micros(ttl), limit: burst, nodes };
    let node = |_| Node {
        slot: new_slot(&rules, 0),
        deny: DenyCache::new(1).at_most(rules.ttl),
        life: 0,
        stalls_until: 0,
        spent: 0,
    };
    World {
        events: Events::new(),
        random,
        store: Store::new(p, q, burst),
        nodes: (0..nodes).map(node).collect(),
        rules,
        network,
        is_lossy: true,
        bug: Bug::None,
        spent: Vec::new(),
        trips: 0,
        wrong: 0,
    }
}

/// A random run of a second. The part of the bound's slack `rate * ttl` that it used, in
/// thousandths: above 1,000, it passed the bound.
fn run(seed: u64, bug: Bug) -> i128 {
    const END: u64 = 1_000_000;
    let mut random = Random::with_seed(seed);
    let (p, q) = random.choice([(1, 200), (1, 500), (1, 5_000), (7, 10_000)]).unwrap();
    let (burst, nodes) = (random.choice([1, 40, 100, 300]).unwrap(), random.u64(1..=4) as u32);
    let (ttl, network) = (
        random.choice([2_000, 5_000, 20_000, 100_000]).unwrap(),
        random.choice([200, 200, 2_000, 15_000]).unwrap(),
    );
    let mut world = world(random, (p, q, burst), nodes, ttl, network);
    world.bug = bug;
    for (time, node) in arrivals(&mut world.random, nodes as usize, END, q / p, burst) {
        world.events.at(time, Event::Request(node));
    }
    for _ in 0..world.random.u64(..=4) {
        let (time, node) = (world.random.u64(..=END), world.random.u64(..=u64::from(nodes) - 1) as usize);
        let stall = world.random.u64(1..=2 * ttl);
        world
            .events
            .at(time, if stall.is_multiple_of(2) { Event::Crash(node) } else { Event::Stall(node, stall) });
    }
    world.run();
    let (slack, most) = (i128::from(p * ttl), excess(&world.spent, p, q));
    (most - i128::from(burst * q)) * 1_000 / slack
}

#[test]
fn leases_admit_the_burst_and_the_rate_of_the_ttl() {
    let used: Vec<_> = (0..runs()).map(|seed| (run(seed, Bug::None), seed)).collect();
    let most = *used.iter().max().expect("there are runs");
    println!("of rate * ttl, {} runs used at most {} thousandths", used.len(), most.0);
    assert!(most.0 <= 1_000, "seed {} used {} thousandths of the slack", most.1, most.0);
    assert!(most.0 > 0, "the runs have become tame");
}

/// If it were built wrongly, the runs would find it.
#[test]
fn broken_leases_pass_the_bound() {
    for bug in [Bug::TtlFromTheAnswer, Bug::ReturnedTwice, Bug::LapsedPermitsSpent] {
        let over = (0..runs()).filter(|&seed| run(seed, bug) > 1_000).count();
        println!("{bug:?}: {over} of {} runs pass the bound", runs());
        assert!(over > 0, "{bug:?} is not found");
    }
}

/// A flood at each node, and a ttl of 8 round trips: the part of the limit that is admitted, in
/// thousandths, the poorest node's part of its share, and the trips of a thousand requests.
fn flood(seed: u64, nodes: u32) -> [u64; 3] {
    const END: u64 = 2_000_000;
    let (p, q, burst, network) = (1, 100, 4_000, 1_000);
    let mut world = world(Random::with_seed(seed), (p, q, burst), nodes, 16 * network, network);
    world.is_lossy = false;
    let mut requests = 0;
    for node in 0..nodes {
        let mut time = 0;
        while time < END {
            // Together three times the rate.
            time += world.random.u64(1..=2 * (q / p) * u64::from(nodes) / 3);
            world.events.at(time, Event::Request(node as usize));
            requests += 1;
        }
    }
    world.run();
    let all = world.spent.len() as u64;
    let poorest = world.nodes.iter().map(|node| node.spent).min().unwrap_or(0);
    [
        all * 1_000 / (burst + END * p / q),
        poorest * u64::from(nodes) * 1_000 / all,
        world.trips * 1_000 / requests,
    ]
}

#[test]
fn a_flood_uses_the_limit_and_each_node_its_share() {
    for nodes in [2, 3, 6] {
        let runs: Vec<_> = (1..=10).map(|seed| flood(seed, nodes)).collect();
        let least = |number: usize| runs.iter().map(|run| run[number]).min().expect("there are runs");
        let trips = runs.iter().map(|run| run[2]).max().expect("there are runs");
        println!("{nodes} nodes: {} of 1,000 used, poorest {}, trips {trips}", least(0), least(1));
        assert!(least(0) >= 850 && least(1) >= 750, "{nodes} nodes: {runs:?}");
    }
}

/// What strict mode with a deny cache promises: no request is refused that the store would admit.
#[test]
fn remembered_refusals_are_those_of_the_store() {
    for seed in 0..runs() {
        let mut random = Random::with_seed(seed);
        // A burst below 4 permits a node: nothing is ever taken ahead, and nothing comes back.
        let (burst, nodes) = (random.u64(1..=7), 2);
        let (q, network) = (random.choice([500, 5_000]).unwrap(), random.choice([200, 2_000]).unwrap());
        let mut world = world(random, (1, q, burst), nodes, 100_000, network);
        for (time, node) in arrivals(&mut world.random, nodes as usize, 300_000, q, burst) {
            world.events.at(time, Event::Request(node));
        }
        world.run();
        assert_eq!(world.wrong, 0, "seed {seed}");
        // At the nodes, an answer may be as old as its request's deadline.
        let bound = i128::from(burst * q + 100_000);
        assert!(excess(&world.spent, 1, q) <= bound, "seed {seed}");
    }
}
