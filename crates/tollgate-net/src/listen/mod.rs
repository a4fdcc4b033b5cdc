//! Sockets and connections.
//!
//! | file | what |
//! |------|------|
//! | `address` | where to listen, as text |
//! | `socket` | a bound socket |
//! | `inherited` | sockets that systemd has bound |
//! | `stream` | a connection's bytes, of TCP or a Unix socket, with TLS or without |
//! | `observed` | a stream that shows what arrives, and may be ended |
//! | `seldom` | a future that is polled only when it was woken |
//! | `linger` | the end of a connection, after which the client still gets the last answer |
//! | `accept` | takes connections, no more than allowed, until the server ends |
//! | `client` | whose a connection is, and how clients share what there is once |
//! | `presence` | whether a connection is idle, and since when |
//! | `unfinished` | the bytes of requests that are not whole yet |
//! | `crowd` | which connection of a listener is idle longest, and how many a client has |
//! | `refuse` | the answer to a connection above the limit |
//! | `descriptors` | the file descriptors of this process, and how listeners share them |
//! | `tls` | TLS, with certificates that may be exchanged |

mod accept;
mod address;
mod client;
mod crowd;
mod descriptors;
mod inherited;
mod linger;
mod observed;
mod presence;
mod refuse;
mod seldom;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod unfinished;

pub use accept::{Bounds, Drain, Listening, Mishap, Uses, accept_all};
pub use address::{BadAddress, ListenAddress};
pub use client::{Client, may_have_more};
pub use descriptors::{Room, Shares};
pub(crate) use linger::Linger;
pub use linger::close;
pub use observed::{Observed, Observer};
pub use presence::{Engaged, Presence};
pub use refuse::{GRPC_REFUSAL, HTTP_REFUSAL, RESP_REFUSAL, refuse};
pub(crate) use seldom::Seldom;
pub(crate) use stream::Resets;
pub use stream::{Connection, Peer, Stream};
pub use tls::Tls;
pub use tls::{BadTlsFiles, TlsFiles};
pub use unfinished::{Held, NoRoom, Unfinished};
