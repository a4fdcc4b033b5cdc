//! Wrong command lines, and the help.

mod support;

use support::{LOG, Temporary, tollgate, tollgate_reading};

#[test]
fn a_wrong_argument_has_exit_code_two_and_a_hint() {
    let log = Temporary::new("usage.log", LOG.as_bytes());
    let cases: [(&[&str], &[&str]); 21] = [
        (&[], &["Usage"]),
        (&["replay"], &["tollgate replay", "--demo", "access.log"]),
        (&["replay", log.text()], &["--limit token-bucket:60/min,burst=20"]),
        (&["replay", "/no/such/file", "--limit", "fixed-window:1/s"], &["/no/such/file", "No such file"]),
        (&["replay", log.text(), "--limit", "bucket:1/s"], &["\"bucket\"", "token-bucket", "sliding-log"]),
        (&["replay", log.text(), "--limit", "fixed-window:1"], &["COUNT/PERIOD"]),
        (&["replay", log.text(), "--limit", "fixed-window:1/s,burst=1"], &["no option", "count=allowed|all"]),
        (&["replay", log.text(), "--limit", "fixed-window:0/s"], &["fixed-window:0/s", "between 1 and"]),
        (&["replay", log.text(), "--limit", "token-bucket:1/s,burst=0"], &["burst is 0"]),
        (&["replay", log.text(), "--limit", "fixed-window:1/s", "--max-keys", "0"], &["--max-keys is 0"]),
        (&["replay", log.text(), "--demo"], &["cannot be used with"]),
        (&["replay", "-", "-", "--limit", "fixed-window:1/s"], &["standard input", "once only"]),
        (&["replay", log.text(), "--limit", "fixed-window:1/s", "--key", "ip"], &["client, user, path"]),
        (
            &["replay", log.text(), "--limit", "fixed-window:1/s", "--decisions", "/no/such/dir/x"],
            &["/no/such/dir/x"],
        ),
        (&["tune", log.text(), "--period", "0s"], &["longer than nothing"]),
        (&["tune", log.text(), "--period", "1ns"], &["the period is 1 ns"]),
        (&["accuracy", log.text(), "--period", "1ns", "--limits", "2"], &["the count is 2"]),
        (&["tune", log.text(), "--keep", "101%"], &["more than 100%"]),
        (
            &["replay", log.text(), "--limit", "sliding-window:5000/min,subwindows=12"],
            &["sliding-window:5000/min,subwindows=12", "with fewer", "sliding-window:5000/min  the estimate"],
        ),
        (&["stress", "--threads", "0"], &["--threads"]),
        (&["stress", "--limit", "sliding-window:5000/min,subwindows=12"], &["the estimate"]),
    ];
    for (arguments, parts) in cases {
        let run = tollgate(arguments);
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        assert_eq!(run.out, "", "{arguments:?}");
        for part in parts {
            assert!(run.err.contains(part), "{arguments:?}: {} lacks {part}", run.err);
        }
    }
}

#[test]
fn a_wrong_number_gets_an_example_or_the_range() {
    let log = Temporary::new("numbers.log", LOG.as_bytes());
    let replay = ["replay", log.text(), "--limit", "fixed-window:1/s"];
    let number = "is not a whole number, such as 100 or 1_000";
    let cases: [(&[&str], &str); 12] = [
        (&["--top", "x"], number),
        (&["--max-keys", "1k"], number),
        (&["--max-keys", "-1"], number),
        (&["--ipv6-prefix", "-1"], "from 0 to 128"),
        (&["--limits", "5,x"], number),
        (&["--limits", "5,0"], "from 1 to"),
        (&["--threads", "-1"], number),
        (&["--threads", "0"], "from 1 to 65535"),
        (&["--keys", "1e6"], number),
        (&["--keys", "0"], "from 1 to 67108864"),
        (&["--skew", "-1"], "from 0 to 10"),
        (&["--seconds", "-1"], "from 0.01 to 86400"),
    ];
    for (options, part) in cases {
        let command: &[&str] = match options[0] {
            "--top" | "--max-keys" | "--ipv6-prefix" => &replay,
            "--limits" => &["accuracy", log.text()],
            _ => &["stress"],
        };
        let run = tollgate(&[command, options].concat());
        assert_eq!((run.code, &*run.out), (Some(2), ""), "{options:?}");
        assert!(run.err.contains(part), "{options:?}: {} lacks {part}", run.err);
    }
    // Numbers may have underscores, as in a limit.
    let run = tollgate(&[&replay[..], &["--max-keys", "1_000", "--top", "1_0"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn a_log_without_readable_lines_has_exit_code_two() {
    let replay = ["replay", "-", "--limit", "fixed-window:1/s", "--json"];
    let run = tollgate_reading(&[&replay[..], &["--format", "clf"]].concat(), b"time,key\n1,alice\n");
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.out.contains("\"requests\""), "the summary says how many lines there were: {}", run.out);
    assert!(run.err.contains("lines could be read: is --format right?"), "{}", run.err);
    // An empty log is a log, and one line is enough.
    assert_eq!(tollgate_reading(&replay, b"").code, Some(0));
    let run = tollgate_reading(&replay, format!("{LOG}and a line that is none\n").as_bytes());
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn a_damaged_file_is_shown_partly_with_exit_code_two() {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let log = LOG.repeat(20_000);
    encoder.write_all(log.as_bytes()).expect("a vector takes it");
    let zipped = encoder.finish().expect("a vector takes it");
    let run = tollgate_reading(
        &["replay", "-", "--limit", "fixed-window:1/s", "--json"],
        &zipped[..zipped.len() / 2],
    );
    assert_eq!(run.code, Some(2));
    let object: serde_json::Value = serde_json::from_str(&run.out).expect("what was read is shown");
    assert!(object["requests"].as_u64().is_some_and(|requests| requests > 0));
    assert_eq!(run.err.matches("ends early").count(), 1, "reported once: {}", run.err);
}

#[test]
fn help_has_examples_and_the_version_is_printed() {
    for command in ["replay", "tune", "accuracy", "stress"] {
        let run = tollgate(&[command, "--help"]);
        assert_eq!(run.code, Some(0));
        assert!(
            run.out.contains("Examples:") && run.out.contains(&format!("tollgate {command}")),
            "{command}"
        );
        assert!(tollgate(&["--help"]).out.contains(command));
    }
    let version = tollgate(&["--version"]);
    assert_eq!((version.code, version.out), (Some(0), format!("tollgate {}\n", env!("CARGO_PKG_VERSION"))));
}

/// Only without the feature `serve`: `cargo xtask test` has a step of its own for that.
#[cfg(not(feature = "serve"))]
#[test]
fn serve_without_its_feature_tells_how_to_install_it() {
    for arguments in [&["serve"][..], &["serve", "--rules", "rules.toml"], &["serve", "--help"], &["proxy"]] {
        let run = tollgate(arguments);
        assert_eq!((run.code, &*run.out), (Some(2), ""), "{arguments:?}: {}", run.err);
        for part in ["built without the server", "cargo install --path crates/tollgate-cli --features serve"]
        {
            assert!(run.err.contains(part), "{arguments:?}: {} lacks {part}", run.err);
        }
    }
}
