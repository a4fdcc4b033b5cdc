#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod change;
mod decide;
mod error;
#[cfg(feature = "rules")]
mod file;
mod future;
mod handle;
mod hooks;
mod in_flight;
mod layer;
mod queue;
mod request_limits;
mod rule;
mod save;
mod service;
mod telemetry;

pub use body::InFlightBody;
pub use change::ReconfigureError;
#[cfg(feature = "rules")]
pub use decide::AsRulesSay;
pub use decide::{Answers, Aside, Beside, NotServed, RespondBy};
pub use error::BuildError;
#[cfg(feature = "rules")]
pub use file::{RulesBuilder, RulesError, RulesLayer, RulesService};
pub use future::ResponseFuture;
pub use handle::{KeyHandle, RuleHandle};
pub use hooks::RuleDecision;
pub use in_flight::{InFlightFuture, InFlightTollgate, SameBody, WrappedBody};
pub use layer::{Builder, TollgateLayer};
pub use request_limits::RequestLimits;
pub use rule::{Limit, MissingKey, Rule};
pub use service::Tollgate;
pub use tollgate_http::{
    AddressError, ClientAddress, GrpcResponder, HeaderStyle, HttpResponder, KeyBuf, KeyBy, LimitState,
    Refusal, RefusalReason, RequestHead, Respond, RuleOutcome,
};
#[cfg(feature = "rules")]
pub use tollgate_rules::Status;
pub use tollgate_rules::{Backend, BackendFault, NotRestored, OnBackendError, SavedLimits, StoreReply};
#[cfg(feature = "rules")]
pub use tollgate_rules_file::ReloadError;

/// Pages of the repository whose examples use axum beside the engine: they compile and run here.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Front;

    #[doc = include_str!("../../../docs/engine.md")]
    struct Engine;

    #[doc = include_str!("../../../docs/start/library.md")]
    struct StartLibrary;

    #[doc = include_str!("../../../docs/start/middleware.md")]
    struct StartMiddleware;

    #[doc = include_str!("../../../docs/how-to/migrate-library.md")]
    struct MigrateLibrary;

    #[doc = include_str!("../../../docs/how-to/library-recipes.md")]
    struct Recipes;
}
