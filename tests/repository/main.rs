//! Tests of the repository: its shape, and the documents that name tests.

mod glossary;
mod promises;
mod tidy;
