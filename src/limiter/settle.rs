//! What a request really cost, which is known only when it has ended.

use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::limiter::account::Account;
use crate::limiter::as_much::DebitError;
use crate::limiter::time_of::Time;
use crate::receipt::Receipt;

/// What came of a request that was [settled](crate::Account::settle): both are 0 where it cost what
/// was charged.
///
/// To settle is for costs that are known only afterwards, such as tokens of a language model or
/// bytes of an answer. Check an estimate first, so that requests at the same time cannot share a
/// budget.
///
/// The units [left](crate::Receipt::left) on the receipt count as charged: none, where the request
/// was refused, or admitted uncounted. The receipt is spent.
///
/// **Guarantee.** That of [`refund_part`](crate::Account::refund_part) or of
/// [`debit`](crate::Account::debit), whichever it comes to, under the current quota. A debit is of
/// the account's tier, or of the quota that it was lent.
///
/// **Cost.** That of the one or the other.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_day(10_000));
/// let limiter = Limiter::builder(quota).per::<str>().build()?;
/// let alice = limiter.account("alice");
///
/// let estimate = alice.check_n(4_000);
/// assert!(estimate.is_allowed());
/// // ... the model answers with 500 tokens ...
/// assert_eq!(alice.settle(estimate, 500)?.refunded, 3_500);
///
/// let estimate = alice.check_n(4_000);
/// assert!(estimate.is_allowed());
/// // ... and then with 11,000: more than there are ...
/// assert_eq!(alice.settle(estimate, 11_000)?.debited, 7_000);
/// assert!(!alice.check().is_allowed(), "she waits for what she used too much");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// Units given back: as many as were charged too much, or as many of them as a
    /// [refund](crate::Limiter::refund) still can.
    pub refunded: u64,
    /// Units charged on top: as many as were missing, or as many of them as a
    /// [debit](crate::Account::debit) has room for.
    pub debited: u64,
}

impl Settled {
    /// Makes the request of a receipt, which must be the account's, cost so much.
    pub(super) fn by<A: Algorithm, const N: usize, C: Clock, T: Time>(
        account: Account<'_, A, N, C, T>,
        mut receipt: Receipt<N>,
        real: u64,
    ) -> Result<Self, DebitError> {
        if receipt.limiter != account.core.tables.limiter || receipt.fingerprint != account.fingerprint {
            return Err(DebitError::Foreign);
        }
        let (left, mut settled) = (receipt.left(), Self { refunded: 0, debited: 0 });
        if real < left {
            settled.refunded = account.refund_part(&mut receipt, left - real);
        } else if real > left {
            settled.debited = account.debit(real - left)?.cost();
        }
        Ok(settled)
    }
}
