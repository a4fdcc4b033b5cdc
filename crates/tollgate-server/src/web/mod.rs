//! Requests and answers of HTTP.
//!
//! | file | what |
//! |------|------|
//! | `serve` | a connection's requests, one handler for all |
//! | `answer` | JSON and problem answers |
//! | `idle` | how long a connection may be without a request |
//! | `refuse` | the answer where there are too many connections |
//! | `body` | a request's body, up to a limit |

mod answer;
mod body;
mod idle;
mod refuse;
mod serve;

pub(crate) use answer::{Answer, json, problem, problem_at, with};
pub(crate) use body::{BodyError, read_body};
pub(crate) use refuse::refuse;
pub(crate) use serve::serve;
