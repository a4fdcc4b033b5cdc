#![doc = include_str!("../README.md")]

mod file;
mod rule;

pub use file::{Code, Disk, Memory, Problem, Reading, Source, read, schema};
pub use rule::{
    Attribute, Ban, BodyFormat, Clients, Condition, Conditions, Cost, CostCase, Expected, HeaderStyle, Key,
    Limit, Limits, MissingKey, Mode, Outcome, Refusal, Replaces, Rule, RuleTest, Rules, Step, Tier, Values,
};
