//! Lists of values, and the files and variables behind them.

use std::collections::{BTreeMap, btree_map};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use toml::de::{DeTable, DeValue};

use super::{Reader, each, inner, text};
use crate::file::files::{Holds, Place};
use crate::file::problem::Code;
use crate::file::text::{Text, name as check_name, value};
use tollgate_rules::Values;

/// The most entries of all lists, and the most values of all conditions, those of lists counted
/// wherever a condition names them.
const MOST_VALUES: usize = 1_000_000;

#[derive(Debug)]
struct Entry {
    text: Box<str>,
    place: Place,
}

/// The lists of all files.
#[derive(Debug, Default)]
pub(in crate::file) struct Lists {
    by_name: BTreeMap<Box<str>, Vec<Entry>>,
    /// What each list is to conditions of a kind.
    values: BTreeMap<(Box<str>, Text), Rc<Values>>,
    total: usize,
    /// The entries of all lists.
    entries: usize,
}

impl Lists {
    pub(in crate::file) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }
}

impl Reader<'_, '_> {
    /// Reads the lists of a file.
    pub(in crate::file) fn lists(&mut self, file: &DeTable<'_>) {
        for (name, value) in inner(file, "lists").into_iter().flatten() {
            let entries = match value.get_ref() {
                DeValue::Array(_) => {
                    let entry = |value| {
                        let text = super::Value::get_ref(value).as_str()?.into();
                        Some(Entry { text, place: self.place(value.span()) })
                    };
                    each(value).filter_map(entry).collect()
                }
                DeValue::Table(source) => self.elsewhere(source, value.span()),
                _ => continue,
            };
            let place = self.place(name.span());
            let before = self.lists.entries;
            self.lists.entries += entries.len();
            if before <= MOST_VALUES && self.lists.entries > MOST_VALUES {
                let message = format!("all lists together have more than {MOST_VALUES} entries");
                self.files.add(&place, Code::TooMuch, message, None::<&str>);
            }
            let name: Box<str> = name.get_ref().as_ref().into();
            match self.lists.by_name.entry(name) {
                btree_map::Entry::Vacant(vacant) => {
                    vacant.insert(entries);
                }
                btree_map::Entry::Occupied(first) => {
                    let message = format!("there are two lists `{}`", first.key());
                    self.files.add(&place, Code::NameTwice, message, Some("names are unique over all files"));
                }
            }
        }
    }

    /// The entries of a file or a variable.
    fn elsewhere(&mut self, source: &DeTable<'_>, span: Range<usize>) -> Vec<Entry> {
        let place = self.place(span);
        if let Some(path) = text(source, "file").filter(|path| !path.is_empty()) {
            let path = self.files.path(self.file).parent().unwrap_or(Path::new("")).join(path);
            return self.lines(&path, &place);
        }
        let Some(name) = text(source, "env") else { return Vec::new() };
        let values = match self.files.variable(name) {
            Ok(values) => values,
            Err(message) => {
                self.files.add(&place, Code::Unreadable, message, Some("an empty one is an empty list"));
                return Vec::new();
            }
        };
        let values = values.split(',').map(str::trim).filter(|value| !value.is_empty());
        let values = values.take(self.room());
        values.map(|value| Entry { text: value.into(), place: place.clone() }).collect()
    }

    /// The entries of a file: one a line.
    fn lines(&mut self, path: &Path, named: &Place) -> Vec<Entry> {
        let Some(file) = self.files.read(path, Holds::List, Some(named)) else { return Vec::new() };
        let whole = self.files.text(file);
        let content = whole.strip_prefix('\u{feff}').unwrap_or(&whole);
        let mut entries = Vec::new();
        let mut start = whole.len() - content.len();
        for line in content.split_inclusive('\n') {
            let from = start;
            start += line.len();
            // A comment begins the line or follows a blank: values may contain `#`.
            let is_comment = |at: &usize| line[..*at].ends_with([' ', '\t']) || line[..*at].is_empty();
            let end = line.match_indices('#').map(|(at, _)| at).find(is_comment).unwrap_or(line.len());
            let text = line[..end].trim();
            if entries.len() >= self.room() {
                break;
            }
            if !text.is_empty() {
                let from = from + line[..end].len() - line[..end].trim_start().len();
                entries
                    .push(Entry { text: text.into(), place: Place { file, span: from..from + text.len() } });
            }
        }
        entries
    }

    /// How many entries a list may have: one more than all may, which `lists` reports.
    fn room(&self) -> usize {
        (MOST_VALUES + 1).saturating_sub(self.lists.entries)
    }

    /// Adds what a list is to conditions of this kind.
    pub(super) fn list(&mut self, name: &str, kind: Text, span: Range<usize>, values: &mut Values) {
        let key = (Box::from(name), kind);
        let found = match self.lists.values.get(&key) {
            Some(found) => Rc::clone(found),
            None => {
                let Some(found) = self.entries(name, kind, span.clone()) else { return };
                self.lists.values.insert(key, Rc::clone(&found));
                found
            }
        };
        let count = found.texts.len() + found.digests.len() + found.networks.len();
        if !self.counts(count, span) {
            return;
        }
        values.any |= found.any;
        values.texts.extend(found.texts.iter().cloned());
        values.digests.extend(&found.digests);
        values.networks.extend(&found.networks);
    }

    /// Counts values; `false` if there are too many.
    pub(super) fn counts(&mut self, count: usize, span: Range<usize>) -> bool {
        let before = self.lists.total;
        self.lists.total = before.saturating_add(count);
        if before <= MOST_VALUES && self.lists.total > MOST_VALUES {
            let message = format!("the conditions have more than {MOST_VALUES} values");
            self.add(span, Code::TooMuch, message, "a list counts wherever a condition names it");
        }
        self.lists.total <= MOST_VALUES
    }

    fn entries(&mut self, name: &str, kind: Text, span: Range<usize>) -> Option<Rc<Values>> {
        let Some(entries) = self.lists.by_name.get(name) else {
            // Of a name that no list can have, the walker reports that.
            check_name(name).ok()?;
            let meant = crate::file::nearest::nearest(name, self.lists.names().take(200));
            let hint = meant.map_or_else(
                || {
                    // A dot would begin a table within a table.
                    let quote = if name.contains(['.', ':', '/']) { "\"" } else { "" };
                    format!("above all […]: lists.{quote}{name}{quote} = […]")
                },
                |meant| format!("did you mean `@{meant}`?"),
            );
            self.add(span, Code::UnknownList, format!("there is no list `{name}`"), hint);
            return None;
        };
        let mut values = Values::default();
        let mut wrongs = Vec::new();
        for Entry { text, place } in entries {
            match value::check(kind, text) {
                Ok(()) => add(kind, text, &mut values),
                Err(wrong) => wrongs.push((place.clone(), wrong)),
            }
        }
        for (place, wrong) in wrongs {
            let message = format!("in the list `{name}`: {}", wrong.message);
            self.files.add(&place, Code::BadEntry, message, wrong.hint);
        }
        Some(Rc::new(values))
    }
}

/// Adds a value that was checked.
pub(super) fn add(kind: Text, text: &str, values: &mut Values) {
    if text == "*" {
        values.any = true;
    } else if kind == Text::Client {
        values.networks.extend(value::network(text).ok());
    } else if let (Text::Value | Text::Host, Ok(Some(digest))) = (kind, value::digest(text)) {
        values.digests.insert(digest);
    } else {
        values.texts.insert(text.into());
    }
}
