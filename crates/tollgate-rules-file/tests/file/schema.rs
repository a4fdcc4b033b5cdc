//! The JSON Schema and the parser agree on every example and every mutation of one field.

use serde_json::{Map, Value, json};
use tollgate_rules_file::{Code, Memory, Reading, read, schema};
use toml::de::{DeTable, DeValue};

const COOKBOOK: &str = include_str!("../../examples/cookbook.toml");
const EVERYTHING: &str = include_str!("../../examples/everything.toml");

fn parsed(text: &str) -> Reading {
    let source = Memory::new("rules.toml", text)
        .file("banned.txt", include_str!("../../examples/banned.txt"))
        .file("pro-keys.txt", include_str!("../../examples/pro-keys.txt"))
        .file("rules.d/more.toml", "version = 1")
        .variable("PARTNERS", "acme, initech")
        .variable("REDIS_URL", "redis://10.0.0.7");
    // A directory that is there in every case.
    read("rules.toml", &source)
}

/// A document as JSON. An instant becomes its text.
fn to_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).unwrap().into(),
        DeValue::Float(number) => number.as_str().parse::<f64>().unwrap().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Datetime(instant) => instant.to_string().into(),
        DeValue::Array(values) => values.iter().map(|value| to_json(value.get_ref())).collect(),
        DeValue::Table(table) => table_to_json(table),
    }
}

fn table_to_json(table: &DeTable<'_>) -> Value {
    table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref())))
        .collect::<Map<_, _>>()
        .into()
}

/// JSON as TOML in one line. What looks like an instant becomes one.
fn to_toml(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() > 19 && text.as_bytes()[10] == b'T' => text.clone(),
        Value::Array(values) => format!("[{}]", values.iter().map(to_toml).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let fields = table
                .iter()
                .map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), to_toml(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}

fn to_file(document: &Value) -> String {
    let fields = document.as_object().unwrap().iter();
    fields.map(|(key, value)| format!("{} = {}\n", Value::from(key.as_str()), to_toml(value))).collect()
}

/// What a schema can say.
fn is_structural(code: Code) -> bool {
    use Code::{BadText, MissingField, OutOfRange, UnknownField, WrongType};
    matches!(code, UnknownField | MissingField | WrongType | OutOfRange | BadText)
}

/// Compares the two of one document; `None` if they agree.
fn difference(validator: &jsonschema::Validator, document: &Value) -> Option<String> {
    let reading = parsed(&to_file(document));
    let codes: Vec<_> = reading.problems().iter().map(|problem| problem.code).collect();
    assert!(!codes.contains(&Code::Internal), "{reading}");
    let is_valid = validator.is_valid(document);
    let agree = if is_valid {
        !codes.iter().any(|code| is_structural(*code))
    } else {
        codes.iter().any(|code| is_structural(*code) || *code == Code::BadLimit)
    };
    let error =
        || validator.iter_errors(document).map(|error| error.to_string()).collect::<Vec<_>>().join("; ");
    (!agree).then(|| format!("the schema says {is_valid} ({}), the parser\n{reading}\n", error()))
}

/// Every document with one value changed, one field left out, or one field more.
fn mutations(document: &Value) -> Vec<(String, Value)> {
    let mut pointers = Vec::new();
    collect(document, String::new(), &mut pointers);
    let long = "x".repeat(5_000);
    let others = [
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(1.5),
        json!(1_000_000_000_000_i64),
        json!(true),
        json!(""),
        json!("x"),
        json!("*"),
        json!("@office"),
        json!("/a b"),
        json!("1/month"),
        json!("1w"),
        json!("sha256:00"),
        json!("block"),
        json!("a/*"),
        json!("http://x y"),
        json!("é"),
        json!(long),
        json!([]),
        json!({}),
        json!(["x"]),
        json!({ "x": 1 }),
        json!([[1]]),
    ];
    let mut mutants = Vec::new();
    for pointer in pointers {
        let mut add = |what: String, change: &dyn Fn(&mut Value)| {
            let mut mutant = document.clone();
            change(mutant.pointer_mut(&pointer).expect("a place in the document"));
            mutants.push((format!("{pointer} {what}"), mutant));
        };
        if !pointer.is_empty() {
            for other in &others {
                add(format!("= {other}"), &|place| *place = other.clone());
            }
        }
        if let Some(table) = document.pointer(&pointer).and_then(Value::as_object) {
            add("with a field more".into(), &|place| place["unheard-of"] = 1.into());
            for key in table.keys() {
                add(format!("without {key}"), &|place| drop(place.as_object_mut().unwrap().remove(key)));
                add(format!("with {key}x"), &|place| {
                    let table = place.as_object_mut().unwrap();
                    let value = table.remove(key).unwrap();
                    table.insert(format!("{key}x"), value);
                });
            }
        }
        if document.pointer(&pointer).is_some_and(Value::is_array) {
            add("with 9 more".into(), &|place| {
                let list = place.as_array_mut().unwrap();
                let last = list.last().cloned();
                list.extend(std::iter::repeat_n(last, 9).flatten());
            });
        }
    }
    mutants
}

fn collect(value: &Value, pointer: String, pointers: &mut Vec<String>) {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(table) => {
            table
                .iter()
                .for_each(|(key, value)| collect(value, format!("{pointer}/{}", escaped(key)), pointers));
        }
        Value::Array(values) => {
            values
                .iter()
                .enumerate()
                .for_each(|(n, value)| collect(value, format!("{pointer}/{n}"), pointers));
        }
        _ => {}
    }
    pointers.push(pointer);
}

