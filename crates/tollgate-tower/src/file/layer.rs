//! The layer.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate::{Stats, Usage};
use tollgate_rules::Status;
use tollgate_rules_file::{Disk, ReloadError};
use tower_layer::Layer;

use super::reloads::count;
use super::{RulesBuilder, RulesError};
use crate::decide::{AsRulesSay, FileOfRules, LayerSet, LayerState};
use crate::{ClientAddress, InFlightTollgate, Tollgate};

/// Limits the requests to a service by rules in a file, which is read again whenever it changes: a
/// tower layer.
///
/// The file's format, and how rules decide, are those of the crate `tollgate-rules`. The file also
/// says which proxies name clients (`[clients]`), and how refusals are answered (`[answer]`, and
/// `refuse` of a rule).
///
/// A layer, its clones and all services made by them share the limits and the thread that watches
/// the file. The thread ends when the last of them is dropped.
///
/// **Guarantee.** Every enforced rule that concerns a request must admit it, all or nothing, and no
/// request is decided partly by old rules and partly by new ones. A file that is in order is in
/// force within a second of its change. Of one that is not, the old rules stay in force, and
/// [`last_error`](Self::last_error) and [`on_reload`](RulesBuilder::on_reload) tell why. A reload
/// forgets no debt unless a rule says `forget = true`.
///
/// **Cost.** A request that is admitted and needs no more than that allocates nothing and takes no
/// lock. Memory is allocated for one that a queue delays, that a limit of requests in flight
/// counts, or that its response may give back (`charge_if`), and for one that arrives before the
/// inner service is ready. Each thread that serves requests keeps a handle and buffers for the
/// layer.
///
/// # Examples
///
/// ```no_run
/// use std::net::SocketAddr;
/// use axum::{Router, extract::ConnectInfo, routing::get};
/// use tollgate_tower::RulesLayer;
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let peer = |client: &ConnectInfo<SocketAddr>| Some(client.0.ip());
/// let limits = RulesLayer::watch("rules.toml", peer)?;
///
/// let app = Router::new().route("/", get(|| async { "hello" })).layer(limits);
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
/// axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RulesLayer(pub(super) Arc<LayerState>);

/// A service whose requests are limited by rules in a file, made by [`RulesLayer`].
///
/// The bodies of its responses are wrapped: they tell when a request is no longer in flight. The
/// inner service's body must be `From<String>`, for the bodies of refusals.
pub type RulesService<S> = InFlightTollgate<S, AsRulesSay>;

impl RulesLayer {
    /// Makes a layer from a rules file: reads it, runs the tests in it, and watches it from now on.
    ///
    /// `peer` reads the connection's address from an extension of the request: see
    /// [`ClientAddress::connection`]. For labels, hooks and a timer use [`builder`](Self::builder).
    ///
    /// # Errors
    ///
    /// [`RulesError`]: the file has mistakes, each with its line.
    #[doc(alias = "from_rules")]
    pub fn watch<T: Clone + Send + Sync + 'static>(
        path: impl Into<PathBuf>,
        peer: impl Fn(&T) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Result<Self, RulesError> {
        Self::builder(path, peer).build()
    }

    /// Starts a builder for a layer with the rules of a file. Nothing is read yet.
    pub fn builder<T: Clone + Send + Sync + 'static>(
        path: impl Into<PathBuf>,
        peer: impl Fn(&T) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> RulesBuilder {
        RulesBuilder::new(path.into(), ClientAddress::connection(peer))
    }

    /// Tells which rules are in force: their generation, and the hash of their files.
    #[must_use]
    pub fn status(&self) -> Status {
        self.0.live.status()
    }

    /// Tells why the last reload failed; `None` if it did not.
    #[must_use]
    pub fn last_error(&self) -> Option<Arc<ReloadError>> {
        self.file()?.file.last_error()
    }

