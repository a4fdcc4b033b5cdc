//! The same limits as rules: equal where rules can say it, and told where not.

use proptest::prelude::*;
use tollgate_rules::{Attribute, Condition, Conditions, Key, Memory, Rule, Rules, read};

use crate::{config, domain, find};

/// The rules of a text, which has no errors.
fn rules(toml: &str) -> Rules {
    read("rules.toml", &Memory::new("rules.toml", toml))
        .into_rules()
        .unwrap_or_else(|wrong| panic!("{toml}\n{wrong}"))
}

fn converted(descriptors: &str) -> (Rules, Vec<String>, String) {
    let converted = config(&domain(descriptors)).convert();
    let differences =
        converted.differences.iter().map(|problem| format!("{} {}", problem.code, problem.message));
    (rules(&converted.toml), differences.collect(), converted.toml)
}

fn limit(number: u32) -> String {
    format!("rate_limit: {{ unit: day, requests_per_unit: {number} }}")
}

fn glob(pattern: &str, text: &str) -> bool {
    let mut fits = vec![false; text.len() + 1];
    fits[0] = true;
    for c in pattern.bytes() {
        if c == b'*' {
            let first = fits.iter().position(|fits| *fits).unwrap_or(fits.len());
            fits[first..].fill(true);
        } else {
            for at in (0..text.len()).rev() {
                fits[at + 1] = fits[at] && text.as_bytes()[at] == c;
            }
            fits[0] = false;
        }
    }
    fits[text.len()]
}

/// Whether a condition holds of a descriptor of the domain `d`, as docs/rules.md says.
fn holds(condition: &Condition, entries: &[(&str, &str)]) -> bool {
    let value = match &condition.attribute {
        Attribute::Domain => Some("d"),
        Attribute::Entry(key) => entries.iter().find(|(name, _)| **name == **key).map(|(_, value)| *value),
        other => panic!("{other}"),
    };
    value.is_some_and(|value| {
        condition.values.any || condition.values.texts.iter().any(|pattern| glob(pattern, value))
    })
}

fn concerns(rule: &Rule, entries: &[(&str, &str)]) -> bool {
    let all = |conditions: &Conditions| conditions.0.iter().all(|condition| holds(condition, entries));
    rule.applies.iter().any(all) && !rule.except.iter().any(all)
}

#[test]
fn a_converted_file_reads_as_the_example_says() {
    let (rules, differences, toml) = converted(&format!(
        "  - key: message_type
    value: marketing
    descriptors:
      - {{ key: to_number, {} }}
      - {{ key: to_number, value: '2061234567' }}
  - {{ key: to_number, {}, shadow_mode: true }}
  - {{ key: banned, rate_limit: {{ unit: day, requests_per_unit: 0 }} }}
  - {{ key: free, rate_limit: {{ unlimited: true }} }}
  - {{ key: path, value: 'files/*', share_threshold: true, {} }}
",
        limit(5),
        limit(100),
        limit(7)
    ));
    assert!(differences.is_empty(), "{differences:?}");
    let expected = r#"
[[rule]] # envoy.yaml:6
name = "d.message_type_marketing.to_number"
match = { domain = "d", entry = { "message_type" = "marketing", "to_number" = "*" } }
except = [{ entry = { "to_number" = ["2061234567"] } }]
key = ["entry.to_number"]
limits = "fixed-window:5/d,count=all"

[[rule]] # envoy.yaml:8
name = "d.to_number"
match = { domain = "d", entry = { "to_number" = "*" } }
except = [{ entry = { "message_type" = "*" } }]
key = ["entry.to_number"]
limits = "fixed-window:100/d,count=all"
mode = "shadow"
"#;
    assert!(toml.contains(expected), "{toml}");
    assert!(toml.contains("limits = \"block\"") && toml.contains("limits = \"unlimited\""), "{toml}");
    assert_eq!((&rules.rules[4].key, &*rules.rules[4].name), (&Key::Everyone, "d.path_files/-"));
}

#[test]
fn what_rules_cannot_say_is_told_and_left_out() {
    for (descriptors, why, count) in [
        (format!("  - {{ key: a, descriptors: [{{ key: a, {} }}] }}\n", limit(1)), "twice", 0),
        (
            format!(
                "  - {{ key: a, descriptors: [{{ key: b, {} }}] }}\n  - {{ key: b, descriptors: [{{ key: a }}] }}\n",
                limit(1)
            ),
            "tell them apart",
            0,
        ),
        (format!("  - {{ key: a, value: '@b', {} }}\n", limit(1)), "another meaning", 0),
        (
            format!("  - {{ key: a, value: 'sha256:b' }}\n  - {{ key: a, {} }}\n", limit(1)),
            "another meaning",
            0,
        ),
        (format!("  - {{ key: {}, {} }}\n", "k".repeat(257), limit(1)), "257 characters", 0),
        (
            "  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, name: x } }
  - { key: b, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: x }] } }\n"
                .into(),
            "`replaces` of x",
            2,
        ),
    ] {
        let (rules, differences, toml) = converted(&descriptors);
        assert!(differences.len() == 1 && differences[0].starts_with("unsupported"), "{differences:?}");
        assert!(differences[0].contains(why) && toml.contains("# NOT CONVERTED"), "{differences:?}\n{toml}");
        assert_eq!(rules.rules.len(), count, "{toml}");
    }
    let (_, differences, toml) =
        converted(&format!("  - {{ key: a, {}, metadata: {{ x: y }} }}\n", limit(1)));
    assert!(differences[0].starts_with("ignored") && differences.len() == 1, "{differences:?}\n{toml}");
}

