//! Compares a parsed file with the table of fields, and reports every difference.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fields::{CONDITION, FILE, Field, Kind, Need, RULE, TEST, Table};
use super::files::{FileId, Files, Place};
use super::nearest::nearest;
use super::problem::Code;
use super::text::{Text, Wrong, quoted};

/// Reports all differences of `document` from `table`.
pub(super) fn walk(files: &mut Files<'_>, file: FileId, table: &'static Table, document: &DeTable<'_>) {
    Walk { files, file }.table(table, document, 0..0);
}

/// The part of a file that a wrong part of a string's value stands in: all of the string if it
/// contains escapes.
pub(super) fn inside(raw: &str, at: &Range<usize>, text: &str, part: &Range<usize>) -> Range<usize> {
    let Some(&quote @ (b'"' | b'\'')) = raw.as_bytes().first() else { return at.clone() };
    let quotes = if raw.len() >= 6 && raw.as_bytes()[..3] == [quote; 3] { 3 } else { 1 };
    let inner = raw.get(quotes..raw.len().saturating_sub(quotes)).unwrap_or_default();
    // A line break after three quotes is no part of the value.
    let skipped = if quotes == 3 { inner.len() - inner.trim_start_matches(['\r', '\n']).len() } else { 0 };
    let skipped = skipped.min(inner.len().saturating_sub(text.len()));
    if inner.get(skipped..) != Some(text) {
        return at.clone();
    }
    let start = at.start + quotes + skipped;
    start + part.start..start + part.end
}

struct Walk<'f, 's> {
    files: &'f mut Files<'s>,
    file: FileId,
}

impl Walk<'_, '_> {
    fn add(&mut self, span: Range<usize>, code: Code, message: String, hint: Option<String>) {
        self.files.add(&Place { file: self.file, span }, code, message, hint);
    }

    fn table(&mut self, table: &'static Table, found: &DeTable<'_>, at: Range<usize>) {
        // A required field that is misspelt is one mistake.
        let mut meant = Vec::new();
        for (key, value) in found {
            let name: &str = key.get_ref();
            match table.fields.iter().find(|field| field.name == name) {
                Some(field) => self.value(&field.kind, value, field.name),
                None => meant.extend(self.unknown(table, name, key.span())),
            }
        }
        let missing = |field: &&Field| {
            field.need == Need::Required && !found.contains_key(field.name) && !meant.contains(&field.name)
        };
        for field in table.fields.iter().filter(missing) {
            let message = format!("the {} has no `{}`", table.name, field.name);
            self.add(at.clone(), Code::MissingField, message, Some(format!("{}: {}", field.name, field.doc)));
        }
        let (least, most) = table.count;
        let known = || table.fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
        if found.is_empty() && least > 0 {
            let hint = format!("of {}", known());
            self.add(at, Code::OutOfRange, format!("the {} is empty", table.name), Some(hint));
        } else if found.len() > most {
            let message = format!("the {} has {} fields", table.name, found.len());
            self.add(at, Code::OutOfRange, message, Some(format!("one of {}", known())));
        }
    }

