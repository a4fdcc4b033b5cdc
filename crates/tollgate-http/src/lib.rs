#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod headers;
mod key;
mod outcome;
mod request_head;
mod respond;
#[cfg(feature = "rules")]
mod rules;

pub use client::{AddressError, ClientAddress};
pub use headers::{
    HeaderItems, HeaderJson, HeaderSink, HeaderStyle, HeaderStyles, LONGEST_WAIT, LimitHeaders, LimitState,
    QuotaPolicies, UnixZero, ValueText, expose_limits,
};
pub use key::{KeyBuf, KeyBy};
pub use outcome::{RefusalReason, RuleOutcome};
pub use request_head::RequestHead;
pub use respond::{GrpcResponder, HttpResponder, Refusal, RefusalRecord, Respond};
#[cfg(feature = "rules")]
pub use rules::{HttpRules, RuleRefusal};
