//! The settings of a layer with rules in a file.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, Uri};
use tollgate::{Clock, Timer};
use tollgate_rules::{LiveRules, Rule, StoredAsk, Verdict};
use tollgate_rules_file::{Disk, LiveFile, ReloadError, Watched};

use super::reloads::{ReloadHook, tell};
use super::{RulesError, RulesLayer};
use crate::decide::{Aside, Beside, FileOfRules, Labels, LayerState, ResponseClock, Settings};
use crate::rule::SharedClock;
use crate::{ClientAddress, Refusal, RequestHead, RuleDecision};

/// The settings of a [`RulesLayer`]. Only [`build`](Self::build) reads the file.
///
/// # Examples
///
/// Behind a layer that authenticates, which attaches the user:
///
/// ```no_run
/// use std::net::SocketAddr;
/// use tollgate_tower::RulesLayer;
///
/// #[derive(Clone)]
/// struct User {
///     name: String,
///     plan: &'static str,
/// }
///
/// let limits = RulesLayer::builder("rules.toml", |peer: &SocketAddr| Some(peer.ip()))
///     .label("user", |head| Some(head.extension::<User>()?.name.as_str().into()))
///     .label("plan", |head| Some(head.extension::<User>()?.plan.into()))
///     .on_reload(|reloaded| match reloaded {
///         Ok(generation) => println!("generation {generation} is in force"),
///         Err(error) => eprintln!("the old rules stay in force\n{error}"),
///     })
///     .timer(tokio::time::sleep)
///     .build()?;
/// # Ok::<(), tollgate_tower::RulesError>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct RulesBuilder {
    path: PathBuf,
    settings: Settings,
    on_reload: Option<ReloadHook>,
    clock: Option<SharedClock>,
}

impl RulesBuilder {
    pub(super) fn new(path: PathBuf, peer: ClientAddress) -> Self {
        let settings = Settings::new(peer, Labels::Named(Vec::new()));
        Self { path, settings, on_reload: None, clock: None }
    }

