//! The JSON Schema of a rules file, out of the table of fields.

use serde_json::{Map, Value, json};

use super::fields::{FILE, Kind, Need, Table};

/// The JSON Schema (draft 2020-12) of a rules file, for editors and other programs.
///
/// It says what can be said of each field alone: a file that it refuses, [`read`](crate::read)
/// refuses, too. What depends on other fields (names, lists, circles), and whether a limit's
/// numbers can be kept, only `read` says.
///
/// # Examples
///
/// ```
/// let schema = tollgate_rules_file::schema();
/// assert_eq!(schema["properties"]["version"]["maximum"], 1);
/// ```
#[must_use]
pub fn schema() -> Value {
    let mut definitions = Map::new();
    let mut schema = table(&FILE, &mut definitions);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Tollgate rules".into();
    schema["$defs"] = definitions.into();
    schema
}

fn table(table: &'static Table, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for field in table.fields {
        let mut value = kind(&field.kind, definitions);
        let doc = match field.need {
            Need::Required => field.doc.to_owned(),
            Need::Optional(default) => format!("{} Default: {default}.", field.doc),
        };
        value["description"] = doc.into();
        properties.insert(field.name.into(), value);
    }
    let required = table.fields.iter().filter(|field| field.need == Need::Required);
    let required: Vec<_> = required.map(|field| field.name).collect();
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    });
    let (least, most) = table.count;
    if least > 0 {
        schema["minProperties"] = least.into();
    }
    if most < usize::MAX {
        schema["maxProperties"] = most.into();
    }
    schema
}

fn kind(of: &'static Kind, definitions: &mut Map<String, Value>) -> Value {
    match of {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Text(text) => {
            let mut schema = json!({ "type": "string" });
            if let Some(pattern) = text.pattern() {
                schema["pattern"] = pattern.into();
            }
            if let Some(longest) = text.longest() {
                schema["maxLength"] = longest.into();
            }
            schema
        }
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::DateTime => json!({ "type": "string", "format": "date-time" }),
        Kind::Table(inner) => {
            let name = inner.name.replace(' ', "-");
            if !definitions.contains_key(&name) {
                // Taken before its fields are: a table may contain itself.
                definitions.insert(name.clone(), Value::Null);
                let schema = table(inner, definitions);
                definitions.insert(name.clone(), schema);
            }
            json!({ "$ref": format!("#/$defs/{name}") })
        }
        Kind::Map { key, of, least } => {
            let mut names = json!({});
            if let Some(pattern) = key.pattern() {
                names["pattern"] = pattern.into();
            }
            if let Some(longest) = key.longest() {
                names["maxLength"] = longest.into();
            }
            let values = kind(of, definitions);
            json!({ "type": "object", "propertyNames": names, "additionalProperties": values, "minProperties": least })
        }
        Kind::List { of, least, most } => {
            let items = kind(of, definitions);
            json!({ "type": "array", "items": items, "minItems": least, "maxItems": most })
        }
        Kind::Either(kinds) => {
            let any: Vec<_> = kinds.iter().map(|of| kind(of, definitions)).collect();
            json!({ "anyOf": any })
        }
    }
}
