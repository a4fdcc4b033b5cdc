//! The layer and its builder.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

use http::{Response, Uri};
use tollgate::{Clock, Quota, Timer};
use tollgate_http::HeaderStyles;
use tollgate_rules::{LiveRules, Rules};
use tower_layer::Layer;

use crate::decide::{Labels, LayerState, RespondBy, ResponseClock, Settings};
use crate::rule::{SharedClock, origin};
use crate::{
    BuildError, ClientAddress, HeaderStyle, HttpResponder, InFlightTollgate, KeyBy, Refusal, Rule,
    RuleDecision, RuleHandle, SameBody, Tollgate, WrappedBody,
};

/// Limits the requests to a service: a tower layer.
///
/// A layer, its clones and all services made by them share one state. `R` is the
/// [responder](crate::Respond) that answers refused requests, and `B` says whether the bodies of
/// responses keep their type: see [`Builder::build_in_flight`].
///
/// **Cost.** The layer decides an admitted request without an allocation or a lock. A request gets
/// a boxed future if it waits in a queue or if a backend decides it. Header values are written into
/// a reused, thread-local buffer.
///
/// **Changes at run time.** [`reconfigure`](Self::reconfigure) changes the limits of a rule; keys
/// keep their debt. The set of rules is fixed when the layer is built. The closures `skip`, `when`,
/// `tier` and `cost` run for every request, so a flag or a plan that they read takes effect at
/// once. A key has separate state in each tier: when it changes its tier, it starts with a fresh
/// limit.
///
/// # Examples
///
/// Two lines of an axum server:
///
/// ```no_run
/// use std::net::SocketAddr;
/// use axum::{Router, extract::ConnectInfo, routing::get};
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::TollgateLayer;
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let limit = TokenBucket::new(Rate::per_second(10)).burst(20);
/// let peer = |client: &ConnectInfo<SocketAddr>| Some(client.0.ip());
/// let limit = TollgateLayer::new("api", limit, peer)?;
///
/// let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
/// axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
/// # Ok(())
/// # }
/// ```
pub struct TollgateLayer<R = HttpResponder, B = SameBody> {
    state: Arc<LayerState>,
    responder: R,
    body: PhantomData<B>,
}

impl TollgateLayer {
    /// Gives each client address this limit, by one rule of this name, which headers, bodies and
    /// metrics show. A request above the limit is refused with 429, `Retry-After`, `RateLimit` and
    /// `RateLimit-Policy`.
    ///
    /// `peer` reads the connection's address from an extension of the request: see
    /// [`ClientAddress::connection`]. Requests without that extension share one limit, and the
    /// first of them is reported. For all other settings, such as clients behind proxies, use
    /// [`builder`](Self::builder).
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and its range.
    pub fn new<T: Clone + Send + Sync + 'static>(
        name: impl Into<String>,
        limit: impl Into<Quota>,
        peer: impl Fn(&T) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let client = KeyBy::client(ClientAddress::connection(peer));
        Self::builder().rule(Rule::new(name, [limit]).key(client)).build()
    }

    /// Starts a builder without rules, with JSON responses and the headers of
    /// [`HeaderStyle::Ietf`].
    pub fn builder() -> Builder {
        // No key is an attribute of the connection: closures read it.
        let peer = ClientAddress::connection(|_: &()| None);
        let mut settings = Settings::new(peer, Labels::OfRules(Box::default()));
        settings.styles = Some(HeaderStyles::from_iter([HeaderStyle::Ietf]));
        Builder { rules: Vec::new(), settings, clock: None, responder: HttpResponder::default() }
    }
}

impl<R, B> TollgateLayer<R, B> {
    pub(crate) fn state(&self) -> &Arc<LayerState> {
        &self.state
    }

    /// Returns a handle on the limits of the rule with this name. `None` if there is no such rule.
    #[must_use]
    pub fn handle(&self, rule: &str) -> Option<RuleHandle> {
        RuleHandle::new(self.state(), rule)
    }
}

impl<S, R: Clone> Layer<S> for TollgateLayer<R> {
    type Service = Tollgate<S, RespondBy<R>>;

    fn layer(&self, inner: S) -> Self::Service {
        Tollgate::new(inner, Arc::clone(&self.state), RespondBy(self.responder.clone()))
    }
}

impl<S, R: Clone> Layer<S> for TollgateLayer<R, WrappedBody> {
    type Service = InFlightTollgate<S, RespondBy<R>>;

    fn layer(&self, inner: S) -> Self::Service {
        InFlightTollgate(Tollgate::new(inner, Arc::clone(&self.state), RespondBy(self.responder.clone())))
    }
}

