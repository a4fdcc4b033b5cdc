//! The settings of a quota by their API names. A restore compares them with those of the saved
//! state.

use crate::algorithm::{CountPolicy, Mode};
use crate::rate::Rate;

/// An algorithm's name and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) algorithm: &'static str,
    pub(crate) values: Vec<(&'static str, u64)>,
}

impl Settings {
    /// The name of an algorithm and its rate.
    pub(crate) fn new(algorithm: &'static str, rate: Rate) -> Self {
        let values = vec![("rate.count", rate.count()), ("rate.period", rate.period_nanos())];
        Self { algorithm, values }
    }

    /// Adds a setting.
    pub(crate) fn and(mut self, name: &'static str, value: u64) -> Self {
        self.values.push((name, value));
        self
    }

    pub(crate) fn and_count(self, count: CountPolicy) -> Self {
        self.and("count", u64::from(count == CountPolicy::All))
    }

    pub(crate) fn and_mode(self, mode: Mode) -> Self {
        self.and("mode", u64::from(mode == Mode::Queue))
    }
}
