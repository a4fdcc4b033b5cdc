#![doc = include_str!("../README.md")]
//!
//! # The rooms
//!
//! Imports go downwards only.
//!
//! | room | what |
//! |------|------|
//! | [`proxy`] | a request, from its head to its answer |
//! | `generation` | the rules in force, with what HTTP needs of them |
//! | [`park`] | requests that are kept for later |
//! | `settings` | what the proxy is started with |
//! | `counts` | the counters of an upstream |

mod counts;
mod generation;
pub mod park;
pub mod proxy;
mod settings;

pub use counts::UpstreamCounts;
pub use generation::{Generation, Generations, ServerClock};
pub use settings::{BadUpstream, ProxySettings, Upstream};
