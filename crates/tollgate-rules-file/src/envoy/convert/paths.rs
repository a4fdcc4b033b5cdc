//! The way to each limit, and what the walk finds before it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::envoy::limit::EnvoyLimit;
use crate::envoy::trie::{Descriptor, EnvoyConfig, LevelId, Siblings};
use crate::file::glob;

/// The most values that are compared with those beside them. A rules file has a million at most.
const MOST_WORK: usize = 20_000_000;

/// Which values of an entry a descriptor means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fits<'c> {
    Exact(&'c str),
    Pattern(&'c str),
    Any,
}

impl<'c> Fits<'c> {
    /// The text of a condition.
    pub(super) fn text(self) -> &'c str {
        match self {
            Self::Exact(text) | Self::Pattern(text) => text,
            Self::Any => "*",
        }
    }
}

/// One descriptor on the way to a limit.
#[derive(Clone, Debug)]
pub(super) struct Step<'c> {
    pub(super) key: &'c str,
    pub(super) fits: Fits<'c>,
    /// The values, and values with `*`, that the walk finds before this descriptor; sorted.
    pub(super) before: Rc<[&'c str]>,
    /// Whether a value `*` is found before it, always.
    pub(super) is_shadowed: bool,
    pub(super) counts_values: bool,
}

/// The ways to all limits.
pub(super) struct Paths<'c> {
    /// By the number of the limit.
    steps: BTreeMap<usize, Vec<Step<'c>>>,
    /// The keys of each descriptor of a domain and those around it, by any one of its keys.
    sequences: BTreeMap<(&'c str, &'c str), BTreeSet<Vec<&'c str>>>,
    /// The values that were compared with others.
    work: usize,
}

impl<'c> Paths<'c> {
    pub(super) fn of(config: &'c EnvoyConfig) -> Self {
        let mut paths = Self { steps: BTreeMap::new(), sequences: BTreeMap::new(), work: 0 };
        for (domain, level) in &config.domains {
            paths.level(config, domain, *level, &mut Vec::new());
        }
        paths
    }

    /// The steps to a limit.
    pub(super) fn steps(&self, limit: &EnvoyLimit) -> &[Step<'c>] {
        self.steps.get(&limit.index).map(|steps| &**steps).unwrap_or_default()
    }

    /// The further keys of the domain's descriptors that have all of `keys`, and more.
    ///
    /// # Errors
    ///
    /// If there is one with the same keys in another order, or one with a key twice.
    pub(super) fn more(
        &self,
        domain: &str,
        steps: &[Step<'_>],
        keys: &BTreeSet<&str>,
    ) -> Result<BTreeSet<&'c str>, String> {
        let with = steps.iter().filter_map(|step| self.sequences.get(&(domain, step.key)));
        let fewest = with.min_by_key(|all| all.len());
        let own: Vec<_> = steps.iter().map(|step| step.key).collect();
        let mut more = BTreeSet::new();
        for sequence in fewest.into_iter().flatten() {
            let has: BTreeSet<&str> = sequence.iter().copied().collect();
            if !keys.is_subset(&has) || *sequence == own {
                continue;
            }
            if has.len() == keys.len() {
                let other = sequence.join(", ");
                return Err(format!(
                    "there is a descriptor of the keys {other}, too: rules cannot tell them apart"
                ));
            }
            more.extend(sequence.iter().copied().filter(|key| !keys.contains(key)));
        }
        Ok(more)
    }

    fn level(&mut self, config: &'c EnvoyConfig, domain: &'c str, level: LevelId, steps: &mut Vec<Step<'c>>) {
        for (key, siblings) in &config.levels[level.0].by_key {
            let all: Vec<&'c str> = steps.iter().map(|step| step.key).chain([&**key]).collect();
            for one in all.clone() {
                self.sequences.entry((domain, one)).or_default().insert(all.clone());
            }
            for (fits, descriptor) in each(siblings) {
                let step = self.step(key, fits, descriptor, siblings);
                steps.push(step);
                if let Some(limit) = descriptor.limit {
                    self.steps.insert(limit, steps.clone());
                }
                if let Some(inner) = descriptor.inner {
                    self.level(config, domain, inner, steps);
                }
                steps.pop();
            }
        }
    }
}

impl<'c> Paths<'c> {
    /// A step, with what the walk finds before it among its siblings.
    fn step(
        &mut self,
        key: &'c str,
        fits: Fits<'c>,
        descriptor: &Descriptor,
        siblings: &'c Siblings,
    ) -> Step<'c> {
        let patterns = || siblings.patterns.iter().map(|pattern| &**pattern);
        let exact = || siblings.exact.keys().map(|value| &**value).filter(|value| !value.contains('*'));
        let mut before: Vec<&'c str> = Vec::new();
        if !matches!(fits, Fits::Exact(_)) {
            self.work += siblings.patterns.len() + siblings.exact.len();
        }
        if !self.is_too_much() {
            match fits {
                Fits::Exact(_) => {}
                Fits::Pattern(own) => {
                    before.extend(exact().filter(|value| glob(own, value)));
                    before.extend(patterns().take_while(|pattern| *pattern != own));
                }
                Fits::Any => before.extend(exact().chain(patterns())),
            }
        }
        before.sort_unstable();
        let is_shadowed = before.contains(&"*");
        Step { key, fits, before: before.into(), is_shadowed, counts_values: descriptor.counts_values }
    }

    /// Whether there are too many values beside one another to compare them all.
    pub(super) fn is_too_much(&self) -> bool {
        self.work > MOST_WORK
    }
}

/// The descriptors of a key, and which values each means.
fn each(siblings: &Siblings) -> impl Iterator<Item = (Fits<'_>, &Descriptor)> {
    let valued = siblings.exact.iter().map(|(value, descriptor)| {
        let fits = if value.contains('*') { Fits::Pattern(value) } else { Fits::Exact(value) };
        (fits, descriptor)
    });
    valued.chain(siblings.bare.iter().map(|descriptor| (Fits::Any, descriptor)))
}
