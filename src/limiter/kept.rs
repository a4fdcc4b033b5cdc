//! A kept offer: it borrows nothing, and shows the same numbers.

use std::fmt;

use crate::algorithm::Algorithm;
use crate::limiter::Limiter;
use crate::limiter::part::{Part, read_at};
use crate::outcome::Outcome;
use crate::receipt::Receipt;
use crate::table::DecidedOn;
use crate::time::Timestamp;

/// What one limit said of a request, and what gives back the charge: of an
/// [`Offer`](crate::Offer), as a value that borrows nothing. For lines that are written only when a
/// caller asks for them.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(3))).per::<str>().build()?;
/// let mut offer = limiter.account("alice").offer(2);
/// offer.take();
/// let kept = offer.keep();
/// // ... later ...
/// assert_eq!(limiter.show(&kept).map(|part| part.remaining()), Some(1));
/// assert_eq!(limiter.refund(kept.receipt()), 2);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "what is dropped gives nothing back"]
pub struct Kept {
    pub(super) receipt: Receipt,
    pub(super) cost: u64,
    pub(super) now: Timestamp,
    pub(super) ring: DecidedOn,
    pub(super) outcome: Outcome,
    pub(super) refuses: bool,
}

impl Kept {
    /// What became of the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// What gives back what the request took.
    pub fn receipt(self) -> Receipt {
        self.receipt
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Kept");
        debug.field("outcome", &self.outcome).field("receipt", &self.receipt).finish_non_exhaustive()
    }
}

impl<K: ?Sized, A: Algorithm, const N: usize, C> Limiter<K, A, N, C> {
    /// What the limit said of a request that was [kept](crate::Offer::keep). `None`: another
    /// limiter's, or its quota came with the call.
    #[must_use]
    pub fn show<'d>(&'d self, kept: &Kept) -> Option<Part<'d>> {
        let Kept { receipt, cost, now, ring, outcome, refuses } = kept;
        let Receipt { limiter, by, place, fingerprint, charged: [charged], .. } = receipt;
        let place = usize::from(*place);
        if *limiter != self.core.tables.limiter {
            return None;
        }
        let tier = self.core.tier_of(*by)?;
        let (rule, number) = (&tier.decided_by[place].any, self.core.tables.number(place));
        let (cost, payload) = (*cost, charged.payload);
        let (ring, basis) = read_at(&self.core.tables[place], *fingerprint, *ring, cost);
        let (now, refuses, outcome) = (*now, *refuses, *outcome);
        Some(Part { number, rule, payload, ring, basis, cost, now, refuses, outcome })
    }
}
