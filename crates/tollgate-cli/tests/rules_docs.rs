//! The examples of docs/reference/cli.md print what the page says.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::command;

/// The page.
fn page() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    fs::read_to_string(path).expect("the page is there")
}

/// The blocks of a language behind a heading.
fn blocks<'p>(page: &'p str, heading: &str, language: &str) -> Vec<&'p str> {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect("the heading is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let begin = format!("\n```{language}\n");
    section.split(&*begin).skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block).collect()
}

/// The arguments of a command line, with those in quotes whole.
fn arguments(line: &str) -> Vec<&str> {
    let (mut arguments, mut rest) = (Vec::new(), line);
    while !rest.is_empty() {
        let (argument, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').expect("the quote is closed"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        arguments.push(argument);
        rest = after.trim_start();
    }
    arguments
}

/// Runs the commands of a block, and compares what they print.
fn run(example: &str, folder: &Path) {
    for example in example.split("$ tollgate ").skip(1) {
        let (line, expected) = example.split_once('\n').expect("output follows the command");
        let output = command(&arguments(line)).current_dir(folder).output().expect("it runs");
        let printed = String::from_utf8(output.stdout).expect("it is text");
        // The page leaves out how the made-up day is introduced.
        let printed = printed
            .split_once("A made-up day of traffic under")
            .map_or(&*printed, |(before, _)| &printed[before.len()..]);
        assert_eq!(printed, expected, "{line}");
    }
}

const TRAFFIC: &str = "Rules on real traffic";

#[test]
fn the_examples_of_the_page_print_what_it_says() {
    let page = page();
    let [rules] = blocks(&page, TRAFFIC, "toml")[..] else { panic!("one rules file") };
    let changed = rules
        .replace("60/min,burst=60", "30/min,burst=30")
        .replace("mode = \"shadow\"", "mode = \"enforce\"");
    let folder = std::env::temp_dir().join(format!("tollgate-cli-{}-docs", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary directory can be written to");
    fs::write(folder.join("shop.toml"), rules).expect("it can be written");
    fs::write(folder.join("shop-new.toml"), changed).expect("it can be written");

    let examples = blocks(&page, TRAFFIC, "console");
    assert_eq!(examples.len(), 5);
    examples.into_iter().for_each(|example| run(example, &folder));
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn requests_under_way_are_decided_as_the_page_says() {
    let page = page();
    let heading = "Requests under way";
    let [rules] = blocks(&page, heading, "toml")[..] else { panic!("one rules file") };
    let [log] = blocks(&page, heading, "text")[..] else { panic!("one log") };
    let folder = std::env::temp_dir().join(format!("tollgate-cli-{}-under-way", std::process::id()));
    fs::create_dir_all(&folder).expect("the temporary directory can be written to");
    fs::write(folder.join("failed.toml"), rules).expect("it can be written");
    fs::write(folder.join("burst.log"), log).expect("it can be written");
    let [example] = blocks(&page, heading, "console")[..] else { panic!("one session") };
    run(example, &folder);
    let _ = fs::remove_dir_all(&folder);
}
