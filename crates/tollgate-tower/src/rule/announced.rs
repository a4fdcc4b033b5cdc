//! How limits announce themselves, before and after they are changed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;

use crate::headers::interned;

/// Chunks of 1, 2, 4, ... versions: more than there can be changes.
const CHUNKS: usize = 32;

type Chunk = OnceLock<Box<[OnceLock<Version>]>>;

/// The items of `RateLimit-Policy`, one for each limit, of every version: who reads borrows, without a lock, in the same
/// few loads however many changes there were.
pub(crate) struct Announced {
    first: Version,
    later: Box<[Chunk]>,
    /// The number of the newest, the first being 0. Its place is filled before it is stored: Release, and Acquire who
    /// reads it.
    newest: AtomicUsize,
}

struct Version {
    each: Box<[Box<str>]>,
    all: Option<HeaderValue>,
}

impl Version {
    fn new(policies: Vec<String>) -> Self {
        let all = interned(&policies.join(", "));
        Self { each: policies.into_iter().map(String::into_boxed_str).collect(), all }
    }
}

impl Announced {
    pub(crate) fn new(policies: Vec<String>) -> Self {
        let later = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        Self { first: Version::new(policies), later, newest: AtomicUsize::new(0) }
    }

    #[inline]
    fn newest(&self) -> &Version {
        match self.newest.load(Ordering::Acquire) {
            0 => &self.first,
            number => self.place(number).and_then(OnceLock::get).unwrap_or(&self.first),
        }
    }

    /// The place of a later version. `None` beyond the last.
    fn place(&self, number: usize) -> Option<&OnceLock<Version>> {
        let chunk = number.ilog2();
        let places = || (0..1_usize << chunk).map(|_| OnceLock::new()).collect();
        self.later.get(chunk as usize)?.get_or_init(places).get(number - (1 << chunk))
    }

    /// Announces others from now on. Writers take turns: of two at once, the second is lost.
    pub(crate) fn change(&self, policies: Vec<String>) {
        let number = self.newest.load(Ordering::Relaxed) + 1;
        if let Some(place) = self.place(number) {
            place.get_or_init(|| Version::new(policies));
            self.newest.store(number, Ordering::Release);
        }
    }

    /// All of them as one value.
    #[inline]
    pub(crate) fn all(&self) -> Option<HeaderValue> {
        self.newest().all.clone()
    }

    /// One by one.
    pub(crate) fn each(&self) -> impl Iterator<Item = &str> {
        self.newest().each.iter().map(|policy| &**policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_announced_and_any_number_before_it_is_dropped() {
        let announced = Announced::new(vec!["0".into()]);
        for number in 1..=100_000 {
            // The same text again and again, so that it stays in memory once.
            announced.change(vec![(number % 7).to_string()]);
            assert_eq!(announced.each().collect::<Vec<_>>(), [(number % 7).to_string()]);
        }
        assert_eq!(announced.all().unwrap(), (100_000 % 7).to_string());
        drop(announced);
    }
}
