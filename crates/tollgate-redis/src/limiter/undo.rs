//! What gives back and resets.
//!
//! It runs on a task of its own, so a caller that goes away leaves nothing half done: neither the
//! request nor what this process remembers of the key, a refusal and leases, which end with it.

use std::pin::pin;

use redis::Cmd;
use tokio::time::Instant;

use super::{Limiter, push_limits, push_time};
use crate::answer::{Charge, Receipt, StoreCharge};
use crate::quota::Kind;
use crate::{Charged, Failed, FailureKind};

impl Limiter {
    /// Gives back the charge of an admitted request; returns how many units came back. Part of a
    /// unit that time had not won back yet counts as one.
    ///
    /// The rules are those of [`tollgate::Limiter::refund`]: never more than the debt that the
    /// request left, nothing that a later reservation depends on, and of a queue only the newest. A
    /// bucket gives back what the request still costs its key; where many requests of a key come
    /// back out of order it may be less, because the store remembers 15 such refunds.
    /// The log gives back any request that is inside of its window. A reservation gives nothing
    /// back once it has departed. The refund happens once, even if the network sends it twice, and
    /// also if this future is dropped.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check). A refund that may have happened is lost with its receipt.
    pub async fn refund(&self, mut receipt: Receipt) -> Result<u64, Failed> {
        let cost = receipt.cost;
        self.refund_part(&mut receipt, cost).await
    }

    /// [`refund`](Self::refund) of up to `units` of the request only; the receipt keeps the rest.
    ///
    /// # Errors
    ///
    /// As [`refund`](Self::refund), for this part.
    pub async fn refund_part(&self, receipt: &mut Receipt, units: u64) -> Result<u64, Failed> {
        let part = units.min(receipt.cost);
        if receipt.limiter != self.settings.number || part == 0 {
            return Ok(0);
        }
        receipt.cost -= part;
        let charge = match &mut receipt.charge {
            Charge::Store(charge) => charge,
            Charge::Local(local) => return Ok(self.layers.refund_locally(local, part)),
            Charge::Lease(permits) => return Ok(self.put_back(permits, part)),
        };
        let (limiter, mut before) = (self.clone(), charge.clone());
        for (numbers, limit) in before.charges.iter_mut().zip(&self.settings.limits) {
            if limit.kind == Kind::Log {
                // A log's units are numbered, and the newest go first: what the receipt keeps
                // stays.
                numbers[0] = receipt.cost;
            }
        }
        charge.parts += 1;
        for (numbers, limit) in charge.charges.iter_mut().zip(&self.settings.limits) {
            if matches!(limit.kind, Kind::Bucket | Kind::Queue) {
                // The debt after the rest ends earlier: by the part, in grains of the bucket.
                let [p, q, _] = limit.numbers.map(u128::from);
                let end = u128::from(numbers[0]) * p + u128::from(numbers[1]);
                let end = end.saturating_sub(u128::from(part) * q);
                (numbers[0], numbers[1]) = ((end / p) as u64, (end % p) as u64);
            }
        }
        self.on_a_task(async move { limiter.give_back(&before, part).await }).await
    }

    /// Makes a key as good as new, also if this future is dropped. Receipts from before give
    /// nothing back. This process's leases of the key end, also those on their way; the permits
    /// that other processes hold may still be spent until their ttl.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); the key may be reset all the same.
    pub async fn reset(&self, key: impl AsRef<[u8]>) -> Result<(), Failed> {
        let (limiter, key) = (self.clone(), Box::<[u8]>::from(key.as_ref()));
        self.end_leases(&key);
        self.on_a_task(async move {
            let (sent, until) = limiter.begins();
            let names = limiter.names(&key);
            let undone = limiter.layers.trip(sent, pin!(limiter.undo(until, "reset", &names, None))).await;
            limiter.layers.forget(limiter.layers.fingerprint(&key));
            // Those that a trip opened meanwhile, and those of trips that may have come before.
            limiter.end_leases(&key);
            undone.map(drop)
        })
        .await
    }

    /// Begins a refund, on any thread.
    pub(crate) fn begin_refund(&self, receipt: Receipt) {
        let Some(runtime) = &self.runtime else {
            tracing::warn!("a refund is lost: the limiter was built outside of a Tokio runtime");
            return;
        };
        let limiter = self.clone();
        runtime.spawn(async move {
            if let Err(failed) = limiter.refund(receipt).await {
                tracing::warn!(%failed, "a refund is lost");
            }
        });
    }

    async fn on_a_task<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, Failed>> + Send + 'static,
    ) -> Result<T, Failed> {
        let ended = self.shared.store.runtime().spawn(task).await;
        ended.unwrap_or_else(|_| Err(Failed::new(FailureKind::Connection, Charged::Perhaps)))
    }

    async fn give_back(&self, charge: &StoreCharge, units: u64) -> Result<u64, Failed> {
        let tag_end = charge.keys.first().and_then(|key| key.find('}')).unwrap_or(0);
        let tag = charge.keys.first().map_or("", |key| &key[..=tag_end]);
        let (id, part) = (&charge.id, charge.parts);
        // Each part happens once.
        let once = format!("{tag}:{}:{id}-{part}", self.settings.once);
        let refund = Some((charge, units, &*once));
        let (sent, until) = self.begins();
        let undone = self.layers.trip(sent, pin!(self.undo(until, "refund", &charge.keys, refund))).await;
        // Also after a failure: it may have happened.
        self.layers.forget(charge.fingerprint);
        let numbers = undone?;
        Ok(numbers.get(2..).into_iter().flatten().map(|&back| back.max(0).unsigned_abs()).min().unwrap_or(0))
    }

    async fn undo(
        &self,
        until: Instant,
        verb: &'static str,
        keys: &[String],
        refund: Option<(&StoreCharge, u64, &str)>,
    ) -> Result<Vec<i64>, Failed> {
        let (limits, now) = (&self.settings.limits, self.now());
        let body = |command: &mut Cmd| {
            command.arg(keys.len() + usize::from(refund.is_some())).arg(keys);
            if let Some((_, _, once)) = refund {
                command.arg(once);
            }
            command.arg(verb);
            push_time(command, now);
            command.arg(self.slack()).arg(limits.len());
            match refund {
                Some((charge, cost, _)) => command.arg(charge.id.to_string()).arg(charge.at).arg(cost),
                None => command.arg("").arg("").arg(""),
            };
            push_limits(command, limits);
            if let Some((charge, ..)) = refund {
                for numbers in &charge.charges {
                    command.arg(&numbers[..]);
                }
                command.arg(charge.departs);
            }
        };
        self.numbers(until, &self.settings.scripts.undo, body).await
    }
}
