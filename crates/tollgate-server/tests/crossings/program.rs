//! Random programs of one thread: each answer is that of the mirror or of a naive model, and after
//! each verb all keys are as they are there.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate::{Clock, ManualClock, Timestamp};
use tollgate_rules::{Ask, PlainRequest, Ticket};
use tollgate_testing::folder::Folder;
use tollgate_testing::random::Random;

use crate::counts::{Asked, Calls, Hits};
use crate::mirror::{Answered, Mirror, Open, request, seen};
use crate::rooms::{Rooms, settings};
use crate::rules::{PLAN_HITS, Text};
use crate::table::{VERBS, Verb};

/// When programs begin: not at the start of an hour.
const BEGUN: u64 = 1_700_000_123;

const CLIENTS: [&str; 3] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];

/// How long a rule that is gone is kept.
const KEPT: Duration = Duration::from_secs(3_600);

pub(crate) struct Program {
    random: Random,
    folder: Folder,
    rooms: Rooms,
    mirror: Mirror,
    open: Vec<Open>,
    calls: Calls,
    hits: Hits,
    text: Text,
    /// When the server began.
    begun: Duration,
    /// Whether the bucket's numbers have changed since. Set back after that, a save measures its
    /// debts from the latest time that the clock has shown.
    is_changed: bool,
    /// Until when the rule `window` is kept that is out of the file.
    kept_until: Duration,
    /// The verbs so far, shown at a failure.
    pub(crate) done: Vec<String>,
    pub(crate) verbs: Vec<Verb>,
}

