//! The observer that is called with each decision, and counters of decisions.

use std::array;
use std::cell::Cell;
use std::fmt;

use crossbeam_utils::CachePadded;

use crate::outcome::Outcome;
use crate::sync::{Tally, TallyOrdering::Relaxed};

/// The function that a limiter calls with each decision, if the user gave one.
pub(crate) struct Observer<F: ?Sized>(Option<Box<F>>);

impl<F: ?Sized> Observer<F> {
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn new(on_decision: Box<F>) -> Self {
        Self(Some(on_decision))
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Calls the function with a decision, whose request has been charged already.
    #[cold]
    pub(crate) fn tell<D>(&self, decision: D) -> D
    where
        F: Fn(&D),
    {
        if let Some(on_decision) = &self.0 {
            on_decision(&decision);
        }
        decision
    }
}

/// Counts decisions, for [`Builder::on_decision`](crate::Builder::on_decision) and its like: those
/// of any limiters together.
///
/// Threads count on lines of their own, so that counting does not make them wait for one another.
///
/// **Cost.** 16 lines of 128 bytes; one atomic addition a decision.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{Counters, Limiter, Rate, TokenBucket};
///
/// let counters = Arc::new(Counters::new());
/// let counted = counters.clone();
/// let limiter = Limiter::builder(TokenBucket::new(Rate::per_hour(2))).per::<str>()
///     .on_decision(move |decision| counted.count(decision))
///     .build()?;
/// for _ in 0..5 {
///     let _ = limiter.check("alice");
/// }
/// let counts = counters.counts();
/// assert_eq!((counts.allowed, counts.denied, counts.never), (2, 3, 0));
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Counters {
    stripes: [CachePadded<[Tally; 3]>; STRIPES],
}

/// Stripes of a counter: a power of two.
const STRIPES: usize = 16;

/// What [`Counters`] have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests admitted.
    pub allowed: u64,
    /// Requests refused for now.
    pub denied: u64,
    /// Requests whose cost is above the limit.
    pub never: u64,
}

impl Counters {
    /// Counters at zero.
    #[must_use]
    pub fn new() -> Self {
        Self { stripes: array::from_fn(|_| CachePadded::new(array::from_fn(|_| Tally::new(0)))) }
    }

    /// Counts one decision: a [`Decision`](crate::Decision), or an [`Outcome`] by itself.
    pub fn count(&self, outcome: impl Into<Outcome>) {
        let [allowed, denied, never] = &*self.stripes[stripe()];
        let counter = match outcome.into() {
            Outcome::Allowed => allowed,
            Outcome::Denied => denied,
            Outcome::Never => never,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// The counts so far. While other threads count, each number is one that was true at some time
    /// during the call.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.stripes.iter().fold(Counts::default(), |counts, stripe| {
            let [allowed, denied, never] = array::from_fn(|which| stripe[which].load(Relaxed));
            Counts {
                allowed: counts.allowed + allowed,
                denied: counts.denied + denied,
                never: counts.never + never,
            }
        })
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
}

/// The thread's stripe: threads get them in turn.
fn stripe() -> usize {
    static NEXT: Tally = Tally::new(0);
    thread_local! {
        static STRIPE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    STRIPE.with(|stripe| {
        let number = stripe.get().unwrap_or_else(|| NEXT.fetch_add(1, Relaxed) as usize % STRIPES);
        stripe.set(Some(number));
        number
    })
}
