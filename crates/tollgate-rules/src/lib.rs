//! Rate limits in a file: which requests a rule concerns, whose limit they use, and how much.

mod rule;

pub use rule::{
    Attribute, Ban, Condition, Conditions, Cost, CostCase, Key, Limit, Limits, MissingKey, Mode, Refusal,
    Replaces, Rule, Tier, Values,
};
