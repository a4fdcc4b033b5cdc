//! Every number of every answer of a replay equals the reference model's.

#[path = "support/reference.rs"]
mod reference;
mod support;

use reference::{Reference, line};
use serde_json::{Value, json};
use support::{LOG, MIDNIGHT, tollgate_reading};
use tollgate_model::{Answer, Booking};
use tollgate_testing::random::Random;

const SECOND: u64 = 1_000_000_000;

/// Every algorithm with its options.
const SPECS: [&str; 17] = [
    "token-bucket:5/10s",
    "token-bucket:7/s,burst=3,initial=0",
    "token-bucket:1_000_003/d,burst=4",
    "token-bucket:5/10s,burst=12,intervals",
    "leaky-bucket:5/10s,capacity=8",
    "leaky-bucket:3/s,capacity=4,mode=queue",
    "fixed-window:4/10s",
    "fixed-window:4/10s,count=all",
    "fixed-window:4/10s,first-hit",
    "fixed-window:3/10s,count=all,first-hit",
    "sliding-window:4/10s",
    "sliding-window:6/7s,count=all",
    "sliding-window:5/10s,subwindows=4",
    "sliding-window:5/7s,subwindows=3,count=all",
    "sliding-log:4/10s",
    "sliding-log:4/10s,count=all",
    "sliding-log:3/250ms",
];

const KEYS: [&str; 3] = ["a", "a key of more than eight bytes", "ключ"];

/// A generated record of a trace.
#[derive(Debug, Clone)]
struct Record {
    t_ns: u64,
    key: String,
    cost: u64,
    op: &'static str,
}

/// Requests of a few keys in bursts and pauses, some earlier than the request before.
fn records(seed: u64) -> Vec<Record> {
    let mut random = Random::with_seed(seed);
    let mut t = MIDNIGHT + random.u64(..100) * SECOND;
    let record = |_| {
        t = match random.u64(..12) {
            0 => t + random.u64(..25 * SECOND),
            1 => t - random.u64(..2 * SECOND),
            2 => t,
            _ => t + random.u64(..SECOND),
        };
        let key = KEYS[random.usize(..3)].to_owned();
        let cost = if random.u64(..4) == 0 { random.u64(..10) } else { 1 };
        let op = ["peek", "reset"].get(random.usize(..30)).copied().unwrap_or("check");
        Record { t_ns: t, key, cost, op }
    };
    (0..1_500).map(record).collect()
}

fn trace(records: &[Record]) -> String {
    let line = |Record { t_ns, key, cost, op }: &Record| {
        json!({"t_ns": t_ns, "key": key, "cost": cost, "op": op}).to_string() + "\n"
    };
    records.iter().map(line).collect()
}

/// The records with their line numbers and the time at which they are decided.
fn decided(records: &[Record]) -> impl Iterator<Item = (u64, u64, &Record)> {
    (1..).zip(records).scan(0, |latest, (number, record)| {
        *latest = record.t_ns.max(*latest);
        Some((number, *latest, record))
    })
}

#[test]
fn every_algorithm_decides_as_the_model_does() {
    for spec in SPECS {
        for seed in 0..3 {
            let records = records(seed);
            let arguments = ["replay", "-", "--format", "trace", "--limit", spec, "--decisions", "-"];
            let run = tollgate_reading(&arguments, trace(&records).as_bytes());
            let mut reference = Reference::new(spec, records[0].t_ns);
            let mut lines = run.lines().into_iter();
            for (number, t_ns, Record { key, cost, op, .. }) in decided(&records) {
                let answer = match *op {
                    "reset" => {
                        reference.reset(key);
                        continue;
                    }
                    "peek" => reference.peek(key, t_ns, *cost),
                    _ => reference.check(key, t_ns, *cost),
                };
                assert_eq!(lines.next(), Some(line(number, key, t_ns, answer)), "{spec}, cost {cost}");
            }
            assert_eq!(lines.next(), None);
        }
    }
}

