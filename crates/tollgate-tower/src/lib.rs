#![doc = include_str!("../README.md")]

mod decide;
mod error;
mod future;
mod handle;
mod hooks;
mod layer;
mod reconfigure;
mod request_limits;
mod rule;
mod service;
mod telemetry;

pub use error::BuildError;
pub use future::ResponseFuture;
pub use handle::{KeyHandle, RuleHandle};
pub use hooks::RuleDecision;
pub use layer::{Builder, TollgateLayer};
pub use reconfigure::ReconfigureError;
pub use request_limits::RequestLimits;
pub use rule::{MissingKey, Rule};
pub use service::Tollgate;
pub use tollgate_backend::{Backend, BackendFault, BackendReply, OnBackendError};
pub use tollgate_http::{
    AddressError, ClientAddress, GrpcResponder, HeaderStyle, HttpResponder, KeyBuf, KeyBy, LimitState,
    Refusal, RefusalReason, RequestHead, Respond, RuleOutcome,
};
