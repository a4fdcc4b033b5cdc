//! Everything at once: requests, tickets and their costs from several threads, while rules change
//! their numbers and algorithms, get and lose tiers, are renamed, taken out and put back.
//!
//! A rule's `refuse.body` tells which state it has, by a number that is another whenever a reload
//! may forget. Of each state, what its keys were admitted is held against what its limits were.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tollgate::ManualClock;
use tollgate_rules::{Ask, ExchangeError, LiveRules, PlainRequest, Ruling, Scratch, Ticket, Verdict};
use tollgate_testing::random::Random;

use crate::{header, rules};

const THREADS: u64 = 3;
const CLIENTS: u64 = 4;
const RELOADS: u64 = 120;
/// The most requests in flight of a client, by any rules.
const AT_ONCE: u64 = 4;
/// No time that a ban lasts, and more than a program takes without the hours of its clock.
const SHORT: Duration = Duration::from_secs(60);

const ALGORITHMS: [&str; 3] = ["token-bucket", "fixed-window", "sliding-log"];

/// A limit with its state.
#[derive(Clone)]
struct Limit {
    state: u64,
    algorithm: usize,
    count: u64,
}

impl Limit {
    fn text(&self) -> String {
        format!("{}:{}/d", ALGORITHMS[self.algorithm], self.count)
    }
}

/// A rule that may be taken out.
#[derive(Clone)]
struct Own {
    name: String,
    was: String,
    key: &'static str,
    limit: Limit,
    tier: Option<Limit>,
    is_out: bool,
    is_shadow: bool,
    charge_if: bool,
    forget: bool,
}

impl Own {
    fn text(&self) -> String {
        let Self { name, key, limit, tier, .. } = self;
        let states = (limit.state, tier.as_ref().map_or(0, |tier| tier.state));
        let mut text = format!(
            "[[rule]]\nname = '{name}'\nkey = '{key}'\nlimits = '{}'\nmax_keys = 64\nrefuse.body = '{} {}'\nforget = {}\n",
            limit.text(),
            states.0,
            states.1,
            self.forget
        );
        if !self.was.is_empty() {
            text += &format!("was = '{}'\n", self.was);
        }
        if self.is_shadow {
            text += "mode = 'shadow'\n";
        }
        if self.charge_if {
            text += "charge_if.status = [401]\n";
        }
        if let Some(tier) = tier {
            text +=
                &format!("[[rule.tier]]\nname = 't'\nmatch.label.plan = 'pro'\nlimits = '{}'\n", tier.text());
        }
        text
    }
}

/// What the limits of a state admit at most, without the time that passes.
#[derive(Default)]
struct Bound {
    last: u64,
    most: u64,
    /// What a bucket or a window admits that becomes smaller, keeps no debt above that, and grows
    /// again.
    in_steps: u64,
}

/// The rules in force, and what they may admit.
struct Program {
    own: Vec<Own>,
    at_once: u64,
    is_at_once_out: bool,
    is_ban_out: bool,
    states: u64,
    bounds: BTreeMap<u64, (usize, Bound)>,
    hours: u64,
}

impl Program {
    fn text(&self) -> String {
        let own = self.own.iter().filter(|own| !own.is_out).map(Own::text);
        let mut text: String = own.collect();
        if !self.is_at_once_out {
            let at_once = self.at_once;
            text += &format!(
                "[[rule]]\nname = 'at-once'\nkey = 'client'\nlimits = 'in-flight:{at_once},ttl=1d'\nmax_keys = 64\n"
            );
        }
        if !self.is_ban_out {
            text += "[[rule]]\nname = 'ban'\nmatch.path = '/ban'\nkey = 'client'\nlimits = 'fixed-window:4/d'\n\
                ban = '30min'\nmax_keys = 64\n";
        }
        text
    }

    fn new_state(&mut self) -> u64 {
        self.states += 1;
        self.states
    }

    /// Notes what the limits in force may admit.
    fn note(&mut self) {
        for own in self.own.iter().filter(|own| !own.is_out) {
            for limit in [Some(&own.limit), own.tier.as_ref()].into_iter().flatten() {
                let entry = self.bounds.entry(limit.state).or_insert((limit.algorithm, Bound::default()));
                let bound = &mut entry.1;
                bound.in_steps += limit.count.saturating_sub(bound.last);
                bound.most = bound.most.max(limit.count);
                bound.last = limit.count;
            }
        }
    }

