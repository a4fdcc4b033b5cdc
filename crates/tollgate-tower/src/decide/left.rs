//! What an admitted request leaves of its limits.

use std::sync::Arc;

use tollgate_http::LimitState;
use tollgate_rules::Line;

use super::generation::Generation;

/// What the enforced rules have left that concern an admitted request.
#[derive(Clone)]
pub(crate) struct LimitsLeft {
    generation: Arc<Generation>,
    /// The indexes of the rules, with the states of their limits.
    limits: Arc<[(usize, LimitState)]>,
}

impl LimitsLeft {
    pub(super) fn of(generation: &Arc<Generation>, lines: &[Line]) -> Self {
        let enforced = lines.iter().filter(|line| !line.is_shadow);
        let state_of = |line: &Line| Some((line.rule, generation.http.shown(line)?.1));
        Self { generation: Arc::clone(generation), limits: enforced.filter_map(state_of).collect() }
    }

    /// The names of the rules, with what each has left.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, LimitState)> {
        let rules = &self.generation.http.set().rules().rules;
        self.limits.iter().map(|&(rule, limit)| (&*rules[rule].name, limit))
    }
}
