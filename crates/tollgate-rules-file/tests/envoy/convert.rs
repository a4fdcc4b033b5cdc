//! The same limits as rules: equal where rules can say it, and told where not.

use proptest::prelude::*;
use tollgate_rules::{Found, Key, Matcher, PlainRequest, Rules};
use tollgate_rules_file::{Memory, read};

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

/// A descriptor of the domain `d` as rules see it.
fn request(entries: &[(&str, &str)]) -> PlainRequest {
    let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
    PlainRequest { domain: Some("d".into()), entries: entries.collect(), ..PlainRequest::default() }
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

/// A limit that refuses all, or is unlimited, needs no store.
#[test]
fn what_is_converted_for_a_store_can_be_kept_there() {
    let units = ["second", "minute", "hour", "day", "week", "month", "year"];
    let limits = units.map(|unit| {
        format!("  - {{ key: {unit}, rate_limit: {{ unit: {unit}, requests_per_unit: 4294967295 }} }}\n")
    });
    let descriptors = limits.concat()
        + "  - { key: banned, rate_limit: { unit: day, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: shadow, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 10 } }
";
    let converted = config(&domain(&descriptors)).convert_to_store("redis://app:p%23w@10.0.0.7/1");
    assert!(converted.differences.is_empty(), "{:?}", converted.differences);
    let stored = rules(&converted.toml).rules.iter().filter(|rule| rule.store.is_some()).count();
    assert_eq!(stored, units.len() + 1, "{}", converted.toml);
    assert!(!converted.toml.contains("count=all"), "{}", converted.toml);
    let wrong = config(&domain(&descriptors)).convert_to_store("redis://app:secret#x@10.0.0.7");
    assert!(!wrong.differences.is_empty());
    let told = wrong.differences.iter().map(ToString::to_string).collect::<String>();
    assert!(!told.contains("secret"), "{told}");
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
fn any_text_becomes_a_rule_with_its_own_name() {
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
        let matcher = Matcher::new(&rules).unwrap();
        let keys = [["k", "l"], ["m", "n"], ["o", "p"]];
        let (mut concerned, mut seen) = (Found::default(), Vec::new());
        for call in &calls {
            let entries: Vec<(&str, &str)> =
                call.iter().enumerate().map(|(level, (key, value))| (keys[level][*key], *value)).collect();
            let mut level = &tree;
            let is_known = entries.iter().all(|(key, _)| {
                let next = level.0.iter().find(|(name, ..)| name == key);
                if let Some(next) = next {
                    level = &next.4;
                }
                next.is_some()
            });
            matcher.find(&request(&entries), &mut concerned);
            if let Some((limit, key)) = find(&config, &entries) {
                let [one] = concerned.concerned() else {
                    panic!("{entries:?} {:?}\n{}", concerned.concerned(), converted.toml)
                };
                let limits = format!("{:?}", rules.rules[one.rule].limits);
                prop_assert!(limits.contains(&format!("{:?}", limit.quota().unwrap())), "{limits} {limit:?}");
                // Calls have equal keys by the rule exactly if they have by the file.
                for (rule, by_file, by_rule) in &seen {
                    if *rule == one.rule {
                        prop_assert_eq!(*by_file == key, by_rule == concerned.key(one));
                    }
                }
                seen.push((one.rule, key, concerned.key(one).to_vec()));
            } else if is_known {
                prop_assert!(concerned.concerned().is_empty(), "{entries:?}\n{}", converted.toml);
            }
        }
    }
}
