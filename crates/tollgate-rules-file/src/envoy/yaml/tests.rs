//! Bounds, aliases and places of documents.

use super::*;

/// The text of each scalar of a document, as its place has it.
fn scalars(text: &str) -> Vec<(String, String)> {
    let yaml = Yaml::parse(text).unwrap();
    let scalar = |node: &Node<'_>| match &node.content {
        Content::Scalar { text: value, .. } => Some((value.to_string(), text[node.span.clone()].to_owned())),
        _ => None,
    };
    yaml.nodes.iter().filter_map(scalar).collect()
}

fn refused(text: &str) -> (Code, String) {
    let wrong = Yaml::parse(text).unwrap_err();
    (wrong.code, text.get(wrong.span).unwrap_or_default().to_owned())
}

#[test]
fn each_scalar_stands_where_its_place_says() {
    let long = "é".repeat(200);
    for text in [
        "a: b\nc: d e # x\n- f\n".replace("- f", "f: g"),
        "\u{feff}a: b\r\nü: é d\r\nf: g\r\n".into(),
        format!("{long}: x\nb: y\n\"{long}\": {long}\nz: w\n"),
    ] {
        for (value, part) in scalars(&text) {
            assert_eq!(value, part.trim_matches('"'), "{text}");
        }
    }
}

#[test]
fn nesting_is_bounded_with_aliases_written_out() {
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    assert!(Yaml::parse(&nested(DEEPEST)).is_ok());
    for deep in [nested(DEEPEST + 1), "- ".repeat(100_000), "[".repeat(100_000), "? ".repeat(100_000)] {
        assert_eq!(refused(&deep).0, Code::TooMuch);
    }
    let by_alias = format!("[&a {}, {}*a{}]", nested(40), "[".repeat(30), "]".repeat(30));
    assert_eq!(refused(&by_alias), (Code::TooMuch, "*a".into()));
}

#[test]
fn an_alias_weighs_what_it_stands_for() {
    let mut bomb = String::from("- &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..20 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
        bomb += &format!("- &a{n} [{aliases}]\n");
    }
    assert_eq!(refused(&bomb).0, Code::TooMuch);
    let long = format!("- &a {}\n{}", "x".repeat(1 << 20), "- *a\n".repeat(10_000));
    assert_eq!(refused(&long).0, Code::TooMuch);
    assert_eq!(refused("- &a [*a]\n").0, Code::Unsupported);
    let yaml = Yaml::parse("- &a x\n- *a\n").unwrap();
    assert_eq!(yaml.nodes.len(), 2);
}

#[test]
fn a_merge_adds_the_keys_that_are_missing() {
    let yaml = Yaml::parse("- &a {k: 1, l: 2}\n- {<<: *a, k: 3}\n- {<<: [*a, {m: 4}]}\n").unwrap();
    let Content::List(items) = &yaml.node(yaml.root().unwrap()).content else { panic!() };
    let pairs = |id: NodeId| match &yaml.node(id).content {
        Content::Map(pairs) => pairs
            .iter()
            .map(|(key, value)| (yaml.text(*key).unwrap(), yaml.text(*value).unwrap()))
            .collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    assert_eq!(pairs(items[1]), [("k", "3"), ("l", "2")]);
    assert_eq!(pairs(items[2]), [("k", "1"), ("l", "2"), ("m", "4")]);
    assert_eq!(refused("{<<: 5}").0, Code::WrongType);
}

#[test]
fn only_tags_of_plain_yaml_are_taken() {
    let yaml = Yaml::parse("[!!str 5, !!int \"5\", ! 5, '5', 5]").unwrap();
    let plain = |node: &Node<'_>| match node.content {
        Content::Scalar { is_plain, .. } => Some(is_plain),
        _ => None,
    };
    assert_eq!(yaml.nodes.iter().filter_map(plain).collect::<Vec<_>>(), [false, true, false, false, true]);
    assert_eq!(refused("!foo 5").0, Code::Unsupported);
    assert_eq!(refused("a: b\n---\nc: d\n").0, Code::Unsupported);
}
