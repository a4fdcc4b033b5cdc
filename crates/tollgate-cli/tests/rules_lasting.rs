//! `tollgate replay --rules` and its kin on logs that say how long requests last.

mod support;

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use support::{MIDNIGHT, Run, Temporary, tollgate};
use tollgate::{ManualClock, Timestamp};
use tollgate_rules::{PlainRequest, RuleSet, Scratch};
use tollgate_rules_file::{Disk, read};
use tollgate_testing::random::Random;

const SECOND: u64 = 1_000_000_000;

/// Two failed log-ins an hour. Those under way count until they end.
const FAILED: &str = "version = 1\n[[rule]]\nname = 'failed'\nkey = 'client'\n\
    limits = 'fixed-window:2/h'\ncharge_if.status = [401]\n";

/// Four requests that do not fail, by arrival and end in seconds after midnight, in the order in
/// which they end. Of the first three, two are under way when the third arrives; when the fourth
/// arrives, they end.
const REQUESTS: [(u64, u64); 4] = [(12, 13), (10, 20), (11, 20), (20, 21)];

/// Which of them is refused.
const REFUSED: [bool; 4] = [true, false, false, false];

/// Seconds after midnight as an access log has them.
fn clf(t: u64) -> String {
    format!("20/Feb/2016:00:{:02}:{:02} +0000", t / 60, t % 60)
}

fn rfc3339(t: u64) -> String {
    format!("2016-02-20T00:{:02}:{:02}Z", t / 60, t % 60)
}

/// Whether the rules refuse each line of the log, by its number.
fn refused(rules: &str, log: &str, options: &[&str]) -> (Vec<bool>, Run) {
    let name = format!(
        "{:016x}",
        log.bytes()
            .chain(rules.bytes())
            .fold(7_u64, |sum, byte| { sum.wrapping_mul(1_099_511_628_211).wrapping_add(byte.into()) })
    );
    let name = |end: &str| format!("lasting-{name}-{:?}.{end}", std::thread::current().id());
    let (rules, log) =
        (Temporary::new(&name("toml"), rules.as_bytes()), Temporary::new(&name("log"), log.as_bytes()));
    let arguments = ["replay", "--rules", rules.text(), log.text(), "--decisions", "-"];
    let run = tollgate(&[&arguments[..], options].concat());
    let mut decisions = run.lines();
    let times: Vec<u64> = decisions.iter().map(|one| one["t_ns"].as_u64().expect("a number")).collect();
    assert!(times.is_sorted(), "decisions are in the order of arrivals: {times:?}");
    decisions.sort_by_key(|decision| decision["line"].as_u64());
    (decisions.iter().map(|decision| decision["admitted"] == false).collect(), run)
}

/// A log of [`REQUESTS`] in the lines that `line` makes of arrival and end.
fn log_of(line: impl Fn(u64, u64) -> String) -> String {
    REQUESTS.iter().map(|&(arrives, ends)| line(arrives, ends) + "\n").collect()
}

fn access(time: u64, extra: &str) -> String {
    format!("192.0.2.7 - - [{}] \"POST /login HTTP/1.1\" 200 5 \"-\" \"curl/8\"{extra}", clf(time))
}

