//! What a hint tells to write can be written: the mistake is gone then, and the rules can be built.

use std::path::Path;

use tollgate::ManualClock;
use tollgate_rules::RuleSet;
use tollgate_rules_file::{Code, Memory, Problem, Reading, read};

use crate::errors::MISTAKES;
use crate::rule;

/// Further rules with a mistake or a warning, by their fields.
const RULES: [&str; 37] = [
    "match.path = \"@a b\"",
    "match.method = \"a b\"",
    "match.host = \"\"",
    "match.path = \"/a/{1}\"",
    "match.path = \"/a/{x\"",
    "match.client = \"192.0.2.7/99\"",
    "match.client = \"home\"",
    "match.label = 1",
    "match = 1",
    "limits = \"sliding-window:5000/s,subwindows=6\"",
    "limits = \"token-bucket:10/s,burst=x\"",
    "limits = \"fixed-window:10/s,count=some\"",
    "limits = \"token-bucket:10/s,initial=x\"",
    "limits = \"leaky-bucket:10/s,capacity=x\"",
    "limits = \"sliding-window:10/s,subwindows=x\"",
    "limits = \"unlimited\"\nban = \"1h\"",
    "limits = \"in-flight:x\"",
    "ban = \" 10min\"",
    "ban = 10",
    "key = \"lowr(header.x-user)\"",
    "key = \"lower(client)\"",
    "key = \"lower(trim(lower(trim(lower(header.x)))))\"",
    "key = 1",
    "cost = { from = \"cookie.\" }",
    "cost = { from = \"header.a b\" }",
    "refuse.headers.X = \"é\"",
    "refuse.content_type = \"text/plain\"",
    "refuse.jitter = 1",
    "store = 1",
    "forget = \"yes\"",
    "park.age = \"0s\"\non_refusal = \"park\"",
    "max_keys = 68719476736\nkey = \"client\"\nlimits = \"1/s\"",
    "store = \"redis://h\"\nlimits = \"fixed-window:5/s,count=all\"",
    "store = \"redis://h\"\nmax_wait = \"1s\"",
    "store = \"redis://h\"\nlimits = \"token-bucket:5/s,initial=0\"",
    "store = \"redis://h\"\nlimits = \"sliding-window:5/s,subwindows=2\"",
    "store = \"redis://h\"\nlimits = \"fixed-window:5/1ns\"",
];

/// Further files with a mistake.
const FILES: [&str; 31] = [
    "version = 2",
    "version = 1\nlists.office = [\"10.0.0.0/8\"]\n[[rule]]\nname = \"r\"\nkey = \"everyone\"\nlimits = \"1/s\"\nmatch.client = \"@offcie\"",
    "version = 1\nmemory_budget_mib = 1000000\n[[rule]]\nname = \"r\"\nkey = \"client\"\nlimits = \"sliding-log:100000/d\"",
    "version = 1\n[[rule]]\nname = \"r\"\nkey = \"everyone\"\nlimits = \"1/s\"\ncost = 0",
    "version = 1\n[[rule]]\nname = \"r\"\nkey = \"everyone\"\nlimits = \"fixed-window:70000/d\"",
    "version = 1\n[[rule]]\nname = \"r\"\nkey = \"everyone\"\nlimits = \"sliding-log:5/min\"\ncharge_if.status = 401",
    "version = 1\n[[rule]]\nname = \"r\"\nkey = \"everyone\"\nlimits = \"1/s\"\n[[rule]]\nname = \"s\"\nreplaces = \"*\"\nkey = \"everyone\"\nlimits = \"1/s\"",
    "version = 1\nname: r",
    "version = 1\ninclude = \"*/a.toml\"",
    "version = 1\ninclude = \"rules.d/\"",
    "version = 1\ninclude = \"\"",
    "version = 1\ncors = [\"HTTPS://shop.example/\"]",
    "version = 1\ncors = 1",
    "version = 1\nlists.a = { env = \"a b\" }",
    "version = 1\nlists.a = { file = \"\" }",
    "version = 1\nlists = 1",
    "version = 1\n[stores.a]\nprefix = \"x\"",
    "version = 1\nstores.a = { url = \"redis://h\", deadline = \"1h\" }",
    "version = 1\nstores.a = { url = \"redis://h\", prefix = \"a b\" }",
    "version = 1\n[stores.a]\nurl = 1",
    "version = 1\nclients = { trusted_proxies = \"192.0.2.7/99\" }",
    "version = 1\n[clients]\nheader = \"x-real-ip\"",
    "version = 1\nanswer.headers.Retry-After = \"5\"",
    "version = 1\n[answer]\ncontent_type = \"text/plain\"",
    "version = 1\n[rule]\nname = \"r\"\nkey = \"everyone\"\nlimits = \"1/s\"",
    "version = 1\n[[test]]\nname = \"t\"\nat = 2026-01-01\n[[test.steps]]\nsend = \"GET /\"",
    "version = 1\n[[test]]\nname = \"t\"\nat = 1026-01-01T00:00:00Z\n[[test.steps]]\nsend = \"GET /\"",
    "version = 1\n[[test]]\nname = \"t\"\n[[test.steps]]\nsend = \"GET\"",
    "version = 1\n[[test]]\nname = \"t\"\n[[test.steps]]\nsend = \"GET /\"\nclient = \"home\"",
    "version = 1\n[[test]]\nname = \"t\"\n[[test.steps]]\nsend = 1",
    "version = 1\n[[test]]\nname = \"t\"\n[[test.steps]]\nsend = \"GET /\"\nclient = 1",
];

