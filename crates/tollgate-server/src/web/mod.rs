//! Requests and answers of HTTP.
//!
//! | file | what |
//! |------|------|
//! | `serve` | a connection's requests, one handler for all |
//! | `untaken` | what the client has not taken yet of its answers |
//! | `streams` | the streams of HTTP/2, of which each can be reset alone |
//! | `early` | the streams that their client resets before they are answered |
//! | `answer` | JSON and problem answers |
//! | `route` | the paths that a listener serves, and their methods |
//! | `openapi` | holds a document of OpenAPI to what it describes |
//! | `heads` | where heads begin and end among the bytes of a connection |
//! | `idle` | how long a connection may be without a request |
//! | `watched` | whether a client has reset a connection that hyper does not read |
//! | `plain` | requests of HTTP/1 that are served without hyper |
//! | `body` | a request's body, up to a limit |
//! | `client` | the address of a client, as text |
//! | `read`, `pointer` | JSON, and where an error in it is |
//! | `probe` | how connections begin, for fuzz targets |

mod answer;
mod body;
mod client;
mod early;
mod heads;
mod idle;
#[cfg(test)]
pub(crate) mod openapi;
pub(crate) mod plain;
mod pointer;
mod probe;
mod read;
mod route;
mod serve;
mod streams;
mod untaken;
mod watched;

pub(crate) use answer::{Answer, json, problem, problem_at, with, with_headers};
pub(crate) use body::{BodyError, RequestBody, read_arriving, read_body};
pub(crate) use client::{Client, NoAddress};
pub(crate) use early::EarlyResets;
#[cfg(test)]
pub(crate) use pointer::pointer_at;
pub use probe::{OpeningProbe, PlainRequestProbe};
pub(crate) use read::{Object, read_json};
pub(crate) use route::Route;
pub(crate) use serve::{LOOKS, serve, wrong};
pub(crate) use streams::{Opening, StreamExecutor, WINDOW, client_left};
pub(crate) use untaken::Untaken;
