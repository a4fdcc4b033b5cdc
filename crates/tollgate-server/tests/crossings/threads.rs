//! Several threads, and what no key may pass.
//!
//! Time stands still, and every rule counts in windows. So at the end each key's count is what the
//! requests were charged that are not given back, to the unit: no key beyond its limit, and nothing
//! charged in part. Where administrators give back, the count is less by that at most; where they
//! forgive, the limit is there once more for each time; where rules are reloaded meanwhile, the
//! count may be more, within the limit. Calls of `CL.THROTTLE` have keys of their own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testing::folder::Folder;
use tollgate_testing::random::Random;

use crate::mirror::{request, seen};
use crate::program::number;
use crate::rooms::{Rooms, settings_without_envoy};

const THREADS: u64 = 3;
const CLIENTS: [&str; 3] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
const CALLS: u64 = 20;
const AT_ONCE: u64 = 2;

/// The limit of each key of `CL.THROTTLE`.
const CALLED: u64 = 9;

/// The reloads of a program. Each raises the limits: a lower one would forget the debt above it.
const RELOADS: u64 = 4;

/// The limits of all clients together, and of each.
fn limits(turn: u64) -> [u64; 2] {
    [60 + 2 * turn, 30 + turn]
}

fn rules(turn: u64) -> String {
    let [all, each] = limits(turn);
    format!(
        "version = 1
rule = [
    {{ name = 'all', key = 'everyone', limits = 'fixed-window:{all}/d' }},
    {{ name = 'each', key = 'client', limits = 'fixed-window:{each}/d', max_keys = 64 }},
    {{ name = 'at-once', key = 'client', limits = 'in-flight:{AT_ONCE},ttl=365d', max_keys = 64 }},
]
"
    )
}

/// What the requests of each client are charged at the end, less what administrators gave back.
#[derive(Default)]
struct Charged {
    all: AtomicU64,
    each: [AtomicU64; 3],
    given_back: [AtomicU64; 3],
    given_back_to_all: AtomicU64,
    in_flight: [AtomicU64; 3],
    /// How often administrators forgave the debt of `each`.
    resets: [AtomicU64; 3],
    called: [AtomicU64; 3],
}

/// A request that is charged, and may be given back by its ticket.
struct Held {
    client: usize,
    units: u64,
    ticket: Option<String>,
    is_place: bool,
}

struct Thread<'t> {
    rooms: &'t Rooms,
    charged: &'t Charged,
    random: Random,
    held: Vec<Held>,
    has_credits: bool,
    has_resets: bool,
}

