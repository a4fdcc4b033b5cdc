//! The fields of Envoy's file, and typed access to them. Every mistake is reported at its place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Map, Value};

use super::yaml::scalar;
use super::yaml::{Content, NodeId, Yaml};
use crate::file::{Code, FileId, Files, LONGEST_VALUE, Place, nearest, quoted};

/// A kind of mapping.
pub(super) struct Table {
    name: &'static str,
    fields: &'static [&'static str],
}

pub(super) static FILE: Table = Table { name: "file", fields: &["domain", "descriptors"] };

pub(super) static DESCRIPTOR: Table = Table {
    name: "descriptor",
    fields: &[
        "key",
        "value",
        "rate_limit",
        "descriptors",
        "shadow_mode",
        "quota_mode",
        "detailed_metric",
        "value_to_metric",
        "share_threshold",
        "metadata",
    ],
};

pub(super) static RATE_LIMIT: Table =
    Table { name: "rate_limit", fields: &["requests_per_unit", "unit", "unlimited", "name", "replaces"] };

pub(super) static REPLACED: Table = Table { name: "replaced limit", fields: &["name"] };

/// The fields that a mapping has.
#[derive(Default)]
pub(super) struct Fields {
    known: BTreeMap<&'static str, NodeId>,
    /// Those that a misspelt field probably is: they are not missing.
    meant: Vec<&'static str>,
}

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<NodeId> {
        self.known.get(name).copied()
    }

    pub(super) fn is_meant(&self, name: &str) -> bool {
        self.meant.contains(&name)
    }
}

/// One file's nodes, and where its problems go.
pub(super) struct Reader<'r, 's> {
    pub(super) files: &'r mut Files<'s>,
    pub(super) file: FileId,
    pub(super) yaml: &'r Yaml<'r>,
    /// Of warnings that are given once for each file: the fields.
    pub(super) told: BTreeSet<&'static str>,
}

impl Reader<'_, '_> {
    pub(super) fn span(&self, id: NodeId) -> Range<usize> {
        self.yaml.node(id).span.clone()
    }

    pub(super) fn add(&mut self, id: NodeId, code: Code, message: impl Into<String>, hint: &str) {
        let place = Place { file: self.file, span: self.span(id) };
        self.files.add(&place, code, message, (!hint.is_empty()).then_some(hint));
    }

    fn wrong_type(&mut self, id: NodeId, name: &str, hint: &str) {
        let found = match &self.yaml.node(id).content {
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
            _ if self.yaml.is_null(id) => "empty",
            _ => "this text",
        };
        // An excerpt shows the first line: that of a mapping is its first field.
        self.add(id, Code::WrongType, format!("`{name}` cannot be {found}"), hint);
    }

    /// The fields of a mapping; `None` if it is none. Unknown fields are reported, and fields that
    /// have no meaning in this mapping. A field that is there twice is an error.
    pub(super) fn fields(&mut self, id: NodeId, table: &Table) -> Option<Fields> {
        let Content::Map(pairs) = &self.yaml.node(id).content else {
            self.wrong_type(id, table.name, &format!("a mapping of {}", table.fields.join(", ")));
            return None;
        };
        let mut fields = Fields::default();
        for (key, value) in pairs {
            let Some(name) = self.yaml.text(*key) else {
                self.wrong_type(*key, "a field's name", "a text");
                continue;
            };
            if let Some(known) = table.fields.iter().find(|known| **known == name) {
                if fields.known.insert(known, *value).is_some() {
                    self.add(*key, Code::Syntax, "duplicate key", "each key once in a mapping");
                }
                continue;
            }
            let elsewhere =
                [&FILE, &DESCRIPTOR, &RATE_LIMIT].into_iter().find(|table| table.fields.contains(&name));
            match elsewhere {
                Some(elsewhere) => {
                    let message = format!("`{name}` of a {} means nothing", table.name);
                    self.add(*key, Code::Ignored, message, &format!("it is a field of a {}", elsewhere.name));
                }
                None => {
                    let meant =
                        if self.files.is_full() { None } else { nearest(name, table.fields.iter().copied()) };
                    let hint = meant.map_or_else(
                        || format!("there are {}", table.fields.join(", ")),
                        |meant| format!("did you mean `{meant}`?"),
                    );
                    fields.meant.extend(meant);
                    let message = format!("unknown field {} of a {}", quoted(name), table.name);
                    self.add(*key, Code::UnknownField, message, &hint);
                }
            }
        }
        Some(fields)
    }

