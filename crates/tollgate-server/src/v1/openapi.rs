//! Holds the document to the types: every route and every field is in it, and back.

use serde_json::json;
use tollgate_http::HeaderJson;

use super::check::batch;
use super::outcome::{Outcome, write_end};
use super::service::{OPENAPI, Route};
use super::settle::Settled;
use super::{request, settle};
use crate::web::openapi::{Document, body, keys, read_fields, set};

fn named(schema: &str) -> std::collections::BTreeSet<String> {
    Document::read(OPENAPI).fields(schema)
}

#[test]
fn every_route_is_in_the_document_and_back() {
    Document::read(OPENAPI).has_exactly::<Route>();
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
    assert_eq!(read_fields::<settle::Settlement>(), set(&settle::FIELDS));
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
    assert_eq!(named("Problem"), keys(&body(tollgate_net::web::problem_at("/x", "wrong"))));
}
