//! The parts after the rate: options of the algorithm, each at most once.

use std::slice::from_ref;

use super::error::Problem;
use super::{Syntax, number};
use crate::algorithm::CountPolicy;

/// The values of the options of all algorithms.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) burst: Option<u64>,
    pub(super) initial: Option<u64>,
    pub(super) intervals: Option<()>,
    pub(super) first_hit: Option<()>,
    pub(super) capacity: Option<u64>,
    pub(super) queue: Option<bool>,
    pub(super) subwindows: Option<u32>,
    pub(super) count: Option<CountPolicy>,
}

impl Options {
    pub(super) fn parse<'t>(
        syntax: &Syntax,
        parts: impl Iterator<Item = &'t str>,
    ) -> Result<Self, Problem<'t>> {
        let mut options = Self::default();
        for part in parts {
            options.add(syntax, part)?;
        }
        Ok(options)
    }

    fn add<'t>(&mut self, syntax: &Syntax, part: &'t str) -> Result<(), Problem<'t>> {
        static MODES: [&str; 2] = ["queue", "meter"];
        static POLICIES: [&str; 2] = ["allowed", "all"];
        let (name, value) = part
            .split_once('=')
            .map_or((part, None), |(name, value)| (name.trim_end(), Some(value.trim_start())));
        let is_known = |form: &&str| form.split('=').next() == Some(name);
        let Some(form) = syntax.options.iter().find(|form| is_known(form)) else {
            return Err(Problem::new(name, "is no option of this algorithm", syntax.options));
        };
        let value = match (form.contains('='), value) {
            (true, Some(value)) => value,
            (false, None) => name,
            (true, None) => return Err(Problem::new(part, "has no value", from_ref(form))),
            (false, Some(_)) => return Err(Problem::new(part, "takes no value", from_ref(form))),
        };
        match name {
            "burst" => set(&mut self.burst, part, number::whole(value)?),
            "initial" => {
                set(&mut self.initial, part, number::whole_such_as(value, &["a whole number, such as 0"])?)
            }
            "intervals" => set(&mut self.intervals, part, ()),
            "first-hit" => set(&mut self.first_hit, part, ()),
            "capacity" => set(&mut self.capacity, part, number::whole(value)?),
            // `build` refuses more than a u32, and its error names the range.
            "subwindows" => {
                let number = number::whole_such_as(value, &["a whole number, such as 4"])?;
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                set(&mut self.subwindows, part, number)
            }
            "count" => {
                let all = choice(value, [("allowed", CountPolicy::Allowed), ("all", CountPolicy::All)]);
                set(&mut self.count, part, all.ok_or(Problem::new(value, "is no count", &POLICIES))?)
            }
            _ => {
                let queue = choice(value, [("queue", true), ("meter", false)]);
                set(&mut self.queue, part, queue.ok_or(Problem::new(value, "is no mode", &MODES))?)
            }
        }
    }
}

/// Sets an option, or refuses a second value.
fn set<'t, T>(option: &mut Option<T>, part: &'t str, value: T) -> Result<(), Problem<'t>> {
    static ONCE: [&str; 1] = ["each option once"];
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::new(part, "is given twice", &ONCE)),
    }
}

fn choice<T, const N: usize>(value: &str, choices: [(&str, T); N]) -> Option<T> {
    choices.into_iter().find_map(|(choice, meaning)| (choice == value).then_some(meaning))
}
