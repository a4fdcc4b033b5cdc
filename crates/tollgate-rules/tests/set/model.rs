//! Random rules, requests, times and reloads, beside the specification of the algorithms.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use tollgate::{CountPolicy, Limiter, ManualClock, Timestamp};
use tollgate_model::{Algorithm, Inherit, Model, Receipt};
use tollgate_rules::{Ask, LiveRules, PlainRequest, Ruling, Scratch, Ticket};
use tollgate_testing::limits::{Kind, Limit};
use tollgate_testing::random::Random;

use crate::{header, rules};

const SECOND: u64 = 1_000_000_000;

fn random_limit(random: &mut Random) -> Limit {
    let kind = [Kind::Bucket, Kind::Fixed, Kind::Fixed, Kind::Log, Kind::Meter][random.usize(..5)];
    let policy = if kind == Kind::Fixed && random.bool() { CountPolicy::All } else { CountPolicy::Allowed };
    Limit { policy, ..kind.limit(random.u64(1..=6), random.u64(1..=9) * SECOND) }
}

fn algorithm(limit: &Limit) -> Algorithm {
    let limiter = Limiter::builder(limit.quota()).per::<[u8]>().clock(ManualClock::new()).build().unwrap();
    limit.algorithm(limiter.resolution(), 0)
}

/// A rule and its limits by the specification.
struct Rule {
    key: Key,
    limits: Vec<(Limit, Model)>,
    is_shadow: bool,
    charge_if: bool,
    /// Whether its cost is that of a label.
    is_labelled: bool,
    ban: Option<u64>,
    banned: BTreeMap<String, u64>,
}

#[derive(Clone, Copy)]
enum Key {
    Everyone,
    Client,
    User,
}

/// What the specification says of one rule.
#[derive(Debug, PartialEq)]
struct Said {
    ruling: Ruling,
    retry_after: Option<u64>,
    remaining: u64,
}

/// The receipts of a rule's charge, with the numbers of its limits.
type Charge = Vec<(usize, Receipt)>;

impl Rule {
    fn random(random: &mut Random) -> Self {
        let key = [Key::Everyone, Key::Client, Key::User][random.usize(..3)];
        let limits: Vec<_> = (0..1 + random.u64(..2)).map(|_| random_limit(random)).collect();
        Self {
            key,
            limits: limits.into_iter().map(|limit| (limit, Model::new(algorithm(&limit)))).collect(),
            is_shadow: random.u64(..5) == 0,
            charge_if: random.u64(..3) == 0,
            is_labelled: random.u64(..3) == 0,
            ban: (random.u64(..5) == 0).then(|| random.u64(1..=20)),
            banned: BTreeMap::new(),
        }
    }

    fn text(&self, number: usize) -> String {
        let key = match self.key {
            Key::Everyone => "everyone",
            Key::Client => "client",
            Key::User => "label.user",
        };
        let limits: Vec<_> = self.limits.iter().map(|(limit, _)| limit.to_string()).collect();
        let mut text = format!("[[rule]]\nname = 'r{number}'\nkey = '{key}'\nlimits = {limits:?}\n");
        if self.is_shadow {
            text += "mode = 'shadow'\n";
        }
        if self.is_labelled {
            text += "cost = { from = 'label.n', default = 2 }\n";
        }
        if self.charge_if {
            text += "charge_if.status = [401]\n";
        }
        if let Some(ban) = self.ban {
            let _ = writeln!(text, "ban = '{ban}s'");
        }
        text
    }

    fn key(&self, client: u64, user: u64) -> String {
        match self.key {
            Key::Everyone => String::new(),
            Key::Client => format!("c{client}"),
            Key::User => format!("u{user}"),
        }
    }

