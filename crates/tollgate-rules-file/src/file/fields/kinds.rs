//! What a table of fields is made of.

use crate::file::text::Text;

/// A table of TOML, and its fields.
#[derive(Debug)]
pub(in crate::file) struct Table {
    /// What a message calls it, and the schema's definition.
    pub(in crate::file) name: &'static str,
    pub(in crate::file) fields: &'static [Field],
    /// How many of its fields there must be, at least and at most.
    pub(in crate::file) count: (usize, usize),
}

#[derive(Debug)]
pub(in crate::file) struct Field {
    pub(in crate::file) name: &'static str,
    pub(in crate::file) kind: Kind,
    pub(in crate::file) need: Need,
    /// What it says, for the schema and the documentation.
    pub(in crate::file) doc: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::file) enum Need {
    Required,
    /// The default, for the documentation.
    Optional(&'static str),
}

/// What a value may be.
#[derive(Debug)]
pub(in crate::file) enum Kind {
    Bool,
    Integer {
        least: u64,
        most: u64,
    },
    Text(Text),
    Choice(&'static [&'static str]),
    DateTime,
    Table(&'static Table),
    /// A table whose keys are names.
    Map {
        key: Text,
        of: &'static Kind,
        least: usize,
    },
    List {
        of: &'static Kind,
        least: usize,
        most: usize,
    },
    /// One of several, each of another type of TOML.
    Either(&'static [Kind]),
}

/// A length of time.
pub(super) const TIME: Kind = Kind::Text(Text::Time);

pub(super) const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Field {
    Field { name, kind, need: Need::Required, doc }
}

pub(super) const fn optional(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Field {
    Field { name, kind, need: Need::Optional(default), doc }
}

pub(super) const fn table(name: &'static str, fields: &'static [Field]) -> Table {
    Table { name, fields, count: (0, usize::MAX) }
}
