//! Counters and gauges. No key is ever a label.
//!
//! | file | what |
//! |------|------|
//! | `rule`, `generation` | the counters of a rule, and of the rules in force |
//! | `envoy` | the hits of limits of files of envoyproxy/ratelimit |
//! | `listener` | what listeners decide; `tollgate-net` counts the rest |
//! | `stores` | what the stores of rules have counted |
//! | `tickets` | the counts of tickets |
//! | `distinct` | how many distinct keys there were lately |
//! | `top` | the keys that are refused most |
//! | `page`, `text`, `process` | all of it as Prometheus reads it |
//!
//! The counters are our own, not those of the `metrics` facade: one atomic number for each series
//! is one cache line that all threads write, the exporter's histograms are lists that grow until
//! they are read, and the series of a rule that is gone would stay. Two dependencies less.
//!
//! **Cost.** A decision takes no lock and allocates nothing: for each rule that admits it a hash of
//! the key and two atomic additions. A refusal takes a lock, and never waits for it.

mod distinct;
mod envoy;
mod generation;
mod listener;
mod page;
mod process;
mod rule;
mod stores;
#[cfg(test)]
mod tests;
mod text;
mod tickets;
mod top;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use arc_swap::ArcSwap;
use tollgate::Clock;
use tollgate_net::counts::ListenerCounts;
use tollgate_proxy::UpstreamCounts;
use tollgate_redis::rules::ShadowDecision;
use tollgate_rules::{LiveRules, Verdict};

use crate::clock::{ServerClock, unix_time};
pub(crate) use envoy::{Files as EnvoyFilesShown, mode as envoy_mode};
pub(crate) use generation::{Generation, mode};
use listener::Decisions;
pub(crate) use listener::{Decided, Listener};
pub(crate) use rule::RuleCounts;
pub(crate) use text::hex;
pub(crate) use tickets::TicketCounts;
pub(crate) use top::Refused;

/// How often a task looks for refused input that the log has not told.
const LOOKS: Duration = Duration::from_secs(1);

/// The counters of a server.
pub(crate) struct Metrics {
    live: LiveRules<ServerClock>,
    clock: ServerClock,
    generation: ArcSwap<Generation>,
    /// Held while the counters of new rules are made.
    renewal: Mutex<()>,
    listeners: [Arc<ListenerCounts>; Listener::ALL.len()],
    decisions: [Decisions; Listener::ALL.len()],
    /// Those of checks and reservations, and those of requests in flight.
    pub(crate) tickets: [Arc<TicketCounts>; 2],
    upstreams: OnceLock<Box<[Arc<UpstreamCounts>]>>,
    /// Reloads that succeeded, and that failed.
    reloads: [AtomicU64; 2],
    /// In seconds of Unix time; 0: none since the start.
    reloaded_at: AtomicU64,
    hasher: RandomState,
    shows_keys: bool,
}

impl Metrics {
    /// Counters of these rules. `shows_keys`: the keys that are refused most are kept.
    pub(crate) fn new(live: LiveRules<ServerClock>, clock: ServerClock, shows_keys: bool) -> Self {
        let hasher = RandomState::new();
        let generation = Generation::new(live.rules(), None, &hasher, shows_keys);
        Self {
            generation: ArcSwap::from_pointee(generation),
            renewal: Mutex::default(),
            listeners: Listener::ALL.map(|listener| Arc::new(ListenerCounts::new(listener.name()))),
            decisions: std::array::from_fn(|_| Decisions::new()),
            tickets: Default::default(),
            upstreams: OnceLock::new(),
            reloads: Default::default(),
            reloaded_at: AtomicU64::new(0),
            live,
            clock,
            hasher,
            shows_keys,
        }
    }

    /// Counts a decision by the rules, in which limits of requests in flight were not asked.
    pub(crate) fn decided(&self, listener: Listener, verdict: &Verdict<'_, ServerClock>) {
        self.count(listener, verdict, false);
    }

    /// Counts a decision by the rules, of a request whose end will be told.
    pub(crate) fn acquired(&self, listener: Listener, verdict: &Verdict<'_, ServerClock>) {
        self.count(listener, verdict, true);
    }

    #[inline]
    fn count(&self, listener: Listener, verdict: &Verdict<'_, ServerClock>, asks_in_flight: bool) {
        self.decisions[listener as usize].count(Decided::of(verdict));
        if verdict.is_unmatched() {
            return;
        }
        let generation = self.generation.load();
        if generation.is_of(verdict.rules()) {
            let count = |line: &tollgate_rules::Line, is_charged, key: &[u8], now| {
                generation.counts[line.rule].count(line, is_charged, key, now);
                if !asks_in_flight && generation.limits_in_flight[line.rule] {
                    generation.counts[line.rule].count_unasked();
                }
            };
            each_line(verdict, count);
        } else {
            self.decided_by_others(verdict, asks_in_flight);
        }
    }

