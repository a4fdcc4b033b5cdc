//! The receipt of an admitted request: what gives back what the request took.

use std::fmt;

use crate::algorithm::Payload;
use crate::table::Fingerprint;
use crate::time::Timestamp;

/// The most limits that decide a request together: of a limiter by a list of quotas, `N` in
/// [`Limiter`](crate::Limiter)`<K, A, N>`.
pub const MOST_LIMITS: usize = 8;

/// What an admitted request took of one limit, or of each of `N`, and may still give back.
///
/// It borrows nothing and is bound to the limiter that charged it: another limiter, also one that
/// was restored from the same file, gives nothing back by it. It is neither `Copy` nor `Clone`: a
/// copy could be spent twice.
///
/// Nothing comes back by it after a [reset](crate::Account::reset) of its key (or, of many keys,
/// of one in a thousand others), nor after a [change](crate::Limiter::change) of the quota
/// once the key was charged under the new one. Before that, a refund tells how many units the key
/// still owed by the new quota. (Resets are counted in 32 bits: spend a receipt
/// before the limiter has had two thousand million of them.)
///
/// A receipt that is dropped gives nothing back: the request stays charged.
///
/// # Examples
///
/// ```
/// use tollgate::{Limiter, Rate, TokenBucket};
///
/// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(10))).build()?;
/// let receipt = limiter.check_n((), 4).receipt();
/// let task = std::thread::spawn(move || receipt.left()); // it is owned
/// assert_eq!(task.join().expect("it does not panic"), 4);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[must_use = "a receipt that is dropped gives nothing back"]
pub struct Receipt<const N: usize = 1> {
    /// The limiter's number among all of this process.
    pub(crate) limiter: u64,
    /// No later than the time of any of the charges.
    pub(crate) since: Timestamp,
    pub(crate) by: ChargedBy,
    /// Of the first of `charged`: where its limit is in the order in which the limiter charges. 0,
    /// unless it is the receipt of one limit of several.
    pub(crate) place: u8,
    /// The limiter's resets before the request was charged.
    pub(crate) resets: u32,
    /// The key's.
    pub(crate) fingerprint: Fingerprint,
    /// For each limit what it was charged.
    pub(crate) charged: [Charged; N],
}

/// By which quota a request was charged.
#[derive(Clone, Copy)]
pub(crate) enum ChargedBy {
    /// By those of the version of this number, the first of `charged` by this rule of it.
    Version { number: u32, rule: u16 },
    /// By a quota that came with the call, of so many nanoseconds a unit.
    Call { emission: u64 },
}

impl ChargedBy {
    /// The nanoseconds a unit, if the quota came with the call.
    pub(crate) fn emission(self) -> Option<u64> {
        match self {
            Self::Version { .. } => None,
            Self::Call { emission } => Some(emission),
        }
    }
}

/// What one limit was charged.
#[derive(Clone, Copy)]
pub(crate) struct Charged {
    /// The payload right after the charge.
    pub(crate) payload: Payload,
    /// Units that may still come back; 0 when the limit was not charged.
    pub(crate) left: u64,
}

impl<const N: usize> Receipt<N> {
    /// How many units may still be asked back: the request's cost, less the units asked back so
    /// far. 0: it is spent, or the request took nothing.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.charged.iter().map(|charged| charged.left).max().unwrap_or(0)
    }
}

/// The same receipt, among all limits of its limiter.
impl From<Receipt> for Receipt<MOST_LIMITS> {
    fn from(receipt: Receipt) -> Self {
        let Receipt { limiter, since, mut by, place, resets, fingerprint, charged: [own] } = receipt;
        if let ChargedBy::Version { rule, .. } = &mut by {
            *rule -= u16::from(place);
        }
        let mut charged = [Charged { left: 0, ..own }; MOST_LIMITS];
        charged[usize::from(place)] = own;
        Self { limiter, since, by, place: 0, resets, fingerprint, charged }
    }
}

impl<const N: usize> fmt::Debug for Receipt<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("left", &self.left()).finish_non_exhaustive()
    }
}

/// Some of the limits, by the order in which they are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(u8);

impl Set {
    #[inline]
    pub(crate) fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    #[inline]
    pub(crate) fn add_if(&mut self, is_in: bool, index: usize) {
        self.0 |= u8::from(is_in) << index;
    }

    #[inline]
    pub(crate) fn has(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
