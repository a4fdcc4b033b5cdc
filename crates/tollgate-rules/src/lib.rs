//! Rate limits in a file: which requests a rule concerns, whose limit they use, and how much.
//!
//! [`read`] makes [`Rules`] of a file, or finds all its mistakes.

mod file;
mod rule;

pub use file::{Code, Disk, Memory, Problem, Reading, Source, read, schema};
pub use rule::{
    Attribute, Ban, BodyFormat, Clients, Condition, Conditions, Cost, CostCase, Expected, HeaderStyle, Key,
    Limit, Limits, MissingKey, Mode, Outcome, Refusal, Replaces, Rule, RuleTest, Rules, Step, Tier, Values,
};