/// Hints that tell no text to write.
const PROSE: [&str; 35] = [
    "1 to 8",
    "1 to 1000",
    "1 to 64 of A-Z, a-z, 0-9, - _ .",
    "`**` is the last part, for any rest",
    "`@NAME` means a list; a value that begins with `@` can stand in one",
    "a bucket without `initial`",
    "a field of the file stands above all […] and [[…]]",
    "a field of the rule stands above [[rule.tier]] and [rule.…]",
    "a larger memory_budget_mib of the file",
    "a leaky bucket without a queue",
    "a letter, then letters, digits, _ and -",
    "a limit that counts what it admits",
    "a log of at most 10000, or another algorithm",
    "a longer limit, or a rule without a store for the ban",
    "a path",
    "a rule without `match`, `charge_if`, `missing = \"pass\"` and `cost = 0`",
    "a rule without a store for them",
    "a rules file is TOML: name = \"value\"",
    "a sliding window without them",
    "a text: \"everyone\" or an attribute, or a list",
    "all of them would vanish",
    "another rule for the ban",
    "each `/` once",
    "each `{name}` once",
    "each attribute once",
    "each once",
    "fewer max_keys",
    "keep the name, or begin anew",
    "one limit a rule, or no `leases`",
    "smaller max_keys",
    "take it out",
    "the name that no rule has any more",
    "the path without dots",
    "this version of tollgate reads version 1",
    "use a condition on query.NAME",
];

/// What begins a list of the fields that there are: it is made of the table that reads them.
const LISTS: [&str; 5] = ["there are ", "of ", "one of ", "a table ", "everyone, or of "];

/// What stands before a text to write.
const OPENERS: [&str; 5] = ["such as ", "did you mean ", "(e.g. ", "two brackets: ", "which one: "];

fn files() -> Vec<String> {
    let mistakes = MISTAKES.iter().map(|(fields, ..)| *fields);
    // Of a text of several lines a problem tells one.
    let mistakes = mistakes.filter(|fields| !fields.contains("'''"));
    let of_rules = mistakes.chain(RULES).map(|fields| format!("version = 1\n{}", rule("r", fields)));
    of_rules.chain(FILES.map(str::to_owned)).collect()
}

fn reading(text: &str) -> Reading {
    let source = Memory::new("rules.toml", text).file("rules.d/a.toml", "version = 1\n");
    read("rules.toml", &source.variable("REDIS_URL", "redis://10.0.0.7").variable("OFFICE_NETWORKS", ""))
}

