//! What can be wrong with a configuration.

use std::fmt;

/// Why a limiter could not be built, or its quota not be changed. Nothing was reserved or changed.
///
/// # Examples
///
/// ```
/// use tollgate::{BuildError, Limiter, Rate, TokenBucket};
///
/// let quota = TokenBucket::new(Rate::per_second(0));
/// let error = Limiter::builder(quota).per::<u64>().build().unwrap_err();
/// assert!(matches!(error, BuildError::OutOfRange { field: "rate.count", value: 0, min: 1, .. }));
/// assert!(error.to_string().starts_with("rate.count is 0, but must be between 1 and "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A number is outside of what the limiter can represent exactly.
    OutOfRange {
        /// Which number, as it is called in the API.
        field: &'static str,
        /// The number given. Durations are in nanoseconds.
        value: u128,
        /// The smallest that is accepted here.
        min: u128,
        /// The largest that is accepted here, given the other settings.
        max: u128,
    },
    /// Tiers of one limiter share one table, and so must agree on this.
    TiersDiffer {
        /// The setting in which they differ.
        field: &'static str,
    },
    /// All tiers share one clock grain, and a tier's rate does not come out in whole grains to
    /// within 1e-9; or another tier's bucket takes so long to refill that the grain is too coarse
    /// for it.
    TierTooFine {
        /// The tier, counted from the default quota, which is 0.
        tier: usize,
    },
    /// The table would take more memory than the budget allows.
    OverBudget {
        /// Bytes that the configuration takes.
        needed: usize,
        /// Bytes that `memory_budget` allows.
        budget: usize,
    },
    /// The operating system refused the memory.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The setting is one of keys, and the limiter has none: it is for everything.
    NoKeys {
        /// The setting, as it is called in the API.
        field: &'static str,
    },
    /// The operating system refused a thread for the coarse clock.
    NoThread,
    /// The debts of the keys cannot be converted to the new quota. The message says what works with
    /// this limiter instead.
    CannotInherit {
        /// The setting, as it is called in the API.
        field: &'static str,
    },
    /// The quota was changed so often that the keys' words have no room for another change; or so
    /// often before a debt of the first of these quotas had run out that reading it would take
    /// long: see [`change`](crate::Limiter::change). Or the limiter's clock shows
    /// centuries. Wait, or build a new limiter.
    ChangedTooOften,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { field, value, min, max } => {
                write!(f, "{field} is {value}, but must be between {min} and {max}")?;
                let is_time = ["period", "emission", "tolerance"].iter().any(|time| field.ends_with(time));
                match *field {
                    "subwindows" => write!(f, " beside this rate"),
                    _ if is_time => write!(f, " nanoseconds"),
                    _ => Ok(()),
                }
            }
            Self::TiersDiffer { field } => {
                write!(
                    f,
                    "the tiers differ in {field}: tiers share one table, so give them the same {field} or build a limiter for each"
                )
            }
            Self::TierTooFine { tier } => write!(
                f,
                "the rate of tier {tier} does not fit the clock grain that the other tiers need to within 1e-9: choose rates with a common multiple, smaller bursts, or build a limiter for each"
            ),
            Self::OverBudget { needed, budget } => write!(
                f,
                "the table takes {needed} bytes, but the budget is {budget}: lower max_keys or the limit, or raise memory_budget"
            ),
            Self::OutOfMemory { bytes } => {
                write!(f, "the operating system refused {bytes} bytes: lower max_keys")
            }
            Self::NoKeys { field } => write!(
                f,
                "{field} is a setting of keys, and this limiter has none: say of what kind they are, as in `.per::<str>()`"
            ),
            Self::NoThread => {
                write!(f, "the operating system refused a thread for the coarse clock: use TscClock")
            }
            Self::CannotInherit { field } => {
                let works = match *field {
                    "algorithm" => "give a quota of the same algorithm",
                    "inherit" => "Inherit::Additive works, and AsIs and Proportional if the limit stays",
                    "limits" => "give as many limits as before, in the same order",
                    "mode" => "a queue stays a queue, and a meter a meter",
                    _ => "leave it as it is",
                };
                write!(
                    f,
                    "the keys' state cannot be read under another {field}: {works}, or build a new limiter"
                )
            }
            Self::ChangedTooOften => {
                write!(
                    f,
                    "too many quota changes: no room for another. Wait until older debts have run out, or build \
                     a new limiter"
                )
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// `Ok` when `value` lies within `min..=max`.
pub(crate) fn within(
    field: &'static str,
    value: impl Into<u128>,
    min: impl Into<u128>,
    max: impl Into<u128>,
) -> Result<(), BuildError> {
    let (value, min, max) = (value.into(), min.into(), max.into());
    if (min..=max).contains(&value) { Ok(()) } else { Err(BuildError::OutOfRange { field, value, min, max }) }
}
