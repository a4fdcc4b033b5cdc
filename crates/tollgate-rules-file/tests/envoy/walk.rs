//! Which limit a descriptor has, and with which key.

use tollgate_rules_file::{EnvoyConfig, EnvoyUnit, Memory, SameDomain};

use crate::{config, domain, find};

/// The cases of the design: a default and overrides at two levels, a value without a limit.
pub(crate) const BASIC: &str = "
  - key: key1
    value: value1
    descriptors:
      - { key: subkey1, rate_limit: { unit: second, requests_per_unit: 5 } }
      - { key: subkey1, value: subvalue1, rate_limit: { unit: second, requests_per_unit: 10 } }
  - { key: key2, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: key2, value: value2, rate_limit: { unit: minute, requests_per_unit: 30 } }
  - { key: key2, value: value3 }
  - key: key5
    value: value5
    rate_limit: { unit: day, requests_per_unit: 15 }
    descriptors:
      - { key: subkey5, value: subvalue5, rate_limit: { unit: day, requests_per_unit: 25 } }
  - { key: key6, rate_limit: { unlimited: true } }
";

#[test]
fn the_walk_finds_what_the_reference_finds() {
    let config = config(&domain(BASIC));
    let quota = |entries: &[(&str, &str)]| {
        find(&config, entries).map(|(limit, _)| limit.quota().map(|quota| quota.to_string()))
    };
    let window = |text: &str| Some(Some(format!("fixed-window:{text},count=all")));
    assert_eq!(quota(&[("key1", "value1")]), None);
    assert_eq!(quota(&[("key1", "value1"), ("subkey1", "x")]), window("5/s"));
    assert_eq!(quota(&[("key1", "value1"), ("subkey1", "subvalue1")]), window("10/s"));
    assert_eq!(quota(&[("key1", "other"), ("subkey1", "x")]), None);
    assert_eq!(quota(&[("key2", "foo")]), window("20/min"));
    assert_eq!(quota(&[("key2", "value2")]), window("30/min"));
    assert_eq!(quota(&[("key2", "value3")]), None, "a value without a limit is free");
    assert_eq!(quota(&[("key2", "foo"), ("x", "y")]), None, "as many entries as levels");
    assert_eq!(quota(&[("key5", "value5")]), window("15/d"));
    assert_eq!(quota(&[("key5", "value5"), ("subkey5", "subvalue5")]), window("25/d"));
    assert_eq!(quota(&[("key5", "value5"), ("subkey5", "other")]), None);
    assert_eq!(quota(&[("subkey1", "x"), ("key1", "value1")]), None, "in order");
    assert_eq!(quota(&[]), None);
    let (unlimited, _) = find(&config, &[("key6", "a")]).unwrap();
    assert_eq!((unlimited.unit, unlimited.quota()), (None, None));
    assert!(config.find("other", [("key2", "foo")], &mut Vec::new()).is_none());
}

#[test]
fn the_walk_does_not_come_back() {
    let config = config(&domain(
        "  - { key: a, value: x, descriptors: [{ key: b, value: y, rate_limit: { unit: day, requests_per_unit: 1 } }] }
  - { key: a, value: 'x*', descriptors: [{ key: b, value: z, rate_limit: { unit: day, requests_per_unit: 2 } }] }
  - { key: a, descriptors: [{ key: b, rate_limit: { unit: day, requests_per_unit: 3 } }] }
",
    ));
    let limit = |a, b| find(&config, &[("a", a), ("b", b)]).map(|(limit, _)| limit.requests_per_unit);
    assert_eq!((limit("x", "y"), limit("x", "z"), limit("x", "w")), (Some(1), None, None));
    assert_eq!((limit("xx", "z"), limit("xx", "w"), limit("w", "w")), (Some(2), None, Some(3)));
}

#[test]
fn exact_values_come_first_then_wildcards_then_the_bare_key() {
    let limits = ["", "ab*", "a*", "abc", "*z"].iter().enumerate().map(|(n, value)| {
        format!("  - {{ key: k, value: '{value}', rate_limit: {{ unit: day, requests_per_unit: {n} }} }}\n")
    });
    let config = config(&domain(&limits.collect::<String>()));
    let limit = |value| find(&config, &[("k", value)]).unwrap().0.requests_per_unit;
    let expected =
        [("abc", 3), ("abd", 1), ("ab", 1), ("ax", 2), ("a*", 2), ("xz", 4), ("az", 2), ("x", 0), ("", 0)];
    for (value, number) in expected {
        assert_eq!(limit(value), number, "{value}");
    }
}

#[test]
fn wildcards_stand_anywhere_in_a_value() {
    let config = config(&domain(
        "  - { key: k, value: 'foo*bar*baz', rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: l, value: '*', rate_limit: { unit: day, requests_per_unit: 1 } }
",
    ));
    let fits = |key, value| find(&config, &[(key, value)]).is_some();
    for value in ["foobarbaz", "foo-bar-baz", "foobarbarbazbaz", "foo*bar*baz"] {
        assert!(fits("k", value), "{value}");
    }
    for value in ["foobar", "foobabaz", "xfoobarbaz", "foobarbazx", "foobaz", ""] {
        assert!(!fits("k", value), "{value}");
    }
    assert!(fits("l", "") && fits("l", "x"));
}

#[test]
fn keys_and_values_are_compared_as_pairs_not_glued() {
    let config = config(&domain(
        "  - { key: a_b, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: c, value: d, rate_limit: { unit: day, requests_per_unit: 2 } }
",
    ));
    assert!(find(&config, &[("a", "b")]).is_none() && find(&config, &[("a_b", "x")]).is_some());
    assert!(find(&config, &[("c_d", "")]).is_none() && find(&config, &[("c", "d")]).is_some());
}

