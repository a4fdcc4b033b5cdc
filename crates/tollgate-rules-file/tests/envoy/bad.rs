//! Files that are refused, and fields that are ignored with a warning.

use tollgate_rules_file::{EnvoyConfig, Memory, SameDomain};

use crate::{domain, found, reading};

/// A text has one problem: of this code, in this line, at this part.
fn has_one_problem(text: &str, code: &str, line: usize, part: &str) {
    let found = found(text);
    let first = found.first().unwrap_or_else(|| panic!("{text}: no problem"));
    assert_eq!((first.0, first.1), (code, line), "{text}{}", reading(text));
    assert!(part.is_empty() || first.2 == part, "{text}{}", reading(text));
    assert_eq!(found.len(), 1, "{text}{}", reading(text));
    assert!(reading(text).rules().is_none(), "{text}");
}

#[test]
fn each_mistake_is_told_at_its_place() {
    for (text, code, line, part) in [
        ("'''\n", "syntax", 1, ""),
        ("descriptors:\n", "missing-field", 1, ""),
        ("domain: ''\n", "missing-field", 1, "''"),
        ("domain: d\ndescriptors: [x]\n", "wrong-type", 2, "x"),
        ("domain: d\n0.25: x\n", "unknown-field", 2, "0.25"),
        ("domain: d\n? [x]\n: y\n", "wrong-type", 2, "[x]"),
        ("domain: d\ndescriptors: { key: a }\n", "wrong-type", 2, "{ key: a }"),
        ("domain: [d]\n", "wrong-type", 1, "[d]"),
        ("a\n", "wrong-type", 1, "a"),
        ("domain: d\n---\ndomain: e\n", "unsupported", 2, "---"),
        ("domain: !foo d\n", "unsupported", 1, "!foo d"),
    ] {
        has_one_problem(text, code, line, part);
    }
    for (descriptors, code, line, part) in [
        ("  - { key: a, value: b }\n  - { key: a, value: b }\n", "name-twice", 4, "a"),
        ("  - value: b\n", "missing-field", 3, ""),
        ("  - { key: a, ratelimit: {} }\n", "unknown-field", 3, "ratelimit"),
        ("  - { key: a, value: b, share_threshold: true }\n", "unfit", 3, "true"),
        ("  - key: 'a*'\n", "unsupported", 3, "'a*'"),
        ("  - { key: a, key: b }\n", "syntax", 3, "key"),
        ("  - { key: a, metadata: 5 }\n", "wrong-type", 3, "5"),
        ("\t- key: a\n", "syntax", 3, ""),
    ] {
        has_one_problem(&domain(descriptors), code, line, part);
    }
    for (limit, code, part) in [
        ("unit: foo, requests_per_unit: 5", "bad-text", "foo"),
        ("unit: day, requests_per_unit: 1, requestsperunit: 5", "unknown-field", "requestsperunit"),
        ("unit: day, requests_per_unit: 1, name: n, replaces: [{ name: n }]", "circle", "n"),
        ("unit: day, requests_per_unit: 1, replaces: [{ name: '' }]", "missing-field", "''"),
        ("unit: day, unlimited: true", "unfit", "day"),
        ("requests_per_unit: 5", "missing-field", ""),
    ] {
        has_one_problem(&domain(&format!("  - key: a\n    rate_limit: {{ {limit} }}\n")), code, 4, part);
    }
}

#[test]
fn all_mistakes_of_all_files_are_told_in_one_run() {
    let source =
        Memory::new("a.yaml", "domain: d\ndescriptors:\n  - { key: a, ratelimit: {} }\n  - { valu: x }\n")
            .file("b.yaml", "domain: d\ndescriptors: [{ key: 'x*' }]\n")
            .file("c.yaml", "domain: [\n");
    let reading = EnvoyConfig::read(&["a.yaml", "b.yaml", "c.yaml", "no.yaml"], SameDomain::Refuse, &source);
    let told: Vec<_> = reading
        .problems()
        .iter()
        .map(|problem| (&*problem.file, problem.line, problem.code.as_str()))
        .collect();
    let expected = [
        ("a.yaml", 3, "unknown-field"),
        ("a.yaml", 4, "missing-field"),
        ("a.yaml", 4, "unknown-field"),
        ("b.yaml", 1, "name-twice"),
        ("b.yaml", 2, "unsupported"),
        ("c.yaml", 2, "syntax"),
        ("no.yaml", 0, "unreadable"),
    ];
    assert_eq!(told, expected, "{reading}");
    assert!(reading.rules().is_none() && reading.to_string().contains("a.yaml has it, too"), "{reading}");
}

#[test]
fn numbers_out_of_range_or_of_other_types_are_errors() {
    for (number, code) in [
        ("4294967296", "out-of-range"),
        ("18446744073709551616", "out-of-range"),
        ("99999999999999999999999999999999999999999999", "out-of-range"),
        ("-1", "out-of-range"),
        ("5.0", "wrong-type"),
        ("1e3", "wrong-type"),
        ("five", "wrong-type"),
        ("'5'", "wrong-type"),
        ("[5]", "wrong-type"),
        ("true", "wrong-type"),
    ] {
        let text =
            domain(&format!("  - key: a\n    rate_limit: {{ unit: day, requests_per_unit: {number} }}\n"));
        assert_eq!(found(&text), [(code, 4, number.to_owned())], "{number}");
    }
    let text = domain("  - { key: a, rate_limit: { unlimited: 1 } }\n");
    assert_eq!(found(&text), [("wrong-type", 3, "1".into())]);
}

#[test]
fn what_changes_nothing_is_a_warning() {
    for (descriptors, told) in [
        ("  - { key: a, shadow_mode: true }\n", vec![("ignored", 3)]),
        ("  - { key: a, quota_mode: true }\n", vec![("ignored", 3)]),
        ("  - { key: a, quota_mode: false }\n", vec![]),
        ("  - { key: a, metadata: { x: y } }\n", vec![("ignored", 3)]),
        ("  - { key: a, rate_limit: }\n", vec![("ignored", 3)]),
        ("  - { key: a, unit: day }\n", vec![("ignored", 3)]),
        (
            "  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, shadow_mode: true } }\n",
            vec![("ignored", 3)],
        ),
        ("  - { key: a, rate_limit: { unlimited: true, requests_per_unit: 1 } }\n", vec![("ignored", 3)]),
        ("  - { key: a, rate_limit: { unit: day } }\n", vec![("refuses-all", 3)]),
        (
            "  - { key: a, value_to_metric: true }\n  - { key: b, value_to_metric: true }\n",
            vec![("ignored", 3)],
        ),
        (
            "  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: no }] } }\n",
            vec![("ignored", 3)],
        ),
        ("  - { key: a, detailed_metric: false, shadow_mode: no, descriptors: }\n", vec![]),
    ] {
        let text = domain(descriptors);
        let reading = reading(&*text);
        assert!(reading.rules().is_some(), "{reading}");
        let codes: Vec<_> = found(&text).into_iter().map(|(code, line, _)| (code, line)).collect();
        assert_eq!(codes, told, "{reading}");
        assert!(reading.problems().iter().all(tollgate_rules_file::Problem::is_warning));
    }
}
