//! Runs `tollgate replay`: what it reads, what it prints.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use support::{LOG, MIDNIGHT, Temporary, command, tollgate, tollgate_reading};

const LIMIT: &str = "fixed-window:2/min";

/// The object without the fields that differ between runs.
fn timeless(mut object: Value) -> Value {
    for field in ["elapsed_s", "lines_per_s"] {
        let value = object.as_object_mut().and_then(|object| object.remove(field)).expect(field);
        assert!(value.as_f64().is_some_and(|value| value >= 0.0), "{field}: {value}");
    }
    object
}

fn expected() -> Value {
    json!({
        "requests": 9, "allowed": 5, "refused": 4, "keys": 3, "keys_refused": 2, "malformed": 1,
        "out_of_order": 1, "first_t_ns": MIDNIGHT, "last_t_ns": MIDNIGHT + 4_000_000_000_u64,
        "limits": [LIMIT],
        "top_refused": [
            {"key": "192.0.2.1", "requests": 5, "refused": 3},
            {"key": "2001:db8::/64", "requests": 3, "refused": 1},
        ],
    })
}

#[test]
fn json_has_exactly_the_documented_fields_in_their_order() {
    let run = tollgate_reading(&["replay", "-", "--limit", LIMIT, "--json"], LOG.as_bytes());
    let fields: Vec<String> =
        run.json().as_object().expect("an object").keys().map(String::to_owned).collect();
    let documented = [
        "requests",
        "allowed",
        "refused",
        "keys",
        "keys_refused",
        "malformed",
        "out_of_order",
        "first_t_ns",
        "last_t_ns",
        "elapsed_s",
        "lines_per_s",
        "limits",
        "top_refused",
    ];
    assert_eq!(fields, documented);
    assert_eq!(timeless(run.json()), expected());
    assert!(run.err.contains("standard input:7"), "the broken line is named: {}", run.err);
}

#[test]
fn gzip_a_file_and_standard_input_are_all_the_same() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(LOG.as_bytes()).expect("a vector takes it");
    let zipped = encoder.finish().expect("a vector takes it");
    let (plain, gz) = (Temporary::new("a.log", LOG.as_bytes()), Temporary::new("a.log.gz", &zipped));
    for file in [&plain, &gz] {
        assert_eq!(
            timeless(tollgate(&["replay", file.text(), "--limit", LIMIT, "--json"]).json()),
            expected()
        );
    }
    let run = tollgate_reading(&["replay", "-", "--limit", LIMIT, "--json"], &zipped);
    assert_eq!(timeless(run.json()), expected());
    let both = tollgate(&["replay", plain.text(), gz.text(), "--limit", LIMIT, "--json"]).json();
    assert_eq!((&both["requests"], &both["malformed"]), (&json!(18), &json!(2)));
}

#[test]
fn the_table_says_the_same_in_eighty_columns() {
    let run = tollgate_reading(&["replay", "-", "--limit", LIMIT], LOG.as_bytes());
    assert_eq!(run.code, Some(0));
    for text in ["fixed-window:2/min", "requests", "refused", "44.4 %", "Most refused keys", "192.0.2.1"] {
        assert!(run.out.contains(text), "{text} is missing in\n{}", run.out);
    }
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{}", run.out);
    assert!(!run.out.contains('\u{1b}'), "no colours in a pipe");
}

#[test]
fn the_key_option_selects_the_key() {
    let keys = |key: &str| {
        let run =
            tollgate_reading(&["replay", "-", "--limit", LIMIT, "--json", "--key", key], LOG.as_bytes());
        run.json()["keys"].as_u64()
    };
    assert_eq!([keys("client"), keys("user"), keys("path")], [Some(3), Some(2), Some(3)]);
    assert_eq!([keys("METHOD+path"), keys("global")], [Some(4), Some(1)]);
    let wide = ["replay", "-", "--limit", LIMIT, "--json", "--ipv6-prefix", "128"];
    assert_eq!(tollgate_reading(&wide, LOG.as_bytes()).json()["keys"], 5);
}

#[test]
fn costs_are_read_from_their_field() {
    let csv = "time,who,tokens\n1455926400,a,3\n1455926401,a,2\n1455926402,a,1\n1455926403,b,9\n";
    let arguments = ["replay", "-", "--format", "csv", "--cost-field", "tokens", "--key-field", "who"];
    let arguments = [&arguments[..], &["--limit", "fixed-window:5/min", "--decisions", "-"]].concat();
    let lines = tollgate_reading(&arguments, csv.as_bytes()).lines();
    let seen: Vec<_> =
        lines.iter().map(|line| (&line["allowed"], &line["never"], &line["remaining"])).collect();
    let (yes, no) = (&json!(true), &json!(false));
    assert_eq!(
        seen,
        [(yes, no, &json!(2)), (yes, no, &json!(0)), (no, no, &json!(0)), (no, yes, &json!(5)),]
    );
    assert!(
        lines.iter().all(|line| line["allowed"] == json!(false) || line["retry_after_ns"] == Value::Null)
    );
    assert_eq!(lines[3]["retry_after_ns"], Value::Null, "no wait will help");
}

