//! Limits whose counts a store keeps. This crate asks no store: it lists the questions, and decides
//! by the answers.
//!
//! ```text
//!   find --> looks -- of several that are charged together --> looked
//!              |                                                 |
//!              '-- none --> charges <----------------------------'
//!                              '--> charged: the code, and the charges to give back
//! ```
//!
//! A store counts and knows no limits, as [`Counter`](super::counter::Counter) does. So a limit may
//! change its number there, too.

use std::time::Duration;

use tollgate::Clock;

use super::EnvoyHandle;
use super::answer::{Asked, EnvoyAnswer, EnvoyCode};
use super::call::{EnvoyCallError, EnvoyDescriptor};
use super::counted::Counted;
use super::counter::{EnvoyCount, Seen};
use crate::envoy::limit::EnvoyUnit;
use tollgate_rules::StoreFailure;

/// What the key of a limit of the files begins with, and that of a limit that a call brings.
const LIMIT: u8 = 1;
const BROUGHT: u8 = 0;

/// More hits than any limit has. A store refuses so many only if it has counted more than any limit
/// has already: then they need no count.
const MOST_HITS: u64 = EnvoyCount::MOST / 2;
const _: () = assert!(MOST_HITS > u32::MAX as u64, "no limit may have so many");

/// How long a client is to wait that a store without an answer refuses: the longest pause between
/// two probes of the store.
const WAIT: Duration = Duration::from_secs(1);

/// A question to the store of the limits of files: how many hits a key has in the current window.
///
/// # Examples
///
/// See [`EnvoyHandle::find`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvoyAsk {
    /// The length of the windows.
    pub unit: EnvoyUnit,
    /// The key. Different limits, and different values of one limit, have different keys, with any
    /// bytes in them: a store may keep the counts of all limits of a unit together. It is as long
    /// as the domain, keys and values.
    pub key: Box<[u8]>,
    /// How many hits are looked for, or are to be counted: at most 2^32, more than any limit.
    pub hits: u64,
}

impl<C: Clock> EnvoyHandle<C> {
    /// Begins to decide a call by the counts of a store, as [`decide`](Self::decide) does by those
    /// of this process: finds its limits. Counts nothing.
    ///
    /// # Errors
    ///
    /// As [`decide`](Self::decide).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::ManualClock;
    /// use tollgate_rules::StoreFailure;
    /// use tollgate_rules_file::{
    ///     EnvoyAnswer, EnvoyAsk, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoyCount, EnvoySet,
    ///     Memory, SameDomain,
    /// };
    ///
    /// let yaml = "\
    /// domain: d
    /// descriptors:
    ///   - { key: k, rate_limit: { unit: day, requests_per_unit: 5 } }
    ///   - { key: all, rate_limit: { unit: day, requests_per_unit: 9 } }
    /// ";
    /// let source = Memory::new("d.yaml", yaml);
    /// let config = EnvoyConfig::read(&["d.yaml"], SameDomain::Refuse, &source);
    /// let config = config.into_rules().unwrap();
    /// let set = EnvoySet::new(config, EnvoyCharge::Together, 1_000, ManualClock::new())?;
    /// let (mut handle, mut answer) = (set.handle(), EnvoyAnswer::default());
    ///
    /// handle.find("d", &[&[("k", "v")][..], &[("all", "")]], 1, &mut answer)?;
    /// let until_reset = Duration::from_secs(7);
    /// let store = |hits| Some(EnvoyCount { hits, is_beyond: false, until_reset });
    /// // The store's windows of a day would be asked for these keys, first without counting.
    /// let looks: Vec<EnvoyAsk> = handle.looks(&answer);
    /// assert_eq!(looks.len(), 2);
    /// handle.looked(&mut answer, &[store(3), store(9)], StoreFailure::Refuse);
    /// let charges = handle.charges(&answer);
    /// assert_eq!(charges, looks);
    /// // Meanwhile another process was faster.
    /// let said = [store(3), store(10)];
    /// let (code, back) = handle.charged(&mut answer, &said, StoreFailure::Refuse);
    /// assert_eq!((code, &*back), (EnvoyCode::OverLimit, &[0][..]));
    /// assert_eq!(answer.statuses()[0].remaining, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find<D: EnvoyDescriptor>(
        &mut self,
        domain: &str,
        descriptors: &[D],
        hits_addend: u32,
        answer: &mut EnvoyAnswer,
    ) -> Result<(), EnvoyCallError> {
        self.refresh();
        self.counted.begin((domain, descriptors, hits_addend), self.inner.charge, answer)
    }

    /// What the store is to be asked, without counting, before the call is charged. Empty, unless
    /// several limits are charged [together](crate::EnvoyCharge::Together).
    #[must_use]
    pub fn looks(&self, answer: &EnvoyAnswer) -> Vec<EnvoyAsk> {
        looked_at(answer).map(|number| self.counted.ask(answer, &answer.asked[number])).collect()
    }

    /// Takes what the store says to each of [`looks`](Self::looks), in their order; `None`: it does
    /// not answer.
    pub fn looked(&self, answer: &mut EnvoyAnswer, said: &[Option<EnvoyCount>], on_failure: StoreFailure) {
        let numbers: Vec<usize> = looked_at(answer).collect();
        let mut said = said.iter().copied();
        for number in numbers {
            let (asked, found) = (&answer.asked[number], said.next().flatten());
            let seen = match found {
                Some(found) => self.counted.seen(asked, found),
                None => self.counted.look_without_store(answer, asked, on_failure),
            };
            let asked = &mut answer.asked[number];
            (asked.looked, asked.has_failed) = (Some(seen), found.is_none());
        }
        answer.judge();
    }

    /// What the store is to count.
    #[must_use]
    pub fn charges(&self, answer: &EnvoyAnswer) -> Vec<EnvoyAsk> {
        let charged = answer.asked.iter().filter(|asked| is_asked(answer, asked));
        charged.map(|asked| self.counted.ask(answer, asked)).collect()
    }

    /// Takes what the store says to each of [`charges`](Self::charges), in their order; `None`: it
    /// does not answer. `answer` has one status for each descriptor then.
    ///
    /// Returns the overall code, and the positions of the charges that are to be given back, since
    /// another limit has refused the call after it was looked at.
    #[must_use = "charges are to be given back"]
    pub fn charged(
        &self,
        answer: &mut EnvoyAnswer,
        said: &[Option<EnvoyCount>],
        on_failure: StoreFailure,
    ) -> (EnvoyCode, Vec<usize>) {
        let (mut said, mut back) = (said.iter().copied().enumerate(), Vec::new());
        for number in 0..answer.asked.len() {
            let asked = &answer.asked[number];
            let found = if is_asked(answer, asked) { said.next() } else { None };
            let seen = match found {
                Some((position, Some(found))) => {
                    let seen = self.counted.seen(asked, found);
                    if answer.may_come_back(asked, seen) {
                        back.push((position, number));
                    }
                    Some(seen)
                }
                _ if answer.is_charged(asked) => {
                    Some(self.counted.charge_without_store(answer, number, on_failure))
                }
                _ => None,
            };
            self.counted.conclude(answer, number, seen);
        }
        let code = answer.overall();
        if code == EnvoyCode::Ok {
            return (code, Vec::new());
        }
        for &(_, number) in &back {
            let hits = answer.asked[number].hits;
            answer.add_back(number, hits);
        }
        if !answer.receipts.is_empty() {
            self.counted.give_back(answer, self.counted.clock.now());
        }
        (code, back.into_iter().map(|(position, _)| position).collect())
    }
}

