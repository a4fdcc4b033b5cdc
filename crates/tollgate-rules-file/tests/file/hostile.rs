//! Files that are no rules: a clear error each, in bounded time.

use std::fs;
use std::time::{Duration, Instant};

use tollgate_rules_file::{Code, Disk, Memory, Reading, Source, read};

use crate::rule;

fn code(reading: &Reading) -> Code {
    reading.problems().first().unwrap_or_else(|| panic!("no problem: {:?}", reading.rules())).code
}

fn of(bytes: impl Into<Vec<u8>>) -> Reading {
    read("rules.toml", &Memory::new("rules.toml", bytes))
}

#[test]
fn bytes_that_are_no_text_are_told_at_their_position() {
    let nul = of("version = 1\n\nx\0y");
    assert_eq!((code(&nul), nul.problems()[0].line, nul.problems()[0].column), (Code::NotText, 3, 2));
    let latin = of(&b"version = 1\n# caf\xe9\n"[..]);
    assert_eq!((code(&latin), latin.problems()[0].line, latin.problems()[0].column), (Code::NotText, 2, 6));
    assert_eq!(latin.problems().len(), 1, "{latin}");
}

#[test]
fn a_byte_order_mark_and_any_line_ends_are_taken() {
    let text = format!("\u{feff}version = 1\n{}", rule("r", "")).replace('\n', "\r\n");
    let reading = of(text);
    assert!(reading.rules().is_some() && reading.problems().is_empty(), "{reading}");
}

#[test]
fn too_much_is_an_error_that_says_how_much() {
    assert_eq!(code(&of(vec![b'#'; (4 << 20) + 1])), Code::TooMuch);
    for count in [10_001, 100_000] {
        let rules: String =
            (0..count).map(|n| format!("{{name='{n}',key='host',limits='block'}},")).collect();
        let many = of(format!("version = 1\nrule = [{rules}]"));
        let errors = many.problems().iter().filter(|problem| !problem.is_warning());
        let told: Vec<_> = errors.map(|problem| problem.code).collect();
        // The first is that of the JSON Schema; the second counts included files, too.
        assert_eq!(told, [Code::OutOfRange, Code::TooMuch]);
    }
    let list: Vec<_> = (0..99_999).map(|n| format!("\"v{n}\"")).collect();
    let rules: String = (0..11).map(|n| rule(&n.to_string(), "match.label.x = \"@l\"")).collect();
    let values = of(format!("version = 1\nlists.l = [{}]\n{rules}", list.join(",")));
    assert_eq!(code(&values), Code::TooMuch, "{values}");
    assert_eq!(values.problems().len(), 1);
    let source = Memory::new("rules.toml", "version = 1\nlists.l = { file = \"l.txt\" }\n")
        .file("l.txt", "x\n".repeat(2 << 20));
    assert_eq!(code(&read("rules.toml", &source)), Code::TooMuch);
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let n = 100_000;
    for text in [
        format!("a = {}", "[".repeat(n)),
        format!("a = {}", "{a=".repeat(n)),
        format!("{}a = 1", "a.".repeat(n)),
        format!("[{}a]", "a.".repeat(n)),
        format!("a = {}1{}", format!("{{{}a=", "a.".repeat(78)).repeat(79), "}".repeat(79)),
    ] {
        let reading = of(text);
        assert!(reading.rules().is_none());
        let _ = reading.to_string();
    }
}

#[test]
fn thousands_of_mistakes_are_counted_and_drawn_quickly() {
    let began = Instant::now();
    for line in ["]\n", "a=1\n", "= ", "[[rule]]\nname=1\n", "\"", "[rule]\n", "\u{202e}\u{7f}=\n"] {
        let reading = of(line.repeat((1 << 20) / line.len()));
        let drawn = reading.to_string();
        assert!(reading.rules().is_none() && reading.problems().len() <= 1_001 && drawn.len() < 4 << 20);
    }
    let unknown: String = (0..200_000).map(|n| format!("limit{n} = 1\n")).collect();
    let parts: Vec<_> = (0..100_000).map(|n| format!("\"path.p{n}\"")).collect();
    let paths: Vec<_> = (0..100_000).map(|n| format!("\"/{n}\"")).collect();
    let key = rule("r", &format!("key = [{}]\nmatch.path = [{}]", parts.join(","), paths.join(",")));
    let headers: String = (0..20_000).map(|n| format!("match.header.h{n} = \"x\"\n")).collect();
    let tier = |n: usize| format!("[[rule.tier]]\nname = \"t{n}\"\nlimits = \"1/s\"\n{headers}");
    let tiers = rule("r", "limits = \"1/s\"") + &(0..8).map(tier).collect::<String>();
    let lists = rule("r", &format!("match.client = [{}]", "\"@x\",".repeat(100_000)));
    for text in ["a\n".repeat(5_000), unknown, key, tiers, lists] {
        assert!(of(format!("version = 1\n{text}")).problems().len() <= 1_001);
    }
    let names: String = (0..5_000).map(|n| rule(&format!("r{n}"), "replaces = \"*\"")).collect();
    assert!(of(format!("version = 1\n{names}{}", rule("r", ""))).problems().len() <= 10_000);
    // Ten seconds on an idle machine; a quadratic reader takes hours.
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
}

