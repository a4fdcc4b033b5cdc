//! A page of the documentation, typed into a shell.
//!
//! The `sh` blocks of the page are run one after the other, in one shell. A block of another
//! language is written to the file that the line above it names, such as `rules.toml`. What a
//! `text` block shows is compared with what the `sh` block before it printed; `…` stands for
//! anything there. The shell begins in an empty folder that has `tollgate`, this repository, and
//! its `crates` beside. Only the ports are others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_testing::folder::{Folder, free_port};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The ports that pages name.
const PORTS: [&str; 7] = ["8080", "9080", "8081", "6380", "8000", "3000", "9000"];

/// Commands that are not run here, with the file of the tests that hold them and a word that it
/// must have.
const ELSEWHERE: [(&str, &str, &str); 4] = [
    ("cargo xtask test", "xtask/src/test.rs", "cargo test --workspace --all-features"),
    // The binary that it installs is the one that is run here.
    (
        "cargo install --path crates/tollgate-cli --features serve",
        "crates/tollgate-cli/Cargo.toml",
        "serve = [",
    ),
    (
        "caddy run --config crates/tollgate-server/examples/Caddyfile",
        "crates/tollgate-server/tests/v1/proxies.rs",
        "\"Caddyfile\"",
    ),
    (
        "envoy -c crates/tollgate-server/examples/envoy/envoy.yaml",
        "crates/tollgate-server/tests/rls/real_envoy.rs",
        "\"envoy.yaml\"",
    ),
];

/// What a shell needs for the pages: waits until something listens on a port.
const PRELUDE: &str = r#"set -e
wait_for() {
    for _ in $(seq 12000); do
        if (exec 3<>/dev/tcp/127.0.0.1/"$1") 2>/dev/null; then return; fi
        sleep 0.05
    done
    echo "nothing listens on $1" >&2
    exit 1
}
"#;

/// A block of a page, and the line of text above it.
#[derive(Debug)]
struct Block<'p> {
    language: &'p str,
    text: &'p str,
    above: &'p str,
}

/// The fenced blocks of a page.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let (mut rest, mut above) = (page, "");
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if let Some(language) = line.strip_prefix("```") {
            let (text, after) = rest.split_once("```\n").expect("a block ends");
            blocks.push(Block { language: language.split(',').next().unwrap_or_default(), text, above });
            (rest, above) = (after, "");
        } else if !line.is_empty() {
            above = line;
        }
    }
    blocks
}

/// The file that a line names: its first word in backticks that has a dot within.
fn file(above: &str) -> Option<&str> {
    let names = above.split('`').skip(1).step_by(2);
    let is_file =
        |name: &&str| name.split_once('.').is_some_and(|(stem, end)| !stem.is_empty() && !end.is_empty());
    names.into_iter().find(|name| is_file(name) && !name.contains([' ', '(', ':']))
}

/// A part of a page, as a script.
pub(crate) struct Session {
    script: String,
    /// What each `sh` block must print, where the page says so.
    expected: Vec<(String, Option<String>)>,
    ports: BTreeMap<&'static str, String>,
    folder: Folder,
}

impl Session {
    /// The page, or its part behind this heading.
    pub(crate) fn of(page: &str, heading: Option<&str>) -> Self {
        let text = std::fs::read_to_string(Path::new(ROOT).join(page)).expect("the page is there");
        let part = heading.map_or(&*text, |heading| {
            let (_, part) = text.split_once(&format!("{heading}\n")).expect("the page has this heading");
            part.split("\n## ").next().and_then(|part| part.split("\n### ").next()).expect("it has text")
        });
        let ports = PORTS.map(|port| (port, free_port().to_string())).into();
        let mut session = Self { script: PRELUDE.into(), expected: Vec::new(), ports, folder: Folder::new() };
        session.read(part);
        session
    }

    fn read(&mut self, part: &str) {
        let mut files = String::new();
        let mut blocks = blocks(part).into_iter().peekable();
        while let Some(block) = blocks.next() {
            if block.language == "sh" {
                let number = self.expected.len();
                self.script += &format!("printf '\\001{number}\\n'\n");
                for line in block.text.lines() {
                    self.type_in(line, &files);
                }
                let shown = blocks.next_if(|next| next.language == "text");
                self.expected.push((block.text.into(), shown.map(|shown| shown.text.into())));
            } else if let Some(file) = file(block.above) {
                let text = self.with_ports(block.text);
                writeln!(self.script, "cat > {file} <<'END_OF_FILE'\n{text}END_OF_FILE").expect("a string");
                files += block.text;
            }
        }
        assert!(!self.expected.is_empty(), "the page has commands");
    }