impl<R: Clone, B> Clone for TollgateLayer<R, B> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), responder: self.responder.clone(), body: PhantomData }
    }
}

impl<R, B> fmt::Debug for TollgateLayer<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TollgateLayer").field("rules", &self.state.live).finish_non_exhaustive()
    }
}

/// The settings of a [`TollgateLayer`]. Only [`build`](Self::build) validates them and allocates.
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<R = HttpResponder> {
    rules: Vec<Rule>,
    settings: Settings,
    clock: Option<SharedClock>,
    responder: R,
}

impl<R> Builder<R> {
    /// Adds a rule: a layer has one to eight, and every rule that applies to a request must admit
    /// it. Headers, hooks and refusals name the rules in the order in which they were added, those
    /// with a backend last.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Which rate limit headers a response gets, instead of [`HeaderStyle::Ietf`]: any number of
    /// styles; `[]` for none.
    pub fn headers(mut self, styles: impl IntoIterator<Item = HeaderStyle>) -> Self {
        self.settings.styles = Some(styles.into_iter().collect());
        self
    }

    /// Makes the responses to refused requests by a closure. The layer adds `Retry-After` and the
    /// other headers that the response lacks.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Response, StatusCode};
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_tower::{TollgateLayer, Rule};
    ///
    /// let layer = TollgateLayer::builder()
    ///     .rule(Rule::new("api", [TokenBucket::new(Rate::per_second(10))]))
    ///     .answer(|refusal| {
    ///         let mut response = Response::new(format!("slow down on {}", refusal.head().path()));
    ///         *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    ///         response
    ///     })
    ///     .build()?;
    /// # Ok::<(), tollgate_tower::BuildError>(())
    /// ```
    pub fn answer<B, F: Fn(&Refusal<'_>) -> Response<B>>(self, answer: F) -> Builder<F> {
        self.responder(answer)
    }

    /// Makes the responses to refused requests: [`HttpResponder::problem`],
    /// [`HttpResponder::text`], [`GrpcResponder`](crate::GrpcResponder), or another [`Respond`].
    /// For a closure, see [`answer`](Self::answer).
    ///
    /// [`Respond`]: crate::Respond
    pub fn responder<R2>(self, responder: R2) -> Builder<R2> {
        let Self { rules, settings, clock, .. } = self;
        Builder { rules, settings, clock, responder }
    }