/// The whole examples, and documents with one rule or test each.
fn documents() -> Vec<Value> {
    let mut documents = Vec::new();
    for text in [COOKBOOK, EVERYTHING] {
        let whole = table_to_json(DeTable::parse(text).unwrap().get_ref());
        let lists = json!({ "office": ["192.0.2.0/24"], "banned": [], "pro": { "file": "pro-keys.txt" },
                            "keys": ["k"], "partners": { "env": "PARTNERS" } });
        for kind in ["rule", "test"] {
            for one in whole[kind].as_array().unwrap() {
                documents.push(json!({ "version": 1, "lists": lists, kind: [one] }));
            }
        }
        let mut rest = whole.clone();
        rest.as_object_mut().unwrap().retain(|key, _| key != "rule" && key != "test");
        documents.extend([whole, rest]);
    }
    documents
}

fn validator() -> jsonschema::Validator {
    jsonschema::options().should_validate_formats(true).build(&schema()).expect("a schema")
}

#[test]
fn the_schema_is_one_and_the_examples_keep_it() {
    assert!(jsonschema::meta::is_valid(&schema()));
    for text in [COOKBOOK, EVERYTHING] {
        let reading = parsed(text);
        assert!(reading.rules().is_some(), "{reading}");
    }
    for document in documents() {
        assert!(validator().is_valid(&document), "{}", to_file(&document));
    }
}

#[test]
fn schema_and_parser_agree_on_every_mutation_of_one_field() {
    let validator = validator();
    let documents = documents();
    let mut count = 0;
    let mut differences = Vec::new();
    // Mutations of a whole cookbook are those of its rules.
    for document in
        documents.iter().filter(|document| document["rule"].as_array().is_none_or(|rules| rules.len() == 1))
    {
        for (what, mutant) in mutations(document) {
            count += 1;
            differences
                .extend(difference(&validator, &mutant).map(|difference| format!("{what}: {difference}")));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {count}\n{}",
        differences.len(),
        differences[..differences.len().min(12)].join("\n")
    );
    assert!(count > 10_000, "{count}");
}

#[test]
fn every_field_is_in_an_example() {
    let schema = schema();
    let mut tables: Vec<&Value> = schema["$defs"].as_object().unwrap().values().collect();
    tables.push(&schema);
    for name in tables.iter().flat_map(|table| table["properties"].as_object().unwrap().keys()) {
        let is_written = |text: &str| {
            [format!("{name} ="), format!("{name}."), format!("[{name}]"), format!("{name}]]")]
                .iter()
                .any(|form| text.contains(form))
        };
        assert!(is_written(EVERYTHING) || is_written(COOKBOOK), "{name}");
    }
}
