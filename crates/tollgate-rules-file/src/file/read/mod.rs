//! From a parsed file to its rules. The walker has compared it with the table of fields, and
//! has reported values of another type or text: they are skipped here.
//!
//! | file | reads |
//! |------|-------|
//! | `lists` | `[lists]` and the files and variables behind them |
//! | `conditions` | `match` and `except` |
//! | `rule` | a `[[rule]]` |
//! | `store` | `[stores]` and the `store` of a rule |
//! | `settings` | `[clients]`, `[answer]`, `refuse` |
//! | `tests` | a `[[test]]` |

pub(super) mod conditions;
pub(super) mod lists;
pub(super) mod rule;
pub(super) mod settings;
pub(super) mod store;
pub(super) mod tests;

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::{FileId, Files, Place};
use super::problem::Code;
use super::text::{Wrong, limit};
use lists::Lists;

pub(super) type Value<'i> = Spanned<DeValue<'i>>;

/// Reads the tables of one file.
pub(super) struct Reader<'r, 's> {
    pub(super) files: &'r mut Files<'s>,
    pub(super) lists: &'r mut Lists,
    pub(super) file: FileId,
}

impl Reader<'_, '_> {
    fn place(&self, span: Range<usize>) -> Place {
        Place { file: self.file, span }
    }

    fn add(&mut self, span: Range<usize>, code: Code, message: impl Into<String>, hint: impl Into<String>) {
        let place = self.place(span);
        self.files.add(&place, code, message, Some(hint));
    }

    /// What `parse` makes of a string. The walker reports its errors.
    fn parsed<T>(&self, value: &Value<'_>, parse: impl Fn(&str) -> Result<T, Wrong>) -> Option<T> {
        parse(value.get_ref().as_str()?).ok()
    }

    /// A length of time of more than nothing.
    fn positive(&mut self, table: &DeTable<'_>, name: &str) -> Option<Duration> {
        let value = table.get(name)?;
        let text = value.get_ref().as_str()?;
        let time = limit::time(text).ok()?;
        if time.is_zero() {
            self.add(
                value.span(),
                Code::BadValue,
                format!("`{name}` must be longer than nothing"),
                "such as 10min",
            );
        }
        Some(time)
    }
}

pub(super) fn text<'t>(table: &'t DeTable<'_>, name: &str) -> Option<&'t str> {
    table.get(name)?.get_ref().as_str()
}

pub(super) fn boxed(table: &DeTable<'_>, name: &str) -> Option<Box<str>> {
    text(table, name).map(Into::into)
}

pub(super) fn integer(value: &Value<'_>) -> Option<u64> {
    let number = value.get_ref().as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

pub(super) fn number<T: TryFrom<u64>>(table: &DeTable<'_>, name: &str) -> Option<T> {
    T::try_from(integer(table.get(name)?)?).ok()
}

pub(super) fn inner<'t, 'i>(table: &'t DeTable<'i>, name: &str) -> Option<&'t DeTable<'i>> {
    table.get(name)?.get_ref().as_table()
}

/// A value, or those of a list.
pub(super) fn each<'t, 'i>(value: &'t Value<'i>) -> impl Iterator<Item = &'t Value<'i>> {
    let list = value.get_ref().as_array();
    let alone = list.is_none().then_some(value);
    list.into_iter().flat_map(|list| list.iter()).chain(alone)
}

/// The tables of a field: of one, or of a list.
pub(super) fn tables<'t, 'i>(
    table: &'t DeTable<'i>,
    name: &str,
) -> impl Iterator<Item = (&'t DeTable<'i>, Range<usize>)> {
    let values = table.get(name).into_iter().flat_map(each);
    values.filter_map(|value| Some((value.get_ref().as_table()?, value.span())))
}