/// The texts that a hint tells to write.
fn told(hint: &str) -> Vec<String> {
    let mut told = assignments(hint);
    for opener in OPENERS {
        for rest in hint.split(opener).skip(1) {
            let rest = match rest.chars().next() {
                Some(quote @ ('`' | '"')) => rest[1..].split(quote).next().unwrap(),
                _ if opener.starts_with('(') => rest.trim_end_matches(')'),
                _ => rest.split("; ").next().unwrap().split(" (e.g.").next().unwrap(),
            };
            told.extend(each(rest));
        }
    }
    told.extend(hint.split_once(" instead of ").map(|(before, _)| before.rsplit(' ').next().unwrap().into()));
    if let Some(([least, most], [])) = hint.split(" to ").collect::<Vec<_>>().split_first_chunk() {
        told.extend(least.parse::<u64>().and(most.parse::<u64>()).map(|_| (*least).to_owned()));
    }
    if told.is_empty() {
        let list = hint.strip_prefix("expected ").or_else(|| hint.strip_prefix("an address is "));
        told.extend(each(list.unwrap_or(hint)));
    }
    // What stands for any name and any number, and for parts of an address.
    let whole = |text: &String| {
        let text = text.replace(".NAME", ".x").replace(":N", ":2").replace("= N", "= 2");
        let text = text.replace(":port", ":6379").replace("/database", "/0").replace("://...", "://host");
        let Some((_, parts)) = text.split_once("://[") else { return vec![text] };
        let least = parts.split('[').map(|part| part.rsplit(']').next().unwrap());
        vec![format!("redis://{}", least.collect::<String>()), text.replace(['[', ']'], "")]
    };
    told.iter().flat_map(whole).collect()
}

/// The parts of a list.
fn each(list: &str) -> impl Iterator<Item = String> {
    list.split(", ").flat_map(|part| part.split(" or ")).map(|part| alone(part.trim_start_matches("or ")))
}

/// A text without its explanation and its quotes.
fn alone(text: &str) -> String {
    text.split(" for ").next().unwrap().trim_matches(['"', '`']).to_owned()
}

/// The assignments in a hint: `limits = "10/s"`, `match.host = …`.
fn assignments(hint: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.\"".contains(c);
    let at = |(equals, _): (usize, &str)| {
        let name = hint[..equals].rsplit(|c| !is_name(c)).next()?;
        let value = &hint[equals + 3..];
        let length = match value.chars().next()? {
            '"' => value[1..].find('"')? + 2,
            '[' => value.find(']')? + 1,
            '…' => '…'.len_utf8(),
            _ => return None,
        };
        Some(format!("{name} = {}", &value[..length]))
    };
    hint.match_indices(" = ").filter_map(at).collect()
}

/// The ways in which a reader of the hint may mend the file.
fn mended(text: &str, problem: &Problem, write: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let at = problem.line - 1;
    let with = |index: usize, line: &str| {
        let mut lines = lines.clone();
        lines[index] = line;
        lines.join("\n")
    };
    if let Some((name, value)) = write.split_once(" = ").filter(|(name, _)| !name.starts_with('{')) {
        let (key, own) = lines[at].split_once(" = ").unwrap_or_default();
        let own = if own == "{}" { "\"x\"" } else { own };
        let value = value.replace("[…]", "[]").replace('…', own);
        let line = format!("{name} = {value}");
        // In the table of the field, as `refuse.` of `refuse.status`.
        let inside = key.rsplit_once('.').map(|(table, _)| format!("{table}.{line}"));
        let hint = problem.hint.as_deref().unwrap();
        // In the rule that the hint names, in the place of the field, or beside it.
        let of_other = hint.split("` in `").nth(1).and_then(|rest| rest.split('`').next());
        let heading =
            of_other.and_then(|other| lines.iter().position(|l| *l == format!("name = \"{other}\"")));
        let same = lines.iter().position(|l| l.starts_with(&format!("{name} =")));
        let below = |index: usize| with(index, &format!("{}\n{line}", lines[index]));
        let instead = [Some(line.clone()), inside].into_iter().flatten().map(|line| with(at, &line));
        let others =
            [heading.map(below), same.map(|same| with(same, &line)), Some(below(at)), Some(below(0))];
        return instead.chain(others.into_iter().flatten()).collect();
    }
    // In the place of the part, of the text around it, or of the value.
    let characters: Vec<char> = lines[at].chars().collect();
    let (from, to) = (problem.column - 1, problem.column - 1 + problem.len);
    let join = |from: usize, to: usize, write: &str| {
        let line: String = characters[..from].iter().collect::<String>() + write;
        with(at, &(line + &characters[to..].iter().collect::<String>()))
    };
    let forms = [write.to_owned(), format!("\"{write}\""), format!("[\"{write}\"]")];
    let mut all: Vec<String> = forms.iter().map(|form| join(from, to, form)).collect();
    let is_quote = |c: &char| matches!(c, '"' | '\'');
    let left = characters[..from].iter().rposition(is_quote);
    let right = characters[to..].iter().position(is_quote).map(|right| to + right);
    all.extend(left.zip(right).map(|(left, right)| join(left + 1, right, write)));
    all
}

