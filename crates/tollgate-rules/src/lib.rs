#![doc = include_str!("../README.md")]

mod address;
mod file;
mod matcher;
mod request;
mod rule;

pub use file::{Code, Disk, Memory, Problem, Reading, Source, read, schema};
pub use matcher::{CompileError, Concerned, Explanation, Found, KeyPart, Matcher, Reason, Why};
pub use request::{Field, PlainRequest, Request};
pub use rule::{
    Attribute, Ban, BodyFormat, Clients, Condition, Conditions, Cost, CostCase, Expected, HeaderStyle, Key,
    Limit, Limits, MissingKey, Mode, Outcome, Refusal, Replaces, Rule, RuleTest, Rules, Step, Tier, Values,
};
