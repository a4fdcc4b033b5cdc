//! What rules see of a request.
//!
//! | file | what |
//! |------|------|
//! | `plain` | a request as data: of a test, a log line, a call |
//! | `path` | the readings of a path, normalised and folded |
//! | `host` | the host's name, and whether it is one |
//! | `misspelled` | headers whose names servers read as another's |
//! | `seen` | the parts of a request that are read once |

mod host;
mod misspelled;
mod path;
mod plain;
mod seen;

use std::net::IpAddr;

use tollgate::CallQuota;

pub(crate) use crate::rule::MAX_VALUE;
pub use host::is_host;
pub use misspelled::is_misspelled;
pub(crate) use path::{Form, fold_literal, normalised_literal};
pub use plain::PlainRequest;
pub(crate) use seen::{AUTHORIZATION, Buffers, CREDENTIALS, HOST, METHOD, Names, Reading, Seen, Source};

/// A request as rules see it.
///
/// Servers, logs and calls implement it; [`PlainRequest`] is one that is data.
///
/// # Examples
///
/// ```
/// use std::net::IpAddr;
///
/// use tollgate_rules::{Field, Request};
///
/// /// A line of an access log, which tells the client, the method and the target.
/// struct Line<'l> {
///     client: IpAddr,
///     method: &'l str,
///     target: &'l str,
/// }
///
/// impl Request for Line<'_> {
///     fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8])) {
///         match field {
///             Field::Method => see(self.method.as_bytes()),
///             Field::Target => see(self.target.as_bytes()),
///             _ => {}
///         }
///     }
///
///     fn client(&self) -> Option<IpAddr> {
///         Some(self.client)
///     }
/// }
/// ```
pub trait Request {
    /// Calls `see` with each value of a field, as it was sent. A field that the request lacks has
    /// none; a header that comes twice has two. It is asked for the same field several times, and
    /// has to say the same.
    fn values(&self, field: Field<'_>, see: &mut dyn FnMut(&[u8]));

    /// Returns the client's address: that of the connection, or what trusted proxies say of it.
    fn client(&self) -> Option<IpAddr>;

    /// Returns the quota that comes with the request for the rule of this name, whose limits are
    /// [`PerRequest`](crate::Limits::PerRequest). `None`: the rule does not concern the request. By
    /// default, none comes.
    ///
    /// When would I want this? When the numbers are in a verified token, or in a row of a database
    /// that is at hand when the request comes. Never take them from what a client can write.
    fn quota(&self, rule: &str) -> Option<CallQuota> {
        let _ = rule;
        None
    }
}

/// What a rule may ask of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field<'n> {
    /// The method.
    Method,
    /// The host, with or without a port: the `Host` header, or HTTP/2's `:authority`. A host in the
    /// target is read from there.
    Host,
    /// The request's target: the path and the query, neither decoded nor normalised. One value; a
    /// second is not read.
    Target,
    /// A header, by its name in lower case. Cookies are read from `cookie`.
    Header(&'n str),
    /// Headers that some servers read as this one: those whose name is
    /// [misspelled](is_misspelled). A value here restricts as one of the header itself does, and
    /// is its value in a key, but relaxes nothing.
    Misspelled(&'n str),
    /// A label, by its name. Give only what a trusted caller says, never what a client does.
    Label(&'n str),
    /// The domain of a call by Envoy.
    Domain,
    /// An entry of a call's descriptor, by its name.
    Entry(&'n str),
}
