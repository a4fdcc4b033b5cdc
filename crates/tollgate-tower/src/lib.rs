#![doc = include_str!("../README.md")]

mod answer;
mod backend;
mod change;
mod client;
mod decide;
mod error;
mod future;
mod head;
mod headers;
mod key;
mod layer;
mod meter;
mod rule;
mod service;
mod told;

pub use answer::{Grpc, Http, Reason, Refusal, Respond};
pub use backend::{Backend, OnError, Reply};
pub use change::ChangeError;
pub use client::ClientAddress;
pub use error::BuildError;
pub use future::ResponseFuture;
pub use head::Head;
pub use headers::Style;
pub use key::{KeyBuf, KeyBy};
pub use layer::{Builder, RateLimitLayer};
pub use rule::{Missing, Rule};
pub use service::RateLimit;
pub use told::{Event, Told};