#[test]
fn replays_give_back_what_the_model_gives_back() {
    // The engine's log gives back its newest admission only, the model's log also earlier ones.
    // Requests of one interval have one time, and a key that others reserve beside gets back less.
    let is_exact = |spec: &&str| !spec.starts_with("sliding-log") && !spec.contains("intervals");
    let specs = SPECS.into_iter().filter(is_exact);
    // One key of each run is given back to and reset: keys that share a mark get back less.
    for (spec, giver) in specs.flat_map(|spec| KEYS.map(|key| (spec, key))) {
        let mut records = records(11);
        // Windows have no reservations.
        let takes = if spec.contains("bucket") { &["reserve", "check", "check"][..] } else { &["check"] };
        for (number, record) in records.iter_mut().enumerate() {
            record.op = match number % 7 {
                2 if record.key == giver => "refund",
                5 if record.key == giver => "cancel",
                _ if record.op == "check" => takes[number % takes.len()],
                _ if record.key != giver => "peek",
                _ => record.op,
            };
        }
        let line_of = |Record { t_ns, key, cost, op }: &Record| match *op {
            "refund" | "cancel" => json!({"t_ns": t_ns, "key": key, "op": op}),
            "reserve" => json!({"t_ns": t_ns, "key": key, "cost": cost, "op": op, "max_wait_ns": 3 * SECOND}),
            _ => json!({"t_ns": t_ns, "key": key, "cost": cost, "op": op}),
        };
        let trace: String = records.iter().map(|record| line_of(record).to_string() + "\n").collect();
        let arguments = ["replay", "-", "--format", "trace", "--limit", spec, "--json", "--decisions", "-"];
        let run = tollgate_reading(&arguments, trace.as_bytes());

        let mut reference = Reference::new(spec, records[0].t_ns);
        let (mut admitted, mut reserved) = (Vec::new(), Vec::new());
        let (mut asked, mut units, mut found_nothing) = (0, 0, 0);
        let mut lines = run.lines().into_iter();
        for (number, t_ns, Record { key, cost, op, .. }) in decided(&records) {
            match *op {
                "check" => {
                    let (answer, receipt) = reference.admit(key, t_ns, *cost);
                    // A check of cost 0 took nothing to give back.
                    admitted.extend(receipt.filter(|_| *cost > 0).map(|receipt| (key, receipt)));
                    assert_eq!(lines.next(), Some(line(number, key, t_ns, answer)), "{spec}, cost {cost}");
                }
                "reserve" => {
                    let booking = reference.reserve(key, t_ns, *cost, 3 * SECOND).expect("a bucket");
                    let (got, wait) = (
                        lines.next().expect("a line"),
                        match &booking {
                            Booking::Booked(reservation) => Some(reference.departure(reservation) - t_ns),
                            Booking::Refused { wait_ns } => Some(*wait_ns),
                            _ => None,
                        },
                    );
                    let is_booked = matches!(booking, Booking::Booked(_));
                    assert_eq!(
                        (&got["line"], &got["allowed"]),
                        (&json!(number), &json!(is_booked)),
                        "{spec}"
                    );
                    let waits = if is_booked { &got["delay_ns"] } else { &got["retry_after_ns"] }.as_u64();
                    // For a full queue the model's wait is until there is room, the engine's until
                    // the turn.
                    let is_later = !is_booked && spec.ends_with("mode=queue") && waits > wait;
                    assert!(waits == wait || is_later, "{spec}, line {number}: {waits:?}, {wait:?}");
                    reserved
                        .extend(booking.booked().filter(|_| *cost > 0).map(|reservation| (key, reservation)));
                }
                "refund" => {
                    let latest = admitted.iter().rposition(|(holder, _)| *holder == key);
                    let back = latest.map(|at| reference.refund(admitted.remove(at).1, u64::MAX, t_ns));
                    (asked, units) = (asked + 1, units + back.unwrap_or(0));
                    found_nothing += u64::from(back.is_none());
                }
                "cancel" => {
                    let latest = reserved.iter().rposition(|(holder, _)| *holder == key);
                    let back = latest.map(|at| reference.cancel(reserved.remove(at).1, t_ns));
                    (asked, units) = (asked + 1, units + back.unwrap_or(0));
                    found_nothing += u64::from(back.is_none());
                }
                "reset" => {
                    reference.reset(key);
                    admitted.retain(|(holder, _)| *holder != key);
                    reserved.retain(|(holder, _)| *holder != key);
                }
                _ => {
                    let answer = reference.peek(key, t_ns, *cost);
                    assert_eq!(lines.next(), Some(line(number, key, t_ns, answer)), "{spec}, peek {cost}");
                }
            }
        }
        let summary: Value = serde_json::from_str(run.err.lines().next().expect("a summary")).expect("JSON");
        let expected = json!({"asked": asked, "units": units, "found_nothing": found_nothing});
        assert_eq!(summary["given_back"], expected, "{spec}");
        assert!(units > 0 && found_nothing < asked, "{spec}: the trace gives something back");
    }
}

