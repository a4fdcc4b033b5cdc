//! `tollgate replay --rules`, as a user runs it.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::traffic::{Made, RULES, log, requests};
use support::{LOG, MIDNIGHT, Temporary, tollgate, tollgate_reading};
use tollgate::{ManualClock, Timestamp};
use tollgate_rules::{RuleSet, Ruling, Scratch};
use tollgate_rules_file::{Disk, read};

#[test]
fn every_decision_is_that_of_the_rules() {
    let requests = requests(4_000);
    let (rules, log) = (
        Temporary::new("equal.toml", RULES.as_bytes()),
        Temporary::new("equal.log", log(&requests).as_bytes()),
    );
    let decisions = tollgate(&["replay", "--rules", rules.text(), log.text(), "--decisions", "-"]).lines();
    assert_eq!(decisions.len(), requests.len());

    let zero = MIDNIGHT + requests[0].t_s * 1_000_000_000;
    let read = read(rules.text(), &Disk).into_rules().expect("the rules are right");
    let set =
        RuleSet::new(read, ManualClock::starting_at(Duration::from_nanos(zero))).expect("they are small");
    let (mut scratch, mut now) = (Scratch::default(), 0);
    let (mut asked_of, mut refused_of) = ([0; 6], [0; 6]);
    for (Made { t_s, request, status }, decision) in requests.iter().zip(&decisions) {
        now = now.max((MIDNIGHT + t_s * 1_000_000_000).saturating_sub(zero));
        let mut verdict = set.check_at(request, &mut scratch, Timestamp::from_nanos(now));
        let names = |kept: &dyn Fn(bool, bool) -> bool| -> Vec<Value> {
            let lines = verdict.lines().iter();
            let lines = lines.filter(|line| kept(line.ruling != Ruling::Admitted, line.is_shadow));
            lines.map(|line| json!(*verdict.rules()[line.rule].name)).collect()
        };
        let expected = json!({
            "line": decision["line"],
            "t_ns": zero + now,
            "admitted": verdict.is_admitted(),
            "never": verdict.outcome() == Ruling::Never,
            "retry_after_ns": verdict.retry_after().map(|wait| wait.as_nanos() as u64),
            "delay_ns": verdict.delay().as_nanos() as u64,
            "asked": names(&|_, _| true),
            "refused_by": names(&|refuses, is_shadow| refuses && !is_shadow),
            "shadow_refused_by": names(&|refuses, is_shadow| refuses && is_shadow),
        });
        assert_eq!(*decision, expected, "{request:?}");
        for line in verdict.lines() {
            asked_of[line.rule] += 1;
            refused_of[line.rule] += u64::from(line.ruling != Ruling::Admitted);
        }
        verdict.settle(*status);
    }

    let json = tollgate(&["replay", "--rules", rules.text(), log.text(), "--json"]).json();
    let sums = |field: &str| -> Vec<u64> {
        json["rules"].as_array().unwrap().iter().map(|rule| rule[field].as_u64().unwrap()).collect()
    };
    assert_eq!((sums("concerned"), sums("refused")), (asked_of.to_vec(), refused_of.to_vec()));
    assert!(
        refused_of.iter().enumerate().all(|(rule, &refused)| (refused > 0) == (rule != 1)),
        "{refused_of:?}"
    );
    let refused = decisions.iter().filter(|decision| decision["admitted"] == false).count() as u64;
    assert_eq!((&json["refused"], &json["requests"]), (&json!(refused), &json!(4_000)));
    // 2001:db8:1:2:: and 2001:db8:1:ff:: are one client of 56 bits.
    assert_eq!((&json["version"], &json["clients"]), (&json!(1), &json!(4)));
}

const SMALL: &str = "\
version = 1
[[rule]]
name = 'each'
key = 'client'
limits = 'fixed-window:2/min'
[[rule]]
name = 'keys'
match.host = 'api.example'
key = ['header.x-api-key', 'cookie.s']
limits = '100/d'
[[rule]]
name = 'exports'
match.path = '/b'
key = 'client'
limits = 'in-flight:2'
[[rule]]
name = 'later'
key = 'client'
limits = '1/s'
mode = 'off'
";