#[test]
fn only_checks_and_peeks_of_a_trace_are_decisions() {
    let trace = r#"{"t_ns":0,"key":"a"}
{"t_ns":1,"key":"a","op":"peek"}
{"t_ns":2,"key":"a"}
{"t_ns":3,"key":"a","op":"refund"}
{"t_ns":4,"key":"a"}
{"t_ns":5,"key":"a","op":"reset"}
{"t_ns":6,"key":"a"}
"#;
    let arguments = ["replay", "-", "--limit", "fixed-window:1/d"];
    let object = tollgate_reading(&[&arguments[..], &["--json"]].concat(), trace.as_bytes()).json();
    assert_eq!([&object["requests"], &object["refused"], &object["malformed"]], [4, 1, 0]);
    assert_eq!(object["given_back"], json!({"asked": 1, "units": 1, "found_nothing": 0}));
    let lines = tollgate_reading(&[&arguments[..], &["--decisions", "-"]].concat(), trace.as_bytes()).lines();
    let seen: Vec<_> = lines.iter().map(|line| (line["line"].as_u64(), line["allowed"].as_bool())).collect();
    let expected = [(1, true), (2, false), (3, false), (5, true), (7, true)];
    assert_eq!(seen, expected.map(|(line, allowed)| (Some(line), Some(allowed))));
}

#[test]
fn decisions_in_a_file_leave_standard_output_to_the_summary() {
    let (log, file) = (Temporary::new("b.log", LOG.as_bytes()), Temporary::new("b.jsonl", b""));
    let arguments = ["replay", log.text(), "--limit", LIMIT, "--json", "--decisions", file.text()];
    assert_eq!(timeless(tollgate(&arguments).json()), expected());
    let lines = std::fs::read_to_string(file.path()).expect("it was written");
    assert_eq!(lines.lines().count(), 9);
}

#[test]
fn several_files_are_told_apart() {
    let (one, two) = (Temporary::new("one.log", LOG.as_bytes()), Temporary::new("two.log", LOG.as_bytes()));
    let lines = tollgate(&["replay", one.text(), two.text(), "--limit", LIMIT, "--decisions", "-"]).lines();
    assert_eq!((&lines[0]["file"], &lines[17]["file"]), (&json!(one.text()), &json!(two.text())));
}

#[test]
fn a_live_log_gets_each_decision_before_its_next_line() {
    let rules = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '1/min' }]";
    let rules = Temporary::new("live.toml", rules.as_bytes());
    for by in [["--limit", LIMIT], ["--rules", rules.text()]] {
        let mut child = command(&["replay", "-", by[0], by[1], "--decisions", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("starts");
        let (mut log, out) =
            (child.stdin.take().expect("it is piped"), child.stdout.take().expect("it is piped"));
        let (seen, lines) = mpsc::channel();
        let reader = thread::spawn(move || BufReader::new(out).lines().try_for_each(|line| seen.send(line)));
        for (number, line) in LOG.lines().take(3).cycle().take(9).enumerate() {
            writeln!(log, "{line}").expect("it reads on");
            // Only a failing test waits so long.
            let decision = lines.recv_timeout(Duration::from_secs(20)).expect("it does not wait for more");
            let decision: Value = serde_json::from_str(&decision.expect("text")).expect("an object");
            assert_eq!(decision["line"], number + 1, "{by:?}");
        }
        drop(log);
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
        assert!(reader.join().expect("the reader does not panic").is_ok());
    }
}

/// With each line a block of its own, the error of one is told with the next block.
#[test]
fn a_full_disk_ends_a_live_replay_soon() {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let rules = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '1/min' }]";
    let rules = Temporary::new("full.toml", rules.as_bytes());
    for by in [["--limit", LIMIT], ["--rules", rules.text()]] {
        let mut child = command(&["replay", "-", by[0], by[1], "--decisions", "/dev/full"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut log = child.stdin.take().expect("it is piped");
        let mut lines = 0;
        let ended = loop {
            if let Some(status) = child.try_wait().expect("the child is ours") {
                break status;
            }
            assert!(lines < 3, "{by:?}: it reads on after {lines} lines");
            // Fails when it has ended.
            let _ = writeln!(log, "{}", LOG.lines().next().expect("it has lines"));
            lines += 1;
            let patience = Instant::now() + Duration::from_secs(2);
            while child.try_wait().expect("the child is ours").is_none() && Instant::now() < patience {
                thread::sleep(Duration::from_millis(10));
            }
        };
        assert_eq!(ended.code(), Some(2), "{by:?}");
    }
}

#[test]
fn a_reader_that_closes_the_output_ends_the_replay_quietly() {
    let rules = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '1/min' }]";
    let rules = Temporary::new("closed.toml", rules.as_bytes());
    for by in [["--limit", LIMIT], ["--rules", rules.text()]] {
        let mut child =
            command(&["replay", "--demo", by[0], by[1], "--decisions", "-"]).spawn().expect("starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        out.read_line(&mut line).expect("there is a first line");
        drop(out);
        assert!(serde_json::from_str::<Value>(&line).is_ok());
        let status = child.wait().expect("it ends");
        let mut err = String::new();
        child.stderr.take().expect("it is piped").read_to_string(&mut err).expect("it is text");
        assert_eq!((status.code(), err.as_str()), (Some(0), ""), "{by:?}");
    }
}

