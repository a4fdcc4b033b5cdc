//! Tests of the repository: its shape, and the documents that name tests.

mod claims;
mod glossary;
mod packages;
mod pages;
mod promises;
mod recipes;
mod tidy;
