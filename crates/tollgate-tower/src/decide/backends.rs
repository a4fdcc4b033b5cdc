//! Limits that a store of a program's own decides: see [`Backend`](crate::Backend).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use http::Extensions;
use tollgate_rules::{AnyBackend, AnyReceipt, StoredAnswer, StoredAsk, StoredCharge};

use super::state::LayerState;

/// What a request is told before it is decided anew.
#[derive(Default)]
pub(crate) struct Told {
    pub(super) answers: Vec<StoredAnswer>,
    /// For its extensions.
    pub(crate) extensions: Extensions,
    /// A bit for each rule whose backend has failed, and where this process decides then.
    pub(super) failed: u64,
}

/// What stores will tell.
pub(crate) type Telling = Pin<Box<dyn Future<Output = Told> + Send>>;

/// The charge of a backend.
struct Charge {
    state: Arc<LayerState>,
    rule: usize,
    backend: Arc<AnyBackend>,
    /// A receipt may be `Send` only.
    receipt: Mutex<Option<AnyReceipt>>,
    units: u64,
}

impl StoredCharge for Charge {
    fn give_back(self: Box<Self>) {
        let receipt = self.receipt.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(receipt) = receipt
            && let Err(fault) = self.backend.refund(receipt)
        {
            self.state.report_backend_error(self.rule, &fault);
        }
    }

    fn settle(&mut self, _: u64) -> u64 {
        // A rule with a backend has no `cost_from`.
        self.units
    }
}

/// Asks the backends of rules, all at once. `failed` are the rules whose backends have failed
/// before.
pub(super) fn ask(state: &Arc<LayerState>, asks: Vec<StoredAsk>, failed: u64) -> Telling {
    let asking = asks.into_iter().map(|ask| Box::pin(ask_one(Arc::clone(state), ask)));
    let mut asking: Vec<_> = asking.map(Some).collect();
    let mut told = Told { failed, ..Told::default() };
    Box::pin(poll_fn(move |context| {
        for slot in &mut asking {
            let Some(one) = slot else { continue };
            if let Poll::Ready((answer, has_failed)) = one.as_mut().poll(context) {
                *slot = None;
                told.answers.extend(answer);
                told.failed |= has_failed;
            }
        }
        if asking.iter().all(Option::is_none) {
            return Poll::Ready(std::mem::take(&mut told));
        }
        Poll::Pending
    }))
}

/// Asks the backend of one rule. Returns its answer, and a bit for the rule if the backend has
/// failed and this process decides. Without both, the rule refuses.
async fn ask_one(state: Arc<LayerState>, ask: StoredAsk) -> (Option<StoredAnswer>, u64) {
    let rule = ask.rule();
    let Some(closures) = state.closures(rule) else { return (None, 0) };
    let Some(backend) = &closures.backend else { return (None, 0) };
    let sleep = |deadline| (state.settings.sleep)(deadline);
    match backend.decide(ask.key(), ask.cost(), sleep).await {
        Ok(reply) => {
            let (said, receipt) = reply.split();
            let charge = receipt.map(|receipt| -> Box<dyn StoredCharge> {
                let (state, backend, units) = (Arc::clone(&state), Arc::clone(backend), ask.cost());
                Box::new(Charge { state, rule, backend, receipt: Mutex::new(Some(receipt)), units })
            });
            (Some(ask.answer(said, charge)), 0)
        }
        Err(error) => {
            state.report_backend_error(rule, &*error);
            match closures.passes_failures {
                true => (None, 1 << rule),
                false => (Some(ask.unavailable(None)), 0),
            }
        }
    }
}