impl Thread<'_> {
    fn add(&self, client: usize, units: u64) {
        self.charged.all.fetch_add(units, SeqCst);
        self.charged.each[client].fetch_add(units, SeqCst);
    }

    /// Takes an admitted request's ticket.
    fn take(&mut self, client: usize, units: u64, said: &Value, is_place: bool) {
        if said["outcome"] != "admitted" {
            return;
        }
        if is_place {
            let held = self.charged.in_flight[client].fetch_add(units, SeqCst) + units;
            assert!(held <= AT_ONCE, "{held} in flight");
        }
        let ticket = said["ticket"].as_str().map(str::to_owned);
        self.held.push(Held { client, units, ticket, is_place });
    }

    fn check(&mut self, path: &str, is_place: bool) {
        let (client, cost) = (self.random.usize(..3), self.random.u64(1..=2));
        let body = json!({ "client": CLIENTS[client], "cost": cost, "ticket": self.random.bool() });
        let said = self.rooms.post(path, &body).1;
        self.take(client, cost, &said, is_place);
    }

    fn batch(&mut self) {
        let asked: Vec<_> = (0..3).map(|_| (self.random.usize(..3), self.random.u64(1..=2))).collect();
        let one = |(client, cost): &(usize, u64)| json!({ "client": CLIENTS[*client], "cost": cost });
        let requests: Vec<Value> = asked.iter().map(one).collect();
        let is_together = self.random.bool();
        let said = self.rooms.post("/v1/check", &json!({ "requests": requests, "together": is_together })).1;
        for ((client, cost), said) in asked.into_iter().zip(said["results"].as_array().unwrap()) {
            self.take(client, cost, said, false);
        }
    }

    fn call(&mut self) {
        let asked: Vec<_> = (0..2).map(|_| (self.random.usize(..3), self.random.u64(1..=2))).collect();
        let one = |(client, hits): &(usize, u64)| {
            let entries = [json!({ "key": "remote_address", "value": CLIENTS[*client] })];
            json!({ "entries": entries, "hitsAddend": hits.to_string() })
        };
        let descriptors: Vec<Value> = asked.iter().map(one).collect();
        let (status, _) = self.rooms.post("/json", &json!({ "domain": "d", "descriptors": descriptors }));
        if status == 200 {
            asked.into_iter().for_each(|(client, hits)| self.add(client, hits));
        }
    }

    fn end(&mut self, Held { client, units, ticket, is_place }: Held) {
        let how = if ticket.is_some() { self.random.u64(..3) } else { 2 };
        let Some(ticket) = ticket else { return self.add(client, units) };
        let path = if is_place { "/v1/release" } else { "/v1/settle" };
        let mut body = json!({ "ticket": ticket });
        let stays = match how {
            0 => {
                body["cancel"] = json!(true);
                0
            }
            // A request that named no other cost than 1 keeps it.
            1 => {
                body["cost"] = json!(0);
                if units == 1 { 1 } else { 0 }
            }
            _ => {
                body["status"] = json!(200);
                units
            }
        };
        if is_place {
            self.charged.in_flight[client].fetch_sub(units, SeqCst);
        }
        assert_eq!(self.rooms.post(path, &body).0, 200);
        self.add(client, stays);
    }

    fn throttle(&mut self) {
        let (client, cost) = (self.random.usize(..3), self.random.u64(..3));
        let words =
            ["CL.THROTTLE", CLIENTS[client], &(CALLED - 1).to_string(), "1", "86400", &cost.to_string()];
        let five = self.rooms.five(&words);
        assert!(five[2] >= 0 && five[2] as u64 <= CALLED, "{five:?}");
        if five[0] == 0 {
            self.charged.called[client].fetch_add(cost, SeqCst);
        }
    }

    /// Looks, in each way.
    fn peek(&mut self) {
        let (client, cost) = (CLIENTS[self.random.usize(..3)], self.random.u64(..3));
        let said = self.rooms.post("/v1/peek", &json!({ "client": client, "cost": cost })).1;
        assert!(said["ticket"].is_null() && said["remaining"].is_u64(), "{said}");
        self.rooms.five(&["TG.PEEK", "each", client, "COST", &cost.to_string()]);
        let (_, done) = self.rooms.order("each", client, &json!("peek"));
        assert!(done.is_null(), "{done}");
    }

    fn work(mut self) {
        for _ in 0..CALLS {
            match self.random.u64(..12) {
                0 | 1 => self.check("/v1/check", false),
                2 => self.check("/v1/reserve", false),
                3 => self.check("/v1/acquire", true),
                4 => self.batch(),
                5 => self.call(),
                6 => {
                    let client = self.random.usize(..3);
                    if self.rooms.auth(CLIENTS[client], &[]) {
                        self.add(client, 1);
                    }
                }
                7 => {
                    // It asks `each` alone.
                    let client = self.random.usize(..3);
                    if self.rooms.five(&["TG.CHECK", "each", CLIENTS[client]])[0] == 0 {
                        self.charged.each[client].fetch_add(1, SeqCst);
                    }
                }
                8 => self.throttle(),
                9 => self.peek(),
                10 if self.has_resets => {
                    let client = self.random.usize(..3);
                    // Counted first: requests that meet the reset may be admitted by the new limit.
                    self.charged.resets[client].fetch_add(1, SeqCst);
                    assert_eq!(self.rooms.order("each", CLIENTS[client], &json!("reset")).0, 200);
                }
                11 if self.has_credits => {
                    let client = self.random.usize(..3);
                    let order = json!({ "refund": self.random.u64(1..=2) });
                    let done = self.rooms.order("each", CLIENTS[client], &order).1;
                    self.charged.given_back[client].fetch_add(done.as_u64().unwrap(), SeqCst);
                    let done = self.rooms.order("all", CLIENTS[client], &json!({ "refund": 1 })).1;
                    self.charged.given_back_to_all.fetch_add(done.as_u64().unwrap(), SeqCst);
                }
                _ => {}
            }
            if self.held.len() > 2 {
                let one = self.random.usize(..self.held.len());
                let held = self.held.swap_remove(one);
                self.end(held);
            }
        }
        while let Some(held) = self.held.pop() {
            self.end(held);
        }
    }
}