#[test]
fn each_format_says_when_requests_arrive_and_end() {
    let logs = [
        ("nginx", log_of(|arrives, ends| access(ends, &format!(" {}.000 \"-\"", ends - arrives)))),
        (
            "nginx by name",
            log_of(|arrives, ends| access(ends, &format!(" uct=\"-\" rt={}.000", ends - arrives))),
        ),
        ("Apache %D", log_of(|arrives, ends| access(arrives, &format!(" {}", (ends - arrives) * 1_000_000)))),
        ("Apache %T/%D", log_of(|arrives, ends| access(arrives, &format!(" {0}/{0}000000", ends - arrives)))),
        (
            "Traefik",
            log_of(|arrives, ends| {
                access(arrives, &format!(" 7 \"web@file\" \"10.0.0.2\" {}ms", (ends - arrives) * 1000))
            }),
        ),
        (
            "nginx JSON",
            log_of(|arrives, ends| {
                json!({"time_iso8601": rfc3339(ends), "remote_addr": "192.0.2.7", "status": 200,
                "request_time": format!("{}.000", ends - arrives)})
                .to_string()
            }),
        ),
        (
            "Envoy",
            log_of(|arrives, ends| {
                json!({"start_time": rfc3339(arrives), "client_ip": "192.0.2.7", "response_code": 200,
                "duration": (ends - arrives) * 1000, "response_flags": "-"})
                .to_string()
            }),
        ),
        (
            "Caddy",
            log_of(|arrives, ends| {
                json!({"ts": MIDNIGHT / SECOND + ends, "request": {"remote_ip": "192.0.2.7"}, "status": 200,
                "duration": (ends - arrives) as f64})
                .to_string()
            }),
        ),
        (
            "Traefik JSON",
            log_of(|arrives, ends| {
                json!({"time": rfc3339(ends + 2), "StartUTC": rfc3339(arrives), "ClientHost": "192.0.2.7",
                "DownstreamStatus": 200, "Duration": (ends - arrives) * SECOND})
                .to_string()
            }),
        ),
        (
            "a unit in the text",
            log_of(|arrives, ends| {
                json!({"time": rfc3339(ends), "ip": "192.0.2.7", "status": 200,
                "duration": format!("{}s", ends - arrives)})
                .to_string()
            }),
        ),
        (
            "CSV",
            "time,ip,status,latency_ms\n".to_owned()
                + &log_of(|arrives, ends| {
                    format!("{},192.0.2.7,200,{}", rfc3339(ends), (ends - arrives) * 1000)
                }),
        ),
    ];
    for (format, log) in logs {
        let (refused, run) = refused(FAILED, &log, &[]);
        assert_eq!(refused, REFUSED, "{format}: {}", run.err);
        assert!(run.err.contains("says how long a request lasts"), "{format}: {}", run.err);
        assert!(!run.err.contains("at once"), "{format}: {}", run.err);
    }
}

#[test]
fn a_duration_can_be_mapped_with_its_unit() {
    let json = log_of(|arrives, ends| {
        json!({"at": rfc3339(ends), "ip": "192.0.2.7", "status": 200, "took": (ends - arrives) * 1_000_000})
            .to_string()
    });
    let options = ["--time-field", "at", "--map", "duration=took:us"];
    assert_eq!(refused(FAILED, &json, &options).0, REFUSED);
    let line =
        log_of(|arrives, ends| access(ends, &format!(" x=1 {} t={}", arrives, (ends - arrives) * 1000)));
    let options = ["--map", "duration=extra.t:ms", "--time-is", "end"];
    assert_eq!(refused(FAILED, &line, &options).0, REFUSED);
    let line = log_of(|arrives, ends| access(arrives, &format!(" x {}", (ends - arrives) * 1000)));
    assert_eq!(refused(FAILED, &line, &["--map", "duration=extra.2:ms"]).0, REFUSED);
}

#[test]
fn without_durations_requests_are_taken_to_end_at_once() {
    let log: String = (0..40).map(|second| access(second, "") + "\n").collect();
    let (none, run) = refused(FAILED, &log, &[]);
    assert_eq!(none, [false; 40]);
    assert!(run.err.contains("taken to end at once") && run.err.contains("`failed`"), "{}", run.err);
    // Each holds its charge for ten seconds, so that two of ten pass.
    let (ten, run) = refused(FAILED, &log, &["--lasts", "10s"]);
    let expected: Vec<bool> = (0..40).map(|second| second % 10 > 1).collect();
    assert_eq!(ten, expected, "{}", run.err);
    assert!(!run.err.contains("at once"), "{}", run.err);
    // Rules that keep all they charge decide alike.
    let rules = FAILED.replace("charge_if.status = [401]\n", "");
    assert!(!refused(&rules, &log, &[]).1.err.contains("at once"));
}

