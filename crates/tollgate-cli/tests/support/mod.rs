//! Shared by the tests of the binary: running it, and a small log.
#![allow(dead_code, reason = "every test uses some of it")]

pub(crate) mod traffic;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Run {
    /// Standard output of a successful run as one JSON object.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.err);
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Standard output of a successful run as one JSON object a line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out.lines().map(|line| serde_json::from_str(line).expect("every line is an object")).collect()
    }
}

/// The command line of the binary, not yet started.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the binary.
pub(crate) fn tollgate(arguments: &[&str]) -> Run {
    finish(command(arguments).spawn().expect("the binary starts"))
}

/// Runs the binary with `input` on standard input.
pub(crate) fn tollgate_reading(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    // A run that ends early does not read all input.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let run = finish(child);
    writer.join().expect("the writer does not panic");
    run
}

fn finish(child: std::process::Child) -> Run {
    let output = child.wait_with_output().expect("the binary ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is text");
    Run { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
}

/// A file that is removed with the value.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    /// The name must be the test's own.
    pub(crate) fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-cli-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("the temporary directory can be written to");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn text(&self) -> &str {
        self.0.to_str().expect("the temporary directory has a name")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Nine requests of three clients; the fifth is a second late, one line is blank and one is broken.
pub(crate) const LOG: &str = "\
192.0.2.1 - - [20/Feb/2016:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"test\"
192.0.2.1 - - [20/Feb/2016:00:00:00 +0000] \"GET /a HTTP/1.1\" 200 1 \"-\" \"test\"
192.0.2.1 - - [20/Feb/2016:00:00:01 +0000] \"GET /b?c=d HTTP/1.1\" 200 1 \"-\" \"test\"
192.0.2.2 - bob [20/Feb/2016:01:00:02 +0100] \"POST / HTTP/1.1\" 200 1 \"-\" \"test\"
192.0.2.1 - - [20/Feb/2016:00:00:01 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"test\"

this is no line of a log
2001:db8::1 - - [20/Feb/2016:00:00:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"test\"
2001:db8::2 - - [20/Feb/2016:00:00:03 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"test\"
2001:db8::3 - - [20/Feb/2016:00:00:04 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"test\"
192.0.2.1 - - [20/Feb/2016:00:00:04 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"test\"
";

/// 2016-02-20T00:00:00Z.
pub(crate) const MIDNIGHT: u64 = 1_455_926_400_000_000_000;