fn play(seed: u64) -> bool {
    let folder = Folder::new();
    let settings = settings_without_envoy(&folder);
    std::fs::write(&settings.rules, rules(0)).unwrap();
    let rooms = Rooms::begin(settings, Duration::from_secs(1_700_000_123));
    let (charged, has_credits, has_resets) = (Charged::default(), seed % 4 == 1, seed % 4 == 3);
    let reloads = if seed % 4 == 2 { RELOADS } else { 0 };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let random = Random::with_seed(seed * THREADS + thread);
            let (rooms, charged, held) = (&rooms, &charged, Vec::new());
            let thread = Thread { rooms, charged, random, held, has_credits, has_resets };
            scope.spawn(move || thread.work());
        }
        for turn in 1..=reloads {
            assert_eq!(rooms.reload(&rules(turn), None), 200);
            rooms.save();
        }
    });
    let now = |rooms: &Rooms| -> BTreeMap<Box<str>, Vec<(u64, bool)>> {
        let mut handle = rooms.live().handle();
        let mut used: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for client in CLIENTS {
            for (name, _, limit, left, ..) in seen(&mut handle, &request(client, &[]), 0) {
                used.entry(name).or_default().push((limit - left, left == 0));
            }
        }
        used
    };
    let used = now(&rooms);
    let get = |number: &AtomicU64| number.load(SeqCst);
    let mut is_full = false;
    // A credit may be of requests that are then cancelled; their units come back once.
    let is_right = |used: u64, charged: &AtomicU64, given_back: &AtomicU64, resets: u64, most: u64| {
        let (charged, given_back) = (get(charged), get(given_back) + resets * most);
        assert!(charged <= most + given_back, "{charged} charged, {given_back} given back, of {most}");
        // A ticket of before a reload that changed the numbers may give nothing back.
        let at_most = if reloads > 0 { most } else { charged };
        assert!(used <= at_most && used >= charged.saturating_sub(given_back), "{used} of {charged}");
    };
    for (client, (units, is_used_up)) in used["each"].iter().enumerate() {
        let resets = get(&charged.resets[client]);
        is_right(*units, &charged.each[client], &charged.given_back[client], resets, limits(reloads)[1]);
        is_full |= *is_used_up || used["all"][client].1;
        assert_eq!(used["at-once"][client].0, 0, "in flight");
    }
    is_right(used["all"][0].0, &charged.all, &charged.given_back_to_all, 0, limits(reloads)[0]);
    let called = |rooms: &Rooms| {
        CLIENTS.map(|key| {
            let words = ["CL.THROTTLE", key, &(CALLED - 1).to_string(), "1", "86400", "0"];
            CALLED - rooms.five(&words)[2] as u64
        })
    };
    let expected = [0, 1, 2].map(|client| get(&charged.called[client]));
    assert_eq!(called(&rooms), expected, "to the unit, by calls");
    // A restart finds the same.
    rooms.save();
    let again = Rooms::begin(settings_without_envoy(&folder), rooms.unix());
    assert_eq!((now(&again), called(&again)), (used, expected));
    is_full
}

#[test]
fn threads_of_all_verbs_are_charged_to_the_unit() {
    let (first, programs) = (number("TOLLGATE_SEED", 0), number("TOLLGATE_PROGRAMS", 60));
    let mut full = 0;
    for seed in first..first + programs {
        let played = std::panic::catch_unwind(|| play(seed));
        full += u64::from(played.unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic)
        }));
    }
    assert!(full > 0, "none of {programs} programs reached a limit");
}
