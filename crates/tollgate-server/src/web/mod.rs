//! JSON in requests, and the paths of listeners.
//!
//! | file | what |
//! |------|------|
//! | `route` | the paths that a listener serves, and their methods |
//! | `openapi` | holds a document of OpenAPI to what it describes |
//! | `client` | the address of a client, as text |
//! | `read`, `pointer` | JSON, and where an error in it is |

mod client;
#[cfg(test)]
pub(crate) mod openapi;
mod pointer;
mod read;
mod route;

pub(crate) use client::{Client, NoAddress};
#[cfg(test)]
pub(crate) use pointer::pointer_at;
pub(crate) use read::{Object, read_json};
pub(crate) use route::Route;