    /// Reads the file now, as for a signal or an administrator, and puts it in force if it is in
    /// order. Returns the generation in force. Blocks while it reads: the file, its tests, new
    /// limits.
    ///
    /// # Errors
    ///
    /// [`ReloadError`]; the old rules stay in force then.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use tollgate_tower::RulesLayer;
    ///
    /// let name = format!("tollgate-reload-{}.toml", std::process::id());
    /// let path = std::env::temp_dir().join(name);
    /// let limit = |limits: &str| {
    ///     let rule = format!("name = 'all', key = 'everyone', limits = '{limits}'");
    ///     format!("version = 1\nrule = [{{ {rule} }}]")
    /// };
    /// std::fs::write(&path, limit("10/s"))?;
    /// let layer = RulesLayer::watch(&path, |peer: &SocketAddr| Some(peer.ip()))?;
    /// std::fs::write(&path, limit("20/s"))?;
    /// assert_eq!(layer.reload()?, 2);
    ///
    /// std::fs::write(&path, limit("20/month"))?;
    /// let error = layer.reload().unwrap_err();
    /// assert!(error.to_string().contains("\"month\" has no fixed length"));
    /// assert_eq!(layer.status().generation, 2);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload(&self) -> Result<u64, ReloadError> {
        // A layer over rules always has the file that they are read from.
        let Some(FileOfRules { file, path, .. }) = self.file() else { return Ok(self.status().generation) };
        let reloaded = file.reload(path, &Disk);
        count(reloaded.as_ref().copied());
        reloaded
    }

    /// Returns how often keys of a rule came, went, and found its tables full: the sum over its
    /// limits, tiers and bans, since they were built. `None` if no rule in force has this name.
    ///
    /// If `evicted_with_debt`, `shared` or `refused_full` increases, there are more keys in debt
    /// than the rule's `max_keys`, and new keys are not limited alone. With the feature `tracing`
    /// the layer warns once of each such rule.
    ///
    /// **Cost.** It reads all rules' names, and some hundred counters for each limit. No request
    /// waits for it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn show(layer: &tollgate_tower::RulesLayer) {
    /// if let Some(stats) = layer.stats("each") {
    ///     println!("{} requests shared an allowance", stats.shared);
    /// }
    /// if let Some(usage) = layer.usage("each") {
    ///     println!("{} of {} keys are in debt", usage.live_keys, usage.max_keys);
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self, rule: &str) -> Option<Stats> {
        self.of_rule(rule, |set, index| set.stats(index))
    }

    /// Returns how many keys of a rule are in debt, how many there may be, and how much memory its
    /// tables use: the sum over its limits, tiers and bans. A key is counted once in each of them.
    /// `None` if no rule in force has this name.
    ///
    /// **Cost.** It reads all tables of the rule. No request waits for it.
    #[must_use]
    pub fn usage(&self, rule: &str) -> Option<Usage> {
        self.of_rule(rule, |set, index| set.usage(index))
    }

    /// Returns how many requests wait in the queues of a rule now, over all keys. `None` if no rule
    /// in force has this name.
    #[must_use]
    pub fn waiting(&self, rule: &str) -> Option<usize> {
        let state = &self.0;
        self.of_rule(rule, |set, index| Some(state.generation_of(set).telemetry_of(index).waiting()))
    }

    /// Returns what the stores of rules have counted: decisions, failures, and the state of their
    /// breakers. Empty until the first request needs a store.
    #[cfg(feature = "stores")]
    #[must_use]
    pub fn stores(&self) -> Vec<tollgate_redis::rules::StoreCounts> {
        let state = &self.0;
        let generation = state.generation_of(&state.live.rules());
        generation.stores.as_ref().map(|stores| stores.counts()).unwrap_or_default()
    }

    fn file(&self) -> Option<&FileOfRules> {
        self.0.file.as_ref()
    }

    fn of_rule<T>(&self, rule: &str, of: impl FnOnce(&Arc<LayerSet>, usize) -> Option<T>) -> Option<T> {
        let set = self.0.live.rules();
        let index = set.rules().rules.iter().position(|one| *one.name == *rule)?;
        of(&set, index)
    }
}

impl<S> Layer<S> for RulesLayer {
    type Service = RulesService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        InFlightTollgate(Tollgate::new(inner, Arc::clone(&self.0), AsRulesSay))
    }
}

impl fmt::Debug for RulesLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesLayer")
            .field("path", &self.file().map(|file| &file.path))
            .field("rules", &self.0.live)
            .finish_non_exhaustive()
    }
}
