//! A compiled rule.

use std::collections::HashMap;

use tollgate::spelling::Spelling;

use super::condition::All;
use crate::request::Source;
use crate::rule::{Attribute, Limit, Limits, MissingKey, Mode};

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) name: Box<str>,
    pub(super) mode: Mode,
    /// Whether it refuses no request, so that its conditions relax.
    pub(super) is_unlimited: bool,
    /// Whether its limit comes with each request.
    pub(super) is_per_request: bool,
    /// Empty: all requests.
    pub(super) applies: Vec<All>,
    pub(super) except: Vec<All>,
    /// Empty: everyone.
    pub(super) key: Vec<Part>,
    pub(super) missing: MissingKey,
    pub(super) tiers: Vec<CompiledTier>,
    /// What may name a tier, and the tiers by their names.
    pub(super) named_tier: Option<(Source, TierByName)>,
    pub(super) generosity: Generosity,
    pub(super) cost: CompiledCost,
    pub(super) replaces: Replaced,
    /// A rule has a lower number than those that it replaces.
    pub(super) turn: u32,
}

/// The numbers of tiers.
pub(super) type TierByName = HashMap<Box<[u8]>, usize, ahash::RandomState>;

/// A part of a key.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) attribute: Attribute,
    pub(super) source: Source,
    /// What makes one spelling of those of a value.
    pub(super) spellings: Box<[Spelling]>,
}

#[derive(Debug)]
pub(super) struct CompiledTier {
    pub(super) name: Box<str>,
    pub(super) applies: Vec<All>,
    pub(super) generosity: Generosity,
}

#[derive(Debug)]
pub(super) enum CompiledCost {
    Fixed(u64),
    From {
        source: Source,
        default: u64,
    },
    /// Conditions, of which none mean all requests, and costs.
    Cases(Vec<(Vec<All>, u64)>),
}

/// The rules that a rule replaces, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Replaced {
    None,
    All,
    /// Sorted.
    Named(Vec<u32>),
}

/// How much limits admit, to choose the least where it is not certain which of them apply: units
/// each second in the long run, then units at once.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Generosity(f64, u64);

impl Generosity {
    pub(super) fn of(limits: &Limits) -> Self {
        let of_limit = |limit: &Limit| match limit {
            Limit::Quota(quota) => {
                let rate = quota.rate();
                Self(rate.count() as f64 / rate.period().as_secs_f64(), quota.limit())
            }
            Limit::InFlight { most, .. } => Self(*most as f64, *most),
        };
        match limits {
            Limits::Block => Self(0.0, 0),
            // What it admits is not known here.
            Limits::Unlimited | Limits::PerRequest | Limits::Elsewhere => Self(f64::INFINITY, u64::MAX),
            Limits::Each(limits) => {
                limits.iter().map(of_limit).fold(Self(f64::INFINITY, u64::MAX), |least, limit| {
                    if limit < least { limit } else { least }
                })
            }
        }
    }
}
