//! What a key inherits when its quota changes.

use crate::algorithm::change::Unit;
use crate::error::BuildError;

/// The policy for the state of a key when its quota [changes](crate::Limiter::change) at run
/// time.
///
/// *Available* is the cost that the limiter would admit for the key at the change: tokens in the
/// bucket, room in the window. A key that the limiter has not seen, or that is not in debt, had all
/// of the old burst (or limit) available. Every policy rounds the available amount down to a
/// [grain](crate::Resolution::grains) of the new quota.
///
/// A bucket that a [reservation](crate::Account::reserve) has booked ahead has less than nothing
/// available. It keeps that debt under every policy except `Reset`: as far as the new quota pays it
/// within the time that its words have room for, which is the rest of the ten years at least. The
/// part that would be paid later is forgotten, also by the next change.
///
/// # Examples
///
/// ```
/// use tollgate::{Inherit, Limiter, ManualClock, Rate, TokenBucket};
///
/// let carried = |inherit| {
///     let quota = TokenBucket::new(Rate::per_second(10));
///     let limiter = Limiter::builder(quota).clock(ManualClock::new()).build()?;
///     assert!(limiter.check_n((), 4).is_allowed()); // 6 of 10 are left
///     limiter.change().to(TokenBucket::new(Rate::per_second(100))).inherit(inherit).apply()?;
///     Ok::<u64, tollgate::BuildError>(limiter.account(()).at(limiter.now()).peek_n(0).remaining())
/// };
/// assert_eq!(carried(Inherit::AsIs)?, 6);
/// assert_eq!(carried(Inherit::Proportional)?, 60);
/// assert_eq!(carried(Inherit::Additive)?, 96);
/// assert_eq!(carried(Inherit::Reset)?, 100);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Inherit {
    /// The available amount stays, up to the new burst: the change itself makes nothing more
    /// available.
    AsIs,
    /// The available amount is scaled by the new burst over the old one: a half full bucket stays
    /// half full.
    Proportional,
    /// The *debt* stays, up to the new burst: the available amount changes by the difference of the
    /// bursts, but not below zero. (Sliding windows and logs keep all debt.)
    Additive,
    /// All debt is forgiven: everything is available.
    Reset,
}

impl Transition<'_> {
    /// `Ok` when the debt stays. Then words that count the same things under both quotas may stay
    /// unchanged.
    pub(crate) fn keeps(&self, limits: impl Iterator<Item = (u64, u64)>) -> Result<(), BuildError> {
        let keeps = |(&inherit, (old, new))| {
            inherit == Inherit::Additive || (old == new && inherit != Inherit::Reset)
        };
        if self.inherits.iter().zip(limits).all(keeps) {
            Ok(())
        } else {
            Err(BuildError::CannotInherit { field: "inherit" })
        }
    }
}

/// A change of the quota, as the rules of the new version receive it.
#[derive(Clone, Copy, Debug)]
pub struct Transition<'c> {
    /// What each tier inherits.
    pub(crate) inherits: &'c [Inherit],
    /// The instant of the change on the clock of the limiter.
    pub(crate) since: u64,
    /// The horizon of the previous version, in nanoseconds: see `table::validity`.
    pub(crate) until: u64,
}

/// The change of debts in one tier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) inherit: Inherit,
    pub(crate) old: Unit,
    pub(crate) new: Unit,
}

impl Step {
    /// The debt after the change of a key that had `debt` before it, rounded up, at most
    /// `u64::MAX`. It keeps the order of debts: a larger one never becomes the smaller one.
    pub(crate) fn of(self, debt: u64) -> u64 {
        let Self { inherit, old, new } = self;
        let wide = u128::from;
        // The debt at the new price, when a token keeps its worth.
        let same = || (wide(debt) * wide(new.price)).div_ceil(wide(old.price));
        let (grows, shrinks) = (new.burst.saturating_sub(old.burst), old.burst.saturating_sub(new.burst));
        // The debt in whole steps, and the part of its last step that is paid.
        let whole = wide(debt).next_multiple_of(wide(old.step));
        let paid = (whole - wide(debt)) * wide(new.price) / wide(old.price);
        let owed = match inherit {
            Inherit::AsIs => {
                (same() + wide(grows) * wide(new.price)).saturating_sub(wide(shrinks) * wide(new.price))
            }
            Inherit::Proportional => {
                let owed = (whole * wide(new.price * new.burst)).div_ceil(wide(old.price * old.burst));
                owed.next_multiple_of(wide(new.step)).saturating_sub(paid)
            }
            // Debt beyond a full bucket was booked ahead: it stays on top of an empty bucket.
            Inherit::Additive => {
                let same = (whole * wide(new.price)).div_ceil(wide(old.price));
                let booked = same.saturating_sub(wide(old.empty_debt(new.price)));
                let most = wide(new.price) * wide(new.burst);
                ((same - booked).min(most) + booked).saturating_sub(paid)
            }
            Inherit::Reset => 0,
        };
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

impl Unit {
    /// The debt of an empty bucket at another price.
    fn empty_debt(self, price: u64) -> u64 {
        self.burst.saturating_mul(price)
    }
}
