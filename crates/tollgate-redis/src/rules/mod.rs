#![doc = include_str!("README.md")]

mod charge;
mod counts;
mod decide;
#[cfg(feature = "envoy")]
mod envoy;
mod name;
mod plan;
mod shadow;
mod stores;

pub use counts::StoreCounts;
#[cfg(feature = "envoy")]
pub use envoy::EnvoyStore;
pub use shadow::ShadowDecision;
pub use stores::{RuleStores, Stores, connect};
