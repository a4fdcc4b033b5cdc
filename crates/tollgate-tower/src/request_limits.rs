//! The states of the limits of an admitted request, for its handler.

use std::fmt;
use std::sync::Arc;

use tollgate_http::LimitState;
use tollgate_rules::Line;

use crate::RuleHandle;
use crate::decide::{Generation, LayerState};

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
    generation: Arc<Generation>,
    /// The indexes of the rules, with the states of their limits.
    limits: Arc<[(usize, LimitState)]>,
}

impl RequestLimits {
    /// What the enforced rules of these lines have left.
    pub(crate) fn of(state: &Arc<LayerState>, generation: &Arc<Generation>, lines: &[Line]) -> Self {
        let enforced = lines.iter().filter(|line| !line.is_shadow);
        let state_of = |line: &Line| Some((line.rule, generation.http.shown(line)?.1));
        let limits = enforced.filter_map(state_of).collect();
        Self { state: Arc::clone(state), generation: Arc::clone(generation), limits }
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
        let rules = &self.generation.http.set().rules().rules;
        self.limits.iter().map(|&(rule, limit)| (&*rules[rule].name, limit))
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
