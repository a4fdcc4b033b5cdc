#![doc = include_str!("../README.md")]

mod decide;
mod error;
mod future;
mod hooks;
mod layer;
mod reconfigure;
mod rule;
mod service;
mod telemetry;

pub use error::BuildError;
pub use future::ResponseFuture;
pub use hooks::RuleDecision;
pub use layer::{Builder, TollgateLayer};
pub use reconfigure::ReconfigureError;
pub use rule::{MissingKey, Rule};
pub use service::Tollgate;
pub use tollgate_backend::{Backend, BackendFault, BackendReply, OnBackendError};
pub use tollgate_http::{
    AddressError, ClientAddress, GrpcResponder, HeaderStyle, HttpResponder, KeyBuf, KeyBy, Refusal,
    RefusalReason, RequestHead, Respond, RuleOutcome,
};
