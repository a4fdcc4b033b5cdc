//! `tollgate serve` as a process: signals, systemd, state, and what it says when it does not start.

mod clock;
mod descriptors;
mod grpc;
mod life;
mod pages;
mod park;
mod park_redis;
mod proxy;
mod proxy_socket;
mod recorded;
mod secrets;
mod session;
mod soak;
mod start;
mod systemd;

use std::path::Path;
use std::process::Command;

use tollgate_testing::process::Process;
use tollgate_testing::{folder, http};

const RULES: &str = "version = 1\nrule = [{ name = 'each', key = 'client', limits = '10/s,burst=20' }]\n";

/// A folder with rules, that is removed with the value.
struct Folder(folder::Folder);

impl Folder {
    fn new() -> Self {
        let folder = Self(folder::Folder::new());
        folder.write("rules.toml", RULES);
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a name in UTF-8").to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        self.0.write(name, text);
    }
}

fn tollgate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tollgate"))
}

/// `tollgate serve` with the rules of this folder, on ports of the system's choice.
fn serve(folder: &Folder, options: &[&str]) -> Command {
    let mut command = tollgate();
    command.args(["serve", "--rules", &folder.path("rules.toml")]);
    for listener in ["--http", "--admin"] {
        if !options.contains(&listener) {
            command.args([listener, "127.0.0.1:0"]);
        }
    }
    command.args(options);
    command
}

/// The address of a listener, once the server serves.
fn address_of(server: &mut Process, listener: &str) -> String {
    let line = server.says(&format!("listening for {listener}"));
    let (_, address) = line.split_once("address=").expect("it has one");
    address.split(' ').next().expect("a word").to_owned()
}

/// The exit code and standard error of a server that does not start.
fn fails(command: Command) -> (Option<i32>, String) {
    let mut server = Process::start(command);
    (server.ends(), server.rest())
}

/// The answer to a request, as it comes.
fn get(address: &str, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    String::from_utf8(http::talk(address, request.as_bytes())).expect("it is text")
}

fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}
