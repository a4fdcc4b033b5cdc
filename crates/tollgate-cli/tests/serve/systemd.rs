//! What systemd is told, and the sockets that it hands over.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::{Command, Stdio};

use tollgate_testing::process::{LONG, Process};
use tollgate_testing::tools;

use crate::{Folder, address_of, serve};

/// The next message that is not of the watchdog.
fn message(socket: &UnixDatagram) -> String {
    loop {
        let text = any_message(socket);
        if text != "WATCHDOG=1\n" {
            return text;
        }
    }
}

fn any_message(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let read = socket.recv(&mut buffer).expect("a message");
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

#[test]
fn systemd_is_told_what_the_server_does() {
    let folder = Folder::new();
    let socket = UnixDatagram::bind(folder.path("notify")).expect("a socket");
    socket.set_read_timeout(Some(LONG)).expect("it has a time-out");
    let mut command = serve(&folder, &["--drain-delay", "0"]);
    command.env("NOTIFY_SOCKET", folder.path("notify")).env("WATCHDOG_USEC", "200000");
    let mut server = Process::start(command);
    let ready = message(&socket);
    assert!(ready.starts_with("READY=1\n") && ready.contains("STATUS=1 rules"), "{ready}");
    while any_message(&socket) != "WATCHDOG=1\n" {}
    server.signal("HUP");
    let reloading = message(&socket);
    assert!(reloading.starts_with("RELOADING=1\n") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
    let ready = message(&socket);
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    server.signal("TERM");
    let stopping = message(&socket);
    assert!(stopping.starts_with("STOPPING=1\n"), "{stopping}");
    assert_eq!(server.ends(), Some(0));
}

/// A server that is handed two sockets, by a shell in the place of systemd.
pub(crate) fn activated(command: &Command, sockets: (OwnedFd, OwnedFd), names: &str) -> Process {
    let script = "exec 3<&0 4>&1 0</dev/null 1>&2; export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    shell.env("LISTEN_FDNAMES", names).stdin(sockets.0).stdout(sockets.1).stderr(Stdio::piped());
    Process::of(&mut shell)
}

#[test]
fn sockets_of_systemd_are_taken_by_name() {
    let folder = Folder::new();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = tcp.local_addr().expect("it is bound").to_string();
    let unix = UnixListener::bind(folder.path("socket")).expect("a socket");
    let command = serve(&folder, &["--http", "fd:web", "--resp", "fd:redis"]);
    let mut server = activated(&command, (tcp.into(), unix.into()), "web:redis");
    assert_eq!(address_of(&mut server, "http"), address);
    assert!(address_of(&mut server, "resp").starts_with("unix:"));
    server.says("serving");
    assert!(TcpStream::connect(&address).is_ok());
    assert!(UnixStream::connect(folder.path("socket")).is_ok());
}

#[test]
fn handed_sockets_beyond_loopback_need_authentication_too() {
    let folder = Folder::new();
    let (open, local) = (TcpListener::bind("0.0.0.0:0"), TcpListener::bind("127.0.0.1:0"));
    let sockets = (open.expect("a port").into(), local.expect("a port").into());
    let mut server = activated(&serve(&folder, &["--http", "fd:open"]), sockets, "open:local");
    server.says("the http listener 0.0.0.0:");
    assert_eq!(server.ends(), Some(2));
}

#[test]
fn units_pass_the_check_of_systemd() {
    let is_there = Command::new("systemd-analyze").arg("--version").output();
    if !is_there.is_ok_and(|run| run.status.success()) {
        tools::tell("systemd-analyze");
        return;
    }
    let folder = Folder::new();
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/systemd");
    let names = [
        "tollgate.service",
        "tollgate-http.socket",
        "tollgate-resp.socket",
        "tollgate-proxy.service",
        "tollgate-proxy.socket",
    ];
    // What stands beside a unit in a folder of its name changes it.
    let sockets = "tollgate.service.d/sockets.conf";
    std::fs::create_dir(folder.path("tollgate.service.d")).expect("a folder");
    for name in names.into_iter().chain([sockets]) {
        let text = std::fs::read_to_string(format!("{units}/{name}")).expect("it is there");
        folder.write(name, &text.replace("/usr/bin/tollgate", env!("CARGO_BIN_EXE_tollgate")));
    }
    let files = names.map(|name| folder.path(name));
    let run = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&files).output();
    let run = run.expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    // The unit has the older type for systemd before 253.
    let is_older = |line: &str| line.ends_with("ignoring: notify-reload");
    let about = said.lines().filter(|line| line.contains("tollgate") && !is_older(line)).collect::<Vec<_>>();
    assert!(about.is_empty(), "{about:?}");
}