    /// Changes one thing. Returns whether the reload must be refused.
    fn step(&mut self, random: &mut Random, clock: &ManualClock, live: &LiveRules<ManualClock>) -> bool {
        self.own.iter_mut().for_each(|own| own.forget = false);
        let (index, count) = (random.usize(..self.own.len()), 8 + random.u64(..3));
        let is_any_out = self.is_at_once_out || self.is_ban_out || self.own.iter().any(|own| own.is_out);
        match random.u64(..12) {
            0 => {
                self.at_once = AT_ONCE - 1 + random.u64(..2);
                self.is_at_once_out ^= random.bool();
            }
            1 => self.is_ban_out ^= true,
            2 | 3 => self.own[index].is_out ^= true,
            4 if !self.own[index].is_out => {
                let number = self.new_state();
                let name = format!("{}{number}", &self.own[index].name[..1]);
                let own = &mut self.own[index];
                own.was = std::mem::replace(&mut own.name, name);
            }
            5 => {
                (self.own[index].is_shadow, self.own[index].charge_if) =
                    (random.u64(..4) == 0, random.u64(..3) == 0)
            }
            6 if !self.own[index].is_out => {
                let state = self.new_state();
                let own = &mut self.own[index];
                own.forget = true;
                own.tier = match own.tier.take() {
                    Some(_) => None,
                    None => Some(Limit { state, algorithm: random.usize(..3), count }),
                };
            }
            7 if !self.own[index].is_out => {
                let state = self.new_state();
                let own = &mut self.own[index];
                let algorithm = (own.limit.algorithm + 1) % ALGORITHMS.len();
                own.limit = Limit { state, algorithm, count };
                own.forget = true;
            }
            8 if !self.own[index].is_out => {
                // The same, without `forget`.
                let own = &mut self.own[index];
                own.limit.algorithm = (own.limit.algorithm + 1) % ALGORITHMS.len();
                return true;
            }
            9 if !is_any_out && self.hours < 4 => {
                // For good: an hour later its state is another.
                self.own[index].is_out = true;
                live.exchange(rules(&self.text()), [0; 32]).unwrap();
                clock.advance(Duration::from_secs(3_600));
                self.hours += 1;
                let states = (self.new_state(), self.new_state());
                let own = &mut self.own[index];
                (own.is_out, own.limit.state) = (false, states.0);
                if let Some(tier) = &mut own.tier {
                    tier.state = states.1;
                }
            }
            number => {
                let own = &mut self.own[index];
                let limit = own.tier.as_mut().filter(|_| number % 2 == 0).unwrap_or(&mut own.limit);
                // A log's ring never grows.
                limit.count = if limit.algorithm == 2 { limit.count.min(count) } else { count };
            }
        }
        false
    }
}

/// What a thread's requests were admitted, by state and client, and what it still holds.
#[derive(Default)]
struct Admitted {
    units: BTreeMap<(u64, u64), u64>,
    held: Vec<(Ticket<ManualClock>, Charged)>,
    refused: u64,
}

/// What a request was charged.
struct Charged {
    client: u64,
    /// State, units, whether a status other than 401 gives it back, whether its cost may differ.
    rules: Vec<(u64, u64, bool, bool)>,
    at_once: u64,
}

fn charged(verdict: &Verdict<'_, ManualClock>, client: u64, is_costed: bool) -> Charged {
    let mut charged = Charged { client, rules: Vec::new(), at_once: 0 };
    for line in verdict.lines() {
        let rule = &verdict.rules()[line.rule];
        let is_charged = if line.is_shadow { line.ruling == Ruling::Admitted } else { verdict.is_admitted() };
        if !is_charged {
            continue;
        }
        if &*rule.name == "at-once" {
            charged.at_once = line.cost;
        }
        let Some((own, tier)) = rule.refuse.body.as_deref().and_then(|body| body.split_once(' ')) else {
            continue;
        };
        let state = if line.tier.is_some() { tier } else { own };
        charged.rules.push((state.parse().unwrap(), line.cost, rule.charge_if.is_some(), is_costed));
    }
    charged
}

impl Admitted {
    /// Ends a request in one of all ways, and counts the charge that stays. What is debited late
    /// is on top of all bounds.
    fn end(&mut self, mut ticket: Ticket<ManualClock>, mut charged: Charged, how: u64) {
        if how.is_multiple_of(3) {
            ticket.settle_cost(how % 5);
            for (_, units, _, is_costed) in &mut charged.rules {
                *units = if *is_costed { (*units).min(how % 5) } else { *units };
            }
        }
        match how % 4 {
            0 => {
                charged.rules.clear();
                ticket.cancel();
            }
            1 => {
                charged.rules.retain(|(_, _, charge_if, _)| !charge_if);
                ticket.settle(200);
            }
            2 => ticket.settle(401),
            _ => drop(ticket),
        }
        for (state, units, ..) in charged.rules {
            *self.units.entry((state, charged.client)).or_default() += units;
        }
    }
}