    /// Calls `hook` once for each decision of a rule, shadow rules included, before the request is
    /// served: with what this rule says, also if another rule refuses the request.
    pub fn on_decision(mut self, hook: impl Fn(&RuleDecision<'_>) + Send + Sync + 'static) -> Self {
        self.settings.hooks.on_decision = Some(Box::new(hook));
        self
    }

    /// Attaches the states of the limits to each admitted request, as the extension
    /// [`RequestLimits`](crate::RequestLimits), for handlers and for headers of their own.
    ///
    /// **Cost.** Two allocations for each admitted request.
    pub fn attach_limits(mut self) -> Self {
        self.settings.hooks.attach_limits = true;
        self
    }

    /// Calls `hook` once for each refused request. To write the response, see
    /// [`answer`](Self::answer).
    pub fn on_limited(mut self, hook: impl Fn(&Refusal<'_>) + Send + Sync + 'static) -> Self {
        self.settings.hooks.on_limited = Some(Box::new(hook));
        self
    }

    /// Calls `hook` with the rule's name and the error each time a [`Backend`](crate::Backend)
    /// fails: its own error, or a [`BackendFault`](crate::BackendFault).
    pub fn on_backend_error(
        mut self,
        hook: impl Fn(&str, &(dyn Error + Send + Sync + 'static)) + Send + Sync + 'static,
    ) -> Self {
        self.settings.hooks.on_backend_error = Some(Box::new(hook));
        self
    }

    /// Reads the request target from an extension of the request, for a layer behind a router that
    /// rewrites it. Rules, hooks and responders then see the original path. A request without the
    /// extension keeps its own.
    ///
    /// Inside of `Router::nest("/api", ..)`, axum removes `/api` from the path before a layer of
    /// the inner router runs, and keeps the original as the extension
    /// `axum::extract::OriginalUri`. Without this setting a rule for `/api/search` would never
    /// apply there. With the feature `metrics`, such a rule shows as
    /// `tollgate_not_applied_total{rule, mode}`; with the feature `tracing`, as a debug event with
    /// the path that the rule saw.
    ///
    /// # Examples
    ///
    /// ```
    /// use axum::Router;
    /// use axum::extract::OriginalUri;
    /// use axum::routing::get;
    /// use tollgate::{Rate, TokenBucket};
    /// use tollgate_tower::{TollgateLayer, Rule};
    ///
    /// let search = Rule::new("search", [TokenBucket::new(Rate::per_second(5))]);
    /// let limit = TollgateLayer::builder()
    ///     .rule(search.when(|head| head.path() == "/api/search"))
    ///     .original_uri(|original: &OriginalUri| &original.0)
    ///     .build()?;
    /// let api = Router::new().route("/search", get(|| async { "found" })).layer(limit);
    /// let app: Router = Router::new().nest("/api", api);
    /// # Ok::<(), tollgate_tower::BuildError>(())
    /// ```
    pub fn original_uri<T: Clone + Send + Sync + 'static>(
        mut self,
        uri: impl Fn(&T) -> &Uri + Send + Sync + 'static,
    ) -> Self {
        self.settings.set_original_uri(uri);
        self
    }

    /// The clock that all limits read; by default, [`TscClock`](tollgate::TscClock).
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// The timer on which queued requests sleep, and which measures the deadlines of backends; by
    /// default, [`ThreadTimer`](tollgate::ThreadTimer), which needs no runtime. The timer of a
    /// runtime is cheaper.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{LeakyBucket, Rate};
    /// use tollgate_tower::{TollgateLayer, Rule};
    ///
    /// let layer = TollgateLayer::builder()
    ///     .rule(Rule::new("paced", [LeakyBucket::queue(Rate::per_second(10)).capacity(30)]))
    ///     .timer(tokio::time::sleep)
    ///     .build()?;
    /// # Ok::<(), tollgate_tower::BuildError>(())
    /// ```
    pub fn timer(mut self, timer: impl Timer + Send + Sync + 'static) -> Self {
        self.settings.set_timer(timer);
        self
    }

    /// Validates the rules, allocates their tables, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the rule, the setting, its value and its range.
    pub fn build(self) -> Result<TollgateLayer<R>, BuildError> {
        self.build_by(fresh, |error| error)
    }

    /// [`build`](Self::build), where `live` puts the rules in force.
    pub(crate) fn build_by<E>(
        self,
        live: impl FnOnce(Rules, SharedClock) -> Result<LiveRules<SharedClock>, E>,
        fail: impl Fn(BuildError) -> E,
    ) -> Result<TollgateLayer<R>, E> {
        match self.rules.iter().find(|rule| rule.counts_in_flight()) {
            Some(rule) => Err(fail(BuildError::InFlight { rule: rule.name().to_owned() })),
            None => self.build_any(live, fail),
        }
    }

    /// [`build`](Self::build) for a layer with a limit [in flight](crate::Limit::InFlight). Its
    /// responses have an [`InFlightBody`](crate::InFlightBody), which tells when a request is no
    /// longer in flight.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    pub fn build_in_flight(self) -> Result<TollgateLayer<R, WrappedBody>, BuildError> {
        self.build_any(fresh, |error| error)
    }

    /// [`build_in_flight`](Self::build_in_flight), where `live` puts the rules in force.
    pub(crate) fn build_in_flight_by<E>(
        self,
        live: impl FnOnce(Rules, SharedClock) -> Result<LiveRules<SharedClock>, E>,
        fail: impl Fn(BuildError) -> E,
    ) -> Result<TollgateLayer<R, WrappedBody>, E> {
        self.build_any(live, fail)
    }

    fn build_any<B, E>(
        self,
        live: impl FnOnce(Rules, SharedClock) -> Result<LiveRules<SharedClock>, E>,
        fail: impl Fn(BuildError) -> E,
    ) -> Result<TollgateLayer<R, B>, E> {
        let Self { rules, mut settings, clock, responder } = self;
        let response_clock = ResponseClock::new(clock);
        let (rules, closures) = Rule::compile(rules).map_err(fail)?;
        let live = live(rules, response_clock.shared())?;
        settings.labels = Labels::OfRules(closures);
        let state = LayerState::new(
            live,
            settings,
            response_clock,
            #[cfg(feature = "rules")]
            None,
        );
        Ok(TollgateLayer { state: Arc::new(state), responder, body: PhantomData })
    }
}

/// Puts rules in force that have seen no request.
fn fresh(rules: Rules, clock: SharedClock) -> Result<LiveRules<SharedClock>, BuildError> {
    let origin = origin(&rules);
    Ok(LiveRules::new(rules, origin, clock)?)
}

impl<R> fmt::Debug for Builder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("rules", &self.rules)
            .field("styles", &self.settings.styles)
            .finish_non_exhaustive()
    }
}
