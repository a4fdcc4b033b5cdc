//! Holds the document to the types: every route and every field is in it, and back.

use tollgate_net::web::problem_at;

use super::keys::{Described, Order};
use super::routes::{OPENAPI, Route};
use crate::web::openapi::{Document, body, keys, read_fields};

#[test]
fn every_route_is_in_the_document_and_back() {
    Document::read(OPENAPI).has_exactly::<Route>();
}

#[test]
fn every_field_of_an_order_is_in_the_document() {
    let document = Document::read(OPENAPI);
    assert_eq!(document.fields("Order"), read_fields::<Order>());
    assert_eq!(document.fields("Described"), read_fields::<Described>());
    assert_eq!(document.fields("Problem"), keys(&body(problem_at("/do", "wrong"))));
}
