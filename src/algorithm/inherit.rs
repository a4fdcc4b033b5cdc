//! What a key inherits over a change of its quota, without anybody touching the key.
//!
//! The payloads of a version of the quota lie in a range of their own, above those of the versions before: the word
//! itself tells under which one it was written. A rule reads an older payload by *converting* it: what was owed at the
//! moment of the change, in the older rule's terms, becomes what is owed then in its own, and runs out by its own clock
//! from there.
//!
//! ```text
//!   0                          floor                       floor                    2^62
//!   |  first version's payloads |  second version's         |  third version's       |
//!                               ^                           ^
//!                               the second version's clock  the third's starts here at its change
//!                               starts here at the change
//! ```

use std::sync::Arc;

use crate::algorithm::{Moment, Rule};
use crate::error::BuildError;

/// What becomes of a key's state when its quota changes at run time: see [`Limiter::reconfigure`](crate::Limiter::reconfigure).
///
/// *Available* is what the key could be admitted at the moment of the change: tokens in the bucket, room in the window.
/// A key that the limiter has not seen, or that owes nothing, had all of the old burst (or limit). All round what is
/// available down to the new quota's [grain](crate::Resolution::grains).
///
/// A bucket that is booked ahead by a [reservation](crate::Prepared::reserve) has less than nothing available, and keeps
/// that debt in all but `Reset`.
///
/// # Examples
///
/// ```
/// use tollgate::{Inherit, GlobalLimiter, ManualClock, Rate, TokenBucket};
///
/// let carried = |inherit| {
///     let limiter = GlobalLimiter::builder(TokenBucket::new(Rate::per_second(10))).clock(ManualClock::new()).build()?;
///     assert!(limiter.check_n(4).is_allowed()); // 6 of 10 are left
///     limiter.reconfigure(TokenBucket::new(Rate::per_second(100)), inherit)?;
///     Ok::<u64, tollgate::BuildError>(limiter.at(limiter.now()).peek_n(0).remaining())
/// };
/// assert_eq!(carried(Inherit::AsIs)?, 6);
/// assert_eq!(carried(Inherit::Proportional)?, 60);
/// assert_eq!(carried(Inherit::Additive)?, 96);
/// assert_eq!(carried(Inherit::Reset)?, 100);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inherit {
    /// What is available stays, up to the new burst: a change admits nothing that was not admitted before it.
    AsIs,
    /// What is available is scaled by the new burst over the old one: a bucket half full stays half full.
    Proportional,
    /// What is *owed* stays, as far as the new burst goes: available grows or shrinks by the difference of the bursts, not
    /// below nothing. (The sliding windows and logs keep all that is owed.)
    Additive,
    /// Everything is available: all debts are forgiven.
    Reset,
}

impl Change<'_> {
    /// `Ok` when words that count the same things under both quotas may stay as they are: when what is owed stays.
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

/// The unit in which one tier of a version counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Steps of the payload to a unit of cost.
    pub(crate) price: u64,
    /// Units of cost in a full bucket, or in a window.
    pub(crate) burst: u64,
}

/// A change of the quota, as the new version's rules are to take it.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    /// What each tier inherits.
    pub(crate) inherits: &'c [Inherit],
    /// When, on the limiter's clock.
    pub(crate) since: u64,
    /// How many nanoseconds the version before reaches: see `reach`.
    pub(crate) until: u64,
}

/// How one tier's debts change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    inherit: Inherit,
    old: Unit,
    new: Unit,
}

impl Step {
    /// What is owed after the change when `debt` was owed before it, rounded up; at most `u64::MAX`. A larger debt never
    /// becomes a smaller one than a smaller debt does, so the order of debts is kept.
    fn of(self, debt: u64) -> u64 {
        let Self { inherit, old, new } = self;
        let wide = u128::from;
        // The debt in the new price, the token being worth the same.
        let same = || (wide(debt) * wide(new.price)).div_ceil(wide(old.price));
        let (grows, shrinks) = (new.burst.saturating_sub(old.burst), old.burst.saturating_sub(new.burst));
        let owed = match inherit {
            Inherit::AsIs => {
                (same() + wide(grows) * wide(new.price)).saturating_sub(wide(shrinks) * wide(new.price))
            }
            Inherit::Proportional => {
                (wide(debt) * wide(new.price * new.burst)).div_ceil(wide(old.price * old.burst))
            }
            // Above a full bucket's debt is what was booked ahead: that stays on top of nothing available.
            Inherit::Additive => {
                let booked = same().saturating_sub(wide(old.price_of_all(new.price)));
                let within = same() - booked;
                let most = wide(new.price) * wide(new.burst);
                within.min(most) + booked
            }
            Inherit::Reset => 0,
        };
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

impl Unit {
    /// A full bucket's debt at another price.
    fn price_of_all(self, price: u64) -> u64 {
        self.burst.saturating_mul(price)
    }
}

/// How many changes a debt from before the first may outlive: it bounds what reading an old payload takes.
const DEEPEST: u32 = 1_024;

/// The version before, as the rules of the next one remember it.
#[derive(Debug)]
pub(crate) struct Past<R> {
    /// The same tier's rule in it.
    pub(crate) rule: R,
    /// The change, as the older rule counts time.
    pub(crate) ended: Moment,
    /// The change for each tier.
    steps: Arc<[Step]>,
    /// Which of them is this one.
    mine: usize,
    /// How many versions from here on back may still be owed to.
    depth: u32,
}

impl<R: Rule> Past<R> {
    /// What each of the `olds` is to those that follow it; `units` are what they and the new ones count in.
    pub(crate) fn of(
        olds: Vec<R>,
        ended: Moment,
        change: Change<'_>,
        units: Vec<(Unit, Unit)>,
        depth: u32,
    ) -> Result<Vec<Arc<Self>>, BuildError> {
        if depth >= DEEPEST {
            return Err(BuildError::ChangedTooOften);
        }
        let step = |((old, new), &inherit)| Step { inherit, old, new };
        let steps: Arc<[Step]> = units.into_iter().zip(change.inherits).map(step).collect();
        let past =
            |(mine, rule)| Arc::new(Self { rule, ended, steps: steps.clone(), mine, depth: depth + 1 });
        Ok(olds.into_iter().enumerate().map(past).collect())
    }

    /// The same after a shorter past.
    pub(crate) fn after(&self, rule: R, depth: u32) -> Arc<Self> {
        Arc::new(Self {
            rule,
            ended: self.ended,
            steps: self.steps.clone(),
            mine: self.mine,
            depth: depth + 1,
        })
    }

    /// What this tier owes after the change, having owed `debt`.
    pub(crate) fn carried(&self, debt: u64) -> u64 {
        self.steps[self.mine].of(debt)
    }

    /// What any tier owes at the most after the change, having owed `debt`.
    pub(crate) fn carried_by_any(&self, debt: u64) -> u64 {
        self.steps.iter().map(|step| step.of(debt)).max().unwrap_or(debt)
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }
}
