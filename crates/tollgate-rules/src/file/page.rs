//! docs/reference/rules.md lists every field as the table of fields has it.

use std::fmt::Write;

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