    /// Reports an unknown field. Returns the field that was probably meant.
    fn unknown(&mut self, table: &'static Table, name: &str, span: Range<usize>) -> Option<&'static str> {
        let known = table.fields.iter().map(|field| field.name);
        let meant = if self.files.is_full() { None } else { nearest(name, known.clone()) };
        let has = |table: &Table| table.fields.iter().any(|field| field.name == name);
        let elsewhere = match table.name {
            "included file" if has(&FILE) => Some("only the first file may say it".into()),
            "rule" if has(&CONDITION) => Some(format!("a condition of the rule: match.{name} = …")),
            "tier" | "answer" if has(&RULE) => {
                Some("a field of the rule stands above [[rule.tier]] and [rule.…]".into())
            }
            other if other != FILE.name && has(&FILE) => {
                Some("a field of the file stands above all […] and [[…]]".into())
            }
            _ => None,
        };
        let meant = meant.filter(|_| elsewhere.is_none());
        let hint = elsewhere.or_else(|| meant.map(|known| format!("did you mean `{known}`?")));
        let hint = hint.unwrap_or_else(|| format!("there are {}", known.collect::<Vec<_>>().join(", ")));
        let article = if table.name.starts_with(['a', 'e', 'i']) { "an" } else { "a" };
        let message = format!("unknown field `{}` of {article} {}", short(name), table.name);
        self.add(span, Code::UnknownField, message, Some(hint));
        meant
    }

    fn value(&mut self, kind: &'static Kind, value: &Spanned<DeValue<'_>>, name: &str) {
        let at = value.span();
        match (kind, value.get_ref()) {
            (Kind::Either(kinds), found) => match kinds.iter().find(|kind| takes(kind, found)) {
                Some(Kind::Choice(choices)) => {
                    let forms = kinds.iter().filter_map(form);
                    let all = choices.iter().map(|choice| (*choice).to_owned()).chain(forms);
                    self.choice(choices, &all.collect::<Vec<_>>().join(", "), value, name);
                }
                Some(kind) => self.value(kind, value, name),
                None => self.wrong_type(kind, value, name),
            },
            (kind, found) if !takes(kind, found) => self.wrong_type(kind, value, name),
            (Kind::Integer { least, most }, DeValue::Integer(number)) => {
                let found = u64::from_str_radix(number.as_str(), number.radix()).ok();
                if !found.is_some_and(|number| (*least..=*most).contains(&number)) {
                    // Of all numbers only the format's version has a single value.
                    let hint = match least == most {
                        true => format!("this version of tollgate reads {name} {least}"),
                        false => format!("{least} to {most}"),
                    };
                    let message = format!("`{name}` is {number}");
                    self.add(at, Code::OutOfRange, message, Some(hint));
                }
            }
            (Kind::Text(text), DeValue::String(found)) => self.text(*text, found, at),
            (Kind::Choice(choices), _) => self.choice(choices, &choices.join(", "), value, name),
            (Kind::DateTime, DeValue::Datetime(found))
                if found.date.is_none() || found.time.is_none() || found.offset.is_none() =>
            {
                let message = format!("`{name}` is no instant: {found}");
                self.add(at, Code::BadText, message, Some("such as 2026-01-01T00:00:00Z".into()));
            }
            (Kind::Table(table), DeValue::Table(found)) => self.table(table, found, at),
            (Kind::Map { key: text, of, least }, DeValue::Table(found)) => {
                for (key, value) in found {
                    if let Err(wrong) = text.check(key.get_ref()) {
                        // Keys have no offsets of their own: they may be quoted.
                        self.add(key.span(), wrong.code, wrong.message, wrong.hint);
                    }
                    self.value(of, value, key.get_ref());
                }
                if found.len() < *least {
                    self.add(
                        at,
                        Code::OutOfRange,
                        format!("`{name}` is empty"),
                        Some(format!("{name}.NAME = …")),
                    );
                }
            }
            (Kind::List { of, least, most }, DeValue::Array(found)) => {
                found.iter().take(*most).for_each(|value| self.value(of, value, name));
                if !(*least..=*most).contains(&found.len()) {
                    let message = format!("`{name}` has {} values", found.len());
                    self.add(at, Code::OutOfRange, message, Some(format!("{least} to {most}")));
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: Text, found: &str, at: Range<usize>) {
        let Err(Wrong { span, code, message, hint }) = text.check(found) else { return };
        let file = self.files.text(self.file);
        let span = inside(file.get(at.clone()).unwrap_or_default(), &at, found, &span);
        self.add(span, code, message, hint);
    }

    /// Reports a text that is none of the choices; `all` are the forms of the field's values.
    fn choice(&mut self, choices: &[&str], all: &str, value: &Spanned<DeValue<'_>>, name: &str) {
        let Some(found) = value.get_ref().as_str().filter(|found| !choices.contains(found)) else { return };
        let meant = nearest(found, choices.iter().copied());
        let hint = meant.map_or_else(|| all.to_owned(), |choice| format!("did you mean \"{choice}\"?"));
        self.add(value.span(), Code::BadText, format!("`{name}` cannot be {}", quoted(found)), Some(hint));
    }

    fn wrong_type(&mut self, kind: &'static Kind, value: &Spanned<DeValue<'_>>, name: &str) {
        let found = value.get_ref().type_str();
        let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
        let message = format!("`{}` cannot be {article} {found}", short(name));
        let hint = match kind {
            Kind::List { of: Kind::Table(_), .. } if value.get_ref().is_table() => {
                let has = |table: &Table| table.fields.iter().any(|field| field.name == name);
                let parent = [(&RULE, "rule."), (&TEST, "test.")].into_iter().find(|(table, _)| has(table));
                let parent = parent.map_or("", |(_, parent)| parent);
                format!("two brackets: [[{parent}{name}]]")
            }
            _ => describe(kind),
        };
        self.add(value.span(), Code::WrongType, message, Some(hint));
    }
}

/// How a table of required numbers is written: `{ local = N }`.
fn form(kind: &Kind) -> Option<String> {
    let Kind::Table(table) = kind else { return None };
    let mut required = table.fields.iter().filter(|field| field.need == Need::Required);
    if !required.clone().all(|field| matches!(field.kind, Kind::Integer { .. })) {
        return None;
    }
    let first = required.next()?;
    let rest: String = required.map(|field| format!(", {} = N", field.name)).collect();
    Some(format!("{{ {} = N{rest} }}", first.name))
}

/// Whether the type fits.
fn takes(kind: &Kind, value: &DeValue<'_>) -> bool {
    match kind {
        Kind::Bool => value.is_bool(),
        Kind::Integer { .. } => value.is_integer(),
        Kind::Text(_) | Kind::Choice(_) => value.is_str(),
        Kind::DateTime => value.is_datetime(),
        Kind::Table(_) | Kind::Map { .. } => value.is_table(),
        Kind::List { .. } => value.is_array(),
        Kind::Either(kinds) => kinds.iter().any(|kind| takes(kind, value)),
    }
}

/// What a value may be, for a hint and the documentation.
pub(super) fn describe(kind: &Kind) -> String {
    match kind {
        Kind::Bool => "true or false".into(),
        Kind::Integer { least, most } if least == most => format!("{least}"),
        Kind::Integer { least, most } => format!("a whole number, {least} to {most}"),
        Kind::Text(Text::Address) => format!("an {}", Text::Address.describe()),
        Kind::Text(text) => format!("a {}", text.describe()),
        Kind::Choice(choices) => {
            choices.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(", ")
        }
        Kind::DateTime => "a date and time with an offset".into(),
        Kind::Table(table) => {
            let names: Vec<_> = table.fields.iter().map(|field| field.name).collect();
            format!("a table of {}", names.join(", "))
        }
        Kind::Map { of, .. } => format!("a table by name, each {}", describe(of)),
        Kind::List { of: Kind::Table(table), .. } => format!("a list of {}s", table.name),
        Kind::List { of, .. } => format!("a list, each {}", describe(of)),
        Kind::Either([one, Kind::List { .. }])
            if matches!(one, Kind::Text(_) | Kind::Integer { .. } | Kind::Table(_)) =>
        {
            format!("{}, or a list", describe(one))
        }
        Kind::Either(kinds) => kinds.iter().map(describe).collect::<Vec<_>>().join("; or "),
    }
}

/// The longest name that a message repeats.
fn short(name: &str) -> String {
    name.chars().take(60).collect()
}
