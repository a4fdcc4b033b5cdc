//! The rules in force, and who asks them.

mod calls;
mod decider;
mod envoy;
mod envoy_watch;
mod ready;
#[cfg(test)]
mod tests;
mod unserved;

use std::sync::Arc;
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tollgate::{BuildError, Clock as _, Timestamp};
use tollgate_http::UnixZero;
use tollgate_proxy::Generations;
use tollgate_proxy::park::Parks;
use tollgate_redis::rules::{EnvoyStore, StoreCounts, Stores};
use tollgate_rules::{ExchangeError, LiveRules};
use tollgate_rules_file::LiveFile;

use crate::clock::ServerClock;
use crate::metrics::Metrics;
use crate::state::StateReport;
pub(crate) use calls::{CallKey, CallLimiter, Calls, Full, Room, call_builder};
pub(crate) use decider::{Decider, Free};
pub use envoy::EnvoyFilesError;
pub(crate) use envoy::{Envoy, EnvoyFiles};
pub(crate) use envoy_watch::EnvoyWatch;
pub(crate) use ready::ready;
pub(crate) use unserved::unserved;

/// How long the stores of new rules are awaited before the rules come into force. One that is not
/// reached by then is connected later.
const OPENING: Duration = Duration::from_secs(1);

/// How many free deciders are kept. Under load there may be more, which are then dropped.
const FREE: usize = 64;

/// What all listeners share.
pub(crate) struct Core {
    /// The rules file, which is read again.
    pub(crate) file: LiveFile<ServerClock>,
    /// Its rules, in force.
    pub(crate) live: LiveRules<ServerClock>,
    /// The keys of `CL.THROTTLE`.
    pub(crate) calls: Calls,
    /// The files of envoyproxy/ratelimit, if there are any.
    pub(crate) envoy: Option<Envoy>,
    pub(crate) clock: ServerClock,
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the server was told to end: it still serves, but is not ready any more.
    pub(crate) draining: CancellationToken,
    /// What became of the state file.
    pub(crate) state: StateReport,
    /// The Unix time at which the clock showed zero.
    pub(crate) unix_zero: UnixZero,
    /// The generations of the rules, and the stores that they name.
    pub(crate) generations: Arc<Generations>,
    /// Requests that the proxy keeps for later.
    pub(crate) parks: Arc<Parks>,
    free: ArrayQueue<Box<Decider>>,
}

impl Core {
    pub(crate) fn new(
        file: impl Into<LiveFile<ServerClock>>,
        clock: ServerClock,
        max_keys: usize,
        shows_keys: bool,
    ) -> Result<Self, BuildError> {
        let file = file.into();
        let live = file.live().clone();
        let calls = Calls::new(max_keys, Arc::clone(&clock))?;
        let metrics = Arc::new(Metrics::new(live.clone(), Arc::clone(&clock), shows_keys));
        let counts = Arc::clone(&metrics);
        let mut stores = Stores::default().on_shadow(move |decision| counts.decided_in_shadow(decision));
        // Not on that of the thread whose request needs a store first.
        if let Ok(runtime) = Handle::try_current() {
            stores = stores.on_runtime(runtime);
        }
        let generations = Arc::new(Generations::new(live.clone(), stores));
        let (unix_zero, free) = (UnixZero::default(), ArrayQueue::new(FREE));
        let (draining, state) = (CancellationToken::new(), StateReport::default());
        Ok(Self {
            file,
            live,
            calls,
            envoy: None,
            clock,
            draining,
            metrics,
            state,
            unix_zero,
            generations,
            parks: Arc::default(),
            free,
        })
    }

    /// Connects to the stores of the rules in force, and from now on to those of later rules before
    /// they come into force.
    pub(crate) async fn open_stores(&self) {
        let (stores, runtime) = (self.generations.stores.clone(), Handle::current());
        self.live.before_force(move |rules| {
            let Some(opened) = stores.open(rules) else { return };
            let (done, is_done) = std::sync::mpsc::channel();
            runtime.spawn(async move {
                opened.await;
                done.send(())
            });
            let _ = is_done.recv_timeout(OPENING);
        });
        let of_envoy = async {
            if let Some(store) = self.envoy.as_ref().and_then(|envoy| envoy.store.as_ref())
                && let Err(error) = store.connected().await
            {
                tracing::error!(store = store.address(), "the store of --envoy files refuses: {error}");
            }
        };
        let of_rules = async {
            if let Some(opened) = self.generations.stores.open(self.live.rules().rules()) {
                opened.await;
            }
        };
        let _ = tokio::time::timeout(OPENING, async { tokio::join!(of_envoy, of_rules) }).await;
    }

    /// Counts a reload, logs its warnings, and lets go of the rules before it: a decider would keep
    /// them, with their tables, until its next request. One that is in use meanwhile lets go of
    /// them at its end.
    pub(crate) fn reloaded(&self, is_success: bool) {
        self.metrics.reloaded(is_success);
        self.generations.in_force();
        self.metrics.generation();
        while self.free.pop().is_some() {}
        if is_success {
            self.warn_of_rules();
        }
    }

    /// Logs the warnings of the rules in force, as `tollgate rules check` words them.
    pub(crate) fn warn_of_rules(&self) {
        for problem in self.file.warnings() {
            let (code, hint) = (problem.code.as_str(), problem.hint.unwrap_or_default());
            tracing::warn!(code, %hint, "{}:{}: {}", problem.file, problem.line, problem.message);
        }
    }

    /// What the stores of the rules in force, and that of the files of envoyproxy/ratelimit, have
    /// counted.
    pub(crate) fn store_counts(&self) -> Vec<StoreCounts> {
        let generation = self.generations.in_force();
        let mut counts = generation.stores.as_ref().map(|stores| stores.counts()).unwrap_or_default();
        let envoy = self.envoy.as_ref().and_then(|envoy| envoy.store.as_ref());
        counts.extend(envoy.into_iter().flat_map(EnvoyStore::counts));
        counts
    }

    /// Aligns all windows to another Unix time of the clock's zero, as many as can be. Those of
    /// quotas that come with calls are aligned to none.
    pub(crate) fn realign(&self, unix_at_zero: Duration) -> Result<(), ExchangeError> {
        let of_envoy = self.envoy.as_ref().map_or(Ok(()), |envoy| envoy.realign(unix_at_zero));
        self.live.realign(unix_at_zero).and(of_envoy.map_err(ExchangeError::Set))
    }

    /// The time by which the server decides.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A decider that no other task uses, until it is dropped.
    pub(crate) fn decider(&self) -> Free<'_> {
        let decider = self
            .free
            .pop()
            .unwrap_or_else(|| Box::new(Decider::new(self.live.handle(), self.generations.in_force())));
        Free::new(decider, &self.free)
    }
}
