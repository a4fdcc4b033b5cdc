//! The layer, and how it is described.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tollgate::{Clock, Quota, ThreadTimer, Timer, TscClock};
use tower_layer::Layer;

use crate::decide::{Rules, Sleep};
use crate::headers::Styles;
use crate::rule::{Compiled, SharedClock};
use crate::told::Hooks;
use crate::{BuildError, ClientAddress, Event, Http, KeyBy, RateLimit, Refusal, Rule, Style};

/// Limits the requests to a service: a tower layer.
///
/// Clones, and all services that it makes, share one state. `A` is the [answer](crate::Respond) to refused requests.
///
/// **Cost.** An admitted request is decided where it stands, without a box, an allocation or a lock; what waits, is
/// decided by a backend, or is remembered until its response (see [`Rule::charge_if`]) lives in a boxed future. Header
/// values are cut from a buffer of the thread's own that is used again.
///
/// **Changes at run time.** [`reconfigure`](Self::reconfigure) gives a rule other limits, and keys keep what they owe.
/// Which rules there are is fixed when the layer is built; but `skip`, `when`, `tier` and `cost` are asked for each
/// request, so a switch or a plan that is read there counts at once. A key has a state in each tier, so one that changes
/// tiers begins anew in the other.
///
/// # Examples
///
/// Two lines of an axum server:
///
/// ```no_run
/// use std::net::SocketAddr;
/// use axum::{Router, extract::ConnectInfo, routing::get};
/// use tollgate::{Rate, TokenBucket};
/// use tollgate_tower::RateLimitLayer;
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let limit = TokenBucket::new(Rate::per_second(10)).burst(20);
/// let limit = RateLimitLayer::new(limit, |client: &ConnectInfo<SocketAddr>| Some(client.0.ip()))?;
///
/// let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
/// axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
/// # Ok(())
/// # }
/// ```
pub struct RateLimitLayer<A = Http> {
    rules: Arc<Rules>,
    answer: A,
}

impl RateLimitLayer {
    /// Gives each client address this limit, and refuses what is above it with 429, `Retry-After`, `RateLimit` and
    /// `RateLimit-Policy`.
    ///
    /// `peer` reads the connection's address out of an extension of the request: see [`ClientAddress::connection`], and
    /// [`builder`](Self::builder) for everything else, such as clients behind proxies. Requests without it share one
    /// limit.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting, its value and its range.
    pub fn new<T: Clone + Send + Sync + 'static>(
        limit: impl Into<Quota>,
        peer: impl Fn(&T) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Result<Self, BuildError> {
        let client = KeyBy::client(ClientAddress::connection(peer));
        Self::builder().rule(Rule::new("default", [limit]).key(client)).build()
    }

    /// Begins to describe a layer: without rules, answering in JSON, with the headers of [`Style::Ietf`].
    pub fn builder() -> Builder {
        let clock: fn() -> SharedClock = || Arc::new(TscClock::new());
        Builder {
            rules: Vec::new(),
            styles: Styles::from_iter([Style::Ietf]),
            hooks: Hooks::default(),
            clock: Box::new(clock),
            sleep: sleep_by(ThreadTimer),
            answer: Http::default(),
        }
    }
}

impl<A> RateLimitLayer<A> {
    pub(crate) fn rules(&self) -> &[Compiled] {
        &self.rules.rules
    }
}

impl<S, A: Clone> Layer<S> for RateLimitLayer<A> {
    type Service = RateLimit<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.rules), self.answer.clone())
    }
}

impl<A: Clone> Clone for RateLimitLayer<A> {
    fn clone(&self) -> Self {
        Self { rules: Arc::clone(&self.rules), answer: self.answer.clone() }
    }
}

impl<A> fmt::Debug for RateLimitLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.rules.rules.iter().map(|rule| &*rule.name).collect();
        f.debug_struct("RateLimitLayer").field("rules", &names).finish_non_exhaustive()
    }
}