#[test]
fn a_request_under_way_holds_its_place() {
    let rules = "version = 1\n[[rule]]\nname = 'exports'\nkey = 'client'\nlimits = 'in-flight:2'\n";
    let log = log_of(|arrives, ends| access(ends, &format!(" {}.000", ends - arrives)));
    assert_eq!(refused(rules, &log, &[]).0, REFUSED);
    let log: String = [0, 1, 2, 3, 4].map(|second| access(second, "") + "\n").concat();
    let (refused, _) = refused(rules, &log, &["--lasts", "3s"]);
    assert_eq!(refused, [false, false, true, false, false]);
}

#[test]
fn what_a_request_really_cost_is_told_at_its_end() {
    let rules = "version = 1\n[[rule]]\nname = 'tokens'\nkey = 'client'\nlimits = 'fixed-window:10000/h'\n\
        cost = { from = 'label.tokens' }\n";
    let line = |arrives: u64, ends: u64| {
        let object = json!({"time": rfc3339(ends), "ip": "192.0.2.7", "status": 200,
            "duration_ms": (ends - arrives) * 1000, "estimate": 4000, "usage": {"total": 500}});
        object.to_string() + "\n"
    };
    // Two estimates fit at once, and twenty real costs.
    let log: String = (0..30).map(|n| line(n, n + 1 + n % 2)).collect();
    let options = ["--map", "label.tokens=estimate", "--map", "settles=usage.total"];
    let (with, _) = refused(rules, &log, &options);
    let (without, _) = refused(rules, &log, &options[..2]);
    let count = |refused: &[bool]| refused.iter().filter(|refused| !**refused).count();
    assert_eq!((count(&with), count(&without)), (13, 2));
    // What cannot be read is told, and the estimate stays.
    let (unread, run) = refused(rules, &log.replace(":500}", ":\"much\"}"), &options);
    assert_eq!(unread, without);
    assert!(run.err.contains("30 requests with a real cost") && run.err.contains("\"much\""), "{}", run.err);
}

#[test]
fn requests_that_were_refused_stay_charged_and_are_told() {
    let log: String = [0, 1, 2, 3].map(|second| access(second, " 0.000") + "\n").concat();
    let (refused, run) = refused(FAILED, &log.replace(" 200 5", " 429 5"), &[]);
    assert_eq!(refused, [false, false, true, true]);
    assert!(run.err.contains("2 requests of status 429"), "{}", run.err);
}

