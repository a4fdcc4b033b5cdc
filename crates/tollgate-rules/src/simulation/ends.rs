//! Requests under way, by the time at which they end.

use std::collections::BTreeMap;

use tollgate::Timestamp;

/// Requests under way, by the time at which they end.
///
/// A replay plays them between arrivals. At the same instant ends come before arrivals: a server
/// that answers a request and takes another in one nanosecond is not predicted to refuse it.
///
/// # Examples
///
/// ```
/// use tollgate::Timestamp;
/// use tollgate_rules::Ends;
///
/// let at = Timestamp::from_nanos;
/// let mut ends = Ends::default();
/// ends.push(at(20), "first");
/// ends.push(at(10), "second");
/// assert_eq!(ends.pop_by(at(9)), None);
/// assert_eq!(ends.pop_by(at(10)), Some((at(10), "second")));
/// assert_eq!((ends.pop_by(at(10)), ends.len()), (None, 1));
/// ```
#[derive(Debug)]
pub struct Ends<T> {
    /// By the time, then by the order in which they began.
    under_way: BTreeMap<(Timestamp, u64), T>,
    /// How many there have been.
    begun: u64,
}

impl<T> Default for Ends<T> {
    fn default() -> Self {
        Self { under_way: BTreeMap::new(), begun: 0 }
    }
}

impl<T> Ends<T> {
    /// Adds a request that ends at this time.
    pub fn push(&mut self, at: Timestamp, request: T) {
        self.under_way.insert((at, self.begun), request);
        self.begun += 1;
    }

    /// Takes out the request that ends first, if that is not after `now`. Of those that end at one
    /// instant the first that was added comes first.
    pub fn pop_by(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        let first = self.under_way.first_entry().filter(|first| first.key().0 <= now)?;
        let ((at, _), request) = first.remove_entry();
        Some((at, request))
    }

    /// How many requests are under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Whether no request is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}