/// The settings of a [`RateLimitLayer`]. Nothing is judged or reserved before [`build`](Self::build).
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<A = Http> {
    rules: Vec<Rule>,
    styles: Styles,
    hooks: Hooks,
    clock: Box<dyn FnOnce() -> SharedClock + Send>,
    sleep: Sleep,
    answer: A,
}

impl<A> Builder<A> {
    /// Adds a rule, asked after those before it: from one to eight, each of which must admit a request that it concerns.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Which headers a response gets, instead of [`Style::Ietf`]: any number of styles, or `[]`.
    pub fn headers(mut self, styles: impl IntoIterator<Item = Style>) -> Self {
        self.styles = styles.into_iter().collect();
        self
    }

    /// What a refused request is answered: [`Http::problem`], [`Http::text`], [`Grpc`](crate::Grpc), or a closure that
    /// sees the [`Refusal`].
    pub fn answer<R>(self, answer: R) -> Builder<R> {
        let Self { rules, styles, hooks, clock, sleep, .. } = self;
        Builder { rules, styles, hooks, clock, sleep, answer }
    }

    /// Calls `hook` with each rule's decision on each request, shadow rules included: once each, before the request is
    /// served. A request whose client leaves while it waits is not told of.
    pub fn on_decision(mut self, hook: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.on_decision = Some(Box::new(hook));
        self
    }

    /// Calls `hook` with each refused request, once. To write the answer, see [`answer`](Self::answer).
    pub fn on_limited(mut self, hook: impl Fn(&Refusal<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.on_limited = Some(Box::new(hook));
        self
    }

    /// Calls `hook` with the name of the rule and the error each time that a [`Backend`](crate::Backend) fails.
    pub fn on_error(
        mut self,
        hook: impl Fn(&str, &(dyn Error + Send + Sync)) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.on_error = Some(Box::new(hook));
        self
    }

    /// Where the time comes from. By default, [`TscClock`].
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Box::new(move || Arc::new(clock));
        self
    }

    /// What makes a waiting request sleep. By default [`ThreadTimer`], which needs no runtime; a runtime's own is
    /// cheaper.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{LeakyBucket, Rate};
    /// use tollgate_tower::{RateLimitLayer, Rule};
    ///
    /// struct Tokio;
    ///
    /// impl tollgate::Timer for Tokio {
    ///     fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
    ///         tokio::time::sleep(duration)
    ///     }
    /// }
    ///
    /// let layer = RateLimitLayer::builder()
    ///     .rule(Rule::new("paced", [LeakyBucket::queue(Rate::per_second(10)).capacity(30)]))
    ///     .timer(Tokio)
    ///     .build()?;
    /// # Ok::<(), tollgate_tower::BuildError>(())
    /// ```
    pub fn timer(mut self, timer: impl Timer + Send + Sync + 'static) -> Self {
        self.sleep = sleep_by(timer);
        self
    }

    /// Judges the rules, reserves their memory, and starts the clock.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the rule, the setting, its value and its range.
    pub fn build(self) -> Result<RateLimitLayer<A>, BuildError> {
        let Self { rules, styles, hooks, clock, sleep, answer } = self;
        let clock = clock();
        let rules = Rule::compile(rules, &clock)?;
        let may_hold = rules.iter().any(|rule| rule.may_hold());
        Ok(RateLimitLayer { rules: Arc::new(Rules { rules, styles, hooks, clock, sleep, may_hold }), answer })
    }
}

fn sleep_by(timer: impl Timer + Send + Sync + 'static) -> Sleep {
    let timer = Arc::new(timer);
    Box::new(move |duration| {
        let timer = Arc::clone(&timer);
        Box::pin(async move { timer.sleep(duration).await })
    })
}

impl<A> fmt::Debug for Builder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("rules", &self.rules)
            .field("styles", &self.styles)
            .finish_non_exhaustive()
    }
}
