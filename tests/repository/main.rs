//! Tests of the repository: its shape, and the documents that name tests.

mod circles;
mod claims;
mod glossary;
mod house;
mod ladder;
mod modules;
mod packages;
mod pages;
mod promises;
mod reader;
mod recipes;
mod shape;
mod tidy;