    /// Counts a decision by rules that have just come into force, or that no longer are.
    #[cold]
    #[inline(never)]
    fn decided_by_others(&self, verdict: &Verdict<'_, ServerClock>, asks_in_flight: bool) {
        let generation = self.generation();
        let count = |line: &tollgate_rules::Line, is_charged, key: &[u8], now| {
            if let Some(rule) = generation.position(&verdict.rules()[line.rule].name) {
                generation.counts[rule].count(line, is_charged, key, now);
                if !asks_in_flight && generation.limits_in_flight[rule] {
                    generation.counts[rule].count_unasked();
                }
            }
        };
        each_line(verdict, count);
    }

    /// Counts what a rule in shadow mode says, whose store has decided.
    pub(crate) fn decided_in_shadow(&self, decision: &ShadowDecision<'_>) {
        if let Some(counts) = self.generation.load().named(decision.rule) {
            counts.count(&decision.line, true, decision.key, self.now());
        }
    }

    /// The counters of the rules in force.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        let _one_at_a_time = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        let (set, known) = (self.live.rules(), self.generation.load_full());
        if Arc::ptr_eq(&set, &known.set) {
            return known;
        }
        let new = Arc::new(Generation::new(set, Some(&known), &self.hasher, self.shows_keys));
        self.generation.store(Arc::clone(&new));
        new
    }

    /// Counts a decision whose quota came with the call.
    pub(crate) fn decided_call(&self, is_admitted: bool) {
        let decided = if is_admitted { Decided::Allowed } else { Decided::Limited };
        self.decisions[Listener::Resp as usize].count(decided);
    }

    /// Counts a decision of a call by Envoy that has no verdict of the rules: one by files of
    /// envoyproxy/ratelimit, and one that would have to wait.
    pub(crate) fn decided_for_envoy(&self, listener: Listener, decided: Decided) {
        self.decisions[listener as usize].count(decided);
    }

    /// Tells the log of input that was refused, again and again: each kind once a minute at most.
    pub(crate) async fn tell_protocol_errors(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOKS).await;
            self.listeners.iter().for_each(|counts| counts.tell_protocol_errors(self.now()));
        }
    }

    /// The counters of the upstreams, which are told from now on.
    pub(crate) fn tell_upstreams(&self, upstreams: Box<[Arc<UpstreamCounts>]>) {
        // They are told once.
        let _ = self.upstreams.set(upstreams);
    }

    /// The counts of the connections of a listener.
    pub(crate) fn counts(&self, listener: Listener) -> &Arc<ListenerCounts> {
        &self.listeners[listener as usize]
    }

    /// Counts a reload.
    pub(crate) fn reloaded(&self, is_success: bool) {
        self.reloads[usize::from(!is_success)].fetch_add(1, Relaxed);
        if is_success {
            self.reloaded_at.store(unix_time().as_secs(), Relaxed);
        }
    }

    /// The decisions of a listener, and its open connections.
    pub(crate) fn listener(&self, listener: Listener) -> (u64, u64) {
        (self.decisions[listener as usize].sums().iter().sum(), self.counts(listener).connections().0)
    }

    /// The requests that all rules together admitted, and those that they refused.
    pub(crate) fn requests(&self) -> [u64; 2] {
        self.decisions.iter().map(Decisions::sums).fold([0, 0], |[admitted, refused], of| {
            let [allowed, unmatched, others @ ..] = of;
            [admitted + allowed + unmatched, refused + others.iter().sum::<u64>()]
        })
    }

    /// A key as it is shown where keys are not: 12 hex digits of a hash under a secret of this
    /// process.
    pub(crate) fn shown_hash(&self, key: &[u8]) -> String {
        format!("{:012x}", self.hasher.hash_one(key) >> 16)
    }

    pub(crate) fn shows_keys(&self) -> bool {
        self.shows_keys
    }

    /// Now, by the clock of the decisions, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// When the last reload succeeded, in seconds of Unix time: at least when the rules in force
    /// came into force.
    pub(crate) fn reloaded_at(&self) -> u64 {
        let since = self.live.status().since.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.reloaded_at.load(Relaxed).max(since.as_secs())
    }
}

/// Calls `count` with each line of a verdict, whether the request is charged to it, the key, and
/// the time.
#[inline]
fn each_line(verdict: &Verdict<'_, ServerClock>, count: impl Fn(&tollgate_rules::Line, bool, &[u8], u64)) {
    let (is_admitted, now) = (verdict.is_admitted(), verdict.decided_at().as_nanos());
    for (index, line) in verdict.lines().iter().enumerate() {
        count(line, is_admitted || line.is_shadow, verdict.key(index).unwrap_or_default(), now);
    }
}
