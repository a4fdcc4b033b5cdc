//! The requests that each rule of a file would decide, by key.

use std::collections::HashMap;

use tollgate::Timestamp;
use tollgate_rules::{Cost, Ending, Found, Limits, Rule, Rules};

use crate::by_rules::{Judge, LogArgs, Requests, Trial};
use crate::failure::Failure;
use crate::note::print_note;
use crate::reading::Reading;

/// A request of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) at: Timestamp,
    pub(super) cost: u64,
    pub(super) ends: Timestamp,
    /// What stays charged of it when it has ended.
    pub(super) settles: u64,
}

/// What a rule charges in the end for a request that it charged `cost` at its arrival.
fn settled(rule: &Rule, cost: u64, ending: Ending) -> u64 {
    let is_charged = ending
        .status
        .is_none_or(|status| rule.charge_if.as_ref().is_none_or(|statuses| statuses.contains(&status)));
    match (is_charged, &rule.cost, ending.cost) {
        (false, ..) => 0,
        (true, Cost::From { .. }, Some(told)) => told,
        (true, ..) => cost,
    }
}

/// The requests of all keys of a rule, or of a tier of it.
pub(super) type ByKey = HashMap<Box<[u8]>, Vec<Ask>, ahash::RandomState>;

/// What a log asks of the limits of a file.
pub(super) struct Asked {
    pub(super) trial: Trial<1>,
    pub(super) requests: u64,
    /// Of each rule its own limits, then its tiers.
    pub(super) limits: Vec<OfLimits>,
}

/// The requests that use the limits of a rule, or of a tier of it.
pub(super) struct OfLimits {
    pub(super) rule: usize,
    pub(super) tier: Option<usize>,
    pub(super) keys: ByKey,
}

impl OfLimits {
    pub(super) fn limits<'r>(&self, rules: &'r Rules) -> &'r Limits {
        let rule = &rules.rules[self.rule];
        self.tier.map_or(&rule.limits, |tier| &rule.tiers[tier].limits)
    }

    /// The rule's name, and the tier's behind it.
    pub(super) fn name(&self, rules: &Rules) -> String {
        let rule = &rules.rules[self.rule];
        match self.tier {
            None => rule.name.to_string(),
            Some(tier) => format!("{} (tier {})", rule.name, rule.tiers[tier].name),
        }
    }
}

/// Reads a log.
///
/// # Errors
///
/// A log that cannot be read to its end, or has no request.
pub(super) fn read(reading: &Reading, rules: Rules, log: &LogArgs) -> Result<Asked, Failure> {
    let places = |(rule, of): (usize, &tollgate_rules::Rule)| {
        let tiers = (0..of.tiers.len()).map(Some);
        let all = std::iter::once(None).chain(tiers);
        all.map(move |tier| OfLimits { rule, tier, keys: ByKey::default() }).collect::<Vec<_>>()
    };
    let mut limits: Vec<OfLimits> = rules.rules.iter().enumerate().flat_map(places).collect();
    let mut first = vec![0; rules.rules.len()];
    for (index, of) in limits.iter().enumerate().rev() {
        first[of.rule] = index;
    }
    let own = rules.rules.clone();
    let mut trial = Trial::new([rules], log, reading)?;
    let (mut found, mut requests) = (Found::default(), 0);
    let collect = |judge: &mut Judge, batch: &Requests| {
        for logged in batch.iter() {
            requests += 1;
            let (at, ending) = (judge.at(&logged), logged.ending());
            judge.concerned(&logged, &mut found, |rule, concerned, key| {
                let of = &mut limits[first[rule] + concerned.tier.map_or(0, |tier| tier + 1)];
                let settles = settled(&own[rule], concerned.cost, ending);
                let ask = Ask { at, cost: concerned.cost, ends: at + ending.after, settles };
                match of.keys.get_mut(key) {
                    Some(asks) => asks.push(ask),
                    None => drop(of.keys.insert(key.into(), vec![ask])),
                }
            });
        }
        Ok(())
    };
    let read = trial.read(reading, [collect], |_, [collected]| collected)?;
    read.problems(&reading.names()).iter().for_each(|problem| print_note(problem));
    if let Some(why) = read.stopped {
        return Err(Failure::Usage(why));
    }
    if requests == 0 {
        return Err(Failure::Usage("no request could be read".to_owned()));
    }
    trial.log.check_mapped()?;
    Ok(Asked { trial, requests, limits })
}
