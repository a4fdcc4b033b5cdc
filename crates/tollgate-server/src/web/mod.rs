//! Requests and answers of HTTP.
//!
//! | file | what |
//! |------|------|
//! | `serve` | a connection's requests, one handler for all |
//! | `answer` | JSON and problem answers |
//! | `body` | a request's body, up to a limit |

mod answer;
mod body;
mod serve;

pub(crate) use answer::{Answer, json, problem};
pub(crate) use body::{BodyError, read_body};
pub(crate) use serve::serve;
