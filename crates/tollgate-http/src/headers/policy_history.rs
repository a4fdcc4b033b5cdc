//! The `RateLimit-Policy` items of limits, current and past.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;
use tollgate::Rate;

use super::interned::interned;

/// The number of chunks of 1, 2, 4, ... versions: room for more changes than there can be.
const CHUNKS: usize = 32;

type Chunk = OnceLock<Box<[OnceLock<Policies>]>>;

/// Every version of the policies since the layer was built.
///
/// A reader borrows the current version without a lock, which is why old versions stay. The number
/// of loads does not depend on the number of versions.
pub(super) struct PolicyHistory {
    first: Policies,
    later: Box<[Chunk]>,
    /// The number of the current version; `first` is 0. `change` fills the version before it stores
    /// the number (Release); a reader loads the number before it reads the version (Acquire).
    current: AtomicUsize,
}

/// One version of the policies.
struct Policies {
    items: Box<[Box<str>]>,
    rates: Box<[Rate]>,
    /// All items as one header value.
    header: Option<HeaderValue>,
}

impl Policies {
    fn new(items: Vec<String>, rates: Vec<Rate>) -> Self {
        let header = interned(&items.join(", "));
        let items = items.into_iter().map(String::into_boxed_str).collect();
        Self { items, rates: rates.into(), header }
    }
}

impl PolicyHistory {
    pub(super) fn new(items: Vec<String>, rates: Vec<Rate>) -> Self {
        let later = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        Self { first: Policies::new(items, rates), later, current: AtomicUsize::new(0) }
    }

    #[inline]
    fn current(&self) -> &Policies {
        match self.current.load(Ordering::Acquire) {
            0 => &self.first,
            version => self.later_version(version).and_then(OnceLock::get).unwrap_or(&self.first),
        }
    }

    /// Returns where a version after the first is kept. `None` if the chunks have no room for it.
    fn later_version(&self, version: usize) -> Option<&OnceLock<Policies>> {
        let chunk = version.ilog2();
        let empty = || (0..1_usize << chunk).map(|_| OnceLock::new()).collect();
        self.later.get(chunk as usize)?.get_or_init(empty).get(version - (1 << chunk))
    }

    /// Makes these items and rates current. Callers must exclude one another: of two concurrent
    /// changes, one would be lost.
    pub(super) fn change(&self, items: Vec<String>, rates: Vec<Rate>) {
        let version = self.current.load(Ordering::Relaxed) + 1;
        if let Some(slot) = self.later_version(version) {
            slot.get_or_init(|| Policies::new(items, rates));
            self.current.store(version, Ordering::Release);
        }
    }

    /// Returns all items as one header value.
    #[inline]
    pub(super) fn header(&self) -> Option<HeaderValue> {
        self.current().header.clone()
    }

    /// Returns the rate of a limit by its number.
    pub(super) fn rate(&self, number: usize) -> Option<Rate> {
        self.current().rates.get(number).copied()
    }

    /// Returns the items, in the order of the limits.
    pub(super) fn items(&self) -> impl Iterator<Item = &str> {
        self.current().items.iter().map(|item| &**item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_current_after_any_number_of_changes() {
        let history = PolicyHistory::new(vec!["0".into()], Vec::new());
        for number in 1..=100_000 {
            // Seven texts in turn, because interned texts stay in memory.
            history.change(vec![(number % 7).to_string()], Vec::new());
            assert_eq!(history.items().collect::<Vec<_>>(), [(number % 7).to_string()]);
        }
        assert_eq!(history.header().unwrap(), (100_000 % 7).to_string());
        drop(history);
    }
}
