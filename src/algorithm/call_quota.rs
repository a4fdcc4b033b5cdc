//! A quota that comes with each call.

use std::time::Duration;

use crate::algorithm::gcra::Gcra;
use crate::algorithm::{Algorithm, Compile, Transition};
use crate::error::{BuildError, within};
use crate::rate::Rate;

/// A token bucket whose numbers come with the call: limits that each user has in a database or a
/// token, or the numbers of a `CL.THROTTLE` command.
///
/// It is two numbers of nanoseconds. The *emission interval* is the time between two requests at
/// the full rate. The *tolerance* is how far ahead of the rate a key may get: it is the emission
/// interval times the number of requests that may come at once. (The delay variation tolerance of
/// `CL.THROTTLE`, for `max_burst + 1` requests.)
///
/// A limiter of call quotas keeps one number for each key, the *theoretical arrival time* (TAT) in
/// nanoseconds, and no quota. The quota of a call is [lent](Self::lend) to it, and every verb works
/// [under](crate::Account::under) it. A request at `now`:
///
/// ```text
///   charge = cost * emission
///   admitted  iff  max(TAT, now) + charge - now <= tolerance
///   then TAT = max(TAT, now) + charge
/// ```
///
/// That is exact, in whole nanoseconds, for 73 years of the limiter's clock. Under a quota that is
/// the same at each call, a key has a token bucket of `tolerance / emission` tokens, which refills
/// one each `emission`. Where the quotas are known beforehand, a
/// [`TokenBucket`](crate::TokenBucket) with [tiers](crate::Builder::tier) does more.
///
/// **Guarantee.** From any number of threads: the admitted charges of a key in any interval of
/// length `D` add up to at most `D` and the largest tolerance that came with them. Any later call
/// may bring other numbers: the debt is a time, and stays. A key whose TAT has passed is as one
/// that was never seen.
///
/// **A full table** refuses a new key that may inherit no slot, whichever numbers it brings:
/// [`Decision::is_full`](crate::Decision::is_full). A slot may be inherited *with its debt*, if
/// that is at most half of the call's tolerance. No two keys share an allowance, since half of the
/// tolerance of one call may be any time at all of another's:
/// [`WhenFull::Share`](crate::WhenFull::Share) means [`Inherit`](crate::WhenFull::Inherit) here. A
/// key is in debt until its TAT, so memory follows the tolerances: bound them where strangers
/// choose both keys and numbers.
///
/// # Examples
///
/// ```
/// use tollgate::{CallQuota, Limiter, Rate};
///
/// // Of requests that bring no quota:
/// let default = CallQuota::new(Rate::per_minute(1), 1)?;
/// let limiter = Limiter::builder(default).per::<str>().max_keys(1_000_000).build()?;
///
/// // The numbers of this user, from the database.
/// let quota = CallQuota::new(Rate::per_minute(10), 20)?.lend();
/// let decision = limiter.account("alice").under(&quota).check();
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining(), 19);
///
/// // Now they are smaller: nothing is left beside the debt of six seconds.
/// let quota = CallQuota::new(Rate::per_minute(1), 1)?.lend();
/// assert!(!limiter.account("alice").under(&quota).check().is_allowed());
///
/// let error = CallQuota::new(Rate::per_second(0), 20).unwrap_err();
/// assert_eq!(error.to_string(), "rate.count is 0, but must be between 1 and 1000000000");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallQuota {
    /// Nanoseconds, from 1 to `MOST`.
    emission: u64,
    /// Nanoseconds, from `emission` to `MOST`.
    tolerance: u64,
}

/// The longest emission interval and the largest tolerance: 36 years.
const MOST: u64 = Gcra::MOST_OF_CALL;