/// Whether the rules of a file can be built, without this problem and without errors.
fn is_built(text: &str, problem: &Problem) -> bool {
    let reading = reading(text);
    let is_there = reading.problems().iter().any(|other| other.code == problem.code);
    !is_there
        && reading
            .into_rules()
            .is_ok_and(|rules| RuleSet::new(rules.in_process(), ManualClock::new()).is_ok())
}

/// The literals of the parser with an example in them, each as its parts between placeholders.
fn examples(folder: &Path, found: &mut Vec<Vec<String>>) {
    for entry in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        // The descriptions of fields are for the reference: they are no hints.
        if entry.ends_with("fields") {
            continue;
        }
        if entry.is_dir() {
            examples(&entry, found);
            continue;
        }
        let source = std::fs::read_to_string(&entry).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in lines.map(|line| line.replace("\\\"", "\u{1}")) {
            let literals = line.split('"').skip(1).step_by(2).map(|text| text.replace('\u{1}', "\""));
            let is_example = |text: &String| {
                ["such as ", "did you mean ", "instead of ", " = \"", "two brackets: ", "which one: "]
                    .iter()
                    .any(|beginning| text.contains(beginning) && text.trim_end() != *beginning)
            };
            let parts = |text: String| text.split(['{', '}']).step_by(2).map(str::to_owned).collect();
            found.extend(literals.filter(is_example).map(parts));
        }
    }
}

#[test]
fn every_example_in_a_hint_is_among_the_built() {
    let texts = files();
    let problems: Vec<Problem> = texts.iter().flat_map(|text| reading(text).problems().to_vec()).collect();
    let hints: Vec<&str> = problems.iter().filter_map(|problem| problem.hint.as_deref()).collect();
    let mut found = Vec::new();
    examples(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/file"), &mut found);
    assert!(found.len() > 30, "{found:?}");
    let is_told = |parts: &Vec<String>, hint: &str| {
        parts.iter().try_fold(hint, |rest, part| Some(rest.split_once(&**part)?.1)).is_some()
    };
    found.retain(|parts| !hints.iter().any(|hint| is_told(parts, hint)));
    assert!(found.is_empty(), "no file of this test is told {found:#?}");
}

#[test]
fn what_a_hint_tells_to_write_can_be_built() {
    let (mut wrong, mut unused) = (Vec::new(), PROSE.to_vec());
    for text in files() {
        for problem in reading(&text).problems().iter().filter(|problem| problem.line > 0) {
            let Some(hint) = problem.hint.as_deref() else { continue };
            if LISTS.iter().any(|beginning| hint.starts_with(beginning)) || problem.code == Code::MissingField
            {
                continue;
            }
            let of_message = problem.message.split("write `").nth(1).and_then(|rest| rest.split('`').next());
            for write in told(hint).into_iter().chain(of_message.map(str::to_owned)) {
                if PROSE.iter().any(|prose| *prose == hint || *prose == write) {
                    unused.retain(|prose| *prose != hint && *prose != write);
                } else if !mended(&text, problem, &write).iter().any(|text| is_built(text, problem)) {
                    wrong.push(format!("{write:?} of {hint:?}: {text:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unused.is_empty(), "no hint says {unused:?}");
}
