#![doc = include_str!("../README.md")]

mod charge;
mod counts;
mod name;
mod plan;
mod reply;
mod stores;

pub use counts::StoreCounts;
pub use stores::{RuleStores, Stores};
