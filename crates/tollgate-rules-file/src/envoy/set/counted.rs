//! The limits of one configuration with their counts, and what they take over of those before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tollgate::Clock;

use crate::envoy::limit::{EnvoyLimit, EnvoyUnit};
use crate::envoy::set::counter::Counter;
use crate::envoy::set::hits::Tally;
use crate::envoy::trie::{Descriptor, EnvoyConfig, LevelId, append};
use tollgate_rules::SetError;

/// A configuration, and the counts of its limits.
pub(super) struct Counted<C> {
    pub(super) config: EnvoyConfig,
    /// By the number of the limit.
    pub(super) limits: Box<[CountedLimit<C>]>,
    /// The counts of limits that calls bring, by unit.
    pub(super) brought: Arc<[Counter<C>]>,
    pub(super) clock: C,
}

/// A limit of the configuration.
pub(super) struct CountedLimit<C> {
    /// Its counts. Also of a limit that became unlimited: when it is a limit again in the same
    /// unit, no count is forgotten.
    pub(super) counter: Option<Arc<Counter<C>>>,
    /// The number of its name.
    pub(super) name: Option<usize>,
    /// The numbers of the names that it replaces.
    pub(super) replaces: Box<[usize]>,
    /// The hits that it had.
    pub(super) hits: Arc<Tally>,
    /// The way to it, by which a store knows it.
    pub(super) way: Box<[u8]>,
}

impl<C: Clock + Clone + 'static> Counted<C> {
    /// The limits of a configuration. They share the counts of those `before` that have the same
    /// way through the descriptors and the same unit.
    pub(super) fn new(
        config: EnvoyConfig,
        before: Option<&Self>,
        max_keys: usize,
        clock: &C,
    ) -> Result<Self, SetError> {
        let old: HashMap<Box<[u8]>, (&EnvoyLimit, &CountedLimit<C>)> =
            before.map_or_else(HashMap::new, |before| {
                let limits = before.config.limits().iter().zip(&before.limits);
                ways(&before.config)
                    .into_iter()
                    .zip(limits)
                    .filter_map(|(way, old)| Some((way?.path, old)))
                    .collect()
            });
        let ways = ways(&config);
        let mut names = Names::default();
        let mut counted = |(limit, way): (&EnvoyLimit, Option<Way>)| {
            let old = way.as_ref().and_then(|way| old.get(&way.path)).copied();
            let kept = old.and_then(|(_, old)| old.counter.as_ref());
            let kept = kept.filter(|kept| limit.unit.is_none_or(|unit| unit == kept.unit()));
            let hits = match old {
                Some((before, old)) if before.shadow == limit.shadow => Arc::clone(&old.hits),
                _ => Arc::default(),
            };
            let counter = match (kept, limit.unit) {
                (Some(kept), _) => Some(Arc::clone(kept)),
                (None, Some(unit)) => {
                    let keys = if way.as_ref().is_none_or(|way| way.has_keys) { max_keys } else { 1 };
                    Some(Arc::new(counter(&limit.composite, unit, keys, clock)?))
                }
                (None, None) => None,
            };
            let name = limit.name.as_deref().map(|name| names.number(name));
            let replaces = limit.replaces.iter().map(|name| names.number(name)).collect();
            let way = way.map(|way| way.path).unwrap_or_default();
            Ok(CountedLimit { counter, name, replaces, hits, way })
        };
        let limits = config.limits().iter().zip(ways).map(&mut counted).collect::<Result<_, SetError>>()?;
        let brought = match before {
            Some(before) => Arc::clone(&before.brought),
            None => {
                let each = EnvoyUnit::ALL.map(|unit| brought_counter(unit, max_keys, clock));
                each.into_iter().collect::<Result<_, SetError>>()?
            }
        };
        Ok(Self { config, limits, brought, clock: clock.clone() })
    }
}

impl<C: Clock> Counted<C> {
    /// Aligns all windows to another Unix time, as many as can be.
    pub(super) fn realign(&self, unix_at_zero: Duration) -> Result<(), SetError> {
        let of_limits = self.config.limits().iter().zip(&self.limits);
        let of_limits = of_limits
            .filter_map(|(limit, counted)| Some((limit.composite.to_string(), counted.counter.as_deref()?)));
        let brought = self.brought.iter().map(|counter| (name_of_brought(counter.unit()), counter));
        let mut first = Ok(());
        for (name, counter) in of_limits.chain(brought) {
            let refused = |error| SetError::Limit { rule: name.into(), tier: None, error };
            first = first.and(counter.realign(unix_at_zero).map_err(refused));
        }
        first
    }

    /// The counts of limits of a unit that calls bring.
    pub(super) fn brought(&self, unit: EnvoyUnit) -> &Counter<C> {
        &self.brought[unit as usize]
    }
}

/// A counter of limits of a unit that calls bring.
pub(super) fn brought_counter<C: Clock + Clone + 'static>(
    unit: EnvoyUnit,
    max_keys: usize,
    clock: &C,
) -> Result<Counter<C>, SetError> {
    counter(&name_of_brought(unit), unit, max_keys, clock)
}

fn name_of_brought(unit: EnvoyUnit) -> String {
    format!("limits that calls bring, per {unit}")
}

fn counter<C: Clock + Clone + 'static>(
    rule: &str,
    unit: EnvoyUnit,
    max_keys: usize,
    clock: &C,
) -> Result<Counter<C>, SetError> {
    Counter::new(unit, max_keys, clock).map_err(|error| SetError::Limit {
        rule: rule.into(),
        tier: None,
        error,
    })
}

/// The numbers of the names of limits.
#[derive(Default)]
struct Names(BTreeMap<Box<str>, usize>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len();
        self.0.insert(name.into(), number);
        number
    }
}

/// The way through the descriptors to a limit.
pub(super) struct Way {
    /// The domain, and keys and values with how they are counted: no two limits have the same.
    pub(super) path: Box<[u8]>,
    /// Whether the files leave a value open that has a count of its own.
    pub(super) has_keys: bool,
}

/// The ways to all limits, by their numbers.
pub(super) fn ways(config: &EnvoyConfig) -> Vec<Option<Way>> {
    let mut ways = Ways { config, found: config.limits().iter().map(|_| None).collect() };
    for (domain, level) in &config.domains {
        let mut path = Vec::new();
        append(&mut path, domain);
        ways.level(*level, &mut path, false);
    }
    ways.found
}

struct Ways<'c> {
    config: &'c EnvoyConfig,
    found: Vec<Option<Way>>,
}

impl Ways<'_> {
    /// A level and those in it, at most 64.
    fn level(&mut self, level: LevelId, path: &mut Vec<u8>, has_keys: bool) {
        let config = self.config;
        for (key, siblings) in &config.levels[level.0].by_key {
            let valued = siblings.exact.iter().map(|(value, descriptor)| (Some(&**value), descriptor));
            for (value, descriptor) in valued.chain(siblings.bare.iter().map(|bare| (None, bare))) {
                let Descriptor { limit, inner, counts_values } = *descriptor;
                let length = path.len();
                append(path, key);
                path.push(u8::from(value.is_some()) << 1 | u8::from(counts_values));
                append(path, value.unwrap_or_default());
                let has_keys = has_keys || counts_values;
                if let Some(limit) = limit {
                    self.found[limit] = Some(Way { path: path.as_slice().into(), has_keys });
                }
                if let Some(inner) = inner {
                    self.level(inner, path, has_keys);
                }
                path.truncate(length);
            }
        }
    }
}
