//! The output files of a replay: a mistake in the command line destroys no existing file.

mod support;

use std::fs;

use support::{LOG, Temporary, tollgate};

const LIMIT: [&str; 2] = ["--limit", "fixed-window:1/s"];

/// Runs a replay that must fail before it reads, with a message that has these parts.
fn refused(arguments: &[&str], parts: &[&str]) {
    let run = tollgate(&[&["replay"], arguments, &LIMIT].concat());
    assert_eq!((run.code, &*run.out), (Some(2), ""), "{arguments:?}: {}", run.err);
    for part in parts {
        assert!(run.err.contains(part), "{arguments:?}: {} lacks {part}", run.err);
    }
}

#[test]
fn an_input_is_not_overwritten() {
    let log = Temporary::new("outputs.log", LOG.as_bytes());
    let folder = log.path().parent().expect("it is in a folder");
    let detour = folder.join(".").join(log.path().file_name().expect("it has a name"));
    for option in ["--decisions", "--report", "--save"] {
        for output in [log.path(), &detour] {
            let output = output.to_str().expect("text");
            refused(&[log.text(), option, output], &[option, "to be read", "another file"]);
            assert_eq!(fs::read_to_string(log.path()).expect("it is there"), LOG, "{option}");
        }
    }
}

#[test]
fn a_state_to_restore_is_not_overwritten_by_other_output() {
    let (log, state) =
        (Temporary::new("outputs-state.log", LOG.as_bytes()), Temporary::new("a.state", b"old"));
    for option in ["--decisions", "--report"] {
        refused(&[log.text(), "--restore", state.text(), option, state.text()], &[option, "to be read"]);
        assert_eq!(fs::read(state.path()).expect("it is there"), b"old");
    }
}

#[test]
fn two_results_are_not_written_to_one_file() {
    let (log, new) = (Temporary::new("outputs-two.log", LOG.as_bytes()), Temporary::new("two", b""));
    fs::remove_file(new.path()).expect("it was there");
    refused(
        &[log.text(), "--decisions", new.text(), "--report", new.text()],
        &["--decisions and --report", "two files"],
    );
    assert!(!new.path().exists());
}

#[test]
fn an_older_result_stays_when_an_input_is_missing() {
    let (log, old) = (Temporary::new("outputs-old.log", LOG.as_bytes()), Temporary::new("old.jsonl", b"old"));
    refused(&["/no/such/file", "--decisions", old.text()], &["/no/such/file"]);
    refused(&[log.text(), "--restore", "/no/such/file", "--decisions", old.text()], &["/no/such/file"]);
    assert_eq!(fs::read(old.path()).expect("it is there"), b"old");
}

#[test]
fn an_unwritable_report_is_an_error_before_reading() {
    let log = Temporary::new("outputs-report.log", LOG.as_bytes());
    refused(&[log.text(), "--report", "/no/such/dir/x.html"], &["/no/such/dir/x.html", "No such file"]);
    refused(&[log.text(), "--report", "/"], &["cannot write /", "directory"]);
    refused(&[log.text(), "--report", "-"], &["--report", "not standard output"]);
}

#[cfg(unix)]
#[test]
fn a_device_is_written_to_but_never_replaced() {
    let log = Temporary::new("outputs-socket.log", LOG.as_bytes());
    let socket = std::env::temp_dir().join(format!("tollgate-cli-{}-socket", std::process::id()));
    let _bound =
        std::os::unix::net::UnixListener::bind(&socket).expect("the temporary directory is writable");
    let name = socket.to_str().expect("text");
    refused(&[log.text(), "--save", name], &[name, "only a file"]);
    fs::remove_file(&socket).expect("it is still there");
    let null = ["--decisions", "/dev/null", "--report", "/dev/null"];
    let run = tollgate(&[&["replay", log.text()], &null[..], &LIMIT].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
}
