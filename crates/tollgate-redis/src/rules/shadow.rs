//! Checks of rules in shadow mode: no request waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tollgate_rules::StoreReply;
use tollgate_rules::{Line, StoredAnswer, StoredAsk};

use crate::Limiter;
use crate::rules::charge::Charge;
use crate::rules::decide::{WAIT, decide};
use crate::rules::plan::Plan;

/// The checks of one rule that are on their way at one time. Beyond it they are not made.
const CHECKS: usize = 1_024;

/// What a rule in shadow mode says of a request: see
/// [`Stores::on_shadow`](crate::rules::Stores::on_shadow).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ShadowDecision<'d> {
    /// The rule's name.
    pub rule: &'d str,
    /// What it says. The indices are those of the rules that were in force at the request.
    pub line: Line,
    /// The key.
    pub key: &'d [u8],
}

pub(crate) type ShadowHook = Arc<dyn Fn(&ShadowDecision<'_>) + Send + Sync>;

/// The checks of a rule in shadow mode that have not ended.
#[derive(Debug)]
pub(crate) struct Shadow {
    room: Arc<Semaphore>,
    dropped: AtomicU64,
}

impl Shadow {
    pub(crate) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(CHECKS)), dropped: AtomicU64::new(0) }
    }

    /// Begins to charge the request, and answers at once. A look at the limit asks no store.
    ///
    /// The answer's charge is that of the check once it has ended, so that a ticket may settle it
    /// and give it back.
    pub(crate) fn begin(
        &self,
        limiter: &Limiter,
        plan: &Arc<Plan>,
        ask: StoredAsk,
        hook: Option<&ShadowHook>,
        runtime: Handle,
    ) -> StoredAnswer {
        if ask.is_peek() {
            return ask.pending(None);
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            self.dropped.fetch_add(1, Relaxed);
            return ask.pending(None);
        };
        let (own, plan, asked, hook) = (limiter.clone(), Arc::clone(plan), ask.clone(), hook.cloned());
        let task = runtime.spawn(async move {
            let said = decide(&own, &plan, &asked).await;
            drop(permit);
            let key: Box<[u8]> = asked.key().into();
            let (answer, receipt) = match said.map(StoreReply::split) {
                Ok((said, receipt)) => (asked.answer(said, None), receipt),
                Err(_) => (asked.unavailable(WAIT), None),
            };
            if let Some(hook) = hook {
                hook(&ShadowDecision { rule: &plan.rule, line: answer.line(), key: &key });
            }
            receipt.into_iter().collect()
        });
        let charge = Charge::begun(limiter.clone(), ask.key().into(), ask.cost(), task, runtime);
        ask.pending(Some(Box::new(charge)))
    }

    /// Checks that were not made, because too many had not ended.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}
