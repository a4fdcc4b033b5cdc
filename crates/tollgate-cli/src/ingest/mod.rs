//! From files to a stream of records: which client asked, when, at what cost.
//!
//! A ladder; a rung may use the rungs above it in this list, never below:
//!
//! - pure rules: [`malformed`] (why a line is refused), [`time`] (text to nanoseconds), [`key`] (text to a
//!   key);
//! - what is asked and what is answered: [`options`], [`error`] (what stops a file), [`batch`] (the records
//!   of one block of lines), [`totals`];
//! - [`lines`] (a block of text, line by line) and [`fields`] (which named field plays which part);
//! - one file per kind of line: [`clf`], [`delimited`], [`json`], then [`trace`], which is JSON too;
//! - [`detect`]: which of them a file needs;
//! - [`source`] (files, standard input, gzip) and [`blocks`] (whole lines, about 256 KiB at a time);
//! - [`in_order`] (batches by their numbers) and [`pipeline`]: parser threads on one side, the caller on the
//!   other, records in input order; or [`text`], for what is in memory.
//!
//! Whatever the bytes are, a line is a record, ignored (blank, comment, header), or counted as malformed
//! with its number and a reason. Nothing here panics because of what a file holds.

mod batch;
mod blocks;
mod clf;
mod delimited;
mod detect;
mod error;
mod fields;
mod in_order;
mod json;
mod key;
mod lines;
mod malformed;
mod options;
mod pipeline;
mod source;
#[cfg(test)]
mod testing;
mod text;
mod time;
mod totals;
mod trace;

pub use batch::Op;
pub(crate) use batch::{Batch, Record};
pub(crate) use key::{KeyBy, Keyer, PrefixLen};
pub(crate) use malformed::Malformed;
pub(crate) use options::{Format, Options};
pub(crate) use pipeline::read;
pub(crate) use source::{Progress, Source};
pub(crate) use text::text;
pub(crate) use totals::Totals;