#[test]
fn several_limits_decide_as_their_models_do_together() {
    let pairs = [
        ["token-bucket:3/s", "fixed-window:10/min"],
        ["sliding-log:2/s", "sliding-window:12/20s,count=all"],
        ["leaky-bucket:2/s,mode=queue", "sliding-log:6/15s,count=all"],
    ];
    for specs in pairs {
        let records = records(7);
        let mut arguments = vec!["replay", "-", "--format", "trace", "--decisions", "-"];
        specs.iter().for_each(|spec| arguments.extend(["--limit", spec]));
        let run = tollgate_reading(&arguments, trace(&records).as_bytes());
        let mut models = specs.map(|spec| (spec, Reference::new(spec, records[0].t_ns)));
        let mut lines = run.lines().into_iter();
        for (number, t_ns, Record { key, cost, op, .. }) in decided(&records) {
            if *op == "reset" {
                models.iter_mut().for_each(|(_, model)| model.reset(key));
                continue;
            }
            let admits: Vec<bool> =
                models.iter().map(|(_, model)| model.peek(key, t_ns, *cost).allowed).collect();
            let allowed = admits.iter().all(|&admits| admits);
            // A cost above one limit's maximum never passes, even if other limits refuse it only
            // now.
            let never = models.iter().any(|(_, model)| model.peek(key, t_ns, *cost).never);
            let mut answers = Vec::new();
            for ((_, model), admits) in models.iter_mut().zip(admits) {
                // A limit that admits is not charged when another refuses.
                let is_unchanged =
                    if never { !model.peek(key, t_ns, *cost).never } else { admits && !allowed };
                answers.push(match *op {
                    _ if is_unchanged => model.peek(key, t_ns, 0),
                    "check" => model.check(key, t_ns, *cost),
                    _ => model.peek(key, t_ns, *cost),
                });
            }
            let got = lines.next().expect("a line for each request");
            let tightest = answers.iter().min_by_key(|answer| answer.remaining).expect("there are two");
            let wait = answers.iter().filter_map(|answer| answer.retry_after_ns).max();
            let delay = answers.iter().map(|answer| answer.delay_ns).max().filter(|_| allowed);
            let refuses = |answer: &Answer| if never { answer.never } else { !answer.allowed };
            let refusing = specs.iter().zip(&answers).filter(|(_, answer)| refuses(answer));
            let refused_by: Vec<Value> = refusing.map(|(spec, _)| json!(canonical(spec))).collect();
            let expected = json!({
                "line": number,
                "key": key,
                "t_ns": t_ns,
                "allowed": allowed,
                "limit": tightest.limit,
                "remaining": tightest.remaining,
                "retry_after_ns": if never { None } else { wait },
                "reset_after_ns": answers.iter().map(|answer| answer.reset_after_ns).max(),
                "delay_ns": delay.unwrap_or(0),
                "never": never,
                "refused_by": if allowed { Value::Null } else { refused_by.into() },
            });
            assert_eq!(got, expected, "{specs:?}, {op} of cost {cost}");
        }
        assert_eq!(lines.next(), None);
    }
}

/// The limit as the binary prints it.
fn canonical(spec: &str) -> String {
    match spec {
        "token-bucket:3/s" => "token-bucket:3/s,burst=3".to_owned(),
        "leaky-bucket:2/s,mode=queue" => "leaky-bucket:2/s,capacity=2,mode=queue".to_owned(),
        _ => spec.to_owned(),
    }
}

#[test]
fn an_access_log_is_decided_at_its_own_times() {
    // Line, key and seconds after midnight. The fifth line's own time is a second earlier.
    let requests = [
        (1, "192.0.2.1", 0),
        (2, "192.0.2.1", 0),
        (3, "192.0.2.1", 1),
        (4, "192.0.2.2", 2),
        (5, "192.0.2.1", 2),
        (8, "2001:db8::/64", 3),
        (9, "2001:db8::/64", 3),
        (10, "2001:db8::/64", 4),
        (11, "192.0.2.1", 4),
    ];
    for spec in ["token-bucket:1/2s,burst=2", "fixed-window:2/3s", "sliding-log:2/2s"] {
        let run = tollgate_reading(&["replay", "-", "--limit", spec, "--decisions", "-"], LOG.as_bytes());
        let mut reference = Reference::new(spec, MIDNIGHT);
        let expected: Vec<Value> = requests
            .into_iter()
            .map(|(number, key, second)| {
                let t_ns = MIDNIGHT + second * SECOND;
                line(number, key, t_ns, reference.check(key, t_ns, 1))
            })
            .collect();
        assert_eq!(run.lines(), expected, "{spec}");
    }
}
