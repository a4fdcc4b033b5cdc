//! The connections to stores, and the limiters of rules.
//!
//! A connection lives as long as rules in force name its store, and a limiter as long as rules name
//! it with the same numbers: a reload leaves both. They are made when the first request needs them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tollgate_rules::{RuleSet, Rules, StoreServer, StoredAnswer, StoredAsk, StoredCharge};

use crate::rules::StoreCounts;
use crate::rules::charge::Charge;
use crate::rules::decide::{WAIT, decide};
use crate::rules::plan::{self, Plan, Plans};
use crate::rules::shadow::{Shadow, ShadowDecision, ShadowHook};
use crate::{Limiter, Redis};

/// The stores of all generations of rules. Clones are the same: parts of a process that decide by
/// the same rules share their connections, leases and remembered refusals.
#[derive(Clone, Default)]
pub struct Stores {
    known: Arc<Mutex<Known>>,
    on_shadow: Option<ShadowHook>,
    runtime: Option<Handle>,
}

#[derive(Default)]
struct Known {
    servers: HashMap<Arc<StoreServer>, Redis>,
    /// By their names in the store: rules have different ones.
    limiters: HashMap<String, (Arc<Plan>, Kept)>,
}

/// A limiter, and the checks in shadow mode that it makes.
#[derive(Clone)]
struct Kept {
    limiter: Limiter,
    shadow: Option<Arc<Shadow>>,
}

/// The stores of one generation of rules.
pub struct RuleStores {
    stores: Stores,
    plans: Plans,
    /// `None`: the store cannot keep these limits.
    limiters: OnceLock<Limiters>,
}

/// For each rule, the limiter of its own limits and those of its tiers.
type Limiters = Box<[Box<[Option<Kept>]>]>;

impl Stores {
    /// Calls `hook` with what each rule in shadow mode says of a request, once its store has
    /// decided: no verdict tells it. On a task of the runtime.
    #[must_use]
    pub fn on_shadow(mut self, hook: impl Fn(&ShadowDecision<'_>) + Send + Sync + 'static) -> Self {
        self.on_shadow = Some(Arc::new(hook));
        self
    }

    /// Drives connections, and what goes on after an answer, on this runtime. By default, on that
    /// of the request that needs them first: where requests come on several runtimes, each of one
    /// thread, that thread's work would delay all.
    #[must_use]
    pub fn on_runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// The stores of these rules. `None`: they name none. Nothing is connected yet.
    #[must_use]
    pub fn of<C>(&self, set: &RuleSet<C>) -> Option<Arc<RuleStores>> {
        let plans = plan::of(set.rules());
        let has_plan = plans.iter().flatten().any(Option::is_some);
        let (stores, limiters) = (self.clone(), OnceLock::new());
        has_plan.then(|| Arc::new(RuleStores { stores, plans, limiters }))
    }

    /// Begins to connect to the stores that these rules name and that are not connected yet. The
    /// future is ready when each was reached, or was not at the first attempt. `None`: there are no
    /// new ones, or there is no Tokio runtime.
    ///
    /// When would I want this? Before the rules come into force: the first request that needs a
    /// store has no more time for it than all others have.
    #[must_use = "nothing is awaited by itself"]
    pub fn open(&self, rules: &Rules) -> Option<impl Future<Output = ()> + Send + use<>> {
        let runtime = self.runtime.clone().or_else(|| Handle::try_current().ok())?;
        let _entered = runtime.enter();
        let plans = plan::of(rules);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new = |plan: &Arc<Plan>| {
            let is_new = !known.servers.contains_key(&plan.server);
            // What is wrong with a store is told when its limiter is built.
            is_new.then(|| known.server(plan).ok()).flatten()
        };
        let new: Vec<Redis> = plans.iter().flatten().flatten().filter_map(new).collect();
        (!new.is_empty()).then_some(async move {
            join_all(new.iter().map(Redis::connected)).await;
        })
    }

    /// Makes the limiters of these plans, and forgets those of other plans.
    fn limiters(&self, plans: &[Box<[Option<Arc<Plan>>]>]) -> Limiters {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *known);
        let mut limiter = |plan: &Option<Arc<Plan>>| {
            let plan = plan.as_ref()?;
            let old = before.limiters.remove(&plan.name).filter(|(old, _)| old == plan);
            if let Some(redis) = before.servers.remove(&plan.server) {
                known.servers.insert(Arc::clone(&plan.server), redis);
            }
            let limiter = match old {
                Some((_, limiter)) => limiter,
                None => known.build(plan)?,
            };
            known.limiters.insert(plan.name.clone(), (Arc::clone(plan), limiter.clone()));
            Some(limiter)
        };
        plans.iter().map(|tiers| tiers.iter().map(&mut limiter).collect()).collect()
    }
}

impl Known {
    /// The plan's store: begins to connect to one that is not known.
    fn server(&mut self, plan: &Plan) -> Result<Redis, crate::BuildError> {
        if let Some(redis) = self.servers.get(&plan.server) {
            return Ok(redis.clone());
        }
        let redis = connect(&plan.server, plan.server.deadline)?;
        self.servers.insert(Arc::clone(&plan.server), redis.clone());
        Ok(redis)
    }

