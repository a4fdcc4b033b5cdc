#![doc = include_str!("../README.md")]

mod backend;
mod client;
mod decide;
mod error;
mod future;
mod headers;
mod hooks;
mod key;
mod layer;
mod reconfigure;
mod request_head;
mod respond;
mod rule;
mod service;
mod telemetry;

pub use backend::{Backend, BackendReply, OnBackendError};
pub use client::ClientAddress;
pub use error::BuildError;
pub use future::ResponseFuture;
pub use headers::HeaderStyle;
pub use hooks::{RuleDecision, RuleOutcome};
pub use key::{KeyBuf, KeyBy};
pub use layer::{Builder, RateLimitLayer};
pub use reconfigure::ReconfigureError;
pub use request_head::RequestHead;
pub use respond::{GrpcResponder, HttpResponder, Refusal, RefusalReason, Respond};
pub use rule::{MissingKey, Rule};
pub use service::RateLimit;