    /// A text; `None` if the field is missing, null or empty, or wrong.
    pub(super) fn text(&mut self, fields: &Fields, name: &'static str) -> Option<Box<str>> {
        let id = fields.get(name)?;
        match self.yaml.text(id) {
            _ if self.yaml.is_null(id) => None,
            Some(text) if text.len() > LONGEST_VALUE => {
                let message = format!("`{name}` has {} bytes", text.len());
                self.add(id, Code::OutOfRange, message, &format!("at most {LONGEST_VALUE}"));
                None
            }
            Some(text) => (!text.is_empty()).then(|| text.into()),
            None => {
                self.wrong_type(id, name, "a text");
                None
            }
        }
    }

    /// `true` or `false`; false if the field is missing or null, `None` if it is wrong.
    pub(super) fn flag(&mut self, fields: &Fields, name: &'static str) -> Option<bool> {
        let Some(id) = fields.get(name) else { return Some(false) };
        let value = match &self.yaml.node(id).content {
            _ if self.yaml.is_null(id) => Some(false),
            Content::Scalar { text, is_plain: true } => scalar::flag(text),
            _ => None,
        };
        if value.is_none() {
            self.wrong_type(id, name, "true or false");
        }
        value
    }

    /// Where the field stands, if it is `true`.
    pub(super) fn is_on(&mut self, fields: &Fields, name: &'static str) -> Option<NodeId> {
        let is_on = self.flag(fields, name)?;
        fields.get(name).filter(|_| is_on)
    }

    /// A number of requests; 0 if the field is missing, null or wrong.
    pub(super) fn number(&mut self, fields: &Fields, name: &'static str) -> u32 {
        let Some(id) = fields.get(name) else { return 0 };
        let hint = format!("a whole number, 0 to {}", u32::MAX);
        match &self.yaml.node(id).content {
            _ if self.yaml.is_null(id) => 0,
            Content::Scalar { text, is_plain: true } => {
                let integer = scalar::integer(text);
                if let Some(Ok(number)) =
                    integer.map(|number| number.and_then(|number| u32::try_from(number).map_err(drop)))
                {
                    return number;
                }
                if integer.is_some() {
                    self.add(id, Code::OutOfRange, format!("`{name}` is {}", quoted(text)), &hint);
                } else {
                    self.wrong_type(id, name, &hint);
                }
                0
            }
            _ => {
                self.wrong_type(id, name, &hint);
                0
            }
        }
    }

    /// The values of a list; none if the field is missing, null or wrong.
    pub(super) fn list(&mut self, fields: &Fields, name: &'static str) -> Vec<NodeId> {
        let Some(id) = fields.get(name) else { return Vec::new() };
        match &self.yaml.node(id).content {
            Content::List(values) => return values.clone(),
            _ if self.yaml.is_null(id) => {}
            _ => self.wrong_type(id, name, "a list: each value behind `- `"),
        }
        Vec::new()
    }

    /// Any mapping as JSON; `None` if the field is missing, null, empty or wrong.
    pub(super) fn object(&mut self, fields: &Fields, name: &'static str) -> Option<Value> {
        let id = fields.get(name)?;
        match &self.yaml.node(id).content {
            Content::Map(pairs) if pairs.is_empty() => None,
            Content::Map(_) => Some(self.json(id)),
            _ if self.yaml.is_null(id) => None,
            _ => {
                self.wrong_type(id, name, "a mapping");
                None
            }
        }
    }

    /// A node as JSON. It is at most 64 levels deep.
    fn json(&mut self, id: NodeId) -> Value {
        let yaml = self.yaml;
        match &yaml.node(id).content {
            Content::List(values) => values.iter().map(|value| self.json(*value)).collect(),
            Content::Map(pairs) => {
                let mut object = Map::new();
                for (key, value) in pairs {
                    let Some(name) = yaml.text(*key) else {
                        self.wrong_type(*key, "a field's name", "a text");
                        continue;
                    };
                    let value = self.json(*value);
                    if object.insert(name.to_owned(), value).is_some() {
                        self.add(*key, Code::Syntax, "duplicate key", "each key once in a mapping");
                    }
                }
                Value::Object(object)
            }
            Content::Scalar { is_plain: true, .. } if yaml.is_null(id) => Value::Null,
            Content::Scalar { text, is_plain: true } => match (scalar::flag(text), scalar::integer(text)) {
                (Some(flag), _) => Value::Bool(flag),
                (_, Some(Ok(number))) => {
                    i64::try_from(number).map_or_else(|_| text.as_ref().into(), Value::from)
                }
                _ => scalar::float(text).map_or_else(|| text.as_ref().into(), Value::from),
            },
            Content::Scalar { text, .. } => text.as_ref().into(),
            Content::Open => Value::Null,
        }
    }
}
