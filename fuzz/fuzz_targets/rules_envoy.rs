//! Any bytes as two files of envoyproxy/ratelimit: limits that the walk finds as a plain search
//! does, calls that are decided as a map of counts does, and rules that can be read; or errors that
//! point into the text.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::fuzz_target;
use tollgate::ManualClock;
use tollgate_rules_file::{
    EnvoyAnswer, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoyLimit, EnvoySet, Memory, Problem, SameDomain,
    read,
};

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
    decides(config, &words);
    let converted = config.convert();
    let rules = read("rules.toml", &Memory::new("rules.toml", &*converted.toml));
    if converted.differences.iter().all(|difference| difference.code.as_str() != "too-much") {
        assert!(rules.rules().is_some(), "{}\n{rules}", converted.toml);
    }
}

/// Words of the input as calls, within one window.
fn decides(config: &EnvoyConfig, words: &[&str]) {
    let set =
        EnvoySet::new(config.clone(), EnvoyCharge::Each, 4_096, ManualClock::new()).expect("it is built");
    let (mut handle, mut answer, mut counts) = (set.handle(), EnvoyAnswer::default(), BTreeMap::new());
    for domain in config.domains() {
        for (number, call) in words.chunks(12).take(50).enumerate() {
            let pairs = |words: &[&str]| -> Vec<(String, String)> {
                words
                    .chunks(2)
                    .map(|pair| (pair[0].into(), pair.last().copied().unwrap_or("").into()))
                    .collect()
            };
            let descriptors: Vec<_> = call.chunks(4).map(pairs).collect();
            let descriptors: Vec<&[(String, String)]> = descriptors.iter().map(|pairs| &**pairs).collect();
            let hits = number as u32 % 3;
            let code = handle.decide(domain, &descriptors, hits, &mut answer).expect("it has descriptors");
            let found: Vec<Option<(&EnvoyLimit, Vec<u8>)>> = descriptors
                .iter()
                .map(|entries| {
                    let mut key = Vec::new();
                    let entries = entries.iter().map(|(key, value)| (&**key, &**value));
                    Some((config.find(domain, entries, &mut key)?, key))
                })
                .collect();
            let replaced: BTreeSet<_> =
                found.iter().flatten().flat_map(|(limit, _)| limit.replaces.iter().cloned()).collect();
            let mut is_over = false;
            assert_eq!(answer.statuses().len(), found.len());
            for (status, found) in answer.statuses().iter().zip(found) {
                let is_asked =
                    |limit: &EnvoyLimit| !limit.name.as_ref().is_some_and(|name| replaced.contains(name));
                let remaining = match found {
                    Some((limit, _)) if limit.unit.is_none() => u32::MAX,
                    Some((limit, key)) if is_asked(limit) => {
                        let count = counts.entry((limit.index, key)).or_insert(0);
                        *count += u64::from(hits.max(1));
                        let most = u64::from(limit.requests_per_unit);
                        assert_eq!(status.is_over, *count > most, "{limit:?}");
                        is_over |= *count > most && !limit.shadow;
                        most.saturating_sub(*count) as u32
                    }
                    _ => 0,
                };
                assert_eq!(status.remaining, remaining, "{status:?}");
            }
            assert_eq!(code == EnvoyCode::OverLimit, is_over);
        }
    }
}