#[test]
fn the_key_has_the_values_that_the_file_leaves_open() {
    let config = config(&domain(
        "  - key: a
    value: 'x*'
    share_threshold: true
    descriptors:
      - key: b
        value: 'y*'
        descriptors:
          - { key: c, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: e, descriptors: [{ key: f, rate_limit: { unit: day, requests_per_unit: 1 } }] }
  - { key: g, value: h, rate_limit: { unit: day, requests_per_unit: 1 } }
",
    ));
    let key = |entries: &[(&str, &str)]| find(&config, entries).unwrap().1;
    let base = key(&[("a", "x1"), ("b", "y1"), ("c", "z")]);
    assert_eq!(key(&[("a", "x2"), ("b", "y1"), ("c", "z")]), base, "one count for all values");
    assert_eq!(key(&[("a", "x*"), ("b", "y1"), ("c", "z")]), base);
    assert_ne!(key(&[("a", "x1"), ("b", "y2"), ("c", "z")]), base);
    assert_ne!(key(&[("a", "x1"), ("b", "y1"), ("c", "")]), base);
    assert_ne!(key(&[("e", "ab"), ("f", "c")]), key(&[("e", "a"), ("f", "bc")]));
    assert_eq!(key(&[("g", "h")]), b"");
}

#[test]
fn all_fields_of_a_limit_are_kept() {
    let config = config(
        "domain: d
descriptors:
  - key: a
    value: b
    shadow_mode: yes
    rate_limit:
      name: one
      unit: MONTH
      requests_per_unit: 0x10
      replaces: [{ name: two }]
    metadata: { tier: [1, 2.5, true, ~, 'no'], n: { m: x } }
  - key: a
    rate_limit: { name: two, unit: year, requests_per_unit: 0 }
",
    );
    let (limit, _) = find(&config, &[("a", "b")]).unwrap();
    assert_eq!((limit.index, &*limit.domain, &*limit.composite), (0, "d", "d.a_b"));
    assert_eq!((limit.requests_per_unit, limit.unit, limit.shadow), (16, Some(EnvoyUnit::Month), true));
    assert_eq!((limit.name.as_deref(), &limit.replaces[..]), (Some("one"), &["two".into()][..]));
    let metadata = serde_json::json!({"tier": [1, 2.5, true, null, "no"], "n": {"m": "x"}});
    assert_eq!((&limit.metadata, &*limit.file, limit.line), (&Some(metadata), "envoy.yaml", 3));
    let (blocked, _) = find(&config, &[("a", "c")]).unwrap();
    assert_eq!((blocked.requests_per_unit, blocked.quota(), blocked.unit), (0, None, Some(EnvoyUnit::Year)));
    assert_eq!(config.limits().len(), 2);
}

#[test]
fn every_unit_can_hold_the_largest_number() {
    for (unit, seconds) in [
        ("second", 1),
        ("Minute", 60),
        ("HOUR", 3_600),
        ("day", 86_400),
        ("week", 604_800),
        ("month", 2_592_000),
        ("year", 31_536_000),
    ] {
        let text =
            format!("  - {{ key: k, rate_limit: {{ unit: {unit}, requests_per_unit: 4294967295 }} }}\n");
        let config = config(&domain(&text));
        let limit = &config.limits()[0];
        assert!(limit.quota().is_some(), "{unit}");
        assert_eq!(limit.unit.unwrap().seconds(), seconds);
    }
}

#[test]
fn files_of_a_directory_are_one_configuration() {
    let file = |domain: &str, key: &str| {
        format!(
            "domain: {domain}\ndescriptors: [{{ key: {key}, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}]\n"
        )
    };
    let source =
        Memory::new("conf/b.yaml", file("b", "x")).file("conf/a.yaml", file("a", "y")).file("conf/.c", "no");
    let config = EnvoyConfig::read(&["conf"], SameDomain::Refuse, &source).into_rules().unwrap();
    assert_eq!(config.domains().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(&*config.limits()[0].file, "conf/a.yaml");

    let source = Memory::new("1.yaml", file("d", "x")).file("2.yaml", file("d", "y"));
    let reading = EnvoyConfig::read(&["1.yaml", "2.yaml"], SameDomain::Merge, &source);
    assert!(reading.problems().is_empty() && reading.paths().len() == 2);
    let config = reading.into_rules().unwrap();
    assert!(find(&config, &[("x", "1")]).is_some() && find(&config, &[("y", "1")]).is_some());
    let twice = EnvoyConfig::read(&["1.yaml", "1.yaml"], SameDomain::Merge, &source);
    assert_eq!(twice.problems()[0].code.as_str(), "name-twice", "{twice}");
}

#[test]
fn anchors_and_merges_are_read() {
    let config = config(
        "domain: d
descriptors:
  - key: a
    rate_limit: &daily { unit: day, requests_per_unit: 5 }
  - key: b
    rate_limit: *daily
  - key: c
    rate_limit: { <<: *daily, requests_per_unit: 6 }
",
    );
    let limit = |key| find(&config, &[(key, "x")]).unwrap().0.quota().unwrap().to_string();
    assert_eq!((limit("a"), limit("a") == limit("b")), ("fixed-window:5/d,count=all".into(), true));
    assert_eq!(limit("c"), "fixed-window:6/d,count=all");
}