#[test]
fn the_table_has_what_each_rule_decides() {
    let (rules, log) =
        (Temporary::new("table.toml", SMALL.as_bytes()), Temporary::new("table.log", LOG.as_bytes()));
    let run = tollgate(&["replay", "--rules", rules.text(), log.text()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let expected = "\
\x20 9 requests, 2016-02-20 00:00:00 to 2016-02-20 00:00:04 UTC
  refused by some rule: 4 (44.4 %), 2 of 3 clients (66.7 %)
  concerned by no rule: 0 (0 %)

  rule  mode      concerned  refused   share  keys  hit  top 10 have
  each  enforced          9        4  44.4 %     3    2        100 %
  keys     not decided: host, header.x-api-key, cookie.s are not in this log \
(--map host=FIELD --map header.x-api-key=FIELD --map header.cookie=FIELD)
  exports  not decided: in-flight: this log does not say how long requests last \
(--map duration=FIELD or --lasts TIME)
  later    not decided: its mode is off

  Most refused keys  rule  requests  refused   share
  192.0.2.1          each         5        3    60 %
  2001:db8::/64      each         3        1  33.3 %
";
    assert_eq!(run.out.split_once("\n\n").map(|(_, rest)| rest), Some(expected), "{}", run.out);
    assert!(run.err.contains("1 line could not be read"), "{}", run.err);
}

#[test]
fn json_logs_have_the_mapped_attributes() {
    let rules = "\
version = 1
[[rule]]
name = 'users'
match = { host = 'a.example', header.x-tag = 'two', path = '/x' }
key = ['label.user', 'client']
limits = 'fixed-window:1/min'
charge_if.status = 500
[[rule]]
name = 'agents'
key = 'header.user-agent'
limits = 'fixed-window:1/min'
";
    let line = |t: u32, user: &str, status: u32| {
        format!(
            "{{\"ts\":{t},\"request\":{{\"remote_ip\":\"192.0.2.7\",\"method\":\"GET\",\"host\":\"A.example:80\",\
             \"uri\":\"/X?y\",\"headers\":{{\"X-Tag\":[\"one\",\"two\"]}}}},\"status\":{status},\
             \"user\":{{\"id\":{user}}}}}\n"
        )
    };
    let log = [
        line(1, "\"ada\"", 200),
        line(2, "\"ada\"", 500),
        line(3, "\"ada\"", 200),
        line(4, "7", 200),
        line(5, "null", 500),
        line(6, "null", 500),
    ];
    let (rules, log) =
        (Temporary::new("json.toml", rules.as_bytes()), Temporary::new("json.log", log.concat().as_bytes()));
    let maps = ["--map", "label.user=user.id", "--map", "header.X-Tag=request.headers.X-Tag"];
    let run = tollgate(&[&["replay", "--rules", rules.text(), log.text(), "--json"][..], &maps].concat());
    let json = run.json();
    let users = &json["rules"][0];
    assert_eq!((&users["concerned"], &users["refused"], &users["keys"]), (&json!(6), &json!(2), &json!(3)));
    let keys: Vec<&Value> = json["top_refused"].as_array().unwrap().iter().map(|key| &key["key"]).collect();
    assert_eq!(keys, ["(without a key)", "ada, 192.0.2.7"]);
    assert_eq!(
        json["rules"][1]["not_decided"],
        "header.user-agent is not in this log (--map header.user-agent=FIELD)"
    );
    assert_eq!(json["unmatched"], 0);
}

#[test]
fn spellings_of_one_credential_in_a_log_are_one_key() {
    let rules =
        "version = 1\n[[rule]]\nname = 'each'\nkey = ['header.authorization', 'cookie.s']\nlimits = '1/h'\n";
    let sent = [
        ("Bearer t", "s=abc"),
        ("bEARER   t", "s=abc"),
        ("Bearer t", "s=%61bc"),
        ("BEARER t ", "a=1; s=\"\\141bc\""),
    ];
    let lines = (1..).zip(sent).map(|(time, (token, cookie))| {
        let headers = json!({ "Authorization": [token], "Cookie": [cookie] });
        let request = json!({ "remote_ip": "192.0.2.7", "method": "GET", "uri": "/", "headers": headers });
        json!({ "ts": time, "request": request, "status": 200 }).to_string() + "\n"
    });
    let log = lines.collect::<String>();
    let (rules, log) =
        (Temporary::new("one-key.toml", rules.as_bytes()), Temporary::new("one-key.json", log.as_bytes()));
    let maps = [
        "--map",
        "header.authorization=request.headers.Authorization",
        "--map",
        "header.cookie=request.headers.Cookie",
    ];
    let run = tollgate(&[&["replay", "--rules", rules.text(), log.text(), "--json"][..], &maps].concat());
    let each = &run.json()["rules"][0];
    assert_eq!((&each["concerned"], &each["refused"], &each["keys"]), (&json!(4), &json!(3), &json!(1)));
}

#[test]
fn clients_with_host_names_are_clients_of_their_own() {
    let text = LOG.replace("192.0.2.1", "one.example").replace("2001:db8::", "two.example");
    let (rules, log) =
        (Temporary::new("names.toml", SMALL.as_bytes()), Temporary::new("names.log", text.as_bytes()));
    let run = tollgate(&["replay", "--rules", rules.text(), log.text(), "--json"]);
    let json = run.json();
    assert_eq!((&json["rules"][0]["keys"], &json["clients"]), (&json!(5), &json!(5)));
    assert_eq!(json["top_refused"][0]["key"], "one.example");
    assert!(run.err.contains("4 clients are names, not addresses"), "{}", run.err);
}

#[test]
fn a_field_that_is_always_empty_is_missing() {
    let rules = "version = 1\n[[rule]]\nname = 'agents'\nkey = 'header.user-agent'\nlimits = '1/h'\n";
    let rules = Temporary::new("empty-field.toml", rules.as_bytes());
    for (name, log) in [
        ("empty-field.csv", "time,client,useragent\n1,192.0.2.1,-\n2,192.0.2.1,\n".to_owned()),
        (
            "empty-field.json",
            "{\"ts\":1,\"ip\":\"a\",\"user_agent\":\"\"}\n{\"ts\":2,\"user_agent\":null}\n".into(),
        ),
        ("empty-field.log", LOG.replace("\"test\"", "\"-\"")),
        ("no-field.log", LOG.replace(" \"-\" \"test\"", "")),
    ] {
        let log = Temporary::new(name, log.as_bytes());
        let json = tollgate(&["replay", "--rules", rules.text(), log.text(), "--json"]).json();
        let reason = "header.user-agent is not in this log (--map header.user-agent=FIELD)";
        assert_eq!(
            (&json["rules"][0]["not_decided"], &json["refused"]),
            (&json!(reason), &json!(0)),
            "{name}"
        );
    }
}

#[test]
fn an_undecided_rule_that_replaces_others_is_told() {
    let rules = "version = 1\n[[rule]]\nname = 'each'\nkey = 'client'\nlimits = '1/s'\n\
        [[rule]]\nname = 'partners'\nmatch.label.plan = 'partner'\nkey = 'client'\nlimits = 'unlimited'\nreplaces = 'each'\n";
    let (rules, log) =
        (Temporary::new("told.toml", rules.as_bytes()), Temporary::new("told.log", LOG.as_bytes()));
    let run = tollgate(&["replay", "--rules", rules.text(), log.text()]);
    assert_eq!(run.code, Some(0));
    assert!(run.err.contains("`partners` is not decided, and would replace each"), "{}", run.err);
}

#[test]
fn the_made_up_day_can_be_decided() {
    let rules = Temporary::new("day.toml", SMALL.as_bytes());
    let json = tollgate(&["replay", "--rules", rules.text(), "--demo", "--json"]).json();
    assert!(json["rules"][0]["refused"].as_u64() > Some(0), "{json}");
}

#[test]
fn what_cannot_be_decided_is_an_error() {
    let (rules, log) =
        (Temporary::new("bad.toml", SMALL.as_bytes()), Temporary::new("bad.log", LOG.as_bytes()));
    let broken =
        Temporary::new("broken.toml", b"version = 1\n[[rule]]\nname = 'a'\nkye = 'client'\nlimits = '1/s'\n");
    let binary = Temporary::new("binary.log", &[0_u8, 159, 146, 150, 255, 10, 7].repeat(100));
    let garbled = Temporary::new("garbled.log", b"neither\nis a request\n");
    let trace = Temporary::new("rules.trace", b"{\"t_ns\":1,\"key\":\"a\"}\n");
    let csv = Temporary::new("columns.csv", b"time,client\n1,192.0.2.1\n");
    let json = Temporary::new("fields.json", b"{\"ts\":1,\"ip\":\"192.0.2.1\",\"path\":\"/\"}\n");
    let posts = SMALL
        .replace("key = 'client'\nlimits = 'fixed", "match.method = 'POST'\nkey = 'client'\nlimits = 'fixed");
    let posts = Temporary::new("posts.toml", posts.as_bytes());
    let (file, text) = (rules.text(), log.text());
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--rules", file, text, "--limit", "5/s"],
            &["--rules", "--limit token-bucket:5/s", "exclude each other"],
        ),
        (&["--rules", file, text, "--key", "path"], &["cannot be used with", "--key"]),
        (&["--rules", file, text, "--save", "x"], &["cannot be used with", "--save"]),
        (&["--rules", file], &["nothing to read", "replay --rules"]),
        (&["--rules", "/no/such.toml", text], &["/no/such.toml", "No such file"]),
        (&["--rules", file, "/no/such.log"], &["/no/such.log", "No such file"]),
        (&["--rules", broken.text(), text], &["broken.toml:4:1", "did you mean `key`?", "1 error"]),
        (&["--rules", file, binary.text()], &["binary.log", "--format"]),
        (&["--rules", file, garbled.text(), "--format", "clf"], &["there is no request"]),
        (&["--rules", file, trace.text()], &["a trace has keys", "--limit"]),
        (&["--rules", file, text, "--map", "user=x"], &["\"user=x\"", "label.NAME"]),
        (&["--rules", file, text, "--map", "host"], &["ATTRIBUTE=FIELD"]),
        (&["--rules", file, text, "--map", "host=x", "--map", "host=y"], &["two fields for host: x and y"]),
        (&["--rules", file, text, "--map", "host=vhost"], &["\"vhost\"", "--map", "client, ident, user"]),
        (&["--rules", file, csv.text(), "--map", "host=vhost"], &["\"vhost\"", "time, client"]),
        (&["--rules", file, json.text(), "--map", "host=vhost"], &["no record has a value", "\"vhost\""]),
        (&["--rules", posts.text(), text, json.text()], &["bad.log has method and", "fields.json has not"]),
        (&[text, "--limit", "5/s", "--map", "host=x"], &["--rules"]),
    ];
    for (arguments, parts) in cases {
        let run = tollgate(&[&["replay"], *arguments].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        for part in *parts {
            assert!(run.err.contains(part), "{arguments:?}: {} lacks {part}", run.err);
        }
    }
}

/// A log of several blocks, and a trace, which no rule can decide.
#[test]
fn what_precedes_an_error_is_decided_and_told_first() {
    const REQUESTS: usize = 12_000;
    let line = LOG.lines().next().expect("it has lines");
    let long = format!("{line} {}\n", "x".repeat(100)).repeat(REQUESTS);
    let long = Temporary::new("before.log", long.as_bytes());
    let rules = Temporary::new("before.toml", SMALL.as_bytes());
    let trace = Temporary::new("behind.trace", b"{\"t_ns\":1,\"key\":\"a\"}\n");
    let decisions = Temporary::new("before.jsonl", b"");
    let decide = |to: &str| {
        tollgate(&["replay", "--rules", rules.text(), long.text(), trace.text(), "--decisions", to])
    };
    let run = decide(decisions.text());
    assert!(run.code == Some(2) && run.err.contains("a trace has keys"), "{}", run.err);
    let written = std::fs::read_to_string(decisions.path()).expect("it was written");
    assert_eq!(written.lines().count(), REQUESTS, "all that precede the trace");

    if cfg!(target_os = "linux") {
        let run = decide("/dev/full");
        assert!(run.code == Some(2) && run.err.contains("/dev/full"), "the earlier error: {}", run.err);
    }
}

#[test]
fn an_empty_log_is_no_error_by_rules_either() {
    let rules = Temporary::new("nothing.toml", SMALL.as_bytes());
    let run = tollgate_reading(&["replay", "--rules", rules.text(), "-", "--json"], b"");
    assert_eq!((run.json()["requests"].as_u64(), run.code), (Some(0), Some(0)), "{}", run.err);
    let run = tollgate_reading(&["replay", "--rules", rules.text(), "-"], b"");
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn a_log_can_come_by_standard_input() {
    let rules = Temporary::new("stdin.toml", SMALL.as_bytes());
    let run = tollgate_reading(&["replay", "--rules", rules.text(), "-", "--json"], LOG.as_bytes());
    assert_eq!(run.json()["requests"], 9);
}

#[test]
fn the_report_shows_the_rules() {
    let rules = Temporary::new("page.toml", SMALL.replace("'off'", "'shadow'").as_bytes());
    let log = Temporary::new("page.log", LOG.as_bytes());
    let page = Temporary::new("page.html", b"");
    let run = tollgate(&["replay", "--rules", rules.text(), log.text(), "--report", page.text()]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let page = std::fs::read_to_string(page.path()).expect("it was written");
    for part in [
        "<h2>Rules</h2>",
        "<bdi>each</bdi>",
        "<bdi>later (shadow)</bdi>",
        "<code>keys</code> not decided: host,",
        "<bdi>192.0.2.1</bdi>",
    ] {
        assert!(page.contains(part), "{part}");
    }
}