#[test]
fn the_demo_is_always_the_same_and_has_a_limit() {
    let demo = || tollgate(&["replay", "--demo", "--json"]);
    let (one, two) = (demo(), demo());
    assert_eq!(timeless(one.json()), timeless(two.json()));
    assert_eq!(one.json()["limits"], json!(["token-bucket:60/min,burst=20"]));
    assert!(one.err.contains("token-bucket:60/min,burst=20"), "it names the limit: {}", one.err);
    let denied = one.json()["refused"].as_u64().expect("a number");
    assert!(denied > 1_000, "some are refused: {denied}");
}

#[test]
fn a_report_is_one_page_that_needs_no_network() {
    let page = Temporary::new("page.html", b"");
    let run = tollgate_reading(&["replay", "-", "--limit", LIMIT, "--report", page.text()], LOG.as_bytes());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let html = std::fs::read_to_string(page.path()).expect("it was written");
    for text in ["<!doctype html>", "192.0.2.1", "fixed-window:2/min", "</html>"] {
        assert!(html.contains(text), "{text} is missing");
    }
    assert!(!html.contains("src=\"http") && !html.contains("@import"));
}

#[test]
fn a_full_table_is_a_warning() {
    let trace: String = (0..400).map(|i| format!("{{\"t_ns\":{i},\"key\":\"key {i}\"}}\n")).collect();
    let arguments = ["replay", "-", "--limit", "sliding-window:2/h", "--json"];
    let small = tollgate_reading(&[&arguments[..], &["--max-keys", "1"]].concat(), trace.as_bytes());
    let full = &small.json()["full_table"][0];
    assert_eq!(full["limit"], "sliding-window:2/h");
    assert!(small.err.contains("Raise --max-keys"), "{}", small.err);
    let ample = tollgate_reading(&arguments, trace.as_bytes());
    assert_eq!(ample.json().get("full_table"), None);
    assert_eq!((&ample.json()["allowed"], ample.err.as_str()), (&json!(400), ""));
}

#[test]
fn each_of_several_limits_tells_whether_it_was_full() {
    let trace: String = (0..400).map(|i| format!("{{\"t_ns\":{i},\"key\":\"key {i}\"}}\n")).collect();
    let limits = ["--limit", "fixed-window:2/h", "--limit", "token-bucket:1/ns"];
    let arguments = [&["replay", "-", "--json", "--max-keys", "1"][..], &limits].concat();
    let run = tollgate_reading(&arguments, trace.as_bytes()).json();
    let full = run["full_table"].as_array().expect("debt under one limit lasts");
    let limits: Vec<_> = full.iter().map(|full| &full["limit"]).collect();
    assert_eq!(limits, ["fixed-window:2/h"], "under the other limit it ends before the next key comes");
}

#[test]
fn more_than_eight_limits_are_refused() {
    let mut arguments = vec!["replay", "-"];
    (0..9).for_each(|_| arguments.extend(["--limit", LIMIT]));
    let run = tollgate(&arguments);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("there are 9 limits, but at most 8"), "{}", run.err);
}

#[test]
fn an_empty_log_is_no_error() {
    let run = tollgate_reading(&["replay", "-", "--format", "clf", "--limit", LIMIT, "--json"], b"");
    let object = run.json();
    assert_eq!((&object["requests"], &object["first_t_ns"]), (&json!(0), &Value::Null));
}
