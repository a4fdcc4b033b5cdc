//! Input that was refused: counted, and told in the log once a minute.
//!
//! How often it comes is the clients' choice. So what refuses it writes no line and waits for no
//! lock, and another task writes the lines: at most one line for each kind and minute,
//! with the number since the last one and the address of one client.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

/// The most kinds of a listener that are counted apart. Kinds are words of the source.
const KINDS: usize = 32;

/// The kind of all others.
const OTHERS: &str = "other";

/// The shortest time between two lines of a kind, in nanoseconds.
const MINUTE: u64 = 60_000_000_000;

/// The input that was refused at a listener, by kind.
pub(super) struct ProtocolErrors {
    known: [OnceLock<Kind>; KINDS],
    others: Kind,
}

struct Kind {
    name: &'static str,
    count: AtomicU64,
    /// How many of them the log has told, and when it last did: 0 for never. One task tells them.
    told: AtomicU64,
    told_at: AtomicU64,
    /// The client of one that the log has not told, if it has an address.
    example: ArcSwapOption<Option<IpAddr>>,
}

/// A line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) kind: &'static str,
    /// How many there were since the last line of this kind.
    pub(super) count: u64,
    pub(super) client: Option<IpAddr>,
}

impl ProtocolErrors {
    pub(super) fn new() -> Self {
        Self { known: [const { OnceLock::new() }; KINDS], others: Kind::new(OTHERS) }
    }

    /// Counts one. Returns whether it is the one whose client the log will name.
    pub(super) fn add(&self, kind: &'static str, client: Option<IpAddr>) -> bool {
        self.named(kind).add(client)
    }

    /// How many there were of each kind that there was.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.kinds().map(|kind| (kind.name, kind.count.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// What the log is to tell now, in nanoseconds.
    pub(super) fn due(&self, now: u64) -> Vec<Told> {
        let due = |kind: &Kind| {
            let (count, client) = kind.due(now)?;
            Some(Told { kind: kind.name, count, client })
        };
        self.kinds().filter_map(due).collect()
    }

    fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.known.iter().filter_map(OnceLock::get).chain([&self.others])
    }

    /// The kind of this name, which takes the first vacant place if it is new.
    fn named(&self, name: &'static str) -> &Kind {
        let mut known = self.known.iter().map(|place| place.get_or_init(|| Kind::new(name)));
        known.find(|kind| kind.name == name).unwrap_or(&self.others)
    }
}

impl Kind {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            count: AtomicU64::new(0),
            told: AtomicU64::new(0),
            told_at: AtomicU64::new(0),
            example: ArcSwapOption::empty(),
        }
    }

    fn add(&self, client: Option<IpAddr>) -> bool {
        self.count.fetch_add(1, AcqRel);
        let is_example = self.example.load().is_none();
        if is_example {
            self.example.store(Some(Arc::new(client)));
        }
        is_example
    }

    /// What the log has not told, if its last line is old enough.
    fn due(&self, now: u64) -> Option<(u64, Option<IpAddr>)> {
        let told_at = self.told_at.load(Relaxed);
        if told_at > 0 && now.saturating_sub(told_at) < MINUTE {
            return None;
        }
        // The example is taken first, and the count is read by an addition: one that is not in that
        // count sees that there is no example, and leaves another.
        let client = *self.example.swap(None)?;
        let count = self.count.fetch_add(0, AcqRel);
        let news = count - self.told.swap(count, Relaxed);
        if news == 0 {
            return None;
        }
        self.told_at.store(now.max(1), Relaxed);
        Some((news, client))
    }
}

impl Told {
    pub(super) fn log(&self, listener: &str) {
        let Self { kind, count, client } = self;
        tracing::warn!(
            listener,
            kind,
            count,
            client = client.as_ref().map(tracing::field::display),
            "protocol errors"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn client(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn a_flood_is_one_line_a_minute() {
        const SECOND: u64 = 1_000_000_000;
        let errors = ProtocolErrors::new();
        let add = |last: u8| errors.add("head", client(last));
        let flood = |count: u8| (0..count).filter(|last| add(*last)).count();
        let told = |count, client| vec![Told { kind: "head", count, client }];
        assert_eq!(errors.due(0), []);
        assert_eq!(flood(200) + flood(100), 1, "of one more may be said");
        assert_eq!(errors.due(SECOND), told(300, client(0)));
        assert_eq!(flood(7), 1);
        for second in 1..=60 {
            assert_eq!(errors.due(second * SECOND), []);
        }
        assert_eq!(errors.due(SECOND + MINUTE), told(7, client(0)));
        assert_eq!(errors.due(SECOND + 2 * MINUTE), []);
        assert_eq!(errors.counts(), BTreeMap::from([("head", 307)]));
    }

    #[test]
    fn each_kind_has_a_line() {
        let errors = ProtocolErrors::new();
        errors.add("body", client(1));
        errors.add("head", None);
        let told = |kind, client| Told { kind, count: 1, client };
        let all = [told("body", client(1)), told("head", None)];
        assert_eq!(errors.due(MINUTE), all);
    }

    #[test]
    fn kinds_beyond_the_bound_are_counted_together() {
        let errors = ProtocolErrors::new();
        for number in 0..KINDS + 8 {
            errors.add(format!("kind-{number:03}").leak(), client(1));
        }
        let counts = errors.counts();
        assert_eq!((counts.len(), counts[OTHERS]), (KINDS + 1, 8));
        assert_eq!(errors.due(1).iter().map(|told| told.count).sum::<u64>(), KINDS as u64 + 8);
    }

    #[test]
    fn errors_of_threads_are_told_once_each_with_an_address() {
        const EACH: u64 = 20_000;
        let errors = ProtocolErrors::new();
        let add = || (0..EACH).for_each(|_| _ = errors.add("http2", client(9)));
        let (mut told, mut now) = (Vec::new(), 0);
        thread::scope(|scope| {
            let adding: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
            while !adding.iter().all(thread::ScopedJoinHandle::is_finished) {
                now += MINUTE;
                told.extend(errors.due(now));
            }
        });
        told.extend(errors.due(now + MINUTE));
        assert_eq!(told.iter().map(|told| told.count).sum::<u64>(), 4 * EACH);
        assert!(told.iter().all(|told| told.client == client(9)), "{told:?}");
    }
}