#[test]
fn a_duration_that_cannot_be_read_is_counted_and_shown() {
    let lines = [
        access(10, " 1.000"),
        access(11, " -0.500"),
        access(12, " NaN"),
        access(13, " 99999999999999999999"),
        access(14, " 1455926500.000"),
        access(15, ""),
        access(16, " 7200.000"),
    ];
    let log: String = lines.iter().map(|line| line.clone() + "\n").collect();
    let rules = Temporary::new("unread.toml", FAILED.as_bytes());
    let file = Temporary::new("unread.log", log.as_bytes());
    let run = tollgate(&[
        "replay",
        "--rules",
        rules.text(),
        file.text(),
        "--map",
        "duration=extra.1:s",
        "--time-is",
        "end",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    for part in [
        "4 requests with a duration that cannot be read; they are taken to end at once \
         (the first in line 2: \"-0.500\", the duration is negative)",
        "1 request without a duration; it is taken to end at once (the first in line 6)",
        "the longest request lasts 7200s, longer than the log (line 7)",
    ] {
        assert!(run.err.contains(part), "{} lacks {part}", run.err);
    }
}

#[test]
fn a_late_line_is_decided_at_its_turn_and_counted() {
    // The second lasts longer than a minute, and others that came after it are decided.
    let log = [access(640, " 0.000"), access(700, " 300.000"), access(701, " 0.000"), access(900, " 0.000")]
        .map(|line| line + "\n")
        .concat();
    let rules = Temporary::new("late.toml", FAILED.as_bytes());
    let before = Temporary::new(
        "late.log",
        (access(0, " 0.000") + "\n" + &access(550, " 0.000") + "\n" + &log).as_bytes(),
    );
    let run = tollgate(&["replay", "--rules", rules.text(), before.text(), "--json"]);
    let json = run.json();
    assert_eq!((&json["out_of_order"], &json["requests"]), (&json!(1), &json!(6)), "{}", run.err);
    assert!(run.err.contains("1 request is decided late") && run.err.contains("line 4"), "{}", run.err);
}

#[test]
fn unusable_durations_are_errors() {
    let json = log_of(|arrives, ends| {
        json!({"time": rfc3339(ends), "ip": "192.0.2.7", "status": 200, "took": ends - arrives}).to_string()
    });
    let (rules, log) =
        (Temporary::new("units.toml", FAILED.as_bytes()), Temporary::new("units.log", json.as_bytes()));
    let cases: &[(&[&str], &[&str])] = &[
        (&["--map", "duration=took"], &["\"took\"", "the unit", "duration=took:s, :ms, :us or :ns"]),
        (&["--map", "duration=none:s"], &["no record has a value", "\"none\""]),
        (&["--lasts", "0s"], &["--lasts", "longer than nothing"]),
        (&["--lasts", "-1s"], &["--lasts"]),
        (&["--lasts", "5 parsecs"], &["--lasts", "5 parsecs"]),
        (&["--lasts", "1000y"], &["--lasts"]),
        (&["--time-is", "middle"], &["--time-is", "start, end"]),
    ];
    for (options, parts) in cases {
        let run = tollgate(&[&["replay", "--rules", rules.text(), log.text()], *options].concat());
        assert_eq!(run.code, Some(2), "{options:?}: {}", run.err);
        assert!(parts.iter().all(|part| run.err.contains(part)), "{options:?}: {}", run.err);
    }
    for command in [&["replay", log.text(), "--limit", "5/s"][..], &["tune", log.text()]] {
        for option in [["--lasts", "1s"], ["--time-is", "end"], ["--map", "host=x"]] {
            let run = tollgate(&[command, &option].concat());
            assert_eq!(run.code, Some(2), "{command:?} {option:?}: {}", run.err);
            assert!(run.err.contains(option[0]) && run.err.contains("--rules"), "{}", run.err);
        }
    }
}

#[test]
fn tune_and_diff_see_requests_under_way() {
    let log = log_of(|arrives, ends| access(ends, &format!(" {}.000", ends - arrives)));
    let log = Temporary::new("kin.log", log.as_bytes());
    let (old, new) = (
        Temporary::new("kin-old.toml", FAILED.replace("2/h", "3/h").as_bytes()),
        Temporary::new("kin-new.toml", FAILED.as_bytes()),
    );
    let json = tollgate(&["tune", "--rules", new.text(), log.text(), "--json"]).json();
    let limit = &json["limits"][0];
    assert_eq!((&limit["keys_untouched"], &limit["smallest"]), (&json!(0), &json!("fixed-window:3/h")));
    let json = tollgate(&["rules", "diff", old.text(), new.text(), log.text(), "--json"]).json();
    assert_eq!(
        json["newly_refused"]["by_rule"],
        json!([{"rule": "failed", "requests": 1, "first": {"line": 1}}])
    );
}

/// Rules that settle in every way.
const RULES: &str = r#"
version = 1

[[rule]]
name = "failed"
match.path = "/login"
key = "client"
limits = ["fixed-window:3/min", "20/h"]
charge_if.status = [401, 403]

[[rule]]
name = "all"
key = "client"
limits = "sliding-window:40/min"

[[rule]]
name = "tokens"
match.path = "/ask"
key = "client"
limits = "1000/min,burst=2000"
cost = { from = "label.tokens", default = 400 }

[[rule]]
name = "at-once"
match.path = "/export"
key = "client"
limits = "in-flight:2,ttl=8s"

[[rule]]
name = "watched"
key = "client"
limits = "sliding-window:20/min"
charge_if.status = [404]
mode = "shadow"
"#;

struct Made {
    arrives: u64,
    lasts: u64,
    status: u16,
    request: PlainRequest,
    settles: u64,
}

/// Requests of up to 20 s, by arrival, all at other instants.
fn requests(count: u64) -> Vec<Made> {
    let mut random = Random::with_seed(11);
    let mut now = MIDNIGHT;
    let made = |n| {
        now += random.u64(1..400) * 1_000_000;
        let tokens = random.u64(0..900).to_string();
        let request = PlainRequest {
            method: Some("GET".into()),
            target: Some(["/login", "/ask", "/export", "/"][random.usize(..4)].into()),
            client: Some([192, 0, 2, random.u64(..4) as u8].into()),
            labels: vec![("tokens".into(), tokens.into())],
            ..PlainRequest::default()
        };
        Made {
            // The last digits of arrivals and ends tell them apart.
            arrives: now + 2 * n,
            lasts: if random.u64(..4) == 0 { 1 } else { random.u64(..20_000) * 1_000_000 + 1 },
            status: [200, 401, 403, 404, 500][random.usize(..5)],
            request,
            settles: random.u64(0..600),
        }
    };
    (0..count).map(made).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_decision_is_that_of_rules_with_requests_under_way() {
    let requests = requests(6_000);
    let mut by_end: Vec<&Made> = requests.iter().collect();
    by_end.sort_by_key(|made| made.arrives + made.lasts);
    let mut log = String::new();
    for made in &by_end {
        let object = json!({"t_ns": made.arrives + made.lasts, "ip": made.request.client, "status": made.status,
            "path": text(made.request.target.as_deref().expect("it has one")), "duration_ns": made.lasts,
            "tokens": text(&made.request.labels[0].1), "used": made.settles});
        writeln!(log, "{object}").expect("a text");
    }
    let (file, log) = (
        Temporary::new("under-way.toml", RULES.as_bytes()),
        Temporary::new("under-way.json", log.as_bytes()),
    );
    let options =
        ["--format", "json", "--map", "label.tokens=tokens", "--map", "settles=used", "--decisions", "-"];
    let decisions =
        tollgate(&[&["replay", "--rules", file.text(), log.text()], &options[..]].concat()).lines();

    // The same by tickets of a server: all arrivals and ends in the order of time.
    let read = read(file.text(), &Disk).into_rules().expect("the rules are right");
    let zero = requests[0].arrives;
    let clock = ManualClock::starting_at(Duration::from_nanos(zero));
    let set = RuleSet::new(read, clock.clone()).expect("they are small");
    let mut events: Vec<(u64, usize, bool)> = Vec::new();
    for (index, made) in requests.iter().enumerate() {
        events.extend([(made.arrives, index, false), (made.arrives + made.lasts, index, true)]);
    }
    events.sort_unstable();
    assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "no two at one instant");
    let (mut scratch, mut decided) = (Scratch::default(), decisions.iter());
    let (mut tickets, mut refused_of) = (Vec::new(), [0; 5]);
    for (at, index, is_end) in events {
        clock.set(Timestamp::from_nanos(at - zero));
        let made = &requests[index];
        if is_end {
            let ticket: &mut Option<tollgate_rules::Ticket<ManualClock>> = &mut tickets[index];
            let mut ticket = ticket.take().expect("it has one");
            ticket.settle_cost(made.settles);
            ticket.settle(made.status);
            continue;
        }
        let verdict = set.check(&made.request, &mut scratch);
        let decision: &Value = decided.next().expect("each is decided");
        assert_eq!(decision["t_ns"], at, "in the order of arrivals");
        assert_eq!(decision["admitted"], verdict.is_admitted(), "{:?}", made.request);
        let wait = verdict.retry_after().map(|wait| wait.as_nanos() as u64);
        assert_eq!(decision["retry_after_ns"], json!(wait));
        for line in verdict.lines().iter().filter(|line| line.ruling != tollgate_rules::Ruling::Admitted) {
            refused_of[line.rule] += 1;
        }
        tickets.push(Some(verdict.ticket()));
    }
    assert!(decided.next().is_none() && refused_of.iter().all(|&refused| refused > 20), "{refused_of:?}");
}
