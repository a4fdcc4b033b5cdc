//! Reads files as a stream of records: which client sent a request, when, at what cost.
//!
//! A module may use those above it in this list, never those below:
//!
//! - pure functions: [`malformed`] (why a line is refused), [`time`] (text to nanoseconds),
//!   [`durations`] (how long requests last), [`key`] (text to a key);
//! - input and output: [`options`], [`error`] (what stops a file), [`batch`] (the records of one
//!   block of lines), [`parts`] (what rules ask of each), [`totals`];
//! - [`lines`] (a block of text, line by line) and [`fields`] (which named field is which part);
//! - one file for each kind of line: [`clf`] with [`extra`] (what follows its fields),
//!   [`delimited`], [`json`], then [`trace`], which is JSON too;
//! - [`detect`]: which parser a file needs;
//! - [`source`] (files, standard input, gzip) and [`blocks`] (whole lines, about 256 KiB at a
//!   time);
//! - [`in_order`] (batches by their numbers) and [`pipeline`] (several parser threads, records in
//!   input order); or [`mod@in_memory`].
//!
//! Every line is a record, ignored (blank, comment, header), or counted as malformed with its
//! number and a reason. No content of a file causes a panic.

mod batch;
mod blocks;
mod clf;
mod delimited;
mod detect;
mod durations;
mod error;
mod extra;
mod fields;
mod in_memory;
mod in_order;
mod json;
mod key;
mod lines;
mod malformed;
mod options;
mod parts;
mod pipeline;
mod source;
#[cfg(test)]
mod testing;
mod time;
mod totals;
mod trace;

pub use batch::Op;
pub(crate) use batch::{Batch, Record};
pub(crate) use durations::{RequestTimes, TimeIs, read as read_duration, unit_text, with_unit};
pub(crate) use fields::cost as read_cost;
pub(crate) use in_memory::parse_in_memory;
pub(crate) use key::{KeyBy, KeyWriter, PrefixLen};
pub(crate) use malformed::Malformed;
pub(crate) use options::{Format, Options};
pub(crate) use parts::{Part, Parts, PartsOfFile, Wanted};
pub(crate) use pipeline::read;
pub(crate) use source::{Progress, Source};
pub(crate) use time::Unit;
pub(crate) use totals::Totals;
