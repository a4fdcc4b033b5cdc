//! Any bytes as two files of envoyproxy/ratelimit: limits that the walk finds as a plain search
//! does, and rules that can be read; or errors that point into the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_rules::{EnvoyConfig, Memory, Problem, SameDomain, read};

/// What separates the two files in an input.
const BETWEEN: &[u8] = b"\n----\n";

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.windows(BETWEEN.len()).position(|window| window == BETWEEN);
    let (one, two) = at.map_or((bytes, None), |at| (&bytes[..at], Some(&bytes[at + BETWEEN.len()..])));
    let mut source = Memory::new("one.yaml", one);
    let mut paths = vec!["one.yaml"];
    if let Some(two) = two {
        source = source.file("two.yaml", two);
        paths.push("two.yaml");
    }
    for same in [SameDomain::Refuse, SameDomain::Merge] {
        let reading = EnvoyConfig::read(&paths, same, &source);
        for problem in reading.problems() {
            points_into(problem, if &*problem.file == "one.yaml" { one } else { two.unwrap_or_default() });
            assert!(!problem.to_string().contains('\u{1b}'), "{problem}");
        }
        let has_error = reading.problems().iter().any(|problem| !problem.is_warning());
        assert_eq!(reading.rules().is_none(), has_error, "{reading}");
        if let Some(config) = reading.rules() {
            is_sound(config, bytes);
        }
    }
});

fn points_into(problem: &Problem, bytes: &[u8]) {
    if problem.line == 0 {
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    let line = text.split('\n').nth(problem.line - 1).expect("a line of the file");
    assert!(problem.column - 1 + problem.len <= line.chars().count(), "{problem:?}");
}

fn is_sound(config: &EnvoyConfig, bytes: &[u8]) {
    for (index, limit) in config.limits().iter().enumerate() {
        assert_eq!(limit.index, index);
        assert!(config.domains().any(|domain| *domain == *limit.domain));
        assert_eq!(limit.quota().is_none(), limit.unit.is_none() || limit.requests_per_unit == 0);
    }
    // Words of the input as a descriptor.
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut key = Vec::new();
    for domain in config.domains() {
        for entries in words.chunks(6).take(100) {
            let entries = || entries.chunks(2).map(|pair| (pair[0], pair.last().copied().unwrap_or("")));
            if let Some(limit) = config.find(domain, entries(), &mut key) {
                assert_eq!(&*limit.domain, domain);
                let depth = entries().filter(|(key, _)| limit.composite.contains(key)).count();
                assert_eq!(depth, entries().count(), "{limit:?}");
            }
        }
    }
    let converted = config.convert();
    let rules = read("rules.toml", &Memory::new("rules.toml", &*converted.toml));
    if converted.differences.iter().all(|difference| difference.code.as_str() != "too-much") {
        assert!(rules.rules().is_some(), "{}\n{rules}", converted.toml);
    }
}