type Labels = Vec<(&'static str, String)>;

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        let folder = Folder::new();
        let text = Text::first();
        std::fs::write(folder.path().join("rules.toml"), text.rules()).unwrap();
        std::fs::write(folder.path().join("shop.yaml"), text.envoy()).unwrap();
        let rooms = Rooms::begin(settings(&folder), Duration::from_secs(BEGUN));
        let mirror = Mirror::of(&rooms);
        Self {
            random: Random::with_seed(seed),
            folder,
            rooms,
            mirror,
            open: Vec::new(),
            calls: Calls::default(),
            hits: Hits::default(),
            text,
            begun: Duration::from_secs(BEGUN),
            is_changed: false,
            kept_until: Duration::MAX,
            done: Vec::new(),
            verbs: Vec::new(),
        }
    }

    /// Does one thing, and compares all keys.
    pub(crate) fn step(&mut self) {
        let verb = VERBS[self.random.usize(..VERBS.len())];
        self.verbs.push(verb);
        match verb {
            Verb::Throttle => self.throttle(),
            Verb::Delete => self.delete(),
            Verb::TgCheck => self.rule("TG.CHECK"),
            Verb::TgPeek => self.rule("TG.PEEK"),
            Verb::Check => self.check("/v1/check", true),
            Verb::Peek => self.check("/v1/peek", false),
            Verb::Reserve => self.check("/v1/reserve", true),
            Verb::Acquire => self.check("/v1/acquire", true),
            Verb::Batch => self.batch(false),
            Verb::Together => self.batch(true),
            Verb::Auth => self.auth(),
            Verb::Settle => self.settle(),
            Verb::CallByRules => self.call_by_rules(),
            Verb::CallByFiles => self.call_by_files(),
            Verb::Reset => self.order(None),
            Verb::Credit => {
                let units = self.random.u64(..6);
                self.order(Some(units));
            }
            Verb::Reload => self.reload(),
            Verb::Restart => self.restart(),
            Verb::ClockAhead => self.ahead(),
            Verb::ClockBack => self.back(),
        }
        self.compare();
    }

    fn client(&mut self) -> &'static str {
        CLIENTS[self.random.usize(..CLIENTS.len())]
    }

    fn labels(&mut self) -> Labels {
        let mut labels = Labels::new();
        for (name, one_in) in [("queue", 4), ("ban", 5)] {
            if self.random.u64(..one_in) == 0 {
                labels.push((name, "1".into()));
            }
        }
        if self.random.u64(..3) == 0 {
            labels.push(("tokens", self.random.u64(..12).to_string()));
        }
        labels
    }

    fn unix(&self) -> Duration {
        self.rooms.unix()
    }

    fn note(&mut self, what: String) {
        self.done.push(what);
    }

    /// The emission interval is in whole seconds, and so is the time.
    fn throttle(&mut self) {
        let key = format!("key{}", self.random.u64(..3));
        let (burst, emission) = (self.random.u64(..4) as i64, self.random.u64(1..=90) as i64);
        let quantity = self.random.u64(..6) as i64 - 1;
        let numbers = [burst, emission, quantity].map(|number| number.to_string());
        let words = ["CL.THROTTLE", &key, &numbers[0], "1", &numbers[1], &numbers[2]];
        self.note(words.join(" "));
        let now = self.unix().as_secs() as i64;
        let expected = self.calls.throttle(&key, [burst, emission, quantity], now);
        assert_eq!(self.rooms.five(&words), expected);
    }

    fn delete(&mut self) {
        let key = format!("key{}", self.random.u64(..3));
        self.note(format!("DEL {key}"));
        let was_there = self.calls.delete(&key, self.unix().as_secs() as i64);
        assert_eq!(self.rooms.redis(&["DEL", &key]), format!(":{}\r\n", u8::from(was_there)));
    }

    fn rule(&mut self, verb: &str) {
        let rules = ["all", "bucket", "window", "kind", "failed", "tokens", "queue", "ban", "at-once"];
        let (rule, client) = (rules[self.random.usize(..9)], self.client());
        let cost = self.random.u64(..5);
        self.note(format!("{verb} {rule} {client} COST {cost}"));
        let words = [verb, rule, client, "COST", &cost.to_string()];
        if rule == "at-once" || (rule == "window" && self.text.is_out) {
            assert!(self.rooms.redis(&words).starts_with("-ERR"));
            return;
        }
        let expected = self.mirror.ask_rule(rule, client, cost, verb == "TG.PEEK");
        assert_eq!(Some(self.rooms.five(&words)[0] == 0), expected);
    }

    fn body(&mut self, may_have_ticket: bool) -> (Value, PlainRequest, u64, bool) {
        let (client, labels, cost) = (self.client(), self.labels(), self.random.u64(..5));
        let keeps = may_have_ticket && self.random.bool();
        let named: serde_json::Map<String, Value> =
            labels.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
        let mut body =
            json!({ "method": "GET", "target": "/", "client": client, "labels": named, "cost": cost });
        if keeps {
            body["ticket"] = json!(true);
        }
        (body, request(client, &labels), cost, keeps)
    }

    /// Compares the answer to a request with that of the mirror, and keeps its ticket.
    fn judged(
        &mut self,
        path: &str,
        said: &Value,
        answered: Answered,
        ticket: Option<Ticket<ManualClock>>,
        keeps: bool,
    ) -> bool {
        let in_flight = path == "/v1/acquire";
        assert_eq!(said["outcome"], answered.outcome, "{said}");
        assert_eq!(said["delay_ns"], answered.delay.as_nanos() as u64, "{said}");
        let retry_after = answered.retry_after.map(|wait| wait.as_nanos() as u64);
        assert_eq!(said["retry_after_ns"].as_u64(), retry_after, "{said}");
        let id = said["ticket"].as_str();
        assert_eq!(id.is_some(), answered.is_admitted() && (keeps || in_flight), "{said}");
        if let Some((id, ticket)) = id.zip(ticket) {
            self.open.push(self.mirror.keep(id.into(), in_flight, ticket));
        }
        answered.is_admitted()
    }

    fn check(&mut self, path: &str, may_have_ticket: bool) {
        let (body, request, cost, keeps) = self.body(may_have_ticket);
        self.note(format!("{path} {body}"));
        let (status, said) = self.rooms.post(path, &body);
        let (answered, ticket) = self.mirror.ask(&request, ask(path, cost));
        let is_admitted = self.judged(path, &said, answered, ticket, keeps);
        assert_eq!(status, if is_admitted { 200 } else { 429 });
    }

    fn batch(&mut self, is_together: bool) {
        let count = self.random.u64(1..=4);
        let path = if self.random.u64(..3) == 0 { "/v1/acquire" } else { "/v1/check" };
        let bodies: Vec<_> = (0..count).map(|_| self.body(true)).collect();
        let requests: Vec<&Value> = bodies.iter().map(|(body, ..)| body).collect();
        let body = json!({ "requests": requests, "together": is_together });
        self.note(format!("{path} {body}"));
        let (status, said) = self.rooms.post(path, &body);
        assert_eq!(status, 200);
        let (results, before) = (said["results"].as_array().unwrap().clone(), self.open.len());
        if !is_together {
            let mut all = true;
            for ((_, request, cost, keeps), said) in bodies.iter().zip(&results) {
                let (answered, ticket) = self.mirror.ask(request, ask(path, *cost));
                all &= self.judged(path, said, answered, ticket, *keeps);
            }
            assert_eq!(said["admitted"], all);
            return;
        }
        let asked = bodies.iter().map(|(_, request, cost, _)| (request, ask(path, *cost)));
        let (admitted, decided) = self.mirror.ask_together(asked);
        assert_eq!(said["admitted"], admitted);
        for (((.., keeps), said), (answered, ticket)) in bodies.iter().zip(&results).zip(decided) {
            if admitted || !answered.is_admitted() {
                self.judged(path, said, answered, ticket, *keeps);
            } else {
                assert_eq!(said["outcome"], "not_charged", "{answered:?}");
            }
        }
        assert!(admitted || self.open.len() == before);
    }

    fn auth(&mut self) {
        let (client, labels) = (self.client(), self.labels());
        self.note(format!("/v1/auth {client} {labels:?}"));
        let ask = Ask { in_flight: false, ..Ask::default() };
        let expected = self.mirror.ask(&request(client, &labels), ask).0.is_admitted();
        assert_eq!(self.rooms.auth(client, &labels), expected);
    }

    fn settle(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let open = self.open.swap_remove(self.random.usize(..self.open.len()));
        let how = self.random.u64(..6);
        self.end(open, how);
    }

    /// Ends a request in one of six ways.
    fn end(&mut self, open: Open, how: u64) {
        let path = if open.is_place { "/v1/release" } else { "/v1/settle" };
        let mut body = json!({ "ticket": open.id });
        let status = match how {
            0 | 3 => Some(401),
            1 | 4 => Some(200),
            _ => None,
        };
        let cost = (how > 2).then(|| self.random.u64(..12));
        let is_cancelled = how == 2;
        status.into_iter().for_each(|status| body["status"] = json!(status));
        cost.into_iter().for_each(|cost| body["cost"] = json!(cost));
        if is_cancelled {
            body["cancel"] = json!(true);
        }
        self.note(format!("{path} {body}"));
        let (is_there, charged) = self.mirror.end(open, status, cost, is_cancelled);
        let (status, said) = self.rooms.post(path, &body);
        assert_eq!((status, said["charged"].as_u64()), (if is_there { 200 } else { 404 }, charged));
        let (status, _) = self.rooms.post(path, &body);
        assert_eq!(status, 404, "a ticket is settled once");
    }

    fn descriptors(&mut self) -> u64 {
        [1, 1, 2, 3][self.random.usize(..4)]
    }

    fn call_by_rules(&mut self) {
        let (mut asked, mut descriptors) = (Vec::new(), Vec::new());
        for _ in 0..self.descriptors() {
            let (client, hits) = (self.client(), self.random.u64(..4));
            let entries = json!([{ "key": "remote_address", "value": client }]);
            descriptors.push(json!({ "entries": entries, "hitsAddend": hits.to_string() }));
            let mut request = PlainRequest { client: client.parse().ok(), ..PlainRequest::default() };
            request.domain = Some("rules".into());
            asked.push((request, hits));
        }
        let over = self.mirror.call(&asked);
        self.call("rules", &descriptors, &over);
    }

    fn call_by_files(&mut self) {
        let (mut asked, mut descriptors) = (Vec::new(), Vec::new());
        for _ in 0..self.descriptors() {
            let (kind, user, hits) = (self.random.u64(..4), self.random.u64(..3), self.random.u64(1..=3));
            let (entry, key, most) = match kind {
                0 => (json!({ "key": "plan", "value": "free" }), "plan".to_owned(), PLAN_HITS),
                1 => (json!({ "key": "other", "value": "x" }), String::new(), 0),
                _ => (
                    json!({ "key": "user", "value": user.to_string() }),
                    format!("user {user}"),
                    self.text.hits,
                ),
            };
            descriptors.push(json!({ "entries": [entry], "hitsAddend": hits.to_string() }));
            asked.push((!key.is_empty()).then_some(Asked { key, most, hits }));
        }
        let hour = self.unix().as_secs() / 3_600;
        let limited: Vec<Asked> =
            asked.iter_mut().map(Option::take).collect::<Vec<_>>().into_iter().flatten().collect();
        let mut answers = self.hits.call(&limited, hour).into_iter();
        // A descriptor without a limit passes.
        let is_limited = |descriptor: &Value| descriptor["entries"][0]["key"] != "other";
        let over: Vec<bool> = descriptors
            .iter()
            .map(|one| is_limited(one) && answers.next().is_some_and(|(over, _)| over))
            .collect();
        self.call("shop", &descriptors, &over);
    }

    fn call(&mut self, domain: &str, descriptors: &[Value], over: &[bool]) {
        let call = json!({ "domain": domain, "descriptors": descriptors });
        self.note(format!("/json {call}"));
        let (status, said) = self.rooms.post("/json", &call);
        assert_eq!(status, if over.contains(&true) { 429 } else { 200 }, "{said}");
        let statuses = said["statuses"].as_array().unwrap();
        let codes: Vec<bool> = statuses.iter().map(|status| status["code"] == "OVER_LIMIT").collect();
        assert_eq!(codes, over, "{said}");
    }

    /// Forgives a key, or gives it some units back.
    fn order(&mut self, refund: Option<u64>) {
        let rules = ["all", "bucket", "window", "kind", "failed", "queue", "ban"];
        let (rule, client) = (rules[self.random.usize(..7)], self.client());
        let order = refund.map_or(json!("reset"), |units| json!({ "refund": units }));
        self.note(format!("/admin/keys/{rule} {client} {order}"));
        let all: Labels = vec![("queue", "1".into()), ("ban", "1".into())];
        let expected = self.mirror.order(rule, &request(client, &all), refund);
        let (status, done) = self.rooms.order(rule, client, &order);
        assert_eq!(status == 200, expected.is_some());
        // A reset tells whether there was a slot, which a restart may have emptied.
        assert_eq!(done.as_u64(), expected.filter(|_| refund.is_some()));
    }

    fn reload(&mut self) {
        let mut text = self.text.clone();
        let (mut forget, mut is_new) = (None, false);
        match self.random.u64(..8) {
            0 => text.all = 36 + self.random.u64(..8),
            1 => text.bucket = 6 + self.random.u64(..4),
            2 => text.window = 10 + self.random.u64(..4),
            3 => text.at_once = self.random.u64(1..=3),
            4 => text.is_shadow ^= true,
            5 => text.hits = 4 + self.random.u64(..4),
            6 => {
                text.is_log ^= true;
                forget = self.random.bool().then_some("kind");
                is_new = forget.is_some();
            }
            _ => {
                text.is_out ^= true;
                is_new = !text.is_out && self.unix() >= self.kept_until;
            }
        }
        if is_new {
            // New tables have secrets of their own: the mirror is made anew once nothing is open.
            while let Some(open) = self.open.pop() {
                self.end(open, 1);
            }
        }
        self.note(format!("/admin/reload?forget={forget:?} {text:?}"));
        std::fs::write(self.folder.path().join("shop.yaml"), text.envoy()).unwrap();
        let expected = self.mirror.reload(&text.rules(), forget);
        let status = self.rooms.reload(&text.rules(), forget);
        assert_eq!(status, if expected.is_ok() { 200 } else { 422 }, "{expected:?}");
        if expected.is_err() {
            assert!(text.is_log != self.text.is_log && forget.is_none(), "{expected:?}");
            std::fs::write(self.folder.path().join("rules.toml"), self.text.rules()).unwrap();
            return;
        }
        if text.is_out && !self.text.is_out {
            self.kept_until = self.unix() + KEPT;
        }
        self.is_changed |= text.bucket != self.text.bucket;
        self.text = text;
        if is_new {
            self.renew();
        }
    }

    /// Makes the mirror anew, once it is as the server.
    fn renew(&mut self) {
        self.compare();
        self.mirror = Mirror::of(&self.rooms);
        (self.begun, self.is_changed) = (self.unix(), false);
    }

    /// Saves, and begins anew some time later. Tickets end, and places come back.
    fn restart(&mut self) {
        let later = Duration::from_secs(self.random.u64(..3) * self.random.u64(..700));
        self.note(format!("restart after {later:?}"));
        self.rooms.save();
        self.open.clear();
        let unix = self.unix() + later;
        self.begun = unix;
        self.rooms = Rooms::begin(settings(&self.folder), unix);
        self.mirror.clock.advance(later);
        // A rule that is gone comes back with all of its state, unless its hour is over.
        if self.text.is_out && unix < self.kept_until {
            self.text.is_out = false;
            self.mirror.reload(&self.text.rules(), None).unwrap();
            assert_eq!(self.rooms.reload(&self.text.rules(), None), 200);
        }
        // From here on the engine remembers no refunds out of order, nor debts that have run out.
        self.renew();
    }

    fn ahead(&mut self) {
        let by = match self.random.u64(..6) {
            0 => 1_800 + self.random.u64(..2_400),
            1 | 2 => 60 + self.random.u64(..300),
            _ => self.random.u64(1..=20),
        };
        self.note(format!("{by} s later"));
        self.rooms.clock.advance(Duration::from_secs(by));
        self.mirror.clock.advance(Duration::from_secs(by));
    }

    /// Sets the clock back, at most to when the server began: debts that had run out by then are
    /// not in its state.
    fn back(&mut self) {
        let most = if self.is_changed { 0 } else { (self.unix() - self.begun).as_nanos() as u64 };
        let by = (self.random.u64(..90) * 1_000_000_000).min(most);
        self.note(format!("{by} ns earlier"));
        for clock in [&self.rooms.clock, &self.mirror.clock] {
            clock.set(Timestamp::from_nanos(clock.now().as_nanos() - by));
        }
    }

    fn compare(&mut self) {
        let labels: Labels = vec![("queue", "1".into()), ("ban", "1".into()), ("tokens", "1".into())];
        let mut handle = self.rooms.live().handle();
        for client in CLIENTS {
            let request = request(client, &labels);
            assert_eq!(seen(&mut handle, &request, 1), self.mirror.seen(&request), "{client}");
        }
    }
}

/// Plays programs of these seeds, each of so many verbs. Returns the verbs of each.
pub(crate) fn play(seeds: std::ops::Range<u64>, length: usize) -> Vec<Vec<Verb>> {
    let one = |seed| {
        let mut program = Program::new(seed);
        for _ in 0..length {
            let step = std::panic::AssertUnwindSafe(|| program.step());
            if let Err(panic) = std::panic::catch_unwind(step) {
                eprintln!("seed {seed}:\n  {}", program.done.join("\n  "));
                std::panic::resume_unwind(panic);
            }
        }
        program.verbs
    };
    seeds.map(one).collect()
}

/// The number in a variable of the environment, or this one.
pub(crate) fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// How a verb asks the rules.
fn ask(path: &str, cost: u64) -> Ask {
    Ask { cost, is_peek: path == "/v1/peek", in_flight: path == "/v1/acquire", ..Ask::default() }
}

#[test]
fn programs_of_all_verbs_are_answered_as_by_the_rules() {
    let (first, programs) = (number("TOLLGATE_SEED", 0), number("TOLLGATE_PROGRAMS", 60));
    play(first..first + programs, 60);
}
