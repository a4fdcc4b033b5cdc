//! A decision of a rule's store.

use tollgate_rules::{Ruling, StoreFailure, StoredAsk, StoredReply};

use crate::rules::plan::Plan;
use crate::rules::reply;
use crate::{Limiter, Receipt};

/// Asks a store. Returns what it says, and what gives its charge back.
pub(crate) async fn decide(
    limiter: &Limiter,
    plan: &Plan,
    ask: &StoredAsk,
) -> (StoredReply, Option<Receipt>) {
    let result = match ask.is_peek() {
        true => limiter.peek(ask.key(), ask.cost()).await,
        false => limiter.check_n(ask.key(), ask.cost()).await,
    };
    match result {
        Ok(answer) => (reply::of(&answer), answer.into_receipt()),
        // A peek asks the store alone.
        Err(_) if plan.on_failure == StoreFailure::Allow => {
            let limit = limiter.limit();
            let said =
                StoredReply { ruling: Ruling::Admitted, limit, ..StoredReply::unavailable(reply::WAIT) };
            (StoredReply { retry_after: None, ..said }, None)
        }
        Err(_) => (StoredReply::unavailable(reply::WAIT), None),
    }
}
