//! A decision of a rule's store.

use std::time::Duration;

use tollgate::Outcome;
use tollgate_rules::StoreReply;
use tollgate_rules::{StoreFailure, StoredAsk};

use crate::rules::plan::Plan;
use crate::{Failed, Limiter, Receipt};

/// How long a client is to wait that a store without an answer refuses: the longest pause between
/// two probes of the store.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// Asks a store. An error if it does not answer and the rule refuses requests then.
pub(crate) async fn decide(
    limiter: &Limiter,
    plan: &Plan,
    ask: &StoredAsk,
) -> Result<StoreReply<Receipt>, Failed> {
    let result = match ask.is_peek() {
        true => limiter.peek(ask.key(), ask.cost()).await,
        false => limiter.check_n(ask.key(), ask.cost()).await,
    };
    match result {
        Ok(answer) => Ok(answer.into_reply()),
        // A peek asks the store alone.
        Err(_) if plan.on_failure == StoreFailure::Allow => {
            Ok(StoreReply::new(Outcome::Allowed, limiter.limit(), 0, Duration::ZERO))
        }
        Err(failed) => Err(failed),
    }
}
