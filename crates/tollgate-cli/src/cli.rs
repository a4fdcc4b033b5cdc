//! The command line: its commands, and the help that introduces them.

#[cfg(feature = "serve")]
use clap::CommandFactory as _;
use clap::{Parser, Subcommand};

use crate::failure::Failure;
use crate::{accuracy, replay, rules, stress, tune};
#[cfg(feature = "serve")]
use crate::{pages, serve};

/// Try rate limits on real traffic: replay logs, tune limits, stress this machine
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, propagate_version = true, after_help = AFTER)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Start here:
  tollgate replay --demo
  tollgate replay access.log --limit token-bucket:60/min,burst=20
  tollgate tune access.log --period 1min
  tollgate rules check rules.toml
  tollgate replay access.log --rules rules.toml
  tollgate serve --rules rules.toml";

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::Args),
    Tune(tune::Args),
    Accuracy(accuracy::Args),
    Stress(stress::Args),
    Rules(rules::Args),
    /// Serve the limits of a rules file to Redis clients, to Envoy and over HTTP
    #[cfg(feature = "serve")]
    #[command(after_long_help = serve::AFTER)]
    Serve(Box<serve::Args>),
    /// Limit the requests to a server that knows nothing of it, by a rules file
    #[cfg(feature = "serve")]
    #[command(after_long_help = serve::PROXY_AFTER)]
    Proxy(Box<serve::ProxyArgs>),
    #[cfg(feature = "serve")]
    #[command(after_long_help = serve::HEALTH_AFTER)]
    Health(serve::HealthArgs),
    #[cfg(feature = "serve")]
    Completions(pages::Completions),
    #[cfg(feature = "serve")]
    Man(pages::Man),
    /// Serve the limits of a rules file (this binary was built without it)
    #[cfg(not(feature = "serve"))]
    #[command(disable_help_flag = true, alias = "proxy")]
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        options: Vec<std::ffi::OsString>,
    },
}

/// How a binary with the server is installed.
#[cfg(not(feature = "serve"))]
const INSTALL: &str = "this binary was built without the server: install one by
  cargo install --path crates/tollgate-cli --features serve";

impl Cli {
    /// Runs the named command.
    ///
    /// # Errors
    ///
    /// Those of the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Replay(args) => replay::run(args),
            Command::Tune(args) => tune::run(args),
            Command::Accuracy(args) => accuracy::run(args),
            Command::Stress(args) => stress::run(args),
            Command::Rules(args) => rules::run(args),
            #[cfg(feature = "serve")]
            Command::Serve(args) => serve::run(args),
            #[cfg(feature = "serve")]
            Command::Proxy(args) => serve::proxy(args),
            #[cfg(feature = "serve")]
            Command::Health(args) => serve::health(args),
            #[cfg(feature = "serve")]
            Command::Completions(args) => pages::completions(args, Self::command()),
            #[cfg(feature = "serve")]
            Command::Man(args) => pages::man(args, Self::command()),
            #[cfg(not(feature = "serve"))]
            Command::Serve { .. } => Err(Failure::Usage(INSTALL.to_owned())),
        }
    }
}

