//! What the rules of a file need of HTTP.
//!
//! | file | what |
//! |------|------|
//! | `chance` | how much of a jitter the numbers of a response have |
//! | `cors` | pages of other origins |
//! | `http_rules` | one generation of rules: clients, headers, refusals |
//! | `named_limits` | the limits of a rule or a tier, as headers show them |
//! | `policies` | `RateLimit-Policy` of the rules that decide together |
//! | `refusal` | the response to a request that rules refuse |
//! | `settings` | settings of the file as those of this crate |

mod chance;
mod cors;
mod http_rules;
mod named_limits;
mod policies;
mod refusal;
mod settings;

pub use http_rules::HttpRules;
pub use refusal::RuleRefusal;