#[test]
fn lines_of_a_megabyte_are_cut() {
    let text = format!(
        "version = 1\nx = \"{}\u{1b}[31m\"\nnoname = \"{}\"\n",
        "é".repeat(500_000),
        "x".repeat(500_000)
    );
    let drawn = of(text).to_string();
    assert!(drawn.len() < 10_000 && !drawn.contains('\u{1b}'), "{drawn}");
    let name = "n".repeat(1 << 20);
    let drawn = of(format!(
        "version = 1\n[[rule]]\nname = \"{name}\"\nkey = \"{name}\"\n{name} = 1\nlimits = \"{name}\"\n"
    ));
    assert!(drawn.to_string().len() < 10_000, "{}", drawn.to_string().len());
}

#[test]
fn what_is_no_file_is_told_without_waiting() {
    let folder = std::env::temp_dir().join(format!("tollgate-rules-{}", std::process::id()));
    fs::create_dir_all(folder.join("rules.d/x.toml")).unwrap();
    let path = folder.join("rules.toml");
    fs::write(&path, "version = 1\ninclude = [\"rules.d/*.toml\", \"none/*\"]\n").unwrap();
    let codes: Vec<_> =
        read(&path, &Disk).problems().iter().map(|problem| (problem.line, problem.code)).collect();
    assert_eq!(codes, [(2, Code::Unreadable), (2, Code::Unreadable)]);
    for no_file in [folder.clone(), "/dev/zero".into(), folder.join("missing")] {
        let reading = read(&no_file, &Disk);
        assert_eq!(code(&reading), Code::Unreadable, "{reading}");
    }
    let wait = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
    if wait.is_ok_and(|status| status.success()) {
        assert_eq!(code(&read(folder.join("pipe"), &Disk)), Code::Unreadable);
    }
    // `rules.toml` alone stands in the directory "".
    assert!(Disk.names("".as_ref()).unwrap().contains(&"Cargo.toml".to_owned()));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_is_large_or_written_meanwhile_is_refused() {
    let path = std::env::temp_dir().join(format!("tollgate-rules-{}.toml", std::process::id()));
    let file = fs::File::create(&path).unwrap();
    file.set_len(100 << 20).unwrap();
    let begin = Instant::now();
    assert_eq!(code(&read(&path, &Disk)), Code::TooMuch);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let is_told = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut bytes = 2 << 20;
            while begin.elapsed() < Duration::from_secs(60) && path.exists() {
                bytes = if bytes < 3 << 20 { bytes + 1 } else { 2 << 20 };
                file.set_len(bytes).unwrap();
            }
        });
        let told = |reading: &Reading| {
            code(reading) == Code::Unreadable && reading.to_string().contains("written while it was read")
        };
        let is_told = (0..100).any(|_| told(&read(&path, &Disk)));
        fs::remove_file(&path).unwrap();
        writer.join().unwrap();
        is_told
    });
    assert!(is_told, "no reading was refused");
}

#[test]
fn a_condition_on_an_empty_list_stays() {
    let rules =
        ["match.client = \"@none\"", "except.client = \"@none\""].map(|fields| rule(&fields[..5], fields));
    let reading = of(format!("version = 1\nlists.none = []\n{}", rules.concat()));
    let rules = &reading.rules().expect("no error").rules;
    let conditions = [&rules[0].applies, &rules[1].except];
    assert!(conditions.iter().all(|applies| applies[0].0.len() == 1), "{rules:?}");
}

#[test]
fn thousands_of_warnings_are_no_error() {
    let rules: String = (0..1_500).map(|n| rule(&n.to_string(), "forget = true")).collect();
    let reading = of(format!("version = 1\n{rules}"));
    assert_eq!(reading.rules().map(|rules| rules.rules.len()), Some(1_500));
    assert_eq!(reading.problems().len(), 1_001);
    assert!(reading.problems().iter().all(tollgate_rules_file::Problem::is_warning));
    assert_eq!(&*reading.problems()[1_000].message, "and 500 more problems");
}