    /// What the rule says, without a change.
    fn look(&self, key: &str, now: u64, cost: u64) -> Said {
        let answers: Vec<_> = self.limits.iter().map(|(_, model)| model.peek(key, now, cost)).collect();
        let is_never = answers.iter().any(|answer| answer.never);
        let refusals = answers.iter().filter(|answer| !answer.allowed);
        let mut said =
            Said { ruling: Ruling::Admitted, retry_after: None, remaining: self.remaining(key, now) };
        if is_never {
            said.ruling = Ruling::Never;
        } else if let Some(wait) = refusals.filter_map(|answer| answer.retry_after_ns).max() {
            (said.ruling, said.retry_after) = (Ruling::Refused, Some(wait));
        }
        let left = self.banned.get(key).and_then(|end| end.checked_sub(now)).filter(|left| *left > 0);
        if let Some(left) = left.filter(|_| said.ruling != Ruling::Never) {
            said =
                Said { ruling: Ruling::Refused, retry_after: said.retry_after.max(Some(left)), remaining: 0 };
        }
        said
    }

    fn remaining(&self, key: &str, now: u64) -> u64 {
        self.limits.iter().map(|(_, model)| model.peek(key, now, 0).remaining).min().unwrap()
    }

    fn charge(&mut self, key: &str, now: u64, cost: u64) -> Charge {
        let admit = |(number, (_, model)): (usize, &mut (Limit, Model))| {
            Some((number, model.admit(key, now, cost).1?))
        };
        self.limits.iter_mut().enumerate().filter_map(admit).collect()
    }

    fn is_banned(&self, key: &str, now: u64) -> bool {
        self.banned.get(key).is_some_and(|end| *end > now)
    }

    /// Says what a ban from `now` on would. A peek of a request that would be refused says it too.
    fn foresee_ban(&self, key: &str, now: u64, said: &mut Said) {
        if let Some(ban) = self.ban.filter(|_| !self.is_banned(key, now)) {
            (said.retry_after, said.remaining) = (said.retry_after.max(Some(ban * SECOND)), 0);
        }
    }

    /// Counts a refusal by limits that count them, and bans the key.
    fn refuse(&mut self, key: &str, now: u64, cost: u64, said: &mut Said) {
        if self.is_banned(key, now) {
            return;
        }
        for (_, model) in &mut self.limits {
            if !model.peek(key, now, cost).allowed {
                model.check(key, now, cost);
            }
        }
        let again = self.look(key, now, cost);
        (said.retry_after, said.remaining) = (again.retry_after, again.remaining);
        self.foresee_ban(key, now, said);
        if let Some(ban) = self.ban {
            self.banned.insert(key.into(), now + ban * SECOND);
        }
    }

    fn give_back(&mut self, charge: Charge, now: u64) {
        for (number, receipt) in charge.into_iter().rev() {
            self.limits[number].1.refund(receipt, now);
        }
    }

    /// Makes a charge of `units` one of `cost`, and returns how many units it is then.
    fn settle_cost(&mut self, (key, now): (&str, u64), charge: &mut Charge, units: u64, cost: u64) -> u64 {
        if cost <= units {
            let mut excess: Vec<u64> = self.limits.iter().map(|_| units - cost).collect();
            for (number, receipt) in charge.iter_mut().rev() {
                let part = excess[*number].min(receipt.cost());
                excess[*number] -= part;
                self.limits[*number].1.refund_part(receipt, part, now);
            }
            return cost;
        }
        if self.limits.iter().all(|(limit, _)| limit.kind != Kind::Log) {
            for (number, (_, model)) in self.limits.iter_mut().enumerate() {
                let receipt = model.debit(key, now, cost - units).unwrap();
                assert_eq!(receipt.cost(), cost - units, "no word is full");
                charge.push((number, receipt));
            }
            return cost;
        }
        let more = self.remaining(key, now).max(1).min(cost - units);
        if self.limits.iter().all(|(_, model)| model.peek(key, now, more).allowed) {
            charge.extend(self.charge(key, now, more));
            return units + more;
        }
        for (_, model) in &mut self.limits {
            if !model.peek(key, now, more).allowed {
                model.check(key, now, more);
            }
        }
        units
    }
}

/// A request that was admitted and not answered yet.
struct Open {
    ticket: Ticket<ManualClock>,
    charges: Vec<Charge>,
    keys: Vec<String>,
    /// Of each rule whose cost may be settled, what it charged.
    units: Vec<Option<u64>>,
}

