//! HTTP in front: requests and answers.
//!
//! | file | what |
//! |------|------|
//! | `serve` | a connection's requests, one handler for all |
//! | `untaken` | what the client has not taken yet of its answers |
//! | `streams` | the streams of HTTP/2, of which each can be reset alone |
//! | `early` | the streams that their client resets before they are answered |
//! | `answer` | JSON and problem answers |
//! | `heads` | where heads begin and end among the bytes of a connection |
//! | `idle` | how long a connection may be without a request |
//! | `watched` | whether a client has reset a connection that hyper does not read |
//! | `plain` | requests of HTTP/1 that are served without hyper |
//! | `body` | a request's body, up to a limit |
//! | `probe` | how connections begin, for fuzz targets |

mod answer;
mod body;
mod early;
mod heads;
mod idle;
pub mod plain;
mod probe;
mod serve;
mod streams;
mod untaken;
mod watched;

pub use answer::{Answer, json, problem, problem_at, with, with_headers};
pub use body::{BodyError, RequestBody, read_arriving, read_body};
pub use early::EarlyResets;
pub use idle::Busy;
pub use probe::{OpeningProbe, PlainRequestProbe};
pub use serve::{LOOKS, serve, wrong};
pub use streams::{Opening, StreamExecutor, WINDOW, client_left};
pub use untaken::{Untaken, UntakenBody};
