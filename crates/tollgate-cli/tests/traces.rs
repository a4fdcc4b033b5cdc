//! Refunds and reservations in small traces with outcomes worked out by hand.

mod support;

use serde_json::{Value, json};
use support::{Run, tollgate_reading};

/// A trace of key "a". `lines` has the other fields of each line.
fn trace(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{{\"key\":\"a\",{line}}}\n")).collect()
}

fn replay(limits: &[&str], lines: &[&str], more: &[&str]) -> Run {
    let mut arguments = vec!["replay", "-", "--format", "trace"];
    limits.iter().for_each(|limit| arguments.extend(["--limit", limit]));
    arguments.extend(more);
    tollgate_reading(&arguments, trace(lines).as_bytes())
}

/// Requests, refusals, and of refunds and cancels: how many, the units, how many found nothing.
fn summary(limits: &[&str], lines: &[&str]) -> [u64; 5] {
    let object = replay(limits, lines, &["--json"]).json();
    let number = |value: &Value| value.as_u64().expect("a number");
    let back = &object["given_back"];
    let [asked, units, nothing] = ["asked", "units", "found_nothing"].map(|field| number(&back[field]));
    [number(&object["requests"]), number(&object["refused"]), asked, units, nothing]
}

#[test]
fn a_refund_finds_its_id_or_else_the_latest_admission() {
    let lines = [
        r#""t_ns":0,"id":"r1""#,
        r#""t_ns":0,"id":"r2""#,
        r#""t_ns":0"#, // refused
        r#""t_ns":0,"op":"refund","id":"r1""#,
        r#""t_ns":0"#,               // takes what r1 gave back
        r#""t_ns":0,"op":"refund""#, // of the line above
        r#""t_ns":0,"op":"refund""#, // of r2
        r#""t_ns":0,"op":"refund""#, // nothing is left
        r#""t_ns":0,"op":"refund","id":"r1""#,
    ];
    assert_eq!(summary(&["token-bucket:2/s"], &lines), [4, 1, 5, 3, 2]);
    let table = replay(&["token-bucket:2/s"], &lines, &[]).out;
    assert!(table.contains("units given back") && table.contains("found nothing"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn a_refund_without_id_finds_the_latest_above_zero() {
    let lines = [
        r#""t_ns":0,"cost":2"#,
        r#""t_ns":1,"cost":0"#,
        r#""t_ns":2,"cost":0,"id":"r""#,
        r#""t_ns":3,"op":"refund""#,          // of the first line
        r#""t_ns":4,"op":"refund""#,          // nothing is left
        r#""t_ns":5,"op":"refund","id":"r""#, // it took nothing
    ];
    assert_eq!(summary(&["fixed-window:4/h"], &lines), [3, 0, 3, 2, 2]);
    let lines = [
        r#""t_ns":0,"op":"reserve","max_wait_ns":9000000000"#,
        r#""t_ns":0,"op":"reserve","max_wait_ns":9000000000"#,
        r#""t_ns":1,"op":"reserve","max_wait_ns":9000000000,"cost":0"#,
        r#""t_ns":2,"op":"cancel""#, // of the second line
    ];
    assert_eq!(summary(&["token-bucket:1/s"], &lines), [3, 0, 1, 1, 0]);
}

#[test]
fn initial_tokens_are_those_at_the_first_record() {
    let trace = [r#""t_ns":1700000000000000000,"cost":2"#, r#""t_ns":1700000001000000000,"cost":3"#];
    let denied = |limit| replay(&[limit], &trace, &["--json"]).json()["refused"].as_u64();
    assert_eq!(denied("token-bucket:1/s,burst=5,initial=2"), Some(1), "2, and a second later 1");
    assert_eq!(denied("token-bucket:1/s,burst=5,initial=1"), Some(2), "1, and a second later 2");
    assert_eq!(denied("token-bucket:2/s,burst=5,initial=3"), Some(0), "3, and a second later 3");
}

#[test]
fn a_refund_with_a_cost_gives_back_a_part() {
    let lines = [
        r#""t_ns":0,"cost":8"#,
        r#""t_ns":1,"op":"refund","cost":5"#,
        r#""t_ns":2,"cost":8"#, // 7 of 10 are left
        r#""t_ns":3,"cost":7"#,
        r#""t_ns":4"#,
    ];
    assert_eq!(summary(&["fixed-window:10/h"], &lines), [4, 2, 1, 5, 0]);
}

#[test]
fn the_algorithm_determines_what_comes_back() {
    let lines = [
        r#""t_ns":0,"cost":2"#,
        r#""t_ns":5"#,
        r#""t_ns":6,"op":"refund""#,
        r#""t_ns":7,"op":"refund""#, // found, but another was admitted after it
    ];
    assert_eq!(summary(&["sliding-log:4/s"], &lines), [2, 0, 2, 1, 0]);
    assert_eq!(summary(&["fixed-window:4/s"], &lines), [2, 0, 2, 3, 0]);
}

#[test]
fn a_reset_admission_cannot_be_refunded() {
    let lines = [
        r#""t_ns":0,"id":"r""#,
        r#""t_ns":1,"op":"reset""#,
        r#""t_ns":2"#,
        r#""t_ns":3,"op":"refund","id":"r""#,
    ];
    assert_eq!(summary(&["fixed-window:1/h"], &lines), [2, 0, 1, 0, 1]);
}

#[test]
fn a_refund_gives_back_to_all_of_several_limits() {
    let limits = ["fixed-window:2/h", "token-bucket:3/h"];
    let lines = [
        r#""t_ns":0,"cost":2"#,
        r#""t_ns":0"#, // the window is full
        r#""t_ns":0,"op":"refund""#,
        r#""t_ns":0,"cost":2"#,
    ];
    assert_eq!(summary(&limits, &lines), [3, 1, 1, 2, 0]);
    let part = [r#""t_ns":0,"cost":2"#, r#""t_ns":0,"op":"refund","cost":1"#, r#""t_ns":0"#, r#""t_ns":0"#];
    assert_eq!(summary(&limits, &part), [3, 1, 1, 1, 0]);
}

#[test]
fn reservations_depart_in_turn_and_can_be_cancelled_before() {
    let lines = [
        r#""t_ns":0,"op":"reserve","max_wait_ns":0"#,
        r#""t_ns":0,"op":"reserve","max_wait_ns":1000000000,"id":"second""#,
        r#""t_ns":0,"op":"reserve","max_wait_ns":1500000000"#, // two seconds away
        r#""t_ns":0,"op":"reserve","max_wait_ns":1500000000,"cost":2"#, // above the burst
        r#""t_ns":0,"op":"refund""#,                           // nothing was checked
        r#""t_ns":0,"op":"cancel","id":"second""#,
        r#""t_ns":0,"op":"reserve","max_wait_ns":1500000000"#,
        r#""t_ns":1000000000,"op":"cancel""#, // departs at this very nanosecond
        r#""t_ns":1000000000,"op":"cancel""#, // departed at once
        r#""t_ns":1000000000,"op":"cancel""#, // nothing is left
    ];
    let limit = ["token-bucket:1/s"];
    assert_eq!(summary(&limit, &lines), [5, 2, 5, 1, 2]);
    let seen: Vec<Value> = replay(&limit, &lines, &["--decisions", "-"])
        .lines()
        .iter()
        .map(|line| {
            json!([line["line"], line["allowed"], line["delay_ns"], line["retry_after_ns"], line["never"]])
        })
        .collect();
    let expected = [
        json!([1, true, 0, null, false]),
        json!([2, true, 1_000_000_000, null, false]),
        json!([3, false, 0, 2_000_000_000, false]),
        json!([4, false, 0, null, true]),
        json!([7, true, 1_000_000_000, null, false]),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn an_unsupported_reservation_is_an_error_with_an_alternative() {
    let lines = [r#""t_ns":0"#, r#""t_ns":0,"op":"reserve","max_wait_ns":0"#];
    let cases = [
        &["sliding-log:2/s"][..],
        &["token-bucket:2/s", "fixed-window:3/min"],
        &["token-bucket:2/s", "leaky-bucket:3/min,mode=queue"],
    ];
    for limits in cases {
        let run = replay(limits, &lines, &[]);
        assert_eq!(run.code, Some(2), "{limits:?}");
        for part in ["standard input:2: `reserve`", limits[0], "use `check` in the trace"] {
            assert!(run.err.contains(part), "{part}: {}", run.err);
        }
    }
}

#[test]
fn a_reservation_of_several_limits_departs_when_all_admit() {
    let lines = [
        r#""t_ns":0,"cost":2"#,
        r#""t_ns":0,"op":"reserve","max_wait_ns":60000000000"#,
        r#""t_ns":0,"op":"reserve","max_wait_ns":60000000000"#,
    ];
    let seen = replay(&["token-bucket:2/s", "token-bucket:3/min"], &lines, &["--decisions", "-"]).lines();
    let delays: Vec<_> = seen.iter().map(|line| line["delay_ns"].as_u64()).collect();
    assert_eq!(delays, [Some(0), Some(500_000_000), Some(20_000_000_000)]);
}

#[test]
fn a_trace_takes_what_there_is_and_debits_and_credits() {
    let lines = [
        r#""t_ns":0,"op":"check_up_to","cost":3,"id":"r""#,
        r#""t_ns":0,"op":"check_up_to","cost":3"#, // two are left
        r#""t_ns":0,"op":"check_up_to","cost":3"#, // refused
        r#""t_ns":0,"op":"debit","cost":4"#,
        r#""t_ns":0,"op":"credit","cost":6"#,
        r#""t_ns":0"#, // two of five are left
        r#""t_ns":0,"op":"credit","cost":20"#,
        r#""t_ns":0,"op":"check_up_to","cost":20"#,
        r#""t_ns":0,"op":"refund","cost":2"#, // of the line above
    ];
    let limit = ["fixed-window:5/h"];
    assert_eq!(summary(&limit, &lines), [6, 1, 1, 2, 0]);
    let object = replay(&limit, &lines, &["--json"]).json();
    assert_eq!(object["credited"], json!({"asked": 2, "units": 10}));
    let seen: Vec<Value> = replay(&limit, &lines, &["--decisions", "-"])
        .lines()
        .iter()
        .map(|line| json!([line["line"], line["allowed"], line["remaining"], line["charged"]]))
        .collect();
    let expected = [
        json!([1, true, 2, 3]),
        json!([2, true, 0, 2]),
        json!([3, false, 0, 0]),
        json!([4, true, 0, 4]),
        json!([6, true, 1, null]),
        json!([8, true, 0, 5]),
    ];
    assert_eq!(seen, expected);
    let table = replay(&limit, &lines, &[]).out;
    assert!(table.contains("units credited") && table.contains("by 2 credits"), "{table}");
    let table = replay(&limit, &lines[..5], &[]).out;
    assert!(table.lines().any(|line| line.trim_end().ends_with("by 1 credit")), "{table}");
}

#[test]
fn a_debit_of_a_log_is_an_error() {
    let run = replay(&["sliding-log:2/s"], &[r#""t_ns":0,"op":"debit""#], &[]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains(":1: `debit`: there are no debts under sliding-log:2/s"), "{}", run.err);
    assert!(run.err.contains("check_up_to"), "{}", run.err);
}

#[test]
fn commands_that_try_only_checks_count_skipped_lines() {
    let lines = [r#""t_ns":0"#, r#""t_ns":9,"op":"refund""#, r#""t_ns":9,"op":"peek""#, r#""t_ns":99"#];
    let run =
        tollgate_reading(&["tune", "-", "--format", "trace", "--period", "1s"], trace(&lines).as_bytes());
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("skipped 1 line with reservations"), "{}", run.err);
}

/// Whether each request was admitted, and what it left.
fn decisions(limits: &[&str], lines: &[&str]) -> Vec<(bool, u64, Value)> {
    let run = replay(limits, lines, &["--decisions", "-"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let decision = |line: &str| {
        let object: Value = serde_json::from_str(line).expect("a decision is an object");
        let allowed = object["allowed"].as_bool().expect("a truth");
        (allowed, object["remaining"].as_u64().expect("a number"), object["retry_after_ns"].clone())
    };
    run.out.lines().filter(|line| line.starts_with('{')).map(decision).collect()
}

#[test]
fn a_quota_with_a_request_alone_decides_it() {
    let lines = [
        r#""t_ns":0,"quota":"2/s,burst=2","id":"r1""#,
        r#""t_ns":0,"quota":"2/s,burst=2""#,
        r#""t_ns":0,"quota":"2/s,burst=2""#, // refused for half a second
        r#""t_ns":0"#,                       // by --limit
        r#""t_ns":0"#,                       // refused by --limit
        r#""t_ns":0,"quota":"2/s,burst=5","op":"peek""#, // another quota, the same debt
        r#""t_ns":0,"quota":"2/s,burst=5","cost":3"#,
        r#""t_ns":0,"op":"refund","id":"r1""#,
        r#""t_ns":0,"quota":"2/s,burst=5""#,
        r#""t_ns":0,"op":"reset""#,
        r#""t_ns":0,"quota":"2/s,burst=5","cost":6"#, // never
        r#""t_ns":0,"quota":"2/s,burst=5","cost":5"#,
    ];
    let half: Value = 500_000_000.into();
    let hour: Value = 3_600_000_000_000_u64.into();
    let right = [
        (true, 1, Value::Null),
        (true, 0, Value::Null),
        (false, 0, half),
        (true, 0, Value::Null),
        (false, 0, hour),
        (true, 2, Value::Null),
        (true, 0, Value::Null),
        (true, 0, Value::Null),
        (false, 5, Value::Null),
        (true, 0, Value::Null),
    ];
    assert_eq!(decisions(&["token-bucket:1/h"], &lines), right);
    // Requests, refusals, refunds, their units, refunds without effect.
    assert_eq!(summary(&["token-bucket:1/h"], &lines), [9, 3, 1, 1, 0]);
}

#[test]
fn a_quota_with_each_request_decides_as_a_bucket_does() {
    let line = |n: u64, quota: &str| {
        let (t, cost) = (n * n % 977 * 1_000_003 + n * 40_000_000, n * 7 % 4);
        format!(r#""t_ns":{t},"cost":{cost}{quota}"#)
    };
    let lines = |quota| (0..500).map(|n| line(n, quota)).collect::<Vec<_>>();
    let (plain, called) = (lines(""), lines(r#","quota":"10/s,burst=20""#));
    let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
    let called: Vec<&str> = called.iter().map(String::as_str).collect();
    let bucket = decisions(&["token-bucket:10/s,burst=20"], &plain);
    assert!(bucket.iter().any(|(allowed, ..)| *allowed) && bucket.iter().any(|(allowed, ..)| !allowed));
    assert_eq!(decisions(&["token-bucket:1/d"], &called), bucket);
}

#[test]
fn a_quota_that_no_request_brings_is_malformed() {
    for line in [
        r#""t_ns":0,"quota":"sliding-log:2/s""#,
        r#""t_ns":0,"quota":"2/s,initial=1""#,
        r#""t_ns":0,"quota":"2/s,refill=intervals""#,
        r#""t_ns":0,"quota":"2""#,
        r#""t_ns":0,"quota":"2000000000/s""#,
        r#""t_ns":0,"quota":"2/s","op":"refund""#,
        r#""t_ns":0,"quota":"2/s","op":"reserve","max_wait_ns":1"#,
    ] {
        let run = replay(&["token-bucket:1/h"], &[r#""t_ns":0"#, line], &["--json"]);
        assert!(run.err.contains("quota"), "{line}: {}", run.err);
        assert_eq!(run.json()["requests"], 1, "{line}");
    }
}

#[test]
fn debts_by_quotas_with_requests_are_not_saved_silently() {
    let path = std::env::temp_dir().join(format!("tollgate-calls-{}.state", std::process::id()));
    let path = path.to_str().expect("a path of text");
    let run = replay(&["token-bucket:1/h"], &[r#""t_ns":0,"quota":"2/s""#], &["--save", path]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("cannot be saved"), "{}", run.err);
    assert!(!std::path::Path::new(path).exists());
}
