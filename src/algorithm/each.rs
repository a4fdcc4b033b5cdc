//! Several limits on one key, compiled as the tiers of one limit are. Each has its own table, and
//! all share one horizon.
//!
//! One version of all the quotas must decide a request, so all of them change at the same instant:
//! their rules share a horizon, and one compare-exchange seals it.

use std::slice;

use crate::algorithm::{Algorithm, AnyRule, Change, Quota, Rule, Settings, Term, sealed};
use crate::error::BuildError;

/// The quota of one of several limits. Limits take the place of tiers. Each may use any algorithm
/// and is checked alone.
#[derive(Clone, Copy, Debug)]
pub struct Each(pub(crate) Quota);

impl sealed::Sealed for Each {}

impl Algorithm for Each {
    type Rule = AnyRule;

    fn settings(&self) -> Settings {
        self.0.settings()
    }

    fn compile(limits: &[Self], origin: u64) -> Result<Vec<AnyRule>, BuildError> {
        let rules = limits.iter().map(|limit| Quota::compile(&[limit.0], origin));
        Ok(joined(rules.collect::<Result<Vec<_>, BuildError>>()?))
    }

    fn recompile(
        limits: &[Self],
        origin: u64,
        olds: &[AnyRule],
        change: Change<'_>,
    ) -> Result<Vec<AnyRule>, BuildError> {
        let rule = |((limit, old), inherit): ((&Self, &AnyRule), _)| {
            let change = Change { inherits: slice::from_ref(inherit), ..change };
            Quota::recompile(&[limit.0], origin, slice::from_ref(old), change)
        };
        let rules = limits.iter().zip(olds).zip(change.inherits).map(rule);
        Ok(joined(rules.collect::<Result<Vec<_>, BuildError>>()?))
    }
}

fn joined(rules: Vec<Vec<AnyRule>>) -> Vec<AnyRule> {
    let mut rules = rules.concat();
    Term::join(rules.iter_mut().filter_map(Rule::term_mut));
    rules
}
