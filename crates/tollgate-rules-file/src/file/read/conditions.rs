//! Conditions of rules, tiers and cases.

use toml::de::{DeTable, DeValue};

use super::{Reader, Value, each, lists, tables};
use crate::file::text::{Text, attribute, value};
use tollgate_rules::{Attribute, Condition, Conditions, Values};

impl Reader<'_, '_> {
    /// The conditions of a field: a table, or a list of tables.
    pub(super) fn conditions(&mut self, table: &DeTable<'_>, name: &str) -> Vec<Conditions> {
        tables(table, name).map(|(table, _)| self.all(table)).collect()
    }

    fn all(&mut self, table: &DeTable<'_>) -> Conditions {
        let mut conditions = Vec::new();
        for (key, found) in table {
            let plain = match &**key.get_ref() {
                "method" => Some((Attribute::Method, Text::Method)),
                "host" => Some((Attribute::Host, Text::Host)),
                "path" => Some((Attribute::Path, Text::Path)),
                "client" => Some((Attribute::Client, Text::Client)),
                "domain" => Some((Attribute::Domain, Text::Value)),
                _ => None,
            };
            if let Some((attribute, kind)) = plain {
                conditions.push(Condition { attribute, values: self.values(found, kind) });
            } else if let DeValue::Table(named) = found.get_ref() {
                for (name, found) in named {
                    let attribute = attribute::named(key.get_ref(), name.get_ref());
                    let values = self.values(found, Text::Value);
                    conditions.extend(attribute.map(|attribute| Condition { attribute, values }));
                }
            }
        }
        Conditions(conditions)
    }

    fn values(&mut self, found: &Value<'_>, kind: Text) -> Values {
        let mut values = Values::default();
        for found in each(found) {
            let Some(text) = found.get_ref().as_str() else { continue };
            if let Some(list) = text.strip_prefix('@') {
                self.list(list, kind, found.span(), &mut values);
            } else if value::check(kind, text).is_ok() && self.counts(1, found.span()) {
                lists::add(kind, text, &mut values);
            }
        }
        values
    }
}
