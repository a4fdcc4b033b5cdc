//! Random JSON, against a naive reading of it by a tree.

use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};
use tollgate::ManualClock;
use tollgate_rules::{PlainRequest, RuleSet, Scratch};
use tollgate_rules_file::Memory;

use super::*;
use crate::web::{pointer_at, read_json};

const RULES: &str = "version = 1
rule = [
    { name = 'a', key = ['header.a', 'label.a'], limits = 'fixed-window:5/min' },
    { name = 'b', key = 'client', limits = 'fixed-window:6/min', match.path = '/a', missing = 'refuse' },
    { name = 'c', key = 'host', limits = 'fixed-window:7/min', match.method = 'GET' }]";

fn text() -> impl Strategy<Value = Value> {
    prop_oneof!["GET", "/a", "/a?b", "a", "b", "203.0.113.9", "2001:db8::1", "\\PC{0,3}", "[\"\\\\\n~/]{0,3}"]
        .prop_map(Value::from)
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => text(),
        2 => (0_u64..9).prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[aA]|host|cookie", inner), 0..3)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Mostly a request.
fn call() -> impl Strategy<Value = Value> {
    let lines = || prop::collection::vec(("[aA]|host", text()), 0..3);
    let object = |pairs: Vec<(String, Value)>| Value::Object(pairs.into_iter().collect());
    let field = prop_oneof![
        5 => ("method|host|target|client", text()),
        5 => ("headers|labels", lines().prop_map(object)),
        5 => ("cost", (0_u64..4).prop_map(Value::from)),
        1 => ("method|host|target|client|headers|labels|cost|ticket|x", anything()),
    ];
    prop::collection::vec(field, 0..5).prop_map(|pairs| Value::Object(pairs.into_iter().collect()))
}

/// The request and its cost; `None` if the value is none.
fn naive(value: &Value) -> Option<(PlainRequest, u64)> {
    let (mut request, mut cost) = (PlainRequest::default(), 1);
    for (name, value) in value.as_object()? {
        let text = || value.as_str().map(str::to_owned);
        match &**name {
            "method" => request.method = Some(text()?),
            "host" => request.host = Some(text()?),
            "target" => request.target = Some(text()?.into()),
            "client" => request.client = Some(text()?.parse().ok()?),
            "headers" => request.headers = naive_lines(value.as_object()?)?,
            "labels" => request.labels = naive_lines(value.as_object()?)?,
            "cost" => cost = value.as_u64()?,
            "ticket" => drop(value.as_bool()?),
            _ => return None,
        }
    }
    Some((request, cost))
}

fn naive_lines(object: &Map<String, Value>) -> Option<Vec<(String, Vec<u8>)>> {
    let mut lines = Vec::new();
    for (name, value) in object {
        let whole = |number: &Number| number.as_u64().map(|number| number.to_string());
        match value {
            Value::String(text) => lines.push((name.clone(), text.clone().into())),
            Value::Number(number) => lines.push((name.clone(), whole(number)?.into())),
            Value::Array(values) => {
                for value in values {
                    lines.push((name.clone(), value.as_str()?.into()));
                }
            }
            _ => return None,
        }
    }
    Some(lines)
}

fn rules() -> RuleSet<ManualClock> {
    let rules =
        tollgate_rules_file::read("rules.toml", &Memory::new("rules.toml", RULES)).into_rules().unwrap();
    RuleSet::new(rules, ManualClock::new()).unwrap()
}

proptest! {
    #[test]
    fn random_json_is_decided_as_a_naive_reading_of_it(
        calls in prop::collection::vec(prop_oneof![9 => call(), 1 => anything()], 1..20),
        pretty in any::<bool>(),
    ) {
        let (own, naively) = (rules(), rules());
        let (mut scratch, mut other) = (Scratch::default(), Scratch::default());
        for value in calls {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let read = serde_json::from_str::<Call<'_>>(&text);
            let expected = naive(&value);
            prop_assert_eq!(read.is_ok(), expected.is_some(), "{}: {:?}", text, read);
            if let Err(error) = &read {
                let pointer = pointer_at(text.as_bytes(), error.line(), error.column());
                prop_assert!(value.pointer(&pointer).is_some(), "{}: {}", text, pointer);
            }
            let (Ok(call), Some((request, cost))) = (read, expected) else { continue };
            let ask = |cost| tollgate_rules::Ask { cost, ..tollgate_rules::Ask::default() };
            let verdict = own.ask(&&call, ask(call.cost.unwrap_or(1)), &mut scratch);
            let expected = naively.ask(&request, ask(cost), &mut other);
            prop_assert_eq!(verdict.lines(), expected.lines(), "{}", text);
        }
    }

    #[test]
    fn random_bytes_are_read_or_located(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Err(answer) = read_json::<Body<'_>>(&bytes) {
            prop_assert_eq!(answer.status(), 400);
        }
    }
}

#[test]
fn texts_without_escapes_are_borrowed() {
    let text = r#"{"method":"GET","target":"/x","headers":{"a":"b"},"host":"\u0061"}"#;
    let call: Call<'_> = serde_json::from_str(text).unwrap();
    let is_borrowed = |text: &Option<Text<'_>>| matches!(text, Some(Text(Cow::Borrowed(_))));
    assert!(is_borrowed(&call.method) && is_borrowed(&call.target) && !is_borrowed(&call.host));
    let Some(Lines(lines)) = &call.headers else { panic!("there are headers") };
    assert!(matches!(lines[..], [(Text(Cow::Borrowed("a")), Text(Cow::Borrowed("b")))]));
}

#[test]
fn a_request_has_at_most_a_hundred_values() {
    let call = |count: usize| {
        let values: Vec<_> = (0..count).map(|_| "x").collect();
        serde_json::from_value::<Value>(json!({ "headers": { "a": values } })).unwrap().to_string()
    };
    assert!(serde_json::from_str::<Call<'_>>(&call(100)).is_ok());
    assert!(serde_json::from_str::<Call<'_>>(&call(101)).is_err());
}
