//! What rules see of a request.
//!
//! | file | what |
//! |------|------|
//! | `plain` | a request as data: of a test, a log line, a call |
//! | `path` | the readings of a path, normalised and folded |
//! | `seen` | the parts of a request that are read once |

mod path;
mod plain;
mod seen;

use std::net::IpAddr;

pub(crate) use path::{Form, fold_literal, normalised_literal};
pub use plain::PlainRequest;
pub(crate) use seen::{Buffers, HOST, METHOD, Names, Seen, Source};

/// The longest value that is read, in bytes. A longer one is missing.
pub(crate) const MAX_VALUE: usize = 4096;

/// A request as rules see it.
///
/// Servers, logs and calls implement it; [`PlainRequest`] is one that is data.
pub trait Request {
    /// Calls `see` with each value of a field, as it was sent. A field that the request lacks has
    /// none; a header that comes twice has two.
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8]));

    /// Returns the client's address: that of the connection, or what trusted proxies say of it.
    fn client(&self) -> Option<IpAddr>;
}

/// What a rule may ask of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field<'n> {
    /// The method.
    Method,
    /// The host, with or without a port: of the `Host` header, the target, or both.
    Host,
    /// The request's target: the path and the query, neither decoded nor normalised.
    Target,
    /// A header, by its name in lower case. Cookies are read from `cookie`.
    Header(&'n str),
    /// A label, by its name. Give only what a trusted caller says, never what a client does.
    Label(&'n str),
    /// The domain of a call by Envoy.
    Domain,
    /// An entry of a call's descriptor, by its name.
    Entry(&'n str),
}
