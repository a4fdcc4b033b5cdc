//! docs/reference/rules.md lists every field as the table of fields has it.

use std::fmt::Write;

use super::Code;
use super::fields::{FILE, Kind, Need, Table};
use super::walk::describe;

const PAGE: &str = include_str!("../../../../docs/reference/rules.md");

/// The rows of a table, and then those of the tables in it.
fn rows(table: &'static Table, seen: &mut Vec<&'static str>, page: &mut String) {
    if seen.contains(&table.name) {
        return;
    }
    seen.push(table.name);
    let _ = writeln!(page, "\n**{}**\n\n| field | what | value | default |\n|---|---|---|---|", table.name);
    for field in table.fields {
        let default = match field.need {
            Need::Required => "**required**",
            Need::Optional(default) => default,
        };
        let _ =
            writeln!(page, "| `{}` | {} | {} | {default} |", field.name, field.doc, describe(&field.kind));
    }
    table.fields.iter().for_each(|field| inner(&field.kind, seen, page));
}

fn inner(kind: &'static Kind, seen: &mut Vec<&'static str>, page: &mut String) {
    match kind {
        Kind::Table(table) => rows(table, seen, page),
        Kind::Map { of, .. } | Kind::List { of, .. } => inner(of, seen, page),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| inner(kind, seen, page)),
        _ => {}
    }
}

#[test]
fn the_page_lists_every_field() {
    let mut expected = String::new();
    rows(&FILE, &mut Vec::new(), &mut expected);
    assert!(PAGE.contains(expected.trim()), "docs/reference/rules.md must contain\n{expected}");
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let headings = page.lines().filter_map(|line| line.strip_prefix('#'));
    headings.map(|heading| {
        let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|&c| c.is_alphanumeric() || c == '-').collect()
    })
}

#[test]
fn each_error_names_a_section_of_a_page() {
    const ENVOY: &str = include_str!("../../../../docs/reference/envoy.md");
    for code in Code::ALL {
        let (page, anchor) = code.page().split_once('#').expect("it names a section");
        let text = if page.ends_with("rules.md") { PAGE } else { ENVOY };
        assert!(anchors(text).any(|known| known == anchor), "{code}: {page} has no {anchor}");
    }
}

/// The part of the page under this heading.
fn section(heading: &str) -> &'static str {
    let (_, part) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the page has the heading");
    part.split("\n## ").next().unwrap_or(part)
}

#[test]
fn the_page_opens_with_seven_fields_and_their_example() {
    assert!(PAGE.find("\n## ") == PAGE.find("\n## Seven fields"), "they come first");
    let part = section("Seven fields");
    let rows = || part.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    assert_eq!(rows().count(), 7);
    let (_, example) = part.split_once("```toml\n").expect("it has an example");
    let (example, _) = example.split_once("```").expect("the example ends");
    let reading = super::read("rules.toml", &super::Memory::new("rules.toml", example));
    assert!(reading.problems().is_empty(), "{reading}");
    for (name, _) in rows() {
        assert!(super::fields::RULE.fields.iter().any(|field| field.name == name), "{name}");
        assert!(example.contains(&format!("\n{name} = ")), "the example has no {name}");
    }
}