    /// Adds a line of a page to the script.
    fn type_in(&mut self, line: &str, files: &str) {
        if let Some((_, file, words)) = ELSEWHERE.iter().find(|(command, ..)| *command == line) {
            let tests = std::fs::read_to_string(Path::new(ROOT).join(file)).expect(file);
            assert!(tests.contains(words), "{file} does not run {line}");
            return;
        }
        let (line, is_left_running) = match line.strip_suffix(" &") {
            Some(line) => (line, true),
            None => (line, false),
        };
        let built = ["cargo run --release --features serve -- ", "cargo run --release -- "];
        let command = built.iter().find_map(|built| line.strip_prefix(built));
        let mut command = command.map_or(line.to_owned(), |options| format!("tollgate {options}"));
        // The ports that the page leaves to the command.
        if command.starts_with("tollgate serve ") {
            command += " --http 127.0.0.1:8080 --admin 127.0.0.1:9080";
        } else if command.starts_with("tollgate proxy ") {
            command += " --listen 127.0.0.1:8080 --admin 127.0.0.1:9080";
        }
        let typed = self.with_ports(&command);
        if !is_left_running {
            self.script += &format!("{typed}\n");
            return;
        }
        self.script += &format!("{typed} >>running.log 2>&1 &\n");
        let named = if PORTS.iter().any(|port| command.contains(port)) { &*command } else { files };
        for (port, own) in self.ports.iter().filter(|(port, _)| named.contains(**port)) {
            self.script += &format!("wait_for {own} # {port}\n");
        }
    }

    fn with_ports(&self, text: &str) -> String {
        let mut left = text;
        let mut written = String::new();
        // One after the other, so that no port is looked for in another's number.
        while let Some((at, port)) = PORTS.iter().filter_map(|port| Some((left.find(port)?, port))).min() {
            written += &left[..at];
            written += &self.ports[port];
            left = &left[at + port.len()..];
        }
        written + left
    }

    /// Types the page, and compares its output blocks with the shell's output.
    pub(crate) fn run(self) {
        let (root, folder) = (Path::new(ROOT).canonicalize().expect("it is there"), self.folder.path());
        for (name, target) in [("tollgate", root.clone()), ("crates", root.join("crates"))] {
            std::os::unix::fs::symlink(target, folder.join(name)).expect("a link");
        }
        let binaries = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().expect("it is in a folder");
        let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.args(["-c", &self.script]).current_dir(folder).env("PATH", path).process_group(0);
        // Programs of the pages are built once for all runs.
        command.env("CARGO_TARGET_DIR", root.join("target/pages"));
        command.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let shell = command.spawn().expect("bash is there");
        let group = format!("-{}", shell.id());
        let output = shell.wait_with_output().expect("it ends");
        // The processes that still run.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let log = std::fs::read_to_string(folder.join("running.log")).unwrap_or_default();
        let printed = String::from_utf8(output.stdout).expect("it is text").replace('\r', "");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\nprinted\n{printed}\n{said}\n{log}", self.script);
        self.compare(&printed);
    }

    fn compare(&self, printed: &str) {
        let printed: Vec<&str> = printed.split('\u{1}').skip(1).collect();
        assert_eq!(printed.len(), self.expected.len(), "{printed:?}");
        for ((typed, shown), printed) in self.expected.iter().zip(printed) {
            let (_, printed) = printed.split_once('\n').expect("its number is a line");
            println!("{typed}{printed}");
            let Some(shown) = shown else { continue };
            let (shown, printed) = (self.with_ports(shown), trimmed(printed));
            assert!(is_like(&trimmed(&shown), &printed), "{typed}shows\n{shown}\nbut prints\n{printed}");
        }
    }
}

/// Without blanks at the ends of lines.
fn trimmed(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Whether a text is as shown, where `…` stands for anything.
fn is_like(shown: &str, text: &str) -> bool {
    let (first, parts) = match shown.split_once('…') {
        Some((first, parts)) => (first, parts),
        None => return shown == text,
    };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.split('…').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    true
}

#[test]
fn what_a_page_leaves_out_may_be_anything() {
    assert!(is_like("a\n…\nz\n", "a\nb\nc\nz\n"));
    assert!(is_like("a …z\n", "a z\n"));
    assert!(!is_like("a\n…\nz\n", "a\nb\nc\n"));
    assert!(!is_like("a\n", "a\nb\n"));
    assert!(!is_like("b…\n", "a\n"));
}

#[test]
fn a_page_is_read_as_it_is_typed() {
    let page =
        "In `rules.toml`:\n\n```toml\nversion = 1\n```\n\nNow\n\n```sh\ntrue\n```\n\n```text\nyes\n```\n";
    let [rules, typed, shown] = &blocks(page)[..] else { panic!("three blocks") };
    assert_eq!((file(rules.above), rules.text), (Some("rules.toml"), "version = 1\n"));
    assert_eq!((typed.language, file(typed.above)), ("sh", None));
    assert_eq!((shown.language, shown.text), ("text", "yes\n"));
}
