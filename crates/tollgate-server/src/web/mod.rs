//! Requests and answers of HTTP.
//!
//! | file | what |
//! |------|------|
//! | `serve` | a connection's requests, one handler for all |
//! | `answer` | JSON and problem answers |
//! | `idle` | how long a connection may be without a request |
//! | `body` | a request's body, up to a limit |

mod answer;
mod body;
mod idle;
mod serve;

pub(crate) use answer::{Answer, json, problem, problem_at, with};
pub(crate) use body::{BodyError, read_body};
pub(crate) use serve::serve;