/// All rules decide a request: those that are enforced together, each in shadow mode alone.
fn decide(
    rules: &mut [Rule],
    keys: &[String],
    now: u64,
    costs: &[u64],
    peek: bool,
) -> (Vec<Said>, Vec<Option<Charge>>) {
    let look = |((rule, key), cost): ((&Rule, &String), &u64)| rule.look(key, now, *cost);
    let mut said: Vec<Said> = rules.iter().zip(keys).zip(costs).map(look).collect();
    let mut charges: Vec<Option<Charge>> = rules.iter().map(|_| None).collect();
    let enforced: Vec<usize> = (0..rules.len()).filter(|&number| !rules[number].is_shadow).collect();
    let shadows = (0..rules.len()).filter(|&number| rules[number].is_shadow).map(|number| vec![number]);
    let groups: Vec<Vec<usize>> = shadows.chain([enforced]).collect();
    for group in groups {
        let worst = group.iter().map(|&number| said[number].ruling).max().unwrap_or(Ruling::Admitted);
        for number in group {
            let (rule, key, said) = (&mut rules[number], &keys[number], &mut said[number]);
            let cost = costs[number];
            match (worst, said.ruling) {
                (Ruling::Admitted, _) => {
                    if !peek {
                        charges[number] = Some(rule.charge(key, now, cost));
                        said.remaining = rule.remaining(key, now);
                    } else {
                        said.remaining -= cost;
                    }
                }
                (Ruling::Refused, Ruling::Refused) if peek => rule.foresee_ban(key, now, said),
                (Ruling::Refused, Ruling::Refused) => rule.refuse(key, now, cost, said),
                _ => {}
            }
        }
    }
    (said, charges)
}

struct Play {
    rules: Vec<Rule>,
    live: LiveRules<ManualClock>,
    clock: ManualClock,
    now: u64,
    open: Vec<Open>,
}

impl Play {
    fn text(rules: &[Rule]) -> String {
        rules.iter().enumerate().map(|(number, rule)| rule.text(number)).collect()
    }

    fn request(&mut self, random: &mut Random, scratch: &mut Scratch) {
        let (client, user, cost) =
            (random.u64(..3), random.u64(..2), random.u64(..8).saturating_sub(4).max(1));
        let cost = if random.u64(..12) == 0 { 0 } else { cost };
        let is_peek = random.u64(..6) == 0;
        let label = [None, Some(0), Some(1), Some(3)][random.usize(..4)];
        let mut request = PlainRequest {
            client: Some([192, 0, 2, client as u8].into()),
            labels: vec![header("user", &format!("u{user}"))],
            ..PlainRequest::default()
        };
        request.labels.extend(label.map(|label| header("n", &label.to_string())));
        let keys: Vec<String> = self.rules.iter().map(|rule| rule.key(client, user)).collect();
        let cost_of = |rule: &Rule| if rule.is_labelled { label.unwrap_or(2) } else { cost };
        let costs: Vec<u64> = self.rules.iter().map(cost_of).collect();
        let mut handle = self.live.handle();
        let verdict = handle.ask(&request, Ask { cost, is_peek, ..Ask::default() }, scratch);
        let answers: Vec<_> = verdict.answers().map(|one| (one.rule, one.ruling, one.is_shadow)).collect();
        let lines: Vec<_> =
            verdict.lines().iter().map(|line| (line.rule, line.ruling, line.is_shadow)).collect();
        assert_eq!(answers, lines);
        let (said, charges) = decide(&mut self.rules, &keys, self.now, &costs, is_peek);
        let is_whole = |ruling| ruling != Ruling::Never;
        for ((line, said), rule) in verdict.lines().iter().zip(&said).zip(&self.rules) {
            let context = format!(
                "rule {}, cost {cost}, peek {is_peek}, at {}: {line:?} {said:?}\n{}",
                line.rule,
                self.now,
                Self::text(&self.rules)
            );
            assert_eq!(line.ruling, said.ruling, "{context}");
            let wait = line.retry_after.map(|wait| wait.as_nanos() as u64);
            assert_eq!(wait, said.retry_after, "{context}");
            let is_numbered = !is_peek || verdict.is_admitted();
            if rule.limits.len() == 1 && is_numbered && is_whole(line.ruling) {
                assert_eq!(line.remaining, said.remaining, "{context}");
            }
        }
        let enforced = || said.iter().zip(&self.rules).filter(|(_, rule)| !rule.is_shadow);
        let worst = enforced().map(|(said, _)| said.ruling).max().unwrap_or(Ruling::Admitted);
        assert_eq!(verdict.outcome(), worst);
        if worst == Ruling::Refused && !is_peek {
            let wait = enforced().filter_map(|(said, _)| said.retry_after).max();
            assert_eq!(verdict.retry_after().map(|wait| wait.as_nanos() as u64), wait);
        }
        let ticket = verdict.ticket();
        let units = self.rules.iter().zip(&charges).zip(costs);
        let units = units.map(|((rule, charge), units)| {
            (charge.is_some() && (rule.is_labelled || cost != 1)).then_some(units)
        });
        let units = units.collect();
        let charges = charges.into_iter().map(Option::unwrap_or_default).collect();
        let mut open = Open { ticket, charges, keys, units };
        if random.bool() {
            self.settle_cost(&mut open, random.u64(..6));
        }
        match random.u64(..3) {
            0 => self.open.push(open),
            status => self.settle(open, if status == 1 { 200 } else { 401 }),
        }
    }

