//! Rules that are gone, kept for a while: what comes back has forgotten nothing.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{BuildError, Clock, Timestamp};

use crate::rule::Rule;
use crate::set::RuleSet;
use crate::set::allowance::{Limited, realign};
use crate::set::succeed::Before;

/// How long a rule that is gone is kept.
pub(super) const LONGEST: Duration = Duration::from_secs(3_600);

/// How many of them are kept at most.
pub(super) const MOST: usize = 64;

/// The rules that are gone and not forgotten yet, in the order in which they went.
pub(crate) struct Parked<C>(pub(super) Vec<Gone<C>>);

pub(super) struct Gone<C> {
    pub(super) rule: Rule,
    pub(super) limited: Limited<C>,
    /// When it is forgotten.
    pub(super) until: Timestamp,
    /// The text that it was read from, and its index in it. `None`: a program made it.
    pub(super) read_from: Option<(Arc<[u8]>, u32)>,
}

impl<C> Default for Parked<C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<C: Clock + Clone + 'static> Parked<C> {
    pub(super) fn rules(&self) -> impl Iterator<Item = Before<'_, C>> {
        self.0.iter().map(|Gone { rule, limited, .. }| Before { rule, limited })
    }

    /// Aligns the windows of all of them: see [`realign`].
    pub(crate) fn realign(&self, unix_at_zero: Duration) -> Result<(), (Box<str>, BuildError)> {
        realign(self.0.iter().map(|gone| (&gone.rule, &gone.limited)), unix_at_zero)
    }

    /// Forgets the rules whose time is over.
    pub(crate) fn forget_old(&mut self, now: Timestamp) {
        self.0.retain(|gone| now < gone.until);
    }

    /// Parks the rules of `old` that no new rule has taken over, and lets go of those that one has.
    /// `text` is that of the old rules. `is_taken` counts both, first those of `old`, then those
    /// that were parked at the plan.
    ///
    /// A rule without a debt is parked, too: a request that was decided just now may not show yet.
    /// It is let go of by the next exchange.
    pub(crate) fn exchange(
        &mut self,
        old: &RuleSet<C>,
        text: Option<&Arc<[u8]>>,
        is_taken: impl Fn(usize) -> bool,
    ) {
        let until = old.clock().now() + LONGEST;
        let mut index = old.limited.len();
        self.0.retain(|gone| {
            index += 1;
            !is_taken(index - 1) && gone.limited.is_in_debt()
        });
        for (index, (rule, limited)) in old.rules.rules.iter().zip(&old.limited).enumerate() {
            if !is_taken(index) && limited.has_state() {
                let read_from = text.map(|text| (Arc::clone(text), index as u32));
                self.0.push(Gone { rule: rule.clone(), limited: limited.share(rule), until, read_from });
            }
        }
        let most = old.rules.memory_budget / 10;
        if self.0.len() > MOST || self.memory_in_use() > most {
            self.0.retain(|gone| gone.limited.is_in_debt());
        }
        self.0.drain(..self.0.len().saturating_sub(MOST));
        let mut bytes = self.memory_in_use();
        self.0.retain(|gone| {
            let is_kept = bytes <= most;
            bytes -= if is_kept { 0 } else { gone.limited.memory_in_use() };
            is_kept
        });
    }

    fn memory_in_use(&self) -> usize {
        self.0.iter().map(|gone| gone.limited.memory_in_use()).sum()
    }
}
