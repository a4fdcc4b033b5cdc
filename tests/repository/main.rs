//! Tests of the repository: its shape, and the documents that name tests.

mod promises;
mod tidy;