    /// Builds a limiter. The store's own errors are told of each request.
    fn build(&mut self, plan: &Plan) -> Option<Kept> {
        let redis = self.server(plan).inspect_err(|error| tell(plan, error)).ok()?;
        let builder = redis.limiter(&plan.name, plan.quotas.iter().copied());
        let builder = builder.on_failure(plan.on_failure()).deny_cache(plan.deny_cache).mode(plan.mode());
        let limiter = builder.build().inspect_err(|error| tell(plan, error)).ok()?;
        Some(Kept { limiter, shadow: plan.is_shadow.then(|| Arc::new(Shadow::new())) })
    }
}

/// Begins to connect to a server, with this deadline instead of its own. Does not wait for it.
///
/// # Errors
///
/// [`BuildError`](crate::BuildError): the settings are none.
///
/// # Panics
///
/// Outside of a Tokio runtime.
pub fn connect(server: &StoreServer, deadline: Duration) -> Result<Redis, crate::BuildError> {
    let mut builder = Redis::builder(server.address.clone()).deadline(deadline).prefix(&*server.prefix);
    if !server.cluster.is_empty() {
        builder = builder.cluster(server.cluster.iter().cloned());
    }
    if !server.sentinels.is_empty() {
        builder = builder.sentinel(server.sentinels.iter().cloned());
    }
    builder.open()
}

/// Tells why a rule refuses all requests.
fn tell(plan: &Plan, error: &crate::BuildError) {
    let (rule, store) = (&*plan.rule, plan.server.to_string());
    tracing::error!(rule, store, "the store cannot keep the rule, which refuses all requests: {error}");
}

impl RuleStores {
    /// Asks all these stores at once. The answers are in the order of the asks; those of stores
    /// that fail are what the rules' `on_failure` says.
    ///
    /// If the future is dropped, the charges of answers that came are given back. A request on its
    /// way may have been charged, and stays so.
    ///
    /// Rules in shadow mode are answered at once: their checks go on by themselves, and charges
    /// that are given back are those that the checks make.
    ///
    /// **Cost.** A trip for each, at the same time. With no Tokio runtime of its own and outside of
    /// one, nothing is asked, and every answer is that of a store that fails.
    pub async fn ask(&self, asks: Vec<StoredAsk>) -> Vec<StoredAnswer> {
        let Some(runtime) = self.stores.runtime.clone().or_else(|| Handle::try_current().ok()) else {
            tracing::error!("stores are asked on a Tokio runtime only: rules with a store refuse");
            return asks.into_iter().map(refused).collect();
        };
        let limiters = self.limiters.get_or_init(|| {
            let _entered = runtime.enter();
            self.stores.limiters(&self.plans)
        });
        let one = |ask: StoredAsk| {
            let (rule, tier) = (ask.rule(), ask.tier().map_or(0, |tier| tier + 1));
            let limiter = limiters.get(rule).and_then(|tiers| tiers.get(tier)?.as_ref());
            let plan = self.plans.get(rule).and_then(|tiers| tiers.get(tier)?.as_ref());
            let (runtime, hook) = (runtime.clone(), self.stores.on_shadow.as_ref());
            async move {
                match limiter.zip(plan) {
                    Some((Kept { limiter, shadow: Some(shadow) }, plan)) => {
                        shadow.begin(limiter, plan, ask, hook, runtime)
                    }
                    Some((Kept { limiter, shadow: None }, plan)) => {
                        let Ok(said) = decide(limiter, plan, &ask).await else { return refused(ask) };
                        let (said, receipt) = said.split();
                        let charge = receipt.map(|receipt| -> Box<dyn StoredCharge> {
                            Box::new(Charge::new(limiter.clone(), ask.key().into(), receipt, runtime))
                        });
                        ask.answer(said, charge)
                    }
                    None => refused(ask),
                }
            }
        };
        join_all(asks.into_iter().map(one)).await
    }

    /// What the stores of all rules have counted, whichever part of the process asked. Empty until
    /// the first request needs a store.
    #[must_use]
    pub fn counts(&self) -> Vec<StoreCounts> {
        let known = self.stores.known.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |plan: &Arc<Plan>| {
            let (_, kept) = known.limiters.get(&plan.name).filter(|(known, _)| known == plan)?;
            let (rule, tier, store) = (plan.rule.clone(), plan.tier.clone(), plan.server.to_string());
            let mut counts = kept.limiter.counts();
            counts.shadow_dropped = kept.shadow.as_ref().map_or(0, |shadow| shadow.dropped());
            Some(StoreCounts { rule, tier, store, is_shadow: plan.is_shadow, counts })
        };
        self.plans.iter().flatten().flatten().filter_map(counts).collect()
    }
}

/// The answer where no store can be asked.
fn refused(ask: StoredAsk) -> StoredAnswer {
    ask.unavailable(WAIT)
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl fmt::Debug for RuleStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleStores").field("stores", &self.stores).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
