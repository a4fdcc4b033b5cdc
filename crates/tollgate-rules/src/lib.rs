#![doc = include_str!("../README.md")]

mod address;
mod forgotten;
mod live;
mod matcher;
mod request;
mod rule;
mod set;
mod simulation;
mod store;

pub use address::canonical_network;
pub use forgotten::{NotRestored, SavedLimits};
pub use live::{
    ExchangeError, Handle, LiveRules, OfRules, Origin, PlannedChange, Round, RulePlan, Session, Status,
};
pub use matcher::{CompileError, Concerned, Explanation, Found, KeyPart, Matcher, Reason, Why};
pub use request::{Field, PlainRequest, Request, is_host, is_misspelled};
pub use rule::{
    Attribute, Ban, BodyFormat, Clients, Condition, Conditions, Cost, CostCase, Expected, HeaderStyle, Key,
    Limit, Limits, MissingKey, Mode, Outcome, Park, Refusal, Replaces, Rule, RuleTest, Rules, Step, Store,
    StoreFailure, StoreLeases, StoreServer, Tier, Transform, UpstreamLimits, Values, WrongValue,
};
pub use set::{
    Ask, AskRule, AskRuleError, Asked, Cause, Conflict, Line, RuleAnswer, RuleKey, RuleSet, Ruling, Scratch,
    SetError, StoredAnswer, StoredAsk, StoredCharge, Ticket, Together, Verdict,
};
pub use simulation::{Ending, Ends, Simulation};
pub use store::{
    AddressError, AnyBackend, AnyReceipt, Backend, BackendFault, OnBackendError, Secret, StoreAddress,
    StorePlace, StoreReply, local_share,
};
