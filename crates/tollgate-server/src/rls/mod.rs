//! Envoy's rate limit service, version 3: docs/reference/envoy.md.
//!
//! ```text
//!   gRPC: connection -> frame -> service --.          .-> by_files: domains of their files
//!                                           +-> decide +
//!   JSON: json/read --> json/write --------'          '-> by_rules: all other domains
//! ```
//!
//! | file | what |
//! |------|------|
//! | `proto` | the messages, generated |
//! | `connection` | the HTTP/2 connections, health and reflection |
//! | `frame` | the body of a call, checked before a message is read from it |
//! | `service` | the one method |
//! | `call` | what a call may ask, and why it is not decided |
//! | `decide` | who decides a call |
//! | `by_rules` | a call decided by the rules |
//! | `by_files` | a call decided by files of envoyproxy/ratelimit |
//! | `status` | what the rules say of a descriptor, as its status |
//! | `refusal` | headers and body of a response to a request that is over the limit |
//! | `json` | the same service as JSON over HTTP |
//! | `probe` | calls without connections, for tests and fuzz targets |

mod by_files;
mod by_rules;
mod call;
mod connection;
mod decide;
mod frame;
mod json;
mod probe;
mod proto;
mod refusal;
mod service;
mod status;

pub(crate) use self::json::json;
pub(crate) use connection::Grpc;
pub use probe::{CallAnswer, CallProbe};
