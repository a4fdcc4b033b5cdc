//! Runs `tollgate tune`, `accuracy` and `stress`.

mod support;

use serde_json::{Value, json};
use support::{LOG, tollgate, tollgate_reading};

/// Twenty keys; key `k` sends `k + 1` requests at once, and again three minutes later.
fn staircase() -> String {
    let line = |t: u64, key: u64| format!("{{\"t_ns\":{},\"key\":\"{key}\"}}\n", t * 1_000_000_000);
    let stairs = |t: u64| (0..20).flat_map(move |key| (0..=key).map(move |_| line(t, key)));
    stairs(0).chain(stairs(180)).collect()
}

#[test]
fn tune_finds_the_smallest_limits() {
    let arguments = ["tune", "-", "--keep", "90%", "--json"];
    let object = tollgate_reading(&arguments, staircase().as_bytes()).json();
    assert_eq!(
        (&object["requests"], &object["keys"], &object["keys_to_keep"]),
        (&json!(420), &json!(20), &json!(18))
    );
    let algorithms = object["algorithms"].as_array().expect("a list");
    let names: Vec<&Value> = algorithms.iter().map(|each| &each["algorithm"]).collect();
    assert_eq!(names, ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"]);
    for each in algorithms {
        let smallest = &each["smallest"];
        assert_eq!(smallest["limit"], 18, "{each}");
        assert_eq!(
            (&smallest["keys_refused"], &smallest["requests_refused"]),
            (&json!(2), &json!(6)),
            "{each}"
        );
        let last = each["limits"].as_array().and_then(|limits| limits.last()).expect("there are limits");
        assert_eq!((&last["limit"], &last["requests_refused"]), (&json!(20), &json!(0)));
        // `replay` refuses what `tune` predicts.
        let spec = smallest["spec"].as_str().expect("a limit");
        let replayed =
            tollgate_reading(&["replay", "-", "--json", "--limit", spec], staircase().as_bytes()).json();
        assert_eq!((&replayed["refused"], &replayed["keys_refused"]), (&json!(6), &json!(2)), "{spec}");
    }
}

#[test]
fn tune_prints_tables_and_the_answer() {
    let run = tollgate_reading(&["tune", "-"], staircase().as_bytes());
    assert_eq!(run.code, Some(0), "{}", run.err);
    for text in ["Requests refused", "Keys ever refused", "token-bucket:20/min,burst=20", "99.9%"] {
        assert!(run.out.contains(text), "{text} is missing in\n{}", run.out);
    }
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{}", run.out);
}

#[test]
fn accuracy_counts_what_the_estimate_gets_wrong() {
    // Four late in one minute and one in the middle of the next: the estimate is 2, the exact count
    // 4.
    let seconds = [59, 59, 59, 59, 90];
    let trace: String =
        seconds.map(|t| format!("{{\"t_ns\":{},\"key\":\"a\"}}\n", t * 1_000_000_000_u64)).concat();
    let object = tollgate_reading(&["accuracy", "-", "--limits", "4,100", "--json"], trace.as_bytes()).json();
    let limits = object["limits"].as_array().expect("a list");
    assert_eq!((&limits[0]["wrongly_allowed"], &limits[0]["wrongly_refused"]), (&json!(1), &json!(0)));
    assert_eq!((&limits[0]["worst_excess"], &limits[0]["mean_difference"]), (&json!(0.25), &json!(0.125)));
    assert_eq!((&limits[1]["wrongly_allowed"], &limits[1]["refused"]), (&json!(0), &json!(0)));
    let run = tollgate_reading(&["accuracy", "-"], LOG.as_bytes());
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{}", run.out);
}

#[test]
fn the_demo_can_be_tuned_and_compared() {
    for command in ["tune", "accuracy"] {
        let run = tollgate(&[command, "--demo"]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        assert!(run.out.starts_with("A made-up day of traffic"), "{}", run.out);
    }
}

#[test]
fn every_limit_holds_under_stress() {
    let limits = [
        "token-bucket:1000/s,burst=10",
        "leaky-bucket:500/s,capacity=3",
        "fixed-window:20/100ms",
        "sliding-window:20/100ms",
        "sliding-window:20/s,subwindows=4",
        "sliding-log:20/100ms",
    ];
    for limit in limits {
        let arguments =
            ["stress", "--threads", "3", "--keys", "50", "--seconds", "0.15", "--json", "--limit", limit];
        let object = tollgate(&arguments).json();
        assert_eq!(object["keys_beyond"], 0, "{object}");
        let most = object["most_admitted"]["admitted"].as_u64().expect("a number");
        assert!(most > 0 && most <= object["bound"].as_u64().expect("a number"), "{object}");
        assert!(object["decisions"].as_u64() > object["allowed"].as_u64(), "some are refused: {object}");
    }
    for mode in
        [["--lease", "1"], ["--lease", "7"], ["--lease", "1000000"], ["--batch", "1"], ["--batch", "100"]]
    {
        for limit in [limits[0], limits[4], limits[5]] {
            let arguments =
                ["--threads", "3", "--keys", "5", "--seconds", "0.05", "--json", "--limit", limit];
            let object = tollgate(&[&["stress"], &mode[..], &arguments[..]].concat()).json();
            assert_eq!(
                (&object["keys_beyond"], &object[&mode[0][2..]]),
                (&json!(0), &json!(mode[1].parse::<u64>().expect("a number")))
            );
            let most = object["most_admitted"]["admitted"].as_u64().expect("a number");
            assert!(most > 0 && most <= object["bound"].as_u64().expect("a number"), "{object}");
        }
    }
    for limit in limits {
        let object =
            tollgate(&["stress", "--grow", "--threads", "3", "--keys", "5000", "--json", "--limit", limit])
                .json();
        assert_eq!((&object["keys_beyond"], &object["grow"]), (&json!(0), &json!(true)), "{object}");
        assert_eq!(object["decisions"], json!(5_000), "each key once: {object}");
        // `allowed` does not count the second check of each key. A few keys may find their bucket
        // full.
        let allowed = object["allowed"].as_u64().expect("a number");
        assert!((4_900..=5_000).contains(&allowed), "{object}");
    }
    // Under the default limit, too, every key is still in debt at the end, so each has a slot of
    // its own.
    let object = tollgate(&["stress", "--grow", "--keys", "5000", "--json"]).json();
    let memory = object["memory"].as_u64().expect("a number");
    assert!((5_000 * 16..=1024 * 256).contains(&memory), "{object}");
    let run = tollgate(&["stress", "--grow", "--keys", "20000", "--threads", "2"]);
    assert!(run.out.contains("each once, from none") && run.out.contains("bytes a key"), "{}", run.out);
    let run = tollgate(&["stress", "--grow", "--seconds", "1"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    // Longer than the histogram's first two microseconds.
    let run =
        tollgate(&["stress", "--threads", "1", "--seconds", "0.05", "--batch", "5000", "--json"]).json();
    assert!(run["latency_ns"]["p50"].as_u64() > Some(5_000), "{run}");
    let run = tollgate(&["stress", "--seconds", "0.05", "--lease", "3", "--batch", "3"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    let run = tollgate(&["stress", "--seconds", "0.05"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    for text in ["M decisions/s", "p99.99", "keys beyond"] {
        assert!(run.out.contains(text), "{text} is missing in\n{}", run.out);
    }
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{}", run.out);
}

#[cfg(target_os = "linux")]
#[test]
fn more_threads_than_the_system_starts_are_an_error() {
    // The address space has room for two stacks of 1 GiB. What then remains is less than a third,
    // and far more than the started threads map for themselves: std aborts where that fails.
    let shell =
        format!("ulimit -v 2500000; exec {} stress --keys 1 --threads 4000", env!("CARGO_BIN_EXE_tollgate"));
    let done = std::process::Command::new("sh")
        .args(["-c", &shell])
        .env("RUST_MIN_STACK", (1_u64 << 30).to_string())
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.starts_with("tollgate: --threads: the system does not start 4000: "), "{said}");
}

#[test]
fn a_flood_forgives_no_debt_and_takes_the_announced_memory() {
    // Slow limits, so that a forgiven debt shows.
    let limits = [
        "token-bucket:10/h",
        "leaky-bucket:10/h,capacity=10",
        "fixed-window:10/h",
        "sliding-window:10/h",
        "sliding-window:10/h,subwindows=4",
        "sliding-log:10/h",
    ];
    let flood =
        ["stress", "--flood", "--track", "20", "--keys", "300", "--seconds", "0.05", "--threads", "3"];
    for limit in limits {
        let object = tollgate(&[&flood[..], &["--json", "--limit", limit]].concat()).json();
        assert_eq!((&object["keys_beyond"], &object["tracked"]), (&json!(0), &json!(20)), "{object}");
        let number = |name: &str| object[name].as_u64().expect("a number");
        assert!(number("strangers") >= 10 * 300 && number("decisions") > number("strangers"), "{object}");
        assert!(number("memory") > 0 && number("memory") <= number("memory_most"), "{object}");
        let no_room = ["evicted_with_debt", "shared", "refused_full"].map(number).iter().sum::<u64>();
        assert!(no_room > 0, "all keys are in debt at once: {object}");
        let most = object["most_admitted"]["admitted"].as_u64().expect("a number");
        // A tracked key may get less than its limit, because it inherits or shares the debt of
        // strangers.
        assert!((1..=11).contains(&most) || limit.contains("window:"), "{object}");
    }
    let run = tollgate(&flood);
    assert_eq!(run.code, Some(0), "{}", run.err);
    for text in ["20 tracked in a flood", "strangers", "bytes of the table", "p99.9"] {
        assert!(run.out.contains(text), "{text} is missing in\n{}", run.out);
    }
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{}", run.out);
    for other in [&["--grow"][..], &["--lease", "3"], &["--batch", "3"]] {
        assert_eq!(tollgate(&[&["stress", "--flood"], other].concat()).code, Some(2), "{other:?}");
    }
    assert_eq!(tollgate(&["stress", "--track", "20"]).code, Some(2), "--track needs --flood");
}
