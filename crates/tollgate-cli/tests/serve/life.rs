//! Signals, and the state over a restart.

use std::fs::OpenOptions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use tollgate_testing::process::{LONG, Process};

use crate::{Folder, address_of, exists, fails, get, serve};

/// The answer to `/readyz`.
fn ready(admin: &str) -> String {
    get(admin, "/readyz")
}

#[test]
fn a_signal_drains_and_ends_the_server() {
    for signal in ["TERM", "INT"] {
        let folder = Folder::new();
        let mut server = Process::start(serve(&folder, &["--drain-delay", "3s"]));
        let (address, admin) = (address_of(&mut server, "http"), address_of(&mut server, "admin"));
        server.says("serving");
        assert!(ready(&admin).starts_with("HTTP/1.1 200 "), "{}", ready(&admin));
        server.signal(signal);
        server.says("draining");
        let told = Instant::now();
        // It says so before its delay begins.
        while ready(&admin).starts_with("HTTP/1.1 200 ") {
            assert!(told.elapsed() < Duration::from_secs(2), "it still says that it is ready");
        }
        assert!(ready(&admin).starts_with("HTTP/1.1 503 "), "{}", ready(&admin));
        assert!(TcpStream::connect(&address).is_ok(), "it still serves");
        assert_eq!(server.ends(), Some(0), "{}", server.said);
        assert!(told.elapsed() >= Duration::from_secs(1), "it ended after the delay");
        assert!(TcpStream::connect(&address).is_err());
    }
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    let folder = Folder::new();
    let state = folder.path("state");
    let mut server = Process::start(serve(&folder, &["--drain-delay", "10min", "--state", &state]));
    server.says("serving");
    server.signal("TERM");
    server.says("draining");
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0), "{}", server.said);
    assert!(exists(&state), "the state is saved all the same");
}

#[test]
fn a_hangup_reads_the_rules_again() {
    let folder = Folder::new();
    let mut server = Process::start(serve(&folder, &["--drain-delay", "0"]));
    server.says("serving");
    server.signal("HUP");
    assert!(server.says("SIGHUP").contains("generation=1"));
    folder.write("rules.toml", "nonsense");
    server.signal("HUP");
    assert!(server.says("SIGHUP").contains("the old rules stay in force"));
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn a_signal_during_the_start_does_not_end_the_server() {
    // Under nohup, a hangup ends no process.
    for signal in ["HUP", "TERM"] {
        let folder = Folder::new();
        let (certificate, key) = (folder.path("pipe"), folder.path("key"));
        assert!(Command::new("mkfifo").arg(&certificate).status().expect("mkfifo is there").success());
        let mut server = Process::start(serve(&folder, &["--admin-tls", &format!("{certificate},{key}")]));
        // The server reads its certificate during the start, and waits at a pipe for the writer.
        let writer = OpenOptions::new().write(true).open(&certificate).expect("the server reads");
        server.signal(signal);
        // A signal that ends a process has doomed it by now: it reads no more of the pipe.
        drop(writer);
        assert_eq!(server.ends(), Some(2), "{signal}: {}", server.said);
        assert!(server.rest().contains("--admin-tls: "), "{signal}: {}", server.said);
    }
}

#[test]
fn a_hangup_says_which_files_are_in_force() {
    const WHOLE: &str =
        "domain: shop\ndescriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 5 } }]\n";
    let folder = Folder::new();
    folder.write("shop.yaml", WHOLE);
    let envoy = folder.path("shop.yaml");
    let mut server = Process::start(serve(&folder, &["--drain-delay", "0", "--envoy", &envoy]));
    server.says("serving");
    folder.write("shop.yaml", "domain: [");
    server.signal("HUP");
    let said = server.says("SIGHUP");
    assert!(said.contains("ERROR") && said.contains("the files of envoyproxy/ratelimit are not"), "{said}");
    folder.write("shop.yaml", WHOLE);
    server.signal("HUP");
    let said = server.says("SIGHUP");
    assert!(!said.contains("ERROR") && said.contains("what the files say is in force"), "{said}");
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0));
}

#[test]
fn state_is_saved_at_the_end_and_restored() {
    let folder = Folder::new();
    let state = folder.path("state");
    let options = ["--drain-delay", "0", "--state", &*state, "--strict-state"];
    let mut server = Process::start(serve(&folder, &options));
    assert!(server.says("state was read").contains("is_there=false"));
    server.says("serving");
    server.signal("TERM");
    assert_eq!(server.ends(), Some(0));
    assert_eq!(std::fs::metadata(&state).expect("it is there").permissions().mode() & 0o777, 0o600);

    let mut server = Process::start(serve(&folder, &options));
    assert!(server.says("state was read").contains("is_there=true"));
    server.says("serving");
    drop(server);

    let whole = std::fs::read(&state).expect("it is there");
    std::fs::write(&state, &whole[..whole.len() / 2]).expect("it is written");
    let (code, said) = fails(serve(&folder, &options));
    assert!(code == Some(2) && said.contains("it is not taken: the file ends too soon"), "{said}");
    let mut server = Process::start(serve(&folder, &options[..4]));
    server.says("STATE IS LOST");
    server.says("serving");
    assert!(exists(folder.path("state.bad")));
}

#[test]
fn state_is_saved_while_the_server_runs() {
    let folder = Folder::new();
    let state = folder.path("state");
    let mut server = Process::start(serve(&folder, &["--state", &state, "--state-interval", "20ms"]));
    server.says("serving");
    let begun = Instant::now();
    while !exists(&state) {
        assert!(begun.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_failed_last_save_is_no_clean_end() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("gone")).expect("a folder");
    let state = folder.path("gone/state");
    let mut server = Process::start(serve(&folder, &["--drain-delay", "0", "--state", &state]));
    server.says("serving");
    std::fs::remove_dir_all(folder.path("gone")).expect("it is there");
    server.signal("TERM");
    assert_eq!(server.ends(), Some(2), "{}", server.said);
    assert!(server.says("the state is not saved").contains("state"));
}