    /// Reads the label of this name, `label.NAME` in the file, from the head of a request. `None`:
    /// the request lacks it. A second closure for a name replaces the first.
    ///
    /// Rules trust labels. Read them from what your own layers attached, never from what a client
    /// can write. `read` may run several times for a request.
    pub fn label(
        mut self,
        name: impl Into<Box<str>>,
        read: impl for<'r> Fn(RequestHead<'r>) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        if let Labels::Named(labels) = &mut self.settings.labels {
            labels.retain(|(other, _)| *other != name);
            labels.push((name, Box::new(read)));
        }
        self
    }

    /// Calls `hook` when the file has changed: with the generation that came into force, or with
    /// the error for which the old rules stay. The thread that watches the file calls it.
    ///
    /// Without a hook an error is an event of the feature `tracing`; it is on standard error if
    /// that feature is off or the process has no subscriber. [`RulesLayer::reload`] calls no hook.
    pub fn on_reload(mut self, hook: impl FnMut(Result<u64, &ReloadError>) + Send + 'static) -> Self {
        self.on_reload = Some(Box::new(hook));
        self
    }

    /// Calls `hook` once for each decision of a rule, shadow rules included, before the request is
    /// served, or waits in a queue.
    pub fn on_decision(mut self, hook: impl Fn(&RuleDecision<'_>) + Send + Sync + 'static) -> Self {
        self.settings.hooks.on_decision = Some(Box::new(hook));
        self
    }

    /// Calls `hook` once for each refused request, with its exact wait: without the jitter that the
    /// file adds.
    pub fn on_limited(mut self, hook: impl Fn(&Refusal<'_>) + Send + Sync + 'static) -> Self {
        self.settings.hooks.on_limited = Some(Box::new(hook));
        self
    }

    /// Calls `hook` once for each request with what all rules say of it together, before the
    /// request is served, or waits in a queue. One that may not wait with its body is refused
    /// although its verdict admits it.
    pub fn on_verdict(
        mut self,
        hook: impl Fn(&Verdict<'_, Arc<dyn Clock + Send + Sync>>) + Send + Sync + 'static,
    ) -> Self {
        self.settings.on_verdict = Some(Box::new(hook));
        self
    }

    /// Calls `hook` with each request and what the rules say of it. If it returns an [`Aside`], the
    /// request is refused, also where the rules admit it: it is charged nothing then, and
    /// [`on_verdict`](Self::on_verdict) is not called.
    pub fn set_aside(
        mut self,
        hook: impl Fn(RequestHead<'_>, &Verdict<'_, Arc<dyn Clock + Send + Sync>>) -> Option<Aside>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.settings.set_aside = Some(Box::new(hook));
        self
    }

    /// Calls `hook` with each request that asks the stores of rules, the rules, and what it asks.
    /// The future that it returns runs at the same time. What that tells is in the request's
    /// extensions when the request is decided, also for [`set_aside`](Self::set_aside).
    pub fn beside_stores(
        mut self,
        hook: impl Fn(RequestHead<'_>, &[Rule], &[StoredAsk]) -> Option<Beside> + Send + Sync + 'static,
    ) -> Self {
        self.settings.beside_stores = Some(Box::new(hook));
        self
    }

    /// Reads from the head of a response what the request really cost. It concerns rules whose cost
    /// is an attribute: what they charged above it comes back, what is missing is charged, over the
    /// limit if need be. `None`: what is charged stays.
    pub fn cost_from(
        mut self,
        read: impl Fn(StatusCode, &HeaderMap) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.settings.cost_from = Some(Box::new(read));
        self
    }

    /// Gives back all that a request was charged whose response carries
    /// [`NotServed`](crate::NotServed): nothing has acted on it. The headers of that response still
    /// tell the numbers of the decision.
    ///
    /// **Cost.** Memory for the charges of each request, until its response is there.
    pub fn gives_back_unserved(mut self) -> Self {
        self.settings.gives_back_unserved = true;
        self
    }

    /// Reads the request target from an extension of the request, for a layer behind a router that
    /// rewrites it: see [`Builder::original_uri`](crate::Builder::original_uri).
    pub fn original_uri<T: Clone + Send + Sync + 'static>(
        mut self,
        uri: impl Fn(&T) -> &Uri + Send + Sync + 'static,
    ) -> Self {
        self.settings.set_original_uri(uri);
        self
    }

    /// The longest wait in a queue of an HTTP/1 request with a body; by default, zero: it is
    /// refused where it would have to wait. The server does not see that its client leaves: see
    /// [`Rule::max_wait_with_body`](crate::Rule::max_wait_with_body).
    pub fn max_wait_with_body(mut self, max_wait: Duration) -> Self {
        self.settings.max_wait_with_body = max_wait;
        self
    }

    /// The clock that all limits read; by default, [`TscClock`](tollgate::TscClock).
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// The timer on which queued requests sleep; by default,
    /// [`ThreadTimer`](tollgate::ThreadTimer), which needs no runtime. The timer of a runtime is
    /// cheaper.
    pub fn timer(mut self, timer: impl Timer + Send + Sync + 'static) -> Self {
        self.settings.set_timer(timer);
        self
    }

    /// The stores of rules that another part of the process asks, too; by default, the layer has
    /// its own. For [`build_over`](Self::build_over): one process is then one node of each store.
    #[cfg(feature = "stores")]
    pub fn stores(mut self, stores: tollgate_redis::rules::Stores) -> Self {
        self.settings.stores = stores;
        self
    }

    /// Reads the file, runs its tests, allocates the tables of its limits, and starts the thread
    /// that watches it.
    ///
    /// # Errors
    ///
    /// [`RulesError`]: the file has mistakes, each with its line.
    pub fn build(mut self) -> Result<RulesLayer, RulesError> {
        let clock = ResponseClock::new(self.clock.take());
        let file = LiveFile::open(&self.path, &Disk, clock.shared())?;
        if file.live().rules().has_stores() && cfg!(not(feature = "stores")) {
            return Err(RulesError::NoStores);
        }
        let mut on_reload = self.on_reload.take();
        let watched = Watched::spawn(file.clone(), &self.path, move |reloaded| {
            tell(reloaded, on_reload.as_mut());
        });
        Ok(self.layer(file, clock, Some(watched.map_err(RulesError::Thread)?)))
    }

    /// Makes a layer over rules that another part of the process reads, and reads again: they are
    /// decided by their own clock, and [`on_reload`](Self::on_reload) is not called. What others
    /// ask of these rules counts in the same limits.
    pub fn build_over(self, live: LiveRules<Arc<dyn Clock + Send + Sync>>) -> RulesLayer {
        let clock = ResponseClock::new(Some(Arc::clone(live.rules().clock())));
        self.layer(live.into(), clock, None)
    }

    fn layer(
        self,
        file: LiveFile<SharedClock>,
        response_clock: ResponseClock,
        watched: Option<Watched>,
    ) -> RulesLayer {
        let Self { path, settings, .. } = self;
        let live = file.live().clone();
        let file = FileOfRules { _watched: watched, file, path };
        RulesLayer(Arc::new(LayerState::new(live, settings, response_clock, Some(file))))
    }
}

impl fmt::Debug for RulesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesBuilder").field("path", &self.path).finish_non_exhaustive()
    }
}
