//! Several limits on one key, compiled as the tiers of one limit are. Each has its own table.

use std::slice;

use crate::algorithm::{Algorithm, AnyRule, Change, Quota, Settings, sealed};
use crate::error::BuildError;

/// The quota of one of several limits. Limits take the place of tiers. Each may use any algorithm
/// and is checked alone.
#[derive(Clone, Copy, Debug)]
pub struct Each(pub(crate) Quota);

impl sealed::Sealed for Each {}

impl Algorithm for Each {
    type Rule = AnyRule;

    const IS_SHARED: bool = false;

    fn settings(&self) -> Settings {
        self.0.settings()
    }

    fn compile(limits: &[Self], origin: u64) -> Result<Vec<AnyRule>, BuildError> {
        let rules = limits.iter().map(|limit| Quota::compile(&[limit.0], origin));
        Ok(rules.collect::<Result<Vec<_>, BuildError>>()?.concat())
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
        Ok(rules.collect::<Result<Vec<_>, BuildError>>()?.concat())
    }
}
