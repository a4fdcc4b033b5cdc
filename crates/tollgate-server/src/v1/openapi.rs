//! Holds the document to the types: every route and every field is in it, and back.

use std::collections::BTreeSet;
use std::task::{Context, Poll, Waker};

use serde_json::{Value, json};
use tollgate_http::HeaderJson;

use super::check::batch;
use super::outcome::{Outcome, write_end};
use super::service::{OPENAPI, ROUTES};
use super::settle::Settled;
use super::{request, settle};
use crate::web::Answer;

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// The names of the properties of a schema, and of those among which it lets choose.
fn properties(document: &Value, schema: &Value) -> BTreeSet<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return properties(document, &document["components"]["schemas"][name]);
    }
    let own = schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys().cloned());
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    own.chain(choices.flat_map(|choice| properties(document, choice))).collect()
}

fn named(name: &str) -> BTreeSet<String> {
    let document = document();
    properties(&document, &document["components"]["schemas"][name])
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_route_is_in_the_document_and_back() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(
        paths.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        ROUTES.iter().map(|route| route.0).collect()
    );
    for (path, route) in ROUTES {
        let documented = keys(&paths[path]);
        for method in route.methods() {
            // HEAD is what GET answers, without its body.
            let method = method.as_str().to_lowercase();
            assert!(method == "head" || documented.contains(&method), "{path}: {method}");
        }
        let is_served = |method: &String| {
            route.methods().is_empty()
                || route.methods().iter().any(|own| own.as_str().eq_ignore_ascii_case(method))
        };
        assert!(documented.iter().all(is_served), "{path}: {documented:?}");
    }
}

#[test]
fn every_field_that_is_read_is_in_the_document() {
    for (schema, fields) in [
        ("Body", set(&request::FIELDS)),
        ("PeekBody", set(&request::FIELDS)),
        ("Request", set(&request::FIELDS[..request::OF_A_REQUEST])),
        ("Batch", set(&request::FIELDS[request::OF_A_REQUEST..])),
        ("SettleBody", set(&settle::FIELDS)),
        ("ReleaseBody", set(&settle::FIELDS)),
    ] {
        assert_eq!(named(schema), fields, "{schema}");
    }
    // Those of a settlement, in the reader's own words.
    let Err(error) = serde_json::from_str::<settle::Settlement>("{\"?\":0}") else { panic!("it is unknown") };
    let told: Vec<_> = error.to_string().split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert_eq!(told, settle::FIELDS);
}

#[test]
fn every_field_that_is_written_is_in_the_document() {
    let mut outcome = Outcome::without_numbers("admitted", 1);
    outcome.rule = Some("each");
    (outcome.limit, outcome.remaining, outcome.not_before) = (Some(1), Some(1), Some(1.0));
    (outcome.retry_after, outcome.reset_after) = (Some(outcome.delay), Some(outcome.delay));
    let mut json = Vec::new();
    outcome.write(&HeaderJson::default(), &mut json);
    write_end("0".repeat(32).parse().ok(), &mut json);
    assert_eq!(named("Outcome"), keys(&serde_json::from_slice(&json).unwrap()));
    assert_eq!(named("Results"), keys(&body(batch(true, 0..0, |_, _| {}))));
    assert_eq!(named("Settled"), keys(&json!(Settled { settled: true, charged: Some(1) })));
    assert_eq!(named("Problem"), keys(&body(crate::web::problem_at("/x", "wrong"))));
}

/// The JSON of an answer.
fn body(answer: Answer) -> Value {
    let mut body = std::pin::pin!(http_body_util::BodyExt::collect(answer.into_body()));
    let Poll::Ready(Ok(body)) = body.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the body is complete")
    };
    serde_json::from_slice(&body.to_bytes()).unwrap()
}