#[cfg(all(test, feature = "serve"))]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    fn packaged(file: &str) -> String {
        let path = format!("{}/packaging/{file}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn the_command_lines_of_packages_parse() {
        let mut lines = Vec::new();
        for unit in ["systemd/tollgate.service", "systemd/tollgate.service.d/sockets.conf"] {
            let text = packaged(unit);
            let starts = text.lines().filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/"));
            lines.extend(starts.map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>()));
        }
        let container = packaged("Containerfile");
        let words = |instruction: &str| -> Vec<String> {
            let line = container.lines().find_map(|line| line.strip_prefix(instruction)).expect(instruction);
            serde_json::from_str(line).expect(instruction)
        };
        lines.push([words("ENTRYPOINT "), words("CMD ")].concat());
        lines.push(words("HEALTHCHECK --interval=10s --timeout=3s CMD "));
        assert_eq!(lines.len(), 4);
        for line in lines {
            if let Err(error) = Cli::try_parse_from(&line) {
                panic!("{}: {error}", line.join(" "));
            }
        }
    }

    #[test]
    fn every_option_is_described() {
        Cli::command().debug_assert();
        let command = Cli::command();
        for name in ["serve", "proxy"] {
            let command = command.find_subcommand(name).expect("it is there");
            for option in command.get_arguments() {
                assert!(option.get_help().is_some(), "{name} {}", option.get_id());
            }
        }
    }

    /// Pages for users, from the repository's root, and what they say.
    fn pages() -> Vec<(String, String)> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut names: Vec<String> = [
            "README.md",
            "docs/engine.md",
            "crates/tollgate-cli/README.md",
            "crates/tollgate-server/README.md",
        ]
        .map(str::to_owned)
        .into();
        for folder in ["docs/start", "docs/how-to", "docs/reference"] {
            let files = std::fs::read_dir(root.join(folder)).expect(folder);
            names.extend(files.map(|file| {
                format!("{folder}/{}", file.expect(folder).file_name().into_string().expect(folder))
            }));
        }
        let read = |name: &String| std::fs::read_to_string(root.join(name)).expect(name);
        names.into_iter().map(|name| (name.clone(), read(&name))).collect()
    }

    /// The flags of each command that does something.
    fn flags() -> Vec<(String, Vec<String>)> {
        fn visit(command: &clap::Command, all: &mut Vec<(String, Vec<String>)>) {
            let flags = command.get_arguments().filter(|option| !option.is_hide_set());
            let flags = flags.filter_map(|option| Some(format!("--{}", option.get_long()?)));
            let known = |flag: &String| flag != "--help" && flag != "--version";
            all.push((command.get_name().to_owned(), flags.filter(known).collect()));
            command.get_subcommands().for_each(|command| visit(command, all));
        }
        let mut all = Vec::new();
        visit(&Cli::command(), &mut all);
        all
    }

    /// The flags in a text.
    fn named_in(text: &str) -> impl Iterator<Item = &str> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words.filter(|word| word.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_alphabetic)))
    }

    #[test]
    fn every_flag_is_on_its_page() {
        let pages = pages();
        let mut lacking = Vec::new();
        for (command, flags) in flags() {
            let names: &[&str] = match &*command {
                "serve" => &["docs/reference/server.md"],
                "proxy" => &["docs/reference/server.md", "docs/reference/proxy.md"],
                _ => &["docs/reference/cli.md"],
            };
            let pages = pages.iter().filter(|(name, _)| names.contains(&&**name));
            let text: String = pages.map(|(_, text)| &**text).collect();
            let is_told = |flag: &&String| {
                let flag = format!("`{flag}");
                let mut places = text.match_indices(&flag).map(|(at, _)| at + flag.len());
                places.any(|end| text[end..].starts_with(['`', ' ', '[']))
            };
            let untold = flags.iter().filter(|flag| !is_told(flag));
            lacking.extend(untold.map(|flag| format!("tollgate {command} {flag}: {}", names.join(", "))));
        }
        assert!(lacking.is_empty(), "\n{}\n", lacking.join("\n"));
    }

    /// A flag of neither `serve` nor `proxy` is named where its command is: in a row of a table, or
    /// under a heading.
    #[test]
    fn no_page_names_a_flag_that_does_not_exist() {
        // Of cargo, Envoy, podman.
        let others = ["--all-features", "--config", "--example", "--features", "--format", "--help"];
        let of_cargo = ["--nocapture", "--path", "--release", "--test", "--test-threads", "--lib"];
        let flags = flags();
        let mut wrong = Vec::new();
        for (page, text) in pages() {
            for section in text.split("\n#") {
                let (rows, prose): (Vec<_>, Vec<_>) = section.lines().partition(|line| line.starts_with('|'));
                for part in rows.into_iter().map(str::to_owned).chain([prose.join("\n")]) {
                    let is_meant = |command: &str| {
                        ["serve", "proxy"].contains(&command)
                            || page == "docs/reference/cli.md"
                            || part.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == command)
                    };
                    let is_known = |flag: &&str| {
                        let has = |flags: &[String]| flags.iter().any(|known| known == flag);
                        others.contains(flag)
                            || of_cargo.contains(flag)
                            || flags.iter().any(|(command, flags)| has(flags) && is_meant(command))
                    };
                    let unknown = named_in(&part).filter(|flag| !is_known(flag));
                    wrong.extend(unknown.map(|flag| format!("{page}: {flag}")));
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    }
}
