//! `--save` and `--restore`: a log in pieces is decided as the whole log.

mod support;

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use support::{MIDNIGHT, Run, Temporary, command, tollgate_reading};
use tollgate_testing::random::Random;

const SECOND: u64 = 1_000_000_000;

/// Requests of three keys in bursts and pauses.
fn lines() -> Vec<String> {
    let mut random = Random::with_seed(5);
    let mut t = MIDNIGHT;
    let line = |_| {
        t += if random.u64(..15) == 0 { random.u64(..20 * SECOND) } else { random.u64(..SECOND) };
        let key = ["a", "a key of more than eight bytes", "b"][random.usize(..3)];
        json!({"t_ns": t, "key": key, "cost": random.u64(..3) + 1}).to_string() + "\n"
    };
    (0..800).map(line).collect()
}

/// `limits` are separated by spaces.
fn replay(limits: &str, more: &[&str], lines: &[String]) -> Run {
    let limits: Vec<&str> = limits.split(' ').flat_map(|limit| ["--limit", limit]).collect();
    let arguments = ["replay", "-", "--format", "trace", "--decisions", "-"];
    tollgate_reading(&[&arguments[..], &limits, more].concat(), lines.concat().as_bytes())
}

fn verdicts(run: &Run) -> Vec<(Value, Value)> {
    run.lines().into_iter().map(|line| (line["t_ns"].clone(), line["allowed"].clone())).collect()
}

#[test]
fn a_log_in_two_pieces_is_decided_as_the_whole() {
    let limits = [
        "token-bucket:5/10s",
        "token-bucket:40_003/d,burst=4",
        "leaky-bucket:5/10s,capacity=8",
        "leaky-bucket:3/s,capacity=4,mode=queue",
        "fixed-window:4/10s,count=all",
        "sliding-window:4/10s",
        "sliding-window:5/7s,subwindows=3,count=all",
        "sliding-log:4/10s",
        "sliding-log:40/min token-bucket:5/10s fixed-window:4/10s,count=all leaky-bucket:9/10s,mode=queue",
    ];
    let (lines, state) = (lines(), Temporary::new("halves.state", b"an older one"));
    for limit in limits {
        let whole = verdicts(&replay(limit, &[], &lines));
        let refused = whole.iter().filter(|(_, allowed)| *allowed == json!(false)).count();
        assert!(refused > 50, "{limit} refuses only {refused}");
        for half in [1, 333, 400] {
            let first = replay(limit, &["--save", state.text()], &lines[..half]);
            let second = replay(limit, &["--restore", state.text()], &lines[half..]);
            assert_eq!([verdicts(&first), verdicts(&second)].concat(), whole, "{limit}, cut at {half}");
        }
    }
}

#[test]
fn one_file_may_be_restored_from_and_saved_to() {
    let (lines, state) = (lines(), Temporary::new("same.state", b""));
    let limit = "sliding-log:4/10s";
    let whole = verdicts(&replay(limit, &[], &lines));
    let mut pieces = verdicts(&replay(limit, &["--save", state.text()], &lines[..100]));
    for piece in lines[100..].chunks(100) {
        pieces.extend(verdicts(&replay(limit, &["--restore", state.text(), "--save", state.text()], piece)));
    }
    assert_eq!(pieces, whole);
}

#[cfg(unix)]
#[test]
fn a_state_is_private_and_leaves_no_temporary_file() {
    use std::os::unix::fs::PermissionsExt;

    let folder = std::env::temp_dir().join(format!("tollgate-cli-{}-state", std::process::id()));
    std::fs::create_dir(&folder).expect("the temporary directory can be written to");
    let path = folder.join("a.state");
    let run = replay("fixed-window:4/10s", &["--save", path.to_str().expect("text")], &lines());
    let mode = std::fs::metadata(&path).map(|data| data.permissions().mode() & 0o777);
    let files = std::fs::read_dir(&folder).expect("it is a folder").count();
    std::fs::remove_dir_all(&folder).expect("it is the test's own");
    assert!(run.err.contains("keep it to yourself"), "{}", run.err);
    assert_eq!((mode.ok(), files), (Some(0o600), 1));
}

#[test]
fn an_unusable_state_is_reported_with_the_reason() {
    let (lines, state) = (lines(), Temporary::new("bad.state", b""));
    let saved = replay("fixed-window:4/10s", &["--save", state.text()], &lines);
    assert_eq!(saved.code, Some(0), "{}", saved.err);
    let refused = |limit: &str| {
        let run = replay(limit, &["--restore", state.text()], &lines);
        assert_eq!(run.code, Some(2));
        assert!(run.err.contains(&format!("{}: ", state.text())), "{}", run.err);
        run.err
    };
    assert!(refused("fixed-window:5/10s").contains("fixed-window:5/10s, but was fixed-window:4/10s"));
    assert!(refused("fixed-window:4/10s token-bucket:1/s").contains("the number of limits is 2, but was 1"));

    let mut bytes = std::fs::read(state.path()).expect("it was written");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(state.path(), &bytes).expect("it is the test's own");
    assert!(refused("fixed-window:4/10s").contains("damaged"));
    std::fs::write(state.path(), "# my settings").expect("it is the test's own");
    assert!(refused("fixed-window:4/10s").contains("not a saved limiter"));
    std::fs::remove_file(state.path()).expect("it is the test's own");
    assert!(refused("fixed-window:4/10s").contains("cannot be opened"));
}

#[test]
fn debt_under_several_limits_is_saved_in_one_file() {
    let state = Temporary::new("several.state", b"");
    let saved = replay("fixed-window:4/d token-bucket:5/d", &["--save", state.text()], &lines());
    assert!(saved.err.contains("saved the debt of 3 keys"), "{}", saved.err);
    let run = replay("fixed-window:4/d token-bucket:6/d", &["--restore", state.text()], &lines());
    assert_eq!(run.code, Some(2));
    let told = "the quota of limit 1 is token-bucket:6/d,burst=6, but was token-bucket:5/d,burst=5";
    assert!(run.err.contains(told), "{}", run.err);
}

#[test]
fn without_requests_the_state_is_unchanged() {
    let state = Temporary::new("none.state", b"as it was");
    let run = replay("fixed-window:4/10s", &["--save", state.text()], &[]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("no request was read"), "{}", run.err);
    assert_eq!(std::fs::read(state.path()).ok().as_deref(), Some(&b"as it was"[..]));
}

#[test]
fn an_unwritable_state_is_an_error_before_reading() {
    let folder = std::env::temp_dir();
    let missing = folder.join("no such folder/a.state");
    for path in [folder.to_str().expect("text"), missing.to_str().expect("text"), ".", "-"] {
        let run = replay("fixed-window:4/10s", &["--save", path], &lines());
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{path}: {}", run.err);
        assert!(run.err.starts_with("tollgate: ") && run.err.contains(path), "{path}: {}", run.err);
    }
}

#[test]
fn a_state_is_saved_when_the_reader_closes_the_output() {
    let state = Temporary::new("unread.state", b"");
    let arguments =
        ["replay", "-", "--format", "trace", "--limit", "fixed-window:4/d", "--save", state.text()];
    let mut child = command(&arguments).stdin(Stdio::piped()).spawn().expect("it was built");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(lines().concat().as_bytes()).expect("it reads all");
    drop(input);
    let done = child.wait_with_output().expect("it ends");
    assert!(done.status.success());
    let run = replay("fixed-window:4/d", &["--restore", state.text()], &lines()[..1]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert_eq!(verdicts(&run)[0].1, json!(false), "the first replay's debt is in the file");
}
