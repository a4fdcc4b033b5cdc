#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod blocks;
mod clf;
mod delimited;
mod detect;
mod durations;
mod error;
mod extra;
mod fields;
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

pub use batch::{Batch, Op, Record};
pub use durations::{RequestTimes, TimeIs, read as read_duration};
pub use error::LogError;
pub use fields::cost as read_cost;
pub use key::{BadValue, KeyBy, KeyWriter, PrefixLen};
pub use malformed::Malformed;
pub use options::{Format, Options};
pub use parts::{Part, Parts, Wanted};
pub use pipeline::{read, read_blocks};
pub use source::{Progress, Source};
pub use time::Unit;
pub use totals::{Stopped, Totals};
