#![doc = include_str!("../README.md")]

mod address;
mod envoy;
mod file;
mod live;
mod matcher;
mod request;
mod rule;
mod set;
mod simulation;
mod trial;

pub use envoy::{
    Converted, EnvoyAnswer, EnvoyAsk, EnvoyCallError, EnvoyCharge, EnvoyCode, EnvoyConfig, EnvoyCount,
    EnvoyDescriptor, EnvoyHandle, EnvoyHits, EnvoyLimit, EnvoySet, EnvoyStatus, EnvoyUnit, SameDomain,
};
pub use file::{
    Code, Disk, Listener, Memory, Problem, ProblemPart, Reading, Source, read, read_network, schema,
};
pub use live::{Handle, LiveRules, PlannedChange, ReloadError, Resumed, RulePlan, Status, Watched};
pub use matcher::{CompileError, Concerned, Explanation, Found, KeyPart, Matcher, Reason, Why};
pub use request::{Field, PlainRequest, Request, is_host, is_misspelled};
pub use rule::{
    Attribute, Ban, BodyFormat, Clients, Condition, Conditions, Cost, CostCase, Expected, HeaderStyle, Key,
    Limit, Limits, MissingKey, Mode, Outcome, Park, Refusal, Replaces, Rule, RuleTest, Rules, Step, Store,
    StoreFailure, StoreLeases, StoreServer, Tier, Transform, UpstreamLimits, Values,
};
pub use set::{
    Ask, AskRule, AskRuleError, Asked, Cause, Conflict, Line, NotRestored, RestoreError, RuleAnswer, RuleKey,
    RuleSet, Ruling, SavedLimits, Scratch, SetError, StoredAnswer, StoredAsk, StoredCharge, Ticket, Together,
    Verdict,
};
pub use simulation::{Ending, Ends, Simulation};
pub use tollgate_backend::StoreReply;
pub use trial::{TestFailure, run_tests};
