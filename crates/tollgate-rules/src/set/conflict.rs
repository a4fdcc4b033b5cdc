//! What a reload would forget.

use std::fmt;

use tollgate::BuildError;

/// A change of a rule that would forget its keys' debts: a reload with it is refused, unless the
/// rule says `forget = true`.
///
/// # Examples
///
/// See [`LiveRules::exchange`](crate::LiveRules::exchange).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict {
    /// The rule's name in the new rules.
    pub rule: Box<str>,
    /// The tier of the rule, if it is a tier's limit.
    pub tier: Option<Box<str>>,
    /// The change.
    pub cause: Cause,
    /// How many keys are in debt now: the debts that would be forgotten. A change is refused with
    /// none, too, as a request may be charged between this count and the exchange.
    pub keys_in_debt: usize,
}

/// What of a rule changed so that its limiters cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The key.
    Key,
    /// The number of keys that its tables are built for.
    MaxKeys,
    /// What becomes of a new key when they are full.
    WhenFull,
    /// How many limits it has.
    NumberOfLimits,
    /// A limit: its algorithm, its sliding period, what it counts.
    Limit(BuildError),
    /// A tier that is gone.
    TierRemoved,
    /// The store that keeps the counts, or that there is one.
    Store,
    /// `was`: the rule takes the state of another one, so its own is lost.
    Displaced {
        /// The name of the rule whose state it takes.
        was: Box<str>,
    },
    /// The name, and the rule does not say so by `was`.
    Renamed {
        /// The name of the old rule that has the same key and limits.
        was: Box<str>,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, tier, cause, keys_in_debt } = self;
        write!(f, "rule `{rule}`")?;
        if let Some(tier) = tier {
            write!(f, ", tier `{tier}`")?;
        }
        match cause {
            Cause::Key => write!(f, ": its key changed")?,
            Cause::MaxKeys => write!(f, ": its max_keys changed")?,
            Cause::WhenFull => write!(f, ": what becomes of a new key in a full table changed")?,
            Cause::NumberOfLimits => write!(f, ": the number of its limits changed")?,
            Cause::Limit(error) => write!(f, ": {}", OfLimit(error))?,
            Cause::Store => write!(f, ": another store keeps its counts, which begin anew")?,
            Cause::TierRemoved => write!(f, " is gone")?,
            Cause::Displaced { was } => {
                write!(f, ": it takes the state of `{was}` (was = \"{was}\"), and its own is lost")?;
            }
            Cause::Renamed { was } => {
                write!(f, ": it seems to be `{was}` (was = \"{was}\" beside it keeps the state)")?;
            }
        }
        match (keys_in_debt, cause) {
            // A store does not tell how many keys are in debt.
            (0, Cause::Store) => write!(f, "; the change would forget what keys owe"),
            // Refused none the less: a request may be charged between the count and the exchange.
            (0, _) => write!(f, "; no key owes now, but a debt made until the exchange would be forgotten"),
            (1, _) => write!(f, "; 1 key owes, which the change would forget"),
            (keys, _) => write!(f, "; {keys} keys owe, which the change would forget"),
        }?;
        f.write_str(" (forget = true beside the rule allows it)")
    }
}

/// Why a rule's limit cannot change, in the words of a rules file: the engine's advice is for
/// programs that build limiters.
pub(crate) struct OfLimit<'e>(pub(crate) &'e BuildError);

impl fmt::Display for OfLimit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match self.0 {
            BuildError::CannotInherit { field } => field,
            BuildError::ChangedTooOften => {
                return f.write_str("its limit changed too often: try again once older debts have run out");
            }
            error => return error.fmt(f),
        };
        let works = match *field {
            "algorithm" => "keep the algorithm",
            "inherit" => "inherit = \"additive\" works",
            "mode" => "a queue stays a queue, and a meter a meter",
            _ => "leave it as it is",
        };
        let what = match *field {
            "mode" => "way to wait",
            other => other,
        };
        write!(
            f,
            "its keys' debts cannot be read under another {what}: {works}, or give the rule another name"
        )
    }
}