fn work(live: &LiveRules<ManualClock>, seed: u64, is_over: &AtomicBool, in_flight: &[AtomicU64]) -> Admitted {
    let (random, mut handle, mut scratch) = (&mut Random::with_seed(seed), live.handle(), Scratch::default());
    let mut admitted = Admitted::default();
    let mut refused_at = BTreeMap::new();
    while !is_over.load(SeqCst) {
        let (client, cost) = (random.u64(..CLIENTS), random.u64(1..=3));
        let plan = if random.u64(..3) == 0 { "pro" } else { "free" };
        let request = PlainRequest {
            client: Some([192, 0, 2, client as u8].into()),
            target: Some(if random.u64(..8) == 0 { "/ban" } else { "/" }.into()),
            labels: vec![header("plan", plan)],
            ..PlainRequest::default()
        };
        let ask = Ask { cost, is_peek: random.u64(..6) == 0, ..Ask::default() };
        let verdict = handle.ask(&request, ask, &mut scratch);
        let now = verdict.decided_at();
        let ban = verdict.lines().iter().find(|line| &*verdict.rules()[line.rule].name == "ban");
        match ban.map(|line| line.ruling) {
            _ if ask.is_peek => continue,
            Some(Ruling::Refused) => _ = refused_at.insert(client, now),
            Some(_) if verdict.is_admitted() => {
                let since = refused_at.get(&client).map(|at| now.saturating_since(*at));
                assert!(since.is_none_or(|since| since > SHORT), "admitted {since:?} after its ban");
            }
            _ => {}
        }
        admitted.refused += u64::from(!verdict.is_admitted());
        let charged = charged(&verdict, client, cost != 1);
        let ticket = verdict.ticket();
        let held = &in_flight[client as usize];
        if charged.at_once > 0 {
            let held = held.fetch_add(charged.at_once, SeqCst) + charged.at_once;
            assert!(held <= AT_ONCE, "{held} in flight");
        }
        admitted.held.push((ticket, charged));
        if admitted.held.len() > 2 {
            let (ticket, charged) = admitted.held.swap_remove(random.usize(..3));
            in_flight[charged.client as usize].fetch_sub(charged.at_once, SeqCst);
            admitted.end(ticket, charged, random.u64(..60));
        }
        std::thread::yield_now();
    }
    while let Some((ticket, charged)) = admitted.held.pop() {
        admitted.end(ticket, charged, 3);
    }
    admitted
}

fn play(seed: u64) -> (u64, u64) {
    let clock = ManualClock::new();
    let limit = |state| Limit { state, algorithm: state as usize % 3, count: 9 };
    let own = |(state, key): (u64, &'static str)| Own {
        name: ["a", "b", "c"][state as usize].into(),
        was: String::new(),
        key,
        limit: limit(state + 1),
        tier: None,
        is_out: false,
        is_shadow: false,
        charge_if: false,
        forget: false,
    };
    let own: Vec<Own> = [(0, "client"), (1, "client"), (2, "client")].into_iter().map(own).collect();
    let mut program = Program {
        own,
        at_once: AT_ONCE,
        is_at_once_out: false,
        is_ban_out: false,
        states: 10,
        bounds: BTreeMap::new(),
        hours: 0,
    };
    let live = LiveRules::new(rules(&program.text()), [0; 32], clock.clone()).unwrap();
    program.note();
    let is_over = AtomicBool::new(false);
    let in_flight: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let all: Vec<Admitted> = std::thread::scope(|scope| {
        let (live, is_over, in_flight) = (&live, &is_over, &in_flight);
        let _over = crate::exchange::Over(is_over);
        let start = |thread| scope.spawn(move || work(live, seed * THREADS + thread, is_over, in_flight));
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        let random = &mut Random::with_seed(seed << 40);
        for _ in 0..RELOADS {
            let own = program.own.clone();
            let is_refused = program.step(random, &clock, live);
            let done = live.exchange(rules(&program.text()), [0; 32]);
            match &done {
                Ok(_) => assert!(!is_refused, "{}", program.text()),
                Err(ExchangeError::Forgets(_)) => assert!(is_refused, "{done:?}\n{}", program.text()),
                Err(ExchangeError::Change { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            if done.is_err() {
                program.own = own;
            }
            program.note();
            clock.advance(Duration::from_millis(100));
        }
        is_over.store(true, SeqCst);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut units: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (key, more) in all.iter().flat_map(|admitted| &admitted.units) {
        *units.entry(*key).or_default() += more;
    }
    let mut full = 0;
    for ((state, client), units) in units {
        let (algorithm, bound) = &program.bounds[&state];
        // A log keeps all of its debt. A bucket gains at most half a unit in each hour that passes.
        let most = if *algorithm == 2 { bound.most } else { bound.in_steps + program.hours };
        assert!(units <= most, "seed {seed}: state {state}, client {client}: {units} of {most} units");
        full += u64::from(units >= bound.most);
    }
    (full, all.iter().map(|admitted| admitted.refused).sum())
}

#[test]
fn no_key_passes_its_bound_whatever_rules_become() {
    let (mut full, mut refused, mut seed) = (0, 0, 0);
    // On a busy machine the threads ask for less in a program.
    while seed < 8 || full <= 20 || refused <= 1_000 {
        assert!(seed < 100, "{full} limits were used up, {refused} requests refused");
        let (more_full, more_refused) = play(seed);
        full += more_full;
        refused += more_refused;
        seed += 1;
    }
}
