//! Requests and answers of HTTP.
//!
//! | file | what |
//! |------|------|
//! | `serve` | a connection's requests, one handler for all |
//! | `busy` | the body of an answer, whose connection is busy until it has ended |
//! | `answer` | JSON and problem answers |
//! | `idle` | how long a connection may be without a request |
//! | `body` | a request's body, up to a limit |
//! | `read`, `pointer` | JSON, and where an error in it is |

mod answer;
mod body;
mod busy;
mod idle;
mod pointer;
mod read;
mod serve;

pub(crate) use answer::{Answer, json, problem, problem_at, with};
pub(crate) use body::{BodyError, read_body};
#[cfg(test)]
pub(crate) use pointer::pointer_at;
pub(crate) use read::read_json;
pub(crate) use serve::serve;
