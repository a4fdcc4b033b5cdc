//! Rules that replace others.

use tollgate_rules::{CompileError, Key, Mode, Replaces};

use super::*;

#[test]
fn a_rule_that_replaces_all_replaces_a_block_too() {
    let names = Names::new(
        "lists = { office = ['192.0.2.0/24'], banned = { file = 'banned.txt' } }
         rule = [{ name = 'per-client', key = 'client', limits = '1/s' },
                 { name = 'office', match.client = '@office', key = 'everyone', limits = 'unlimited', replaces = ['*'] },
                 { name = 'banned', match.client = '@banned', key = 'everyone', limits = 'block' }]",
    );
    assert_eq!(names.of(&from("203.0.113.9")), ["per-client", "banned"]);
    assert_eq!(names.of(&from("192.0.2.7")), ["office"]);
    assert_eq!(names.of(&from("198.51.100.7")), ["per-client"]);
}

#[test]
fn rules_that_replace_all_replace_not_one_another() {
    let names = Names::new(
        "rule = [{ name = 'a', key = 'everyone', limits = '1/s', replaces = ['*'] },
                 { name = 'b', key = 'everyone', limits = '2/s', replaces = ['*'] },
                 { name = 'c', key = 'everyone', limits = '3/s' }]",
    );
    assert_eq!(names.of(&get("/")), ["a", "b"]);
}

#[test]
fn a_replaced_rule_replaces_nothing() {
    let names = Names::new(
        "rule = [{ name = 'c', key = 'everyone', limits = '3/s' },
                 { name = 'b', key = 'everyone', limits = '2/s', replaces = ['c'] },
                 { name = 'a', match.label.x = '*', key = 'everyone', limits = '1/s', replaces = ['b'] },
                 { name = 'all', match.label.y = '*', key = 'everyone', limits = '1/s', replaces = ['*'] }]",
    );
    assert_eq!(names.of(&get("/")), ["b"]);
    assert_eq!(names.of(&labels(&[("x", "1")])), ["c", "a"]);
    assert_eq!(names.of(&labels(&[("x", "1"), ("y", "1")])), ["all"]);
}

#[test]
fn a_limit_replaces_only_by_the_exact_request() {
    let names = Names::new(
        "rule = [{ name = 'general', key = 'everyone', limits = '1/s' },
                 { name = 'export', match.path = '/export', except.header.x = 'y', key = 'everyone', limits = '9/s',
                   replaces = ['general'] }]",
    );
    assert_eq!(names.of(&get("/export")), ["export"]);
    for unclear in ["/Export", "/export/", "/other/..%2Fexport"] {
        assert_eq!(names.of(&get(unclear)), ["general", "export"], "{unclear}");
    }
    let request = |x: &[(&str, &str)]| PlainRequest { headers: pairs(x), ..get("/export") };
    assert_eq!(names.of(&request(&[("x", "y")])), ["general"]);
    assert_eq!(names.of(&request(&[("x", "y"), ("x", "z")])), ["general", "export"]);
}

#[test]
fn a_shadow_rule_replaces_shadow_rules_only() {
    let names = Names::new(
        "rule = [{ name = 'shadow', key = 'everyone', limits = '1/s', mode = 'shadow', replaces = ['*'] },
                 { name = 'other', key = 'everyone', limits = '1/s', mode = 'shadow' },
                 { name = 'named', match.label.x = '*', key = 'everyone', limits = '1/s', mode = 'shadow', replaces = ['on', 'third'] },
                 { name = 'third', match.label.y = '*', key = 'everyone', limits = '1/s', mode = 'shadow' },
                 { name = 'on', key = 'everyone', limits = '1/s' }]",
    );
    assert_eq!(names.of(&labels(&[("x", "1"), ("y", "1")])), ["shadow", "on"]);
    let names = Names::new(
        "rule = [{ name = 'named', key = 'everyone', limits = '1/s', mode = 'shadow', replaces = ['on', 'third'] },
                 { name = 'third', key = 'everyone', limits = '1/s', mode = 'shadow' },
                 { name = 'on', key = 'everyone', limits = '1/s' }]",
    );
    assert_eq!(names.of(&get("/")), ["named", "on"]);
}

#[test]
fn a_rule_that_passes_without_key_replaces_nothing() {
    let names = Names::new(
        "rule = [{ name = 'general', key = 'everyone', limits = '1/s' },
                 { name = 'known', key = 'label.user', missing = 'pass', limits = '9/s', replaces = ['general'] }]",
    );
    assert_eq!(names.of(&labels(&[("user", "ada")])), ["known"]);
    assert_eq!(names.of(&get("/")), ["general"]);
}

#[test]
fn rules_that_a_program_broke_are_typed_errors() {
    let rule =
        |name: &str| format!("{{ name = '{name}', key = 'client', match.path = '/x', limits = '1/s' }}");
    let good = rules(&format!("rule = [{}, {}, {}]", rule("a"), rule("b"), rule("c")));
    assert!(Matcher::new(&good).is_ok());
    let named = |name: &str| Replaces::Named(vec![name.into()]);
    let broken = |change: &dyn Fn(&mut Rules)| {
        let mut rules = good.clone();
        change(&mut rules);
        Matcher::new(&rules).expect_err("the rules are broken")
    };
    let is_circle = |error| matches!(error, CompileError::Circle { rule } if "ab".contains(&*rule));
    assert!(is_circle(broken(&|rules| {
        rules.rules[0].replaces = named("b");
        rules.rules[1].replaces = Replaces::Named(vec!["a".into(), "c".into()]);
    })));
    assert!(is_circle(broken(&|rules| rules.rules[0].replaces = named("a"))));
    assert!(is_circle(broken(&|rules| {
        rules.rules[0].replaces = named("b");
        rules.rules[1].replaces = Replaces::All;
    })));
    let twice = broken(&|rules| rules.rules[2].name = "a".into());
    assert_eq!(twice, CompileError::NameTwice { name: "a".into() });
    let empty = broken(&|rules| rules.rules[2].key = Key::Attributes(Vec::new()));
    assert_eq!(empty, CompileError::EmptyKey { rule: "c".into() });
    let bits = broken(&|rules| rules.clients.ipv6_prefix = 129);
    assert_eq!(bits, CompileError::Ipv6Prefix { bits: 129 });
    for pattern in ["x", "/a/../b", "/a{b}", "/**/x"] {
        let error = broken(&|rules| {
            rules.rules[0].mode = Mode::Off;
            rules.rules[0].applies[0].0[0].values.texts = [pattern.into()].into();
        });
        assert!(matches!(&error, CompileError::Value { rule, .. } if &**rule == "a"), "{pattern}: {error}");
    }
}

#[test]
fn a_chain_of_ten_thousand_rules_compiles() {
    let mut text = String::from("rule = [");
    for number in 0..10_000 {
        let replaces =
            if number < 9_999 { format!("replaces = ['r{}']", number + 1) } else { "was = 'x'".into() };
        text += &format!("{{ name = 'r{number}', key = 'everyone', limits = '1/s', {replaces} }},\n");
    }
    let names = Names::new(&(text + "]"));
    let found = names.of(&get("/"));
    assert_eq!((found.len(), found[0], found[1]), (5_000, "r0", "r2"));
}
