//! The states of the limits of an admitted request, for its handler.

use std::fmt;
use std::sync::Arc;

use tollgate_http::LimitState;

use crate::RuleHandle;
use crate::decide::{LayerState, LimitsLeft};

/// What each rule of a layer that applies to a request has left, in the request's extensions: see
/// [`Builder::attach_limits`](crate::Builder::attach_limits). Shadow rules are not among them.
///
/// If two layers attach it, a handler sees that of the inner layer.
///
/// # Examples
///
/// ```
/// use axum::{Extension, Router, routing::get};
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::{TollgateLayer, RequestLimits, Rule};
///
/// let layer = TollgateLayer::builder()
///     .rule(Rule::new("api", [TokenBucket::new(Rate::per_second(10))]))
///     .attach_limits()
///     .build()?;
/// async fn hello(Extension(limits): Extension<RequestLimits>) -> String {
///     match limits.get("api") {
///         Some(api) => format!("{} of {} left", api.remaining, api.limit),
///         None => String::from("unlimited"),
///     }
/// }
/// let app: Router = Router::new().route("/", get(hello)).layer(layer);
/// # Ok::<(), tollgate_tower::BuildError>(())
/// ```
#[derive(Clone)]
pub struct RequestLimits {
    state: Arc<LayerState>,
    left: LimitsLeft,
}

impl RequestLimits {
    /// What a request leaves of the limits of this layer.
    pub(crate) fn new(state: &Arc<LayerState>, left: LimitsLeft) -> Self {
        Self { state: Arc::clone(state), left }
    }

    /// Returns what the rule with this name has left; of several limits, the one with the least.
    /// `None` if the rule does not apply, or admits the request because its backend failed.
    #[must_use]
    pub fn get(&self, rule: &str) -> Option<LimitState> {
        self.iter().find_map(|(name, limit)| (name == rule).then_some(limit))
    }

    /// Returns the names of the rules that apply, with what each has left, in the order of the
    /// decisions.
    pub fn iter(&self) -> impl Iterator<Item = (&str, LimitState)> {
        self.left.iter()
    }

    /// Returns a handle on a rule of the layer, as
    /// [`TollgateLayer::handle`](crate::TollgateLayer::handle) does.
    #[must_use]
    pub fn handle(&self, rule: &str) -> Option<RuleHandle> {
        RuleHandle::new(&self.state, rule)
    }
}

impl fmt::Debug for RequestLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