    fn settle_cost(&mut self, open: &mut Open, cost: u64) {
        let mut least = cost;
        for (number, rule) in self.rules.iter_mut().enumerate() {
            if let Some(units) = &mut open.units[number] {
                let key = (&*open.keys[number], self.now);
                *units = rule.settle_cost(key, &mut open.charges[number], *units, cost);
                least = least.min(*units);
            }
        }
        assert_eq!(open.ticket.settle_cost(cost), least, "cost {cost}\n{}", Self::text(&self.rules));
    }

    fn settle(&mut self, Open { mut ticket, charges, .. }: Open, status: u16) {
        ticket.settle(status);
        for (rule, charge) in self.rules.iter_mut().zip(charges) {
            if rule.charge_if && status != 401 {
                rule.give_back(charge, self.now);
            }
        }
    }

    /// Changes the numbers of fixed windows, and what leaves the state as it is.
    fn reload(&mut self, random: &mut Random) {
        while let Some(open) = self.open.pop() {
            self.settle(open, 401);
        }
        for rule in &mut self.rules {
            rule.charge_if = random.u64(..3) == 0;
            for (limit, model) in &mut rule.limits {
                if limit.kind == Kind::Fixed && random.bool() {
                    limit.count = random.u64(1..=6);
                    model.change(algorithm(limit), Inherit::Additive, self.now);
                }
            }
        }
        self.live.exchange(rules(&Self::text(&self.rules)), [0; 32]).unwrap();
    }
}

#[test]
fn rules_decide_as_the_specification_does() {
    let mut scratch = Scratch::default();
    for seed in 0..150 {
        let random = &mut Random::with_seed(seed << 32);
        let own: Vec<Rule> = (0..1 + random.u64(..4)).map(|_| Rule::random(random)).collect();
        let text = Play::text(&own);
        let clock = ManualClock::new();
        let live = LiveRules::new(rules(&text), [0; 32], clock.clone()).unwrap();
        let mut play = Play { rules: own, live, clock, now: 0, open: Vec::new() };
        for _ in 0..80 {
            match random.u64(..20) {
                0 => play.reload(random),
                1..5 => {
                    play.now += random.u64(..3 * SECOND);
                    play.clock.set(Timestamp::ZERO + Duration::from_nanos(play.now));
                }
                5 | 6 if !play.open.is_empty() => {
                    let mut open = play.open.swap_remove(random.usize(..play.open.len()));
                    if random.bool() {
                        play.settle_cost(&mut open, random.u64(..6));
                        play.open.push(open);
                    } else {
                        play.settle(open, if random.bool() { 200 } else { 401 });
                    }
                }
                _ => play.request(random, &mut scratch),
            }
        }
    }
}