#[test]
fn a_limit_behind_a_wildcard_for_all_is_no_rule() {
    let (rules, differences, toml) =
        converted(&format!("  - {{ key: a, value: '*', {} }}\n  - {{ key: a, {} }}\n", limit(1), limit(2)));
    assert!(rules.rules.len() == 1 && differences.is_empty() && toml.contains("never found"), "{toml}");
}

#[test]
fn any_text_becomes_a_readable_rule_with_a_name_of_its_own() {
    let odd = ["\"\\\\\"", "\"a\\nb\"", "\"\\x7f\"", "\"é\\u2028\"", "'a.b c'", "'#'"];
    let texts: String = odd
        .iter()
        .flat_map(|key| {
            odd.iter().map(move |value| format!("  - {{ key: {key}, value: {value}, {} }}\n", limit(1)))
        })
        .collect();
    let (rules, differences, _) = converted(&texts);
    assert!(rules.rules.len() == odd.len() * odd.len() && differences.is_empty(), "{differences:?}");
    let long: String = (0..30)
        .map(|n| format!("  - {{ key: k, value: '{}{n}', {} }}\n", "v".repeat(80), limit(1)))
        .collect();
    assert_eq!(converted(&long).0.rules.len(), 30);
}

#[test]
fn more_limits_than_rules_are_an_error() {
    let many: String =
        (0..10_001).map(|n| format!("  - {{ key: k, value: '{n}', {} }}\n", limit(1))).collect();
    let converted = config(&domain(&many)).convert();
    assert_eq!(converted.differences[0].code.as_str(), "too-much");
}

/// A descriptor: a value, whether it shares, whether it has a limit, and those in it.
#[derive(Clone, Debug)]
struct Tree(Vec<(&'static str, &'static str, bool, bool, Tree)>);

fn tree(keys: &'static [&'static str], depth: u32) -> BoxedStrategy<Tree> {
    if depth == 0 {
        return Just(Tree(Vec::new())).boxed();
    }
    let values = proptest::sample::select(vec!["", "a", "b", "ab", "a*", "*b", "a*b", "*"]);
    // Each level has keys of its own: a rule sees no order.
    let (own, rest) = keys.split_at(2);
    let one =
        (proptest::sample::select(own.to_vec()), values, any::<bool>(), any::<bool>(), tree(rest, depth - 1));
    proptest::collection::vec(one, 0..6)
        .prop_map(|mut all| {
            let mut seen = std::collections::BTreeSet::new();
            all.retain(|(key, value, ..)| seen.insert((*key, *value)));
            Tree(all)
        })
        .boxed()
}

fn yaml(Tree(all): &Tree, number: &mut u32) -> String {
    let one = |(key, value, shares, has_limit, inner): &(&str, &str, bool, bool, Tree)| {
        *number += 1;
        let limit = if *has_limit { format!("{}, ", limit(*number)) } else { String::new() };
        let shares = *shares && value.contains('*');
        let inner = yaml(inner, number);
        format!("{{ key: {key}, value: '{value}', share_threshold: {shares}, {limit}descriptors: {inner} }}")
    };
    format!("[{}]", all.iter().map(one).collect::<Vec<_>>().join(", "))
}

proptest! {
    /// A rule concerns a descriptor exactly if the walk finds its limit, and the keys differ alike.
    #[test]
    fn rules_concern_what_the_walk_finds(
        tree in tree(&["k", "l", "m", "n", "o", "p"], 3),
        calls in proptest::collection::vec(
            proptest::collection::vec((0..2usize, proptest::sample::select(vec!["a", "b", "ab", "ba", "axb", "c"])), 1..4),
            1..40,
        ),
    ) {
        let config = config(&format!("domain: d\ndescriptors: {}\n", yaml(&tree, &mut 0)));
        let converted = config.convert();
        prop_assert!(converted.differences.is_empty(), "{:?}", converted.differences);
        let rules = rules(&converted.toml);
        let keys = [["k", "l"], ["m", "n"], ["o", "p"]];
        let mut seen: Vec<(String, Vec<u8>, Vec<String>)> = Vec::new();
        for call in &calls {
            let entries: Vec<(&str, &str)> = call.iter().enumerate().map(|(level, (key, value))| (keys[level][*key], *value)).collect();
            let mut level = &tree;
            let is_known = entries.iter().all(|(key, _)| {
                // The union of all descriptors of the key stands for its level.
                let next = level.0.iter().find(|(name, ..)| name == key);
                if let Some(next) = next { level = &next.4; }
                next.is_some()
            });
            let concerned: Vec<&Rule> = rules.rules.iter().filter(|rule| concerns(rule, &entries)).collect();
            let found = find(&config, &entries);
            // A rule that the walk finds concerns the descriptor, whatever its keys are.
            if let Some((limit, key)) = &found {
                prop_assert_eq!(concerned.len(), 1, "{:?}\n{}", entries, converted.toml);
                let rule = concerned[0];
                let limits = format!("{:?}", rule.limits);
                let quota = limit.quota().unwrap();
                prop_assert!(limits.contains(&format!("{quota:?}")), "{} {:?}", limits, quota);
                let parts = match &rule.key {
                    Key::Everyone => Vec::new(),
                    Key::Attributes(parts) => parts.iter().map(|part| {
                        let Attribute::Entry(name) = part else { panic!("{part}") };
                        entries.iter().find(|(key, _)| **key == **name).unwrap().1.to_owned()
                    }).collect(),
                };
                for (name, bytes, other) in &seen {
                    if *name == *rule.name {
                        prop_assert_eq!(bytes == key, *other == parts);
                    }
                }
                seen.push((rule.name.to_string(), key.clone(), parts));
            } else if is_known {
                let names: Vec<_> = concerned.iter().map(|rule| &rule.name).collect();
                prop_assert!(names.is_empty(), "{:?} {:?}\n{}", entries, names, converted.toml);
            }
        }
    }
}