/// The numbers of the limits that are looked at.
fn looked_at(answer: &EnvoyAnswer) -> impl Iterator<Item = usize> {
    let asked = answer.asked.iter().enumerate();
    let enforced = asked.filter(|(_, asked)| answer.is_together && !asked.is_shadow);
    enforced.map(|(number, _)| number)
}

/// Whether the store is to count the hits.
fn is_asked(answer: &EnvoyAnswer, asked: &Asked) -> bool {
    answer.is_charged(asked) && !asked.has_failed
}

impl<C: Clock> Counted<C> {
    /// The question for a limit. Each part of its key tells where it ends.
    fn ask(&self, answer: &EnvoyAnswer, asked: &Asked) -> EnvoyAsk {
        let values = &answer.keys[asked.key.clone()];
        let key = match asked.index {
            Some(index) => {
                let way = &*self.limits[index].way;
                [&[LIMIT][..], &(way.len() as u64).to_le_bytes(), way, values].concat()
            }
            None => [&[BROUGHT][..], values].concat(),
        };
        EnvoyAsk { unit: asked.unit, key: key.into(), hits: asked.hits.min(MOST_HITS) }
    }

    fn seen(&self, asked: &Asked, found: EnvoyCount) -> Seen {
        let until_reset = match found.until_reset {
            Duration::ZERO => self.counter(asked).until_end(self.clock.now()),
            until_reset => until_reset,
        };
        Seen::of(EnvoyCount { until_reset, ..found }, asked.hits, asked.most)
    }

    /// What decides a look that the store did not answer.
    fn look_without_store(&self, answer: &EnvoyAnswer, asked: &Asked, on_failure: StoreFailure) -> Seen {
        let StoreFailure::Local { nodes } = on_failure else { return blind(asked, on_failure) };
        let (key, most) = (&answer.keys[asked.key.clone()], share(asked.most, nodes));
        self.counter(asked).look(key, asked.hits, most, self.clock.now())
    }

    /// The same of a charge.
    fn charge_without_store(
        &self,
        answer: &mut EnvoyAnswer,
        number: usize,
        on_failure: StoreFailure,
    ) -> Seen {
        let asked = &answer.asked[number];
        let StoreFailure::Local { nodes } = on_failure else { return blind(asked, on_failure) };
        let (key, most) = (&answer.keys[asked.key.clone()], share(asked.most, nodes));
        let (seen, receipt) = self.counter(asked).charge(key, asked.hits, most, self.clock.now());
        if answer.may_come_back(asked, seen) {
            answer.receipts.push((number, receipt));
        }
        seen
    }
}

/// What this process keeps of a limit that so many processes share, as of a rule's.
fn share(most: u32, nodes: u32) -> u32 {
    if most == 0 { 0 } else { (most / nodes.max(1)).max(1) }
}

/// What decides without a count.
fn blind(asked: &Asked, on_failure: StoreFailure) -> Seen {
    // No wait makes room for more than the limit, with the store or without.
    let is_over = on_failure != StoreFailure::Allow || asked.hits > u64::from(asked.most) || asked.most == 0;
    let until_reset = if is_over { WAIT } else { Duration::ZERO };
    Seen { count: u64::MAX, most: asked.most, is_over, is_blind: true, until_reset }
}