impl CallQuota {
    /// `burst` requests at once, and `rate` in the long run.
    ///
    /// The emission interval is `rate.period / rate.count`, rounded **up** to whole nanoseconds, so
    /// that the rate is never exceeded. It falls short of the rate by less than one part in
    /// `rate.period / rate.count` nanoseconds: not at all for 100/s, by 2e-9 for 3/s, by up to 1e-6
    /// for rates around 1,000/s, and by up to a half for rates around a thousand million a second.
    /// [`emission`](Self::emission) says what it has become. (A [`TokenBucket`](crate::TokenBucket)
    /// counts in finer grains; they depend on the rate, so a word that serves all rates cannot.)
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfRange`], when the period is not between 1 and 2^60 - 1 nanoseconds (36
    /// years), the count not between 1 and one a nanosecond, or the burst not between 1 and what
    /// refills within 36 years.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CallQuota, Rate};
    ///
    /// let quota = CallQuota::new(Rate::per_second(3), 1)?;
    /// assert_eq!(quota.emission(), Duration::from_nanos(333_333_334));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(rate: Rate, burst: u64) -> Result<Self, BuildError> {
        let (count, period) = (rate.count(), rate.period_nanos());
        within("rate.period", rate.period().as_nanos(), 1_u64, MOST)?;
        within("rate.count", count, 1_u64, period)?;
        let emission = period.div_ceil(count);
        within("burst", burst, 1_u64, MOST / emission)?;
        Ok(Self { emission, tolerance: burst * emission })
    }

    /// The quota of these nanoseconds, as they are: an emission interval from 1 to 2^60 - 1 (36
    /// years), and a tolerance from the emission interval to 2^60 - 1.
    ///
    /// The tolerance need not be a multiple of the emission interval.
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfRange`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CallQuota, Rate};
    ///
    /// let quota = CallQuota::from_nanos(10_000_000, 200_000_000)?;
    /// assert_eq!(quota, CallQuota::new(Rate::per_second(100), 20)?);
    ///
    /// let error = CallQuota::from_nanos(10, 9).unwrap_err();
    /// assert!(error.to_string().starts_with("tolerance is 9, but must be between 10 and "));
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn from_nanos(emission: u64, tolerance: u64) -> Result<Self, BuildError> {
        within("emission", emission, 1_u64, MOST)?;
        within("tolerance", tolerance, emission, MOST)?;
        Ok(Self { emission, tolerance })
    }

    /// The time between two requests of cost 1 at the full rate.
    #[must_use]
    pub const fn emission(self) -> Duration {
        Duration::from_nanos(self.emission)
    }

    /// How far ahead of the rate a key may get.
    #[must_use]
    pub const fn tolerance(self) -> Duration {
        Duration::from_nanos(self.tolerance)
    }

    /// The largest cost that can be admitted: the tolerance in whole emission intervals.
    #[must_use]
    pub const fn limit(self) -> u64 {
        self.tolerance / self.emission
    }

    /// The quota of this rule.
    pub(crate) fn of(rule: &Gcra) -> Self {
        Self { emission: rule.price, tolerance: rule.full }
    }

    /// The rule of a call with this quota.
    #[inline]
    pub(crate) fn rule(self) -> Gcra {
        Gcra::by_call(self.emission, self.tolerance)
    }
}

impl Algorithm for CallQuota {}

/// The tiers of a limiter are quotas for requests that bring none. A key's word is its TAT in
/// nanoseconds under each of them, and under the quotas of a later version.
impl Compile for CallQuota {
    type Rule = Gcra;

    fn compile(tiers: &[Self], _: u64) -> Result<Vec<Gcra>, BuildError> {
        Ok(tiers.iter().map(|quota| quota.rule()).collect())
    }

    fn recompile(
        tiers: &[Self],
        origin: u64,
        olds: &[Gcra],
        change: Transition<'_>,
    ) -> Result<Vec<Gcra>, BuildError> {
        let changes = tiers.iter().zip(olds).map(|(quota, old)| (0, u64::from(*quota != Self::of(old))));
        change.keeps(changes)?;
        Self::compile(tiers, origin)
    }

    /// A key's debt means the same under every quota, so a saved limiter is continued under any.
    fn saved_as(&self) -> String {
        "call-quota".to_owned()
    }
}
